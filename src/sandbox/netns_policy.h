/* netns_policy.h - what a sandbox may talk to, as nftables rules: a table of its own, beside
 * the one of netns.h, with a chain and sets for each sandbox under a policy.
 *
 *   table inet opensandbox-egress
 *     map guard4, guard6      address of a sandbox -> its chain
 *     set member4, member6    sandboxes under a policy: DNS is redirected to NETNS_DNS_PORT
 *     set caught4, caught6    sandboxes with interception: TCP 80 and 443 to NETNS_TLS_PORT
 *     chain forward           both directions of a sandbox's traffic, by its map
 *     set denied4, denied6    connections that were dropped and not read yet, for a minute
 *     chain sb<slot>          closed: drops. Else, in this order:
 *         connection with the mark of this policy      accept
 *         DNS that was not redirected, port 853        drop
 *         denied prefixes                              drop
 *         addresses learned from DNS, allowed prefixes mark the connection, accept
 *         the rest                                     the default
 *     chain sb<slot>-denied   notes what is dropped, a part of a flood, and drops it
 *     set sb<slot>-...        denied and allowed prefixes, learned addresses, per IP version
 *
 * A sandbox is its address: the bridge lets no port send from another. Each policy has a new mark,
 * so that connections accepted by an older one are judged again with their next packet, in either
 * direction, by what they were opened to. Rules stay when our processes end; a sandbox that is
 * closed, or whose addresses were not learned yet, reaches nothing. Single-threaded. */
#pragma once

#include "sandbox/netns.h"

enum {
    NETNS_DNS_PORT = 15353, /* of the bridge's addresses; the proxies listen there */
    NETNS_TLS_PORT = 18081,
    NETNS_POLICY_ENTRIES_MAX = 2048,
    NETNS_POLICY_PORT_RULES_MAX = 256, /* entries with a protocol or ports */
    NETNS_LEARN_MAX = 64,              /* addresses in one netns_policy_learn */
};

enum netns_entry_kind {
    NETNS_DENY,    /* a prefix, and the protocol and ports it is denied for */
    NETNS_ALLOW,   /* likewise */
    NETNS_LEARNED, /* one address, for a time; protocol 0 and port 0 mean any; no range */
};

struct netns_entry {
    uint8_t kind;   /* enum netns_entry_kind */
    uint8_t family; /* AF_INET, AF_INET6 */
    uint8_t bits;
    uint8_t protocol;            /* IPPROTO_TCP, _UDP, _ICMP; 0 = any */
    uint16_t port_from, port_to; /* 0 to 0 = any */
    uint32_t seconds;            /* of NETNS_LEARNED: it is forgotten after that */
    uint8_t addr[16];            /* network order */
};

enum netns_policy_flags {
    NETNS_DEFAULT_ALLOW = 1 << 0,
    NETNS_NO_QUIC = 1 << 1,   /* UDP to port 443 */
    NETNS_INTERCEPT = 1 << 2, /* TCP to ports 80 and 443 goes to NETNS_TLS_PORT */
    NETNS_POLICY_FLAGS = NETNS_DEFAULT_ALLOW | NETNS_NO_QUIC | NETNS_INTERCEPT,
};

struct netns_policy {
    uint32_t mark;  /* of its connections: another one for each change; not 0 */
    uint32_t flags; /* enum netns_policy_flags */
    uint32_t count;
    struct netns_entry entries[NETNS_POLICY_ENTRIES_MAX];
};

static inline size_t netns_policy_bytes(const struct netns_policy *p)
{
    return offsetof(struct netns_policy, entries) +
           (p->count > NETNS_POLICY_ENTRIES_MAX ? 0 : p->count) * sizeof(p->entries[0]);
}

/* Whether the rest of this file can rely on it; the error names what is wrong. */
int netns_policy_check(const struct netns_policy *p, struct err *e);
int netns_entry_check(const struct netns_entry *entry, struct err *e);

/* Makes the table, if it is not there; keeps all of its rules if it is. */
int netns_policy_setup(const struct netns_conf *conf, struct err *e);
int netns_policy_teardown(const struct netns_conf *conf, struct err *e); /* absent is fine */

/* Drops all packets of the slot but DNS, which the proxy answers or not. */
int netns_policy_close(const struct netns_conf *conf, uint32_t slot, struct err *e);
/* Replaces the rules of a slot in one step. */
int netns_policy_set(const struct netns_conf *conf, uint32_t slot, const struct netns_policy *p,
                     struct err *e);
/* Adds learned addresses, or begins their time anew. -ENOENT when the slot has no policy. */
int netns_policy_learn(const struct netns_conf *conf, uint32_t slot,
                       const struct netns_entry *entries, size_t count, struct err *e);
/* What a sandbox under a policy has sent and received through this host. */
struct netns_traffic {
    uint64_t packets, bytes; /* in both directions, those that were dropped included */
    uint64_t connections;    /* first packets of connections, in both directions */
};
/* -ENOENT when the slot has no policy. */
int netns_policy_traffic(const struct netns_conf *conf, uint32_t slot, struct netns_traffic *ret,
                         struct err *e);
/* A connection, or its first packet, that a policy dropped. */
struct netns_denied {
    uint8_t family, protocol; /* AF_INET, AF_INET6; IPPROTO_* */
    uint16_t port;            /* of destination; of TCP, UDP and the like */
    uint8_t from[16], to[16]; /* network order */
};
enum { NETNS_DENIED_MAX = 64 };
/* What was dropped since the last call, of all slots; each connection once. The rest of many is
 * forgotten. Returns how many. */
int netns_policy_denied(const struct netns_conf *conf, struct netns_denied ret[NETNS_DENIED_MAX],
                        struct err *e);
/* Removes all rules of a slot; absent is fine. */
int netns_policy_clear(const struct netns_conf *conf, uint32_t slot, struct err *e);
