/* example.h - what the examples in C share: a client by the variables of all examples. */
#pragma once

#include <err.h>
#include <opensandbox/opensandbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const char *example_env(const char *name, const char *usual)
{
    const char *value = getenv(name);

    return value && *value ? value : usual;
}

/* The server of SANDBOX_DOMAIN, with the key of SANDBOX_API_KEY. */
static inline struct osb_client *example_open(void)
{
    struct osb_config config = {
        OSB_CONFIG,
        .domain = example_env("SANDBOX_DOMAIN", "localhost:8080"),
        .api_key = example_env("SANDBOX_API_KEY", ""),
    };
    struct osb_client *client;
    char why[OSB_MESSAGE_MAX];

    if (osb_client_open(&config, &client, why) < 0)
        errx(1, "%s", why);
    return client;
}

/* Ends the program with the reason when a call failed. */
static inline void example_need(struct osb_client *client, int r)
{
    if (r < 0)
        errx(1, "%s", osb_error_message(osb_client_error(client)));
}
