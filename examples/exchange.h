/* exchange.h - a request and its answer, waited for: the loop's HTTP client for a program that has
 * nothing else to do meanwhile. One exchange at a time, on one thread. */
#pragma once

#include "base/buf.h"
#include "net/http_client.h"

enum { PLACE_HEADERS_MAX = 4, ANSWER_BYTES_MAX = 1 << 20 };

/* Where a service is, and what it wants to be told with every request. Strings are borrowed. */
struct place {
    struct sock_addr addr;
    struct str host; /* as in the Host header */
    struct str path; /* before that of a request; no '/' at its end */
    struct http_header headers[PLACE_HEADERS_MAX];
    size_t header_count;
};

/* From "http://host:port/path", whose text lives in the arena afterwards. A name is looked up, and
 * that blocks. */
int place_init(struct place *p, struct arena *a, struct str url, struct err *e);

/* The client, and what a signal does to it: SIGINT and SIGTERM end the exchange under way and all
 * later ones, unless they are to be finished. */
struct client {
    struct loop *loop;
    struct http_client *http;
    struct loop_signals signals;
    struct exchange *now;
    bool watching, interrupted; /* for signals; by one */
};

int client_open(struct client *c, struct err *e);
void client_close(struct client *c); /* a client that did not open is fine */

struct exchange {
    const struct place *place;
    enum http_method method;
    const char *target; /* behind the place's path */
    struct str content_type, body;
    /* Of a 2xx answer: a line as soon as it is complete, without its end. NULL: it is collected. */
    void (*on_line)(struct exchange *x, struct str line);
    void *user;
    bool must_finish; /* a signal does not end it */

    /* The answer. */
    int status;
    struct buf answer; /* all of it, or the line that is not complete yet */

    /* The rest is exchange.c's. */
    struct client *client;
    struct http_call *call;
    struct err err;
    bool over;
};

/* 0 for a 2xx answer. An answer of another kind is -EREMOTEIO, and its text the error's; -EINTR
 * after a signal. Whatever happens, exchange_done follows. */
int exchange_run(struct client *c, struct exchange *x, struct err *e);
void exchange_done(struct exchange *x);
