/* netns_policy_internal.h - shared by netns_policy.c, rules for sandboxes of a host, and
 * netns_own.c, rules for the network namespace of the process itself. */
#pragma once

#include "sandbox/netns_policy.h"
#include "sandbox/nft.h"

enum { POLICY_NAME_MAX = 32, POLICY_VERSIONS = 2 };

/* What differs between the IP versions. */
struct policy_version {
    int family;
    uint8_t nfproto;
    uint8_t bytes;
    uint8_t type;
    char digit;
    struct nft_at saddr, daddr;
    struct nft_set guard, member, caught;
};
extern const struct policy_version policy_versions[POLICY_VERSIONS]; /* IPv4, IPv6 */

/* Names of a chain and its sets. */
struct policy_names {
    char table[40], chain[POLICY_NAME_MAX];
    char denied[POLICY_NAME_MAX]; /* chain that notes and drops; "" = nothing is noted */
    char all[POLICY_NAME_MAX], begun[POLICY_NAME_MAX]; /* counters */
    char deny[2][POLICY_NAME_MAX], allow[2][POLICY_NAME_MAX], learned[2][POLICY_NAME_MAX];
};

/* A transaction. */
struct policy_change {
    const struct netns_conf *conf; /* of sandboxes of a host, as the next */
    uint32_t slot;
    const struct netns_own *own; /* of the namespace of the process */
    struct policy_names names;
    struct nft_table table;
    struct netlink_batch b;
    const struct netns_policy *policy; /* NULL = closed */
    const struct netns_entry *learned;
    size_t learned_count;
};

/* Rules that count, before all others of the chain. */
void policy_chain_count(struct policy_change *c);
int policy_traffic(const struct policy_names *names, struct netns_traffic *ret, struct err *e);
/* The chain c->names.denied, which rules that drop go on with, and its sets. */
void policy_chain_denied(struct policy_change *c);
int policy_denied(const struct policy_names *names, struct netns_denied ret[NETNS_DENIED_MAX],
                  struct err *e);
/* Fills a batch and sends it; c->names are set. */
int policy_transact(struct policy_change *c, void (*fill)(struct policy_change *c), struct err *e);
void policy_rule(struct policy_change *c);       /* begins a rule of the chain */
void policy_chain_sets(struct policy_change *c); /* makes the sets, with their elements */
/* Rules for packets that no earlier rule decided: ports, prefixes, learned addresses, default. */
void policy_chain_judge(struct policy_change *c);
void policy_fill_learn(struct policy_change *c); /* adds c->learned, or begins their time anew */
