/* nft.h - nftables rules as netlink messages: one transaction per batch.
 *
 * A rule is its matches in order, then what becomes of the packet:
 *
 *     nft_rule(b, t, "forward");
 *     nft_match_iif(b, NFT_CMP_EQ, "osb0");
 *     nft_drop(b);
 *
 * Every match leaves the rule when it does not hold. Like all building of batches, nothing here can
 * fail: the errors come from netlink_send, and then nothing was changed. */
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

/* The table, empty, whether it was there or not; nft_table_remove: gone. */
void nft_table_renew(struct netlink_batch *b, const struct nft_table *t);
void nft_table_remove(struct netlink_batch *b, const struct nft_table *t);

struct nft_chain {
    const char *name;
    const char *type; /* "filter", "nat" */
    uint32_t hook;    /* NF_INET_*, NF_BR_* */
    int32_t priority;
};
void nft_chain_add(struct netlink_batch *b, const struct nft_table *t, const struct nft_chain *c);

/* A set of all pairs of equal bytes, for nft_match_same. */
void nft_same_bytes_add(struct netlink_batch *b, const struct nft_table *t, const char *set);

/* A set of counters for nft_match_more_flows, one for each value of two bytes of a packet. */
void nft_flow_counters_add(struct netlink_batch *b, const struct nft_table *t, const char *set);

void nft_rule(struct netlink_batch *b, const struct nft_table *t, const char *chain);

/* Interface names; one that ends in '*' stands for all that begin like it. */
void nft_match_iif(struct netlink_batch *b, enum nft_cmp_ops op, const char *name);
void nft_match_oif(struct netlink_batch *b, enum nft_cmp_ops op, const char *name);
void nft_match_nfproto(struct netlink_batch *b, uint8_t nfproto);
void nft_match_l4proto(struct netlink_batch *b, uint8_t ipproto);
void nft_match_ct_state(struct netlink_batch *b, uint32_t state_bits); /* any of them */
void nft_match_daddr_type(struct netlink_batch *b, uint32_t rtn);      /* RTN_LOCAL and so on */

/* Bytes of the packet; a byte is named by the header it lies in and its offset there. */
struct nft_at {
    enum nft_payload_bases base;
    uint32_t offset;
};
void nft_match_bytes(struct netlink_batch *b, enum nft_cmp_ops op, struct nft_at at,
                     const void *data, size_t n);
/* The first `bits` of the n bytes there, at most 16, are those of `prefix`. */
void nft_match_prefix(struct netlink_batch *b, struct nft_at at, size_t n, const void *prefix,
                      size_t bits);
/* One byte equals the other. `set` is of nft_same_bytes_add: rules compare with constants only. */
void nft_match_same(struct netlink_batch *b, const char *set, struct nft_at one,
                    struct nft_at other);

/* With this packet's, more than `flows_max` tracked connections have these two bytes in common. */
void nft_match_more_flows(struct netlink_batch *b, const char *set, struct nft_at two_bytes,
                          uint32_t flows_max);

void nft_accept(struct netlink_batch *b); /* by this chain; others of the hook still decide */
void nft_drop(struct netlink_batch *b);
void nft_masquerade(struct netlink_batch *b);
