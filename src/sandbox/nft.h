/* nft.h - nftables rules as netlink messages: one transaction per batch.
 *
 * A rule is its matches in order, then the verdict:
 *
 *     nft_rule(b, t, "forward");
 *     nft_match_iif(b, NFT_CMP_EQ, "osb0");
 *     nft_drop(b);
 *
 * A match that fails ends the rule. Like all calls that fill a batch, none here can fail: errors
 * come from netlink_send, and then nothing was changed. */
#pragma once

#include "sandbox/netlink.h"
#include <linux/netfilter/nf_tables.h>

enum { NFT_BATCH_BYTES = 64 * 1024 };

struct nft_table {
    uint8_t family; /* NFPROTO_INET, NFPROTO_BRIDGE */
    const char *name;
};

void nft_begin(struct netlink_batch *b);
void nft_commit(struct netlink_batch *b); /* last, before netlink_send */

/* nft_table_renew: makes the table, or empties it. nft_table_remove: deletes it, if it exists. */
void nft_table_renew(struct netlink_batch *b, const struct nft_table *t);
void nft_table_remove(struct netlink_batch *b, const struct nft_table *t);

struct nft_chain {
    const char *name;
    const char *type; /* "filter", "nat" */
    uint32_t hook;    /* NF_INET_*, NF_BR_* */
    int32_t priority;
};
void nft_chain_add(struct netlink_batch *b, const struct nft_table *t, const struct nft_chain *c);

/* Adds a set of all pairs of equal bytes, for nft_match_same. */
void nft_same_bytes_add(struct netlink_batch *b, const struct nft_table *t, const char *set);

/* Adds a set of counters for nft_match_more_flows, one per value of two bytes of a packet. */
void nft_flow_counters_add(struct netlink_batch *b, const struct nft_table *t, const char *set);

void nft_rule(struct netlink_batch *b, const struct nft_table *t, const char *chain);

/* Interface names; one that ends in '*' matches all names with that prefix. */
void nft_match_iif(struct netlink_batch *b, enum nft_cmp_ops op, const char *name);
void nft_match_oif(struct netlink_batch *b, enum nft_cmp_ops op, const char *name);
void nft_match_nfproto(struct netlink_batch *b, uint8_t nfproto);
void nft_match_l4proto(struct netlink_batch *b, uint8_t ipproto);
void nft_match_ct_state(struct netlink_batch *b, uint32_t state_bits); /* any of them */
void nft_match_daddr_type(struct netlink_batch *b, uint32_t rtn);      /* RTN_LOCAL and so on */

/* A position in the packet: a header, and an offset in it. */
struct nft_at {
    enum nft_payload_bases base;
    uint32_t offset;
};
void nft_match_bytes(struct netlink_batch *b, enum nft_cmp_ops op, struct nft_at at,
                     const void *data, size_t n);
/* Matches if the first `bits` of the n bytes there, at most 16, are those of `prefix`. */
void nft_match_prefix(struct netlink_batch *b, struct nft_at at, size_t n, const void *prefix,
                      size_t bits);
/* Matches equal bytes. `set` is of nft_same_bytes_add, as rules can compare with constants only. */
void nft_match_same(struct netlink_batch *b, const char *set, struct nft_at one,
                    struct nft_at other);

/* Matches if over `flows_max` tracked connections, with this one, have the same two bytes. */
void nft_match_more_flows(struct netlink_batch *b, const char *set, struct nft_at two_bytes,
                          uint32_t flows_max);

void nft_accept(struct netlink_batch *b); /* for this chain; others of the hook still decide */
void nft_drop(struct netlink_batch *b);
void nft_masquerade(struct netlink_batch *b);
