/* fetch.h - one request to the provider, as a whole: a deadline, a ceiling for the answer. Loop
 * thread only. */
#pragma once

#include "base/buf.h"
#include "image/web.h"

enum { FETCH_MS = 10 * 1000, FETCH_BYTES_MAX = 256 * 1024 };

struct fetch;
/* Exactly once, possibly from fetch_start(): 0 and f->body of an answer 200, or a positive
 * errno. */
typedef void fetch_done_fn(struct fetch *f, int error, const struct err *e);

struct fetch {
    struct buf body;
    void *user;
    /* Private. */
    struct loop *loop;
    struct image_web_call *call; /* NULL = none is under way */
    struct loop_timer deadline;
    int status;
    fetch_done_fn *done;
};

struct fetch_spec {
    struct loop *loop;
    struct image_web *web;
    struct stream_security *tls;
    struct str url;
    const struct http_header *headers;
    size_t header_count;
    struct str form; /* the body of a POST; p == NULL: a GET */
};

void fetch_start(struct fetch *f, const struct fetch_spec *spec, fetch_done_fn *done, void *user);
void fetch_cancel(struct fetch *f); /* no callback; fine when none is under way */
void fetch_done(struct fetch *f);   /* cancels, and frees the body */
