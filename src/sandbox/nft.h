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
    bool drops; /* what its rules leave undecided; else that is accepted */
};
void nft_chain_add(struct netlink_batch *b, const struct nft_table *t, const struct nft_chain *c);
/* Makes a table that must not exist: -EEXIST from netlink_send when it does. */
void nft_table_make(struct netlink_batch *b, const struct nft_table *t);
/* A chain that rules and maps jump to. Adding one that exists changes nothing. */
void nft_branch_add(struct netlink_batch *b, const struct nft_table *t, const char *chain);
void nft_chain_empty(struct netlink_batch *b, const struct nft_table *t, const char *chain);
void nft_branch_remove(struct netlink_batch *b, const struct nft_table *t, const char *chain);

/* A set or, with `verdicts`, a map to chains. */
struct nft_set {
    const char *name;
    uint32_t key_type;  /* for the nft program, which prints keys by it */
    uint32_t key_bytes; /* a multiple of 4 if it has several parts */
    uint32_t flags;     /* NFT_SET_INTERVAL, NFT_SET_TIMEOUT */
    bool verdicts;
};
enum { /* key_type; several parts are joined by NFT_TYPE_JOIN */
       NFT_TYPE_V4 = 7,
       NFT_TYPE_V6 = 8,
       NFT_TYPE_PROTO = 12,
       NFT_TYPE_PORT = 13,
};
#define NFT_TYPE_JOIN(a, b, c) ((a) << 12 | (b) << 6 | (c))
void nft_set_add(struct netlink_batch *b, const struct nft_table *t, const struct nft_set *s);
/* Deletes a set and its elements, if it exists; no rule may use it any more. */
void nft_set_remove(struct netlink_batch *b, const struct nft_table *t, const struct nft_set *s);

struct nft_element {
    const void *key;
    const char *jump;    /* of a map: the chain */
    uint64_t timeout_ms; /* 0 = none */
    bool interval_end;   /* the first key after an interval */
};
/* Adds or deletes elements: begin, then each of them. */
void nft_elements_begin(struct netlink_batch *b, const struct nft_table *t, const struct nft_set *s,
                        bool remove);
void nft_element(struct netlink_batch *b, const struct nft_set *s, const struct nft_element *el);
void nft_elements_end(struct netlink_batch *b);

/* A counter that rules share, and that stays when they are replaced. Adding one that exists changes
 * nothing; removing makes sure that it is gone, and no rule may use it any more. */
void nft_counter_add(struct netlink_batch *b, const struct nft_table *t, const char *name);
void nft_counter_remove(struct netlink_batch *b, const struct nft_table *t, const char *name);
struct nft_counts {
    uint64_t packets, bytes;
};
/* -ENOENT when there is none. */
int nft_counter_read(struct netlink *nl, const struct nft_table *t, const char *name,
                     struct nft_counts *ret, struct err *e);

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

void nft_match_mark(struct netlink_batch *b, uint32_t mark); /* of the packet, by SO_MARK */
void nft_match_skuid(struct netlink_batch *b, uint32_t uid); /* of the socket that sends it */
/* Packets that answer a connection, in the direction opposite to the one it was opened in. */
void nft_match_ct_reply(struct netlink_batch *b);

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

/* What connection tracking knows of the packet's connection, in its original direction. Packets
 * without a connection match none of these. */
void nft_match_ct_mark(struct netlink_batch *b, uint32_t mark);
void nft_match_ct_status(struct netlink_batch *b, uint32_t status_bits); /* any of IPS_* */
void nft_match_ct_protocol(struct netlink_batch *b, uint8_t ipproto);
void nft_match_ct_port(struct netlink_batch *b, uint16_t from, uint16_t to); /* of destination */
/* Its destination address: nfproto is NFPROTO_IPV4 or _IPV6. */
void nft_match_ct_prefix(struct netlink_batch *b, uint8_t nfproto, const void *prefix, size_t bits);
void nft_match_ct_in(struct netlink_batch *b, uint8_t nfproto, const char *set);
/* The same with a key of address, protocol and port, of which the last two may be given as 0. */
enum nft_ct_key { NFT_CT_KEY_ADDRESS, NFT_CT_KEY_PROTOCOL, NFT_CT_KEY_PORT };
void nft_match_ct_key(struct netlink_batch *b, uint8_t nfproto, enum nft_ct_key last,
                      const char *set);
/* Adds a set for nft_note_ct: connections, forgotten after a time, `max` at most. */
struct nft_notes {
    const char *name;
    uint8_t nfproto; /* NFPROTO_IPV4, NFPROTO_IPV6 */
    uint32_t max;
    uint64_t timeout_ms;
};
void nft_notes_add(struct netlink_batch *b, const struct nft_table *t, const struct nft_notes *n);
/* Notes the packet's connection; matches unless the set is full. */
void nft_note_ct(struct netlink_batch *b, const struct nft_notes *n);
struct nft_noted {
    const uint8_t *from, *to; /* 4 or 16 bytes each */
    uint8_t protocol;
    uint16_t port; /* of destination */
};
/* Visits what a set has noted. -ENOENT when there is none. */
int nft_notes_read(struct netlink *nl, const struct nft_table *t, const struct nft_notes *n,
                   void (*visit)(void *user, const struct nft_noted *noted), void *user,
                   struct err *e);
void nft_notes_empty(struct netlink_batch *b, const struct nft_table *t, const struct nft_notes *n);
/* Matches so many packets a second. */
void nft_match_limited(struct netlink_batch *b, uint32_t per_second);
/* Goes on with a chain instead of this one. */
void nft_goto(struct netlink_batch *b, const char *chain);
/* Matches if n bytes of the packet are a key of the set. */
void nft_match_in(struct netlink_batch *b, struct nft_at at, size_t n, const char *set);

/* Jumps to the chain that the map has for n bytes of the packet; goes on if it has none. */
void nft_jump_by(struct netlink_batch *b, struct nft_at at, size_t n, const char *map);
void nft_set_ct_mark(struct netlink_batch *b, uint32_t mark);
void nft_count(struct netlink_batch *b); /* packets and bytes that came this far */
void nft_count_as(struct netlink_batch *b, const char *counter); /* the same, shared */
void nft_redirect(struct netlink_batch *b, uint16_t port); /* to this host; in chains of type nat */

void nft_accept(struct netlink_batch *b); /* for this chain; others of the hook still decide */
void nft_drop(struct netlink_batch *b);
void nft_masquerade(struct netlink_batch *b);
