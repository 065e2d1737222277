/* client.h - requests to the API server on a loop, with callbacks. Loop thread only.
 *
 * Connections are kept and shared. At most conf.inflight_max requests are under way, others wait
 * in a queue of conf.queue_max. Watches of informers do not count. */
#pragma once

#include "kube/config.h"
#include "kube/request.h"
#include "net/http_client.h"
#include "net/loop.h"

struct kube_client;
struct kube_call;

struct kube_rate {
    double per_s;   /* 0 = no limit */
    unsigned burst; /* 0 = per_s, at least 1 */
};

struct kube_client_conf {
    struct loop *loop;
    struct kube_config *config; /* outlives the client */
    const char *user_agent;     /* outlives the client; NULL = "opensandbox" */
    struct kube_rate reads, writes;
    uint32_t inflight_max; /* 0 = 128 */
    uint32_t queue_max;    /* 0 = 65536 */
};

int kube_client_new(const struct kube_client_conf *conf, struct kube_client **ret, struct err *e);
/* Open calls end with ECANCELED. Informers, leaders and recorders go first. NULL is fine. */
void kube_client_free(struct kube_client *c);
struct loop *kube_client_loop(const struct kube_client *c);
const struct kube_config *kube_client_config(const struct kube_client *c);

/* Comes exactly once, never from within kube_send; then the call is freed. The answer is borrowed:
 * keep its object by kube_object_ref. */
typedef void kube_done_fn(void *user, const struct kube_answer *answer);

/* Strings are copied. ret_call may be NULL. On failure (EINVAL for a path that cannot be, EAGAIN
 * for a full queue) no callback comes. */
int kube_send(struct kube_client *c, const struct kube_request *rq, kube_done_fn *on_done,
              void *user, struct kube_call **ret_call, struct err *e);
void kube_cancel(struct kube_call *call); /* no callback; the server may act nevertheless */

struct kube_client_stats {
    uint64_t reads, writes; /* requests sent, with those tried again */
    uint64_t retries, throttled;
    uint32_t inflight, queued;
};
void kube_client_stats(const struct kube_client *c, struct kube_client_stats *ret);
