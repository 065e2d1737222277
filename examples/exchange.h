/* exchange.h - a blocking HTTP request: the loop's HTTP client for a program that does nothing else
 * meanwhile. One exchange at a time, on one thread. */
#pragma once

#include "base/buf.h"
#include "net/http_client.h"

enum { PLACE_HEADERS_MAX = 4, ANSWER_BYTES_MAX = 1 << 20 };

/* The address of a service, and headers for every request to it. Strings are borrowed. */
struct place {
    struct sock_addr addr;
    struct str host; /* as in the Host header */
    struct str path; /* prefix of every request's path; does not end with '/' */
    struct http_header headers[PLACE_HEADERS_MAX];
    size_t header_count;
};

/* Parses "http://host:port/path"; its text is copied into the arena. Resolves a host name, which
 * blocks. */
int place_init(struct place *p, struct arena *a, struct str url, struct err *e);

/* The client. SIGINT and SIGTERM cancel the current exchange and all later ones, except those with
 * must_finish. */
struct client {
    struct loop *loop;
    struct http_client *http;
    struct loop_signals signals;
    struct exchange *now;
    bool watching, interrupted; /* signals are watched; one arrived */
};

int client_open(struct client *c, struct err *e);
void client_close(struct client *c); /* may be called if client_open() failed */

struct exchange {
    const struct place *place;
    enum http_method method;
    const char *target; /* appended to the place's path */
    struct str content_type, body;
    /* Called for each complete line of a 2xx answer, without its line end. NULL: collect the
     * answer. */
    void (*on_line)(struct exchange *x, struct str line);
    void *user;
    bool must_finish; /* a signal does not cancel it */

    /* The answer. */
    int status;
    struct buf answer; /* all of it, or an incomplete line */

    /* The remaining fields are private to exchange.c. */
    struct client *client;
    struct http_call *call;
    struct err err;
    bool over;
};

/* 0 for a 2xx answer. -EREMOTEIO for another status, with the answer's text as the error; -EINTR
 * after a signal. Call exchange_done() in any case. */
int exchange_run(struct client *c, struct exchange *x, struct err *e);
void exchange_done(struct exchange *x);
