/* http_client.h - an HTTP/1.1 client on one loop: kept connections, bodies streamed both ways.
 *
 * A call lives from http_call_start until on_end came or it was cancelled. Responses are delivered
 * as they arrive; a receiver that takes fewer bytes than offered stops the server until
 * http_call_resume. Loop thread only. */
#pragma once

#include "base/arena.h"
#include "net/h1.h"
#include "net/loop.h"
#include "net/sock.h"
#include "net/stream.h"

struct http_call;
struct http_client;
struct client_conn;

struct http_client_conf {
    /* 0 means the default named beside it. */
    struct h1_limits head; /* h1_default_limits */
    uint32_t connect_ms;   /* 5 s */
    uint32_t idle_ms;      /* 15 s a connection is kept for the next call */
    uint32_t stall_ms;     /* 30 s during which the server takes nothing of a request */
    uint32_t kept_max;     /* 64 connections kept in all */
};

int http_client_new(struct loop *loop, const struct http_client_conf *conf,
                    struct http_client **ret_client, struct err *e);
void http_client_free(struct http_client *c); /* calls in flight end with ECANCELED */
struct loop *http_client_loop(const struct http_client *c);

struct http_call_ops {
    /* The head is here: call->head. Interim (1xx) ones are skipped, but for 101. May be NULL. */
    void (*on_head)(struct http_call *call);
    /* A piece of the body (borrowed). Returns bytes taken; fewer stops the server. -errno gives up.
     */
    ssize_t (*on_body)(struct http_call *call, struct str piece);
    void (*on_drain)(struct http_call *call); /* http_call_write has room again */
    /* After the head of a 101 to a spec with `upgrade`: the connection is yours, and on_end
     * follows. */
    void (*on_upgrade)(struct http_call *call, struct stream_parts *parts);
    /* Exactly once; the call is gone afterwards. 0 when the response is complete, else a positive
     * errno, with the story in call->err. */
    void (*on_end)(struct http_call *call, int error);
};

struct http_call {
    struct h1_response head;
    struct h1_framing framing;
    struct arena arena;
    const struct http_call_ops *ops;
    void *user;
    struct err err;

    /* The rest is the client's. */
    struct http_client *client;
    struct client_conn *conn;
    enum http_method method;
    struct str request;    /* as sent, for a second try; STR_NONE if there must be none */
    struct buf held;       /* of the body, not taken by on_body */
    uint64_t request_left; /* bytes promised and not written yet */
    uint32_t head_ms;
    bool request_chunked, request_done, upgrade, head_done, in_callback, ended;
};

struct http_call_spec {
    const struct sock_addr *addr;
    enum http_method method;
    struct str method_name;            /* for HTTP_OTHER */
    struct str target;                 /* "/path?query" */
    struct str host;                   /* of the Host header */
    const struct http_header *headers; /* others; no Host, Content-Length, Transfer-Encoding */
    size_t header_count;
    struct str body;      /* a complete body, or: */
    bool streams_body;    /* it follows by http_call_write: */
    uint64_t body_length; /* so many bytes, or HTTP_UNKNOWN_LENGTH: chunked */
    bool upgrade;         /* a 101 is welcome; the headers that ask for it are the caller's */
    uint32_t head_ms;     /* from the complete request to the response's head; 0 = for ever */
    const struct http_call_ops *ops;
    void *user;
};

/* Strings are copied. On failure nothing was started and no callback comes. */
int http_call_start(struct http_client *c, const struct http_call_spec *spec,
                    struct http_call **ret_call, struct err *e);

/* The request's body. Bytes taken; 0 = full: wait for on_drain. */
ssize_t http_call_write(struct http_call *call, struct str data);
void http_call_write_end(struct http_call *call);

/* Whether any of it left: until then nobody is known to be there, and nothing happened. */
bool http_call_has_sent(const struct http_call *call);
void http_call_resume(struct http_call *call); /* on_body may be called again */
/* Tells the server, which has begun its response, that no more will come from this side (shutdown).
 * The connection is not kept. Nothing happens while some of the request is still to be sent. */
void http_call_half_close(struct http_call *call);
void http_call_cancel(struct http_call *call); /* no callback comes any more; the call is gone */
