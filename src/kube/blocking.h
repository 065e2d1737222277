/* blocking.h - the same requests for worker threads: a call blocks its thread and drives a loop of
 * its own. Calls run side by side on several threads; connections are kept for the next call. */
#pragma once

#include "kube/client.h"

struct kube_blocking;

struct kube_blocking_conf {
    struct kube_config *config;     /* outlives it */
    const char *user_agent;         /* outlives it; NULL = "opensandbox" */
    struct kube_rate reads, writes; /* of all threads together */
};

int kube_blocking_new(const struct kube_blocking_conf *conf, struct kube_blocking **ret,
                      struct err *e);
void kube_blocking_free(struct kube_blocking *b); /* when no call is under way; NULL is fine */

/* 0, or -error->err.code. *ret_object (may be NULL) is the caller's to unref: NULL when the answer
 * is no JSON object or failed. `error` may be NULL. BLOCKS at most rq->timeout_ms. */
int kube_blocking_call(struct kube_blocking *b, const struct kube_request *rq,
                       struct kube_object **ret_object, struct kube_error *error);
