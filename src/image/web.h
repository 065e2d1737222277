/* web.h - one HTTP request by URL, from name lookup to the last byte: proxies, TLS, deadlines.
 *
 * Follows no redirect and knows no credentials: registry.h does. Loop thread only; names are looked
 * up on a worker. A call lives until on_end or image_web_cancel. */
#pragma once

#include "image/proxy.h"
#include "net/http_client.h"
#include "net/pool.h"

struct image_web;
struct image_web_call;

struct image_web_conf {
    struct loop *loop;
    struct pool *pool;
    struct image_proxy_conf proxy; /* texts outlive the web */
    /* 0 means the default given in the comment. */
    uint32_t lookup_ms;  /* 15 s */
    uint32_t connect_ms; /* 10 s to each address; with TLS, its handshake included */
    uint32_t head_ms;    /* 30 s from the request to the answer's head */
    uint32_t stall_ms;   /* 30 s without a byte, while the receiver takes them */
};

int image_web_new(const struct image_web_conf *conf, struct image_web **ret, struct err *e);
void image_web_free(struct image_web *w); /* NULL is fine; calls must have ended */

struct image_web_ops {
    void (*on_head)(struct image_web_call *c); /* may be NULL, and may cancel */
    /* As in http_call_ops. */
    ssize_t (*on_body)(struct image_web_call *c, struct str piece);
    /* Exactly once: 0, or a positive errno (a kind of problem.h) whose message names the host. */
    void (*on_end)(struct image_web_call *c, int error, const struct err *e);
};

struct image_web_spec {
    struct str url;
    struct stream_security *tls; /* for https */
    enum http_method method;
    const struct http_header *headers;
    size_t header_count;
    struct str body;
    bool streams_body;    /* the body follows by image_web_write */
    uint64_t body_length; /* its length, then */
    const struct image_web_ops *ops;
    void *user;
};

/* Strings are copied. On failure nothing was started. */
int image_web_start(struct image_web *w, const struct image_web_spec *spec,
                    struct image_web_call **ret, struct err *e);
void image_web_resume(struct image_web_call *c);
/* Of a call that streams its body: bytes taken. 0 = not now: again after a turn of the loop. Takes
 * nothing until there is a connection. */
ssize_t image_web_write(struct image_web_call *c, struct str data);
void image_web_write_end(struct image_web_call *c);
void image_web_cancel(struct image_web_call *c); /* no more callbacks; frees the call */

void *image_web_user(const struct image_web_call *c);
/* From on_head until on_end begins. */
const struct h1_response *image_web_head(const struct image_web_call *c);
const struct h1_framing *image_web_framing(const struct image_web_call *c);
const char *image_web_host(const struct image_web_call *c); /* "host:port", for messages */
