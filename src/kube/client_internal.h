/* client_internal.h - what informers, exec and blocking calls need beyond client.h. */
#pragma once

#include "kube/client.h"

/* A rate limit: tokens come at per_s, up to `burst` of them. */
struct kube_bucket {
    struct kube_rate rate;
    double tokens;
    uint64_t at_ns;
};

void kube_bucket_init(struct kube_bucket *b, struct kube_rate rate, uint64_t now_ns);
/* 0: a token was taken. Else how long until there is one. */
uint64_t kube_bucket_take(struct kube_bucket *b, uint64_t now_ns);

/* A watch: as kube_send with rq->on_piece, but neither counted nor limited, and ended with
 * ETIMEDOUT when nothing is received for silence_ms. on_piece may cancel the call. */
int kube_send_watch(struct kube_client *c, const struct kube_request *rq, uint32_t silence_ms,
                    kube_done_fn *on_done, void *user, struct kube_call **ret_call, struct err *e);

/* For a connection beside requests, exec: fills address, TLS, host and target, which is the
 * request's after the server's prefix. `headers` gets Authorization and User-Agent; texts are of
 * the arena. -EAGAIN when a token must be fetched first: send any request. */
struct kube_endpoint {
    struct sock_addr addr;
    struct stream_security *tls;
    struct str tls_host, host, target;
    struct http_header headers[2];
    size_t header_count;
    struct http_client *http;
};
int kube_client_endpoint(struct kube_client *c, const struct kube_request *rq, struct arena *a,
                         struct kube_endpoint *ret, struct err *e);
