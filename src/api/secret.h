/* secret.h - secretEnv of a create: secrets that a sandbox uses and never holds. Each is a variable
 * of its environment with a placeholder; the value goes into requests to its hosts only. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/json_bind.h"

enum {
    API_SECRETS_MAX = 16,
    API_SECRET_NAME_BYTES_MAX = 128,
    API_SECRET_VALUE_BYTES_MAX = 8192,
    API_SECRET_HOSTS_MAX = 64,
};

struct api_secret {
    struct str name;  /* of the variable: letters, digits, _ */
    struct str value; /* p == NULL: left out, as in texts that are stored or shown */
    struct str *hosts;
    size_t hosts_count;
};

struct api_secrets {
    struct api_secret *rows;
    size_t count;
};

/* For a JSON_AS_CUSTOM row: {"NAME":{"value":"...","hosts":["api.example.com"]}}. Messages name the
 * variable, never its value. */
int api_parse_secrets(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                      struct err *e);
void api_print_secrets(struct json_writer *w, const struct json_field *f, const void *from);

/* Without values, as shown to clients: {"NAME":{"hosts":[...]}}. 0, -EMSGSIZE, -ENOMEM. */
int api_secrets_show(const struct api_secrets *s, struct buf *out);
/* All of it with values: `out` holds secrets then (buf_keep_secret). */
int api_secrets_write(const struct api_secrets *s, struct buf *out);
