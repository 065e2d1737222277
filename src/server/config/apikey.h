/* apikey.h - the keys that open the API: from the configuration, or one made at the first start and
 * kept. Blocks; for start-up, as the user the server runs as. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "server/config/config.h"

enum { APIKEY_LEN = 32, APIKEY_FILE_BYTES_MAX = 1024 };
#define APIKEY_FILE "api_key" /* in config->dir */

enum apikey_source {
    APIKEY_NONE,       /* open to everyone: that was asked for */
    APIKEY_CONFIGURED, /* file or environment */
    APIKEY_MADE,       /* just now, and stored */
    APIKEY_STORED,     /* by an earlier start */
};

/* Strings point into the configuration or to what is owned here: it may be moved, but not used
 * beyond the configuration's life. */
struct apikey {
    enum apikey_source source;
    struct str keys[CONFIG_KEYS_MAX];
    size_t count;
    char *path;   /* of MADE and STORED: the file; owned */
    char *stored; /* what is in it; owned */
};

/* config->dir must exist. Blank keys are none. A stored key that others could read, or that another
 * user wrote, is refused by name. */
int apikey_load(const struct config *config, struct apikey *ret, struct err *e) MUST_USE;
void apikey_done(struct apikey *keys); /* wipes what is owned */

/* What the person who started the server should know, as lines: where the key is and how it is
 * used. Shows no key. `address` is where the server listens: "127.0.0.1:8080". */
int apikey_describe(const struct apikey *keys, const char *address, struct buf *out);
void apikey_print(const struct apikey *keys, const char *address); /* to standard error */
