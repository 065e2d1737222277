/* forward.h - asks upstream resolvers, all of them at once; the first good answer counts.
 *
 * Each question to each resolver has a socket and an id of its own, so that nobody can guess both.
 * Loop thread only. */
#pragma once

#include "base/err.h"
#include "net/loop.h"
#include "net/sock.h"

struct dns_forward;
struct dns_ask;

enum { DNS_UPSTREAMS_MAX = 10 };

struct dns_forward_conf {
    struct loop *loop;
    struct sock_addr upstreams[DNS_UPSTREAMS_MAX];
    size_t upstream_count;
    uint32_t timeout_ms;
    uint32_t asks_max; /* under way at a time */
    /* A new socket, before it connects: to mark it. -errno: this resolver is not asked. May be
     * NULL. */
    int (*on_socket)(void *user, int fd, const struct sock_addr *to);
    void *user; /* of on_socket */
};

struct dns_forward *dns_forward_new(const struct dns_forward_conf *conf);
void dns_forward_free(struct dns_forward *f); /* accepts NULL; calls no one back */

/* `query` is a checked one, and is copied. `done` gets the answer, whose id is not that of the
 * query, valid during the call; STR_NONE when no resolver gave one. It is called once, never from
 * inside this call. NULL when too many are under way. */
typedef void dns_done_fn(void *user, struct str answer);
struct dns_ask *dns_forward_ask(struct dns_forward *f, struct str query, bool tcp,
                                dns_done_fn *done, void *user);
void dns_ask_cancel(struct dns_ask *ask); /* done will not be called */

struct dns_forward_stats {
    uint64_t asked, failed;
    size_t under_way;
};
void dns_forward_stats(const struct dns_forward *f, struct dns_forward_stats *ret);
