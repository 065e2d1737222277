/* outcall.h - HTTP requests that egress makes for itself: webhook, metrics.
 *
 * Names are resolved by the upstream resolvers and not by the policy of a sandbox: a denied name of
 * the webhook would report itself for ever. One request at a time. Loop thread only. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "egress/dns/forward.h"

struct outcall;

struct outcall_conf {
    struct loop *loop;
    struct dns_forward *forward;
    int (*on_socket)(void *user, int fd); /* a new socket, before it connects; may be NULL */
    void *user;                           /* of on_socket */
    struct str url;                       /* http or https */
    struct str more_path;                 /* appended to the path of the URL; may be empty */
    struct str type;                      /* Content-Type; copied, as the others */
    uint32_t timeout_ms;                  /* of one request, the lookup included */
};

/* -EINVAL with a message when the URL is wrong. */
int outcall_new(const struct outcall_conf *conf, struct outcall **ret, struct err *e);
void outcall_free(struct outcall *c); /* NULL is fine; no callback comes afterwards */

/* status: of the answer, or -errno. Called once, never from inside outcall_post. */
typedef void outcall_done_fn(void *user, int status);
/* Sends the body by POST. -EBUSY while another request is under way. */
int outcall_post(struct outcall *c, struct str body, outcall_done_fn *done, void *user);
