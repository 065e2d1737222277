/* netns_own.h - a policy for the network namespace that this process shares with a workload, as
 * nftables rules of its own: for opensandbox-egress as a sidecar.
 *
 *   table inet opensandbox
 *     chain redirect   nat, output: DNS to dns_port, with interception TCP 80 and 443 to tls_port
 *     chain egress     filter, output; only with `filters`. In this order:
 *         answers to connections from outside, related packets, loopback   accept
 *         our own packets, by mark and uid; neighbour discovery            accept
 *         connection with the mark of this policy                          accept
 *         then as netns_policy.h: port 853, denied, learned, allowed, default
 *     chain denied     notes what is dropped, as netns_policy.h
 *     set deny_v4, allow_v4, dyn_allow_v4, and _v6; denied4, denied6
 *
 * The rules stay when the process ends. Needs CAP_NET_ADMIN. Single-threaded. */
#pragma once

#include "sandbox/netns_policy.h"

enum { NETNS_OWN_RESOLVERS_MAX = 16, NETNS_OWN_EXEMPT_MAX = 64 };

struct netns_own_addr {
    uint8_t family; /* AF_INET, AF_INET6 */
    uint8_t addr[16];
    uint16_t port; /* of resolvers */
};

struct netns_own {
    uint32_t mark;   /* SO_MARK of our own sockets; secret, not 0 */
    uint32_t uid;    /* of this process: marks of others do not count */
    bool filters;    /* else DNS is redirected, and nothing is dropped */
    bool intercepts; /* TCP 80 and 443 */
    bool connects;   /* we make TCP connections to anywhere: interception, webhook, metrics */
    uint16_t dns_port, tls_port; /* of loopback */
    struct netns_own_addr resolvers[NETNS_OWN_RESOLVERS_MAX];
    size_t resolver_count;
    struct netns_own_addr exempt[NETNS_OWN_EXEMPT_MAX]; /* DNS to them is not redirected */
    size_t exempt_count;
};

/* Makes the table, or replaces all of it, in one step. */
int netns_own_set(const struct netns_own *own, const struct netns_policy *p, struct err *e);
/* Adds learned addresses, or begins their time anew. */
int netns_own_learn(const struct netns_entry *entries, size_t count, struct err *e);
int netns_own_traffic(struct netns_traffic *ret, struct err *e); /* since the table was made */
/* As netns_policy_denied. */
int netns_own_denied(struct netns_denied ret[NETNS_DENIED_MAX], struct err *e);
int netns_own_clear(struct err *e); /* absent is fine */
