/* http_client.h - an HTTP/1.1 client on one loop: keep-alive connections, streamed bodies.
 *
 * A call lives from http_call_start until on_end or http_call_cancel. Responses are delivered as
 * they arrive; a receiver that takes fewer bytes than offered stops the server until
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
    /* 0 means the default given in the comment. */
    struct h1_limits head; /* h1_default_limits */
    uint32_t connect_ms;   /* 5 s; with TLS, its handshake included */
    uint32_t idle_ms;      /* 15 s a connection is kept for the next call */
    uint32_t stall_ms;     /* 30 s during which the server takes nothing of a request */
    uint32_t kept_max;     /* 64 connections kept in all */
    /* A new socket, before it connects: to mark or bind it. -errno fails the call. May be NULL. */
    int (*on_socket)(void *user, int fd);
    void *user; /* of on_socket */
};

int http_client_new(struct loop *loop, const struct http_client_conf *conf,
                    struct http_client **ret_client, struct err *e);
void http_client_free(struct http_client *c); /* open calls end with ECANCELED */
struct loop *http_client_loop(const struct http_client *c);

struct http_call_ops {
    /* The head is complete: call->head. Interim responses (1xx) other than 101 are skipped. May be
     * NULL. */
    void (*on_head)(struct http_call *call);
    /* A piece of the body (borrowed). Returns bytes taken; fewer stops the server. -errno ends the
     * call. */
    ssize_t (*on_body)(struct http_call *call, struct str piece);
    void (*on_drain)(struct http_call *call); /* http_call_write has room again */
    /* After the head of a 101, or of a 2xx to CONNECT, if the spec has `upgrade`: the callee owns
     * the connection. on_end follows. */
    void (*on_upgrade)(struct http_call *call, struct stream_parts *parts);
    /* Exactly once; the call is freed afterwards. 0 when the response is complete, else a positive
     * errno, with the message in call->err. */
    void (*on_end)(struct http_call *call, int error);
};

struct http_call {
    struct h1_response head;
    struct h1_framing framing;
    struct arena arena;
    const struct http_call_ops *ops;
    void *user;
    struct err err;

    /* The remaining fields are private to http_client.c. */
    struct http_client *client;
    struct client_conn *conn;
    enum http_method method;
    struct str request;    /* as sent, for a retry; STR_NONE if a retry is not allowed */
    struct buf held;       /* part of the body that on_body did not take */
    uint64_t request_left; /* bytes announced and not written yet */
    uint32_t head_ms;
    bool secret, request_chunked, request_done, upgrade, head_done, in_callback, ended;
    bool sent; /* some of the request, on a connection that is gone */
};

struct http_call_spec {
    const struct sock_addr *addr;
    /* https: the call goes over TLS (tls_client_security), and the server must prove to be
     * tls_host, a name or an address without a port. A kept connection serves calls of the same
     * address, context and name only. NULL = plain. The context outlives the client. */
    struct stream_security *tls;
    struct str tls_host;
    uint64_t group; /* a kept connection serves calls of the same group only */
    /* A connected, non-blocking socket to use, such as a tunnel by CONNECT, in place of a
     * connection to addr. Taken over (-EBADF), also on failure, and not kept for other calls. NULL
     * = none. */
    int *fd;
    enum http_method method;
    struct str method_name;            /* for HTTP_OTHER */
    struct str target;                 /* origin form: "/path?query" */
    struct str host;                   /* value of the Host header */
    const struct http_header *headers; /* without Host, Content-Length, Transfer-Encoding */
    size_t header_count;
    struct str body;      /* a complete body, or: */
    bool streams_body;    /* the body follows by http_call_write */
    uint64_t body_length; /* its length, or HTTP_UNKNOWN_LENGTH: chunked */
    bool secret;      /* head or body hold secrets: what passes is overwritten once it was used */
    bool upgrade;     /* accept a 101, with headers of the caller that ask for it, or CONNECT */
    uint32_t head_ms; /* from the end of the request to the response's head; 0 = no limit */
    const struct http_call_ops *ops;
    void *user;
};

/* The servers of this group are gone, maybe without a word: its calls end as if these had closed
 * their connections, once what they sent before is read. No callback comes from here. */
void http_client_end_group(struct http_client *c, uint64_t group);

/* Strings are copied. On failure nothing was started and no callback comes. */
int http_call_start(struct http_client *c, const struct http_call_spec *spec,
                    struct http_call **ret_call, struct err *e);

/* Writes the request's body. Returns bytes taken; 0 = full: wait for on_drain. */
ssize_t http_call_write(struct http_call *call, struct str data);
void http_call_write_end(struct http_call *call);

/* Whether any of the request was sent. Until then the server is not known to be reachable and has
 * seen nothing. */
bool http_call_has_sent(const struct http_call *call);
void http_call_resume(struct http_call *call); /* on_body may be called again */
/* Ends our sending side (shutdown) after the server began its response and the request is complete,
 * once all of it is sent. The connection is not kept. */
void http_call_half_close(struct http_call *call);
void http_call_cancel(struct http_call *call); /* no more callbacks; frees the call */
