/* denied.c - connections that policies dropped, as events. The kernel notes them, the broker, or
 * a sidecar, reads them: here they are asked for each second, and told of once a minute each. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "egress/egress.h"

enum {
    POLL_MS = 1000,
    FAILED_MS = 60 * 1000, /* after a failure, which the broker logs, too */
    AGAIN_S = 60,
    NS_PER_S = 1000000000,
    TEXT_MAX = INET6_ADDRSTRLEN + 32,
};

struct denials {
    struct egress *egress;
    struct loop_timer timer;
    struct pool_job job;
    struct netns_denied list[NETNS_DENIED_MAX];
    int result;
    struct err err;
};

static void show(const struct netns_denied *d, char text[TEXT_MAX])
{
    char to[INET6_ADDRSTRLEN];

    if (!inet_ntop(d->family, d->to, to, sizeof(to)))
        to[0] = '\0';
    if (d->protocol == IPPROTO_TCP || d->protocol == IPPROTO_UDP)
        (void)snprintf(text, TEXT_MAX, d->family == AF_INET6 ? "[%s]:%u/%s" : "%s:%u/%s", to,
                       d->port, d->protocol == IPPROTO_TCP ? "tcp" : "udp");
    else if (d->protocol == IPPROTO_ICMP || d->protocol == IPPROTO_ICMPV6)
        (void)snprintf(text, TEXT_MAX, "%s icmp", to);
    else
        (void)snprintf(text, TEXT_MAX, "%s protocol %u", to, d->protocol);
}

static bool same_goal(const struct netns_denied *a, const struct netns_denied *b)
{
    return a->family == b->family && a->protocol == b->protocol && a->port == b->port &&
           memcmp(a->to, b->to, sizeof(a->to)) == 0;
}

/* False when it was told of a short time ago. */
static bool is_news(struct guarded *b, const struct netns_denied *d)
{
    uint64_t now = loop_now_ns(b->egress->loop);
    struct dropped *oldest;

    if (!b->dropped)
        b->dropped = mem_new_array(struct dropped, EGRESS_DROPPED_MAX);
    oldest = &b->dropped[0];
    for (size_t i = 0; i < EGRESS_DROPPED_MAX; i++) {
        struct dropped *known = &b->dropped[i];

        if (known->at_ns && same_goal(&known->what, d) &&
            now - known->at_ns < (uint64_t)AGAIN_S * NS_PER_S)
            return false;
        if (known->at_ns < oldest->at_ns)
            oldest = known;
    }
    *oldest = (struct dropped){*d, now};
    return true;
}

static void tell(struct egress *g, const struct netns_denied *d)
{
    size_t bytes = d->family == AF_INET ? 4 : 16;
    struct guarded *b =
        g->only ? g->only : map_get(&g->by_addr, str_make((const char *)d->from, bytes));
    char text[TEXT_MAX];

    if (!b || !is_news(b, d)) /* replies to a sandbox begin elsewhere */
        return;
    show(d, text);
    guarded_event(b, "egress.deny", "address, port or protocol is not allowed", str_of(text));
}

static void on_poll(struct loop_timer *timer);

static void work(struct pool_job *job)
{
    struct denials *d = container_of(job, struct denials, job);

    d->result = d->egress->enforcer->denied(d->egress, d->list, &d->err);
}

static void done(struct pool_job *job, int error)
{
    struct denials *d = container_of(job, struct denials, job);
    bool failed = error || d->result < 0;

    for (int i = 0; !failed && i < d->result; i++)
        tell(d->egress, &d->list[i]);
    if (failed)
        log_event(LOG_WARN, "cannot ask which connections were denied",
                  LOG_STR("error", d->err.msg));
    loop_timer_after(d->egress->loop, &d->timer, failed ? FAILED_MS : POLL_MS, on_poll);
}

static void on_poll(struct loop_timer *timer)
{
    struct denials *d = container_of(timer, struct denials, timer);
    struct egress *g = d->egress;

    if (g->guarded.n == 0 || pool_submit(g->pool, &d->job, g->loop, work, done, 0) < 0)
        loop_timer_after(g->loop, timer, POLL_MS, on_poll);
}

void denied_start(struct egress *g)
{
    struct denials *d = mem_new(struct denials);

    d->egress = g;
    g->denials = d;
    loop_timer_after(g->loop, &d->timer, POLL_MS, on_poll);
}

void denied_stop(struct egress *g)
{
    if (!g->denials)
        return;
    loop_timer_stop(g->loop, &g->denials->timer);
    free(g->denials);
    g->denials = NULL;
}
