/* resp.h - the protocol of Redis (RESP2): requests as bytes, and replies out of bytes. Pure. */
#pragma once

#include "base/buf.h"

enum resp_type {
    RESP_SIMPLE,  /* +OK */
    RESP_ERROR,   /* -ERR text */
    RESP_INTEGER, /* :1 */
    RESP_BULK,    /* $3 abc; text.p == NULL: the null reply */
    RESP_ARRAY,   /* *2 and that many replies; text is all of them, as bytes; p == NULL: null */
};

enum {
    RESP_LINE_MAX = 64 * 1024,    /* of a simple reply or an error */
    RESP_BYTES_MAX = 1024 * 1024, /* of a whole reply */
    RESP_ITEMS_MAX = 4096,        /* of an array */
    RESP_DEPTH_MAX = 4,           /* arrays in arrays */
};

struct resp {
    enum resp_type type;
    struct str text; /* borrowed from the input */
    int64_t number;  /* of an integer; of an array, the number of its items */
};

/* Reads the first reply of `in`: its length and *ret. 0 = incomplete. -EBADMSG for bytes that are
 * no reply, -EMSGSIZE past a limit. */
ssize_t resp_read(struct str in, struct resp *ret) MUST_USE;

/* The next item of an array: `*items` begins as its text. False at the end. */
bool resp_next(struct str *items, struct resp *ret);

/* Appends a request of `count` words. Fails as buf_add() does, and then adds nothing. */
int resp_write(struct buf *out, const struct str *words, size_t count) MUST_USE;
