/* options.h - the command line of opensandbox-mcp as a struct. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum options_transport { TRANSPORT_STDIO, TRANSPORT_HTTP };
enum options_mode { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };

enum { OPTIONS_ORIGINS_MAX = 16 };

/* Texts are borrowed from argv and the environment. NULL = not given. */
struct options {
    enum options_mode mode;
    enum options_transport transport;
    const char *api_key, *domain, *protocol, *config_file;
    uint32_t request_timeout_ms;
    uint32_t call_timeout_s; /* of commands and code, unless the call says less */
    uint32_t output_bytes;   /* of one answer; more is linked */
    bool use_server_proxy, keep;
    const char *host; /* of HTTP: a numeric address */
    uint16_t port;
    const char *path;
    const char *token; /* "" = none */
    const char *origins[OPTIONS_ORIGINS_MAX];
    size_t origin_count;
};

/* The error is a sentence for the user. */
int options_parse(const char *const *argv, struct options *ret, struct err *e) MUST_USE;

extern const char options_help[];
