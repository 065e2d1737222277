/* apikey.h - the API keys: from the configuration, or one generated at the first start and kept.
 * Blocks; for start-up, as the user the server runs as. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "server/config/config.h"

enum { APIKEY_LEN = 32, APIKEY_FILE_BYTES_MAX = 1024 };
#define APIKEY_FILE "api_key" /* in config->dir */

enum apikey_source {
    APIKEY_NONE,       /* access without a key was configured */
    APIKEY_CONFIGURED, /* from the file or the environment */
    APIKEY_MADE,       /* generated now, and stored */
    APIKEY_STORED,     /* stored by an earlier start */
};

/* Strings point into the configuration or to memory owned here. The struct may be moved, but must
 * not be used after the configuration was freed. */
struct apikey {
    enum apikey_source source;
    struct str keys[CONFIG_KEYS_MAX];
    size_t count;
    char *path;   /* file of a MADE or STORED key; owned */
    char *stored; /* content of the file; owned */
};

/* config->dir must exist. Blank keys do not count. Refuses a stored key that other users can read
 * or that another user wrote, and names the file. */
int apikey_load(const struct config *config, struct apikey *ret, struct err *e) MUST_USE;
void apikey_done(struct apikey *keys); /* wipes what is owned */

/* Appends lines for the person who started the server: where the key is and how to use it. Shows no
 * key. `address` is where the server listens: "127.0.0.1:8080". */
int apikey_describe(const struct apikey *keys, const char *address, struct buf *out);
void apikey_print(const struct apikey *keys, const char *address); /* to standard error */
