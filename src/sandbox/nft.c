#include "sandbox/nft.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <string.h>

enum {
    REG_A = NFT_REG32_00, /* two adjacent registers */
    REG_B = NFT_REG32_01,
    REG_BYTES = 4,
    PREFIX_BYTES_MAX = 16,
    TYPE_BITS = 6, /* bits per type number; the nft program uses the type to print keys */
    TYPE_PORT = 13,
    TYPE_MARK = 19,
};

/* Ids of sets within a batch, for its rules. */
enum { SET_ID_SAME = 1, SET_ID_FLOWS, SET_ID_OTHERS };

static void message(struct netlink_batch *b, const char *what, uint16_t type, uint16_t flags,
                    uint8_t family)
{
    const struct nfgenmsg header = {.nfgen_family = family, .version = NFNETLINK_V0};

    netlink_begin(b, what, (NFNL_SUBSYS_NFTABLES << 8) | type, flags | NLM_F_ACK, &header,
                  sizeof(header));
}

static void batch_mark(struct netlink_batch *b, uint16_t type)
{
    const struct nfgenmsg header = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

    netlink_begin(b, "change nftables", type, 0, &header, sizeof(header));
}

void nft_begin(struct netlink_batch *b)
{
    batch_mark(b, NFNL_MSG_BATCH_BEGIN);
}

/* A rule's expressions are closed when the next message begins. */
static void rule_end(struct netlink_batch *b)
{
    while (b->nesting > 0)
        netlink_nest_end(b);
}

void nft_commit(struct netlink_batch *b)
{
    rule_end(b);
    batch_mark(b, NFNL_MSG_BATCH_END);
}

static void table_message(struct netlink_batch *b, const char *what, uint16_t type, uint16_t flags,
                          const struct nft_table *t)
{
    rule_end(b);
    message(b, what, type, flags, t->family);
    netlink_add_str(b, NFTA_TABLE_NAME, t->name);
}

/* Deleting a missing table fails, so make it first. In one transaction this is not visible. */
void nft_table_remove(struct netlink_batch *b, const struct nft_table *t)
{
    table_message(b, "make table", NFT_MSG_NEWTABLE, NLM_F_CREATE, t);
    table_message(b, "remove table", NFT_MSG_DELTABLE, 0, t);
}

void nft_table_renew(struct netlink_batch *b, const struct nft_table *t)
{
    nft_table_remove(b, t);
    table_message(b, "make table", NFT_MSG_NEWTABLE, NLM_F_CREATE, t);
}

void nft_chain_add(struct netlink_batch *b, const struct nft_table *t, const struct nft_chain *c)
{
    rule_end(b);
    message(b, c->name, NFT_MSG_NEWCHAIN, NLM_F_CREATE, t->family);
    netlink_add_str(b, NFTA_CHAIN_TABLE, t->name);
    netlink_add_str(b, NFTA_CHAIN_NAME, c->name);
    netlink_nest(b, NFTA_CHAIN_HOOK);
    netlink_add_be32(b, NFTA_HOOK_HOOKNUM, c->hook);
    netlink_add_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)c->priority);
    netlink_nest_end(b);
    netlink_add_be32(b, NFTA_CHAIN_POLICY, c->drops ? NF_DROP : NF_ACCEPT);
    netlink_add_str(b, NFTA_CHAIN_TYPE, c->type);
}

void nft_table_make(struct netlink_batch *b, const struct nft_table *t)
{
    table_message(b, "make table", NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL, t);
}

static void branch_message(struct netlink_batch *b, uint16_t type, uint16_t flags,
                           const struct nft_table *t, const char *chain)
{
    rule_end(b);
    message(b, chain, type, flags, t->family);
    netlink_add_str(b, NFTA_CHAIN_TABLE, t->name);
    netlink_add_str(b, NFTA_CHAIN_NAME, chain);
}

void nft_branch_add(struct netlink_batch *b, const struct nft_table *t, const char *chain)
{
    branch_message(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE, t, chain);
}

void nft_branch_remove(struct netlink_batch *b, const struct nft_table *t, const char *chain)
{
    branch_message(b, NFT_MSG_DELCHAIN, 0, t, chain);
}

void nft_chain_empty(struct netlink_batch *b, const struct nft_table *t, const char *chain)
{
    rule_end(b);
    message(b, chain, NFT_MSG_DELRULE, 0, t->family);
    netlink_add_str(b, NFTA_RULE_TABLE, t->name);
    netlink_add_str(b, NFTA_RULE_CHAIN, chain);
}

static void set_message(struct netlink_batch *b, uint16_t type, uint16_t flags,
                        const struct nft_table *t, const struct nft_set *s)
{
    rule_end(b);
    message(b, s->name, type, flags, t->family);
    netlink_add_str(b, NFTA_SET_TABLE, t->name);
    netlink_add_str(b, NFTA_SET_NAME, s->name);
}

void nft_set_add(struct netlink_batch *b, const struct nft_table *t, const struct nft_set *s)
{
    set_message(b, NFT_MSG_NEWSET, NLM_F_CREATE, t, s);
    netlink_add_be32(b, NFTA_SET_FLAGS, s->flags | (s->verdicts ? NFT_SET_MAP : 0));
    netlink_add_be32(b, NFTA_SET_KEY_TYPE, s->key_type);
    netlink_add_be32(b, NFTA_SET_KEY_LEN, s->key_bytes);
    if (s->verdicts) {
        netlink_add_be32(b, NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT);
        netlink_add_be32(b, NFTA_SET_DATA_LEN, 0);
    }
    netlink_add_be32(b, NFTA_SET_ID, SET_ID_OTHERS + (uint32_t)b->count);
}

/* Deleting a missing set fails, so make it first. */
void nft_set_remove(struct netlink_batch *b, const struct nft_table *t, const struct nft_set *s)
{
    nft_set_add(b, t, s);
    set_message(b, NFT_MSG_DELSET, 0, t, s);
}

void nft_elements_begin(struct netlink_batch *b, const struct nft_table *t, const struct nft_set *s,
                        bool remove)
{
    rule_end(b);
    message(b, s->name, remove ? NFT_MSG_DELSETELEM : NFT_MSG_NEWSETELEM, remove ? 0 : NLM_F_CREATE,
            t->family);
    netlink_add_str(b, NFTA_SET_ELEM_LIST_TABLE, t->name);
    netlink_add_str(b, NFTA_SET_ELEM_LIST_SET, s->name);
    netlink_nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
}

void nft_element(struct netlink_batch *b, const struct nft_set *s, const struct nft_element *el)
{
    netlink_nest(b, NFTA_LIST_ELEM);
    netlink_nest(b, NFTA_SET_ELEM_KEY);
    netlink_add(b, NFTA_DATA_VALUE, el->key, s->key_bytes);
    netlink_nest_end(b);
    if (el->jump) {
        netlink_nest(b, NFTA_SET_ELEM_DATA);
        netlink_nest(b, NFTA_DATA_VERDICT);
        netlink_add_be32(b, NFTA_VERDICT_CODE, (uint32_t)NFT_JUMP);
        netlink_add_str(b, NFTA_VERDICT_CHAIN, el->jump);
        netlink_nest_end(b);
        netlink_nest_end(b);
    }
    if (el->timeout_ms) {
        uint64_t ms = htobe64(el->timeout_ms);

        netlink_add(b, NFTA_SET_ELEM_TIMEOUT, &ms, sizeof(ms));
    }
    if (el->interval_end)
        netlink_add_be32(b, NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
    netlink_nest_end(b);
}

void nft_elements_end(struct netlink_batch *b)
{
    netlink_nest_end(b);
}

void nft_same_bytes_add(struct netlink_batch *b, const struct nft_table *t, const char *set)
{
    rule_end(b);
    message(b, "make set", NFT_MSG_NEWSET, NLM_F_CREATE, t->family);
    netlink_add_str(b, NFTA_SET_TABLE, t->name);
    netlink_add_str(b, NFTA_SET_NAME, set);
    netlink_add_be32(b, NFTA_SET_FLAGS, NFT_SET_CONSTANT);
    netlink_add_be32(b, NFTA_SET_KEY_TYPE, TYPE_MARK << TYPE_BITS | TYPE_MARK);
    netlink_add_be32(b, NFTA_SET_KEY_LEN, 2 * REG_BYTES);
    netlink_add_be32(b, NFTA_SET_ID, SET_ID_SAME);

    message(b, "fill set", NFT_MSG_NEWSETELEM, NLM_F_CREATE, t->family);
    netlink_add_str(b, NFTA_SET_ELEM_LIST_TABLE, t->name);
    netlink_add_str(b, NFTA_SET_ELEM_LIST_SET, set);
    netlink_nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
    for (unsigned byte = 0; byte <= UINT8_MAX; byte++) {
        const uint8_t key[2 * REG_BYTES] = {[0] = (uint8_t)byte, [REG_BYTES] = (uint8_t)byte};

        netlink_nest(b, NFTA_LIST_ELEM);
        netlink_nest(b, NFTA_SET_ELEM_KEY);
        netlink_add(b, NFTA_DATA_VALUE, key, sizeof(key));
        netlink_nest_end(b);
        netlink_nest_end(b);
    }
    netlink_nest_end(b);
}

void nft_flow_counters_add(struct netlink_batch *b, const struct nft_table *t, const char *set)
{
    rule_end(b);
    message(b, "make set", NFT_MSG_NEWSET, NLM_F_CREATE, t->family);
    netlink_add_str(b, NFTA_SET_TABLE, t->name);
    netlink_add_str(b, NFTA_SET_NAME, set);
    netlink_add_be32(b, NFTA_SET_FLAGS, NFT_SET_EVAL);
    netlink_add_be32(b, NFTA_SET_KEY_TYPE, TYPE_PORT);
    netlink_add_be32(b, NFTA_SET_KEY_LEN, sizeof(uint16_t));
    netlink_add_be32(b, NFTA_SET_ID, SET_ID_FLOWS);
    netlink_nest(b, NFTA_SET_DESC);
    netlink_add_be32(b, NFTA_SET_DESC_SIZE, UINT16_MAX);
    netlink_nest_end(b);
}

void nft_rule(struct netlink_batch *b, const struct nft_table *t, const char *chain)
{
    rule_end(b);
    message(b, chain, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, t->family);
    netlink_add_str(b, NFTA_RULE_TABLE, t->name);
    netlink_add_str(b, NFTA_RULE_CHAIN, chain);
    netlink_nest(b, NFTA_RULE_EXPRESSIONS);
}

static void expression(struct netlink_batch *b, const char *name)
{
    netlink_nest(b, NFTA_LIST_ELEM);
    netlink_add_str(b, NFTA_EXPR_NAME, name);
    netlink_nest(b, NFTA_EXPR_DATA);
}

static void expression_end(struct netlink_batch *b)
{
    netlink_nest_end(b);
    netlink_nest_end(b);
}

static void data(struct netlink_batch *b, uint16_t attr, const void *value, size_t n)
{
    netlink_nest(b, attr);
    netlink_add(b, NFTA_DATA_VALUE, value, n);
    netlink_nest_end(b);
}

static void compare(struct netlink_batch *b, enum nft_cmp_ops op, const void *value, size_t n)
{
    expression(b, "cmp");
    netlink_add_be32(b, NFTA_CMP_SREG, REG_A);
    netlink_add_be32(b, NFTA_CMP_OP, op);
    data(b, NFTA_CMP_DATA, value, n);
    expression_end(b);
}

static void mask(struct netlink_batch *b, const void *bits, size_t n)
{
    const uint8_t zero[PREFIX_BYTES_MAX] = {0};

    expression(b, "bitwise");
    netlink_add_be32(b, NFTA_BITWISE_SREG, REG_A);
    netlink_add_be32(b, NFTA_BITWISE_DREG, REG_A);
    netlink_add_be32(b, NFTA_BITWISE_LEN, (uint32_t)n);
    data(b, NFTA_BITWISE_MASK, bits, n);
    data(b, NFTA_BITWISE_XOR, zero, n);
    expression_end(b);
}

static void load_meta(struct netlink_batch *b, enum nft_meta_keys key)
{
    expression(b, "meta");
    netlink_add_be32(b, NFTA_META_KEY, key);
    netlink_add_be32(b, NFTA_META_DREG, REG_A);
    expression_end(b);
}

static void load_payload(struct netlink_batch *b, uint32_t reg, struct nft_at at, size_t n)
{
    expression(b, "payload");
    netlink_add_be32(b, NFTA_PAYLOAD_DREG, reg);
    netlink_add_be32(b, NFTA_PAYLOAD_BASE, at.base);
    netlink_add_be32(b, NFTA_PAYLOAD_OFFSET, at.offset);
    netlink_add_be32(b, NFTA_PAYLOAD_LEN, (uint32_t)n);
    expression_end(b);
}

static void match_name(struct netlink_batch *b, enum nft_meta_keys key, enum nft_cmp_ops op,
                       const char *name)
{
    char padded[IFNAMSIZ] = {0};
    size_t n = strnlen(name, IFNAMSIZ - 1);
    bool wildcard = n > 0 && name[n - 1] == '*';

    memcpy(padded, name, n);
    load_meta(b, key);
    compare(b, op, padded, wildcard ? n - 1 : IFNAMSIZ);
}

void nft_match_iif(struct netlink_batch *b, enum nft_cmp_ops op, const char *name)
{
    match_name(b, NFT_META_IIFNAME, op, name);
}

void nft_match_oif(struct netlink_batch *b, enum nft_cmp_ops op, const char *name)
{
    match_name(b, NFT_META_OIFNAME, op, name);
}

void nft_match_nfproto(struct netlink_batch *b, uint8_t nfproto)
{
    load_meta(b, NFT_META_NFPROTO);
    compare(b, NFT_CMP_EQ, &nfproto, sizeof(nfproto));
}

void nft_match_l4proto(struct netlink_batch *b, uint8_t ipproto)
{
    load_meta(b, NFT_META_L4PROTO);
    compare(b, NFT_CMP_EQ, &ipproto, sizeof(ipproto));
}

void nft_match_mark(struct netlink_batch *b, uint32_t mark)
{
    load_meta(b, NFT_META_MARK);
    compare(b, NFT_CMP_EQ, &mark, sizeof(mark));
}

void nft_match_skuid(struct netlink_batch *b, uint32_t uid)
{
    load_meta(b, NFT_META_SKUID);
    compare(b, NFT_CMP_EQ, &uid, sizeof(uid));
}

void nft_match_ct_reply(struct netlink_batch *b)
{
    const uint8_t reply = 1; /* IP_CT_DIR_REPLY */

    expression(b, "ct");
    netlink_add_be32(b, NFTA_CT_KEY, NFT_CT_DIRECTION);
    netlink_add_be32(b, NFTA_CT_DREG, REG_A);
    expression_end(b);
    compare(b, NFT_CMP_EQ, &reply, sizeof(reply));
}

void nft_match_ct_state(struct netlink_batch *b, uint32_t state_bits)
{
    const uint32_t none = 0;

    expression(b, "ct");
    netlink_add_be32(b, NFTA_CT_KEY, NFT_CT_STATE);
    netlink_add_be32(b, NFTA_CT_DREG, REG_A);
    expression_end(b);
    mask(b, &state_bits, sizeof(state_bits));
    compare(b, NFT_CMP_NEQ, &none, sizeof(none));
}

void nft_match_daddr_type(struct netlink_batch *b, uint32_t rtn)
{
    expression(b, "fib");
    netlink_add_be32(b, NFTA_FIB_DREG, REG_A);
    netlink_add_be32(b, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    netlink_add_be32(b, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
    expression_end(b);
    compare(b, NFT_CMP_EQ, &rtn, sizeof(rtn));
}

void nft_match_bytes(struct netlink_batch *b, enum nft_cmp_ops op, struct nft_at at,
                     const void *bytes, size_t n)
{
    load_payload(b, REG_A, at, n);
    compare(b, op, bytes, n);
}

void nft_match_prefix(struct netlink_batch *b, struct nft_at at, size_t n, const void *prefix,
                      size_t bits)
{
    uint8_t masked[PREFIX_BYTES_MAX], ones[PREFIX_BYTES_MAX] = {0};

    assert(n <= PREFIX_BYTES_MAX && bits <= n * 8);
    for (size_t i = 0; i < bits; i++)
        ones[i / 8] |= (uint8_t)(0x80 >> i % 8);
    for (size_t i = 0; i < n; i++)
        masked[i] = ((const uint8_t *)prefix)[i] & ones[i];
    load_payload(b, REG_A, at, n);
    if (bits < n * 8)
        mask(b, ones, n);
    compare(b, NFT_CMP_EQ, masked, n);
}

void nft_match_same(struct netlink_batch *b, const char *set, struct nft_at one,
                    struct nft_at other)
{
    load_payload(b, REG_A, one, 1); /* a byte is the first of its register, the rest is zero */
    load_payload(b, REG_B, other, 1);
    expression(b, "lookup");
    netlink_add_str(b, NFTA_LOOKUP_SET, set);
    netlink_add_be32(b, NFTA_LOOKUP_SET_ID, SET_ID_SAME);
    netlink_add_be32(b, NFTA_LOOKUP_SREG, REG_A);
    expression_end(b);
}

void nft_match_more_flows(struct netlink_batch *b, const char *set, struct nft_at two_bytes,
                          uint32_t flows_max)
{
    load_payload(b, REG_A, two_bytes, sizeof(uint16_t));
    expression(b, "dynset");
    netlink_add_str(b, NFTA_DYNSET_SET_NAME, set);
    netlink_add_be32(b, NFTA_DYNSET_SET_ID, SET_ID_FLOWS);
    netlink_add_be32(b, NFTA_DYNSET_OP, NFT_DYNSET_OP_ADD);
    netlink_add_be32(b, NFTA_DYNSET_SREG_KEY, REG_A);
    netlink_nest(b, NFTA_DYNSET_EXPR);
    netlink_add_str(b, NFTA_EXPR_NAME, "connlimit");
    netlink_nest(b, NFTA_EXPR_DATA);
    netlink_add_be32(b, NFTA_CONNLIMIT_COUNT, flows_max);
    netlink_add_be32(b, NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV); /* match above the limit */
    netlink_nest_end(b);
    netlink_nest_end(b);
    expression_end(b);
}

/* --- connections --- */

static void load_ct(struct netlink_batch *b, uint32_t reg, enum nft_ct_keys key, bool original)
{
    expression(b, "ct");
    netlink_add_be32(b, NFTA_CT_KEY, key);
    netlink_add_be32(b, NFTA_CT_DREG, reg);
    if (original)
        netlink_add_u8(b, NFTA_CT_DIRECTION, 0);
    expression_end(b);
}

static uint32_t load_ct_address(struct netlink_batch *b, uint8_t nfproto)
{
    bool v4 = nfproto == NFPROTO_IPV4;

    load_ct(b, REG_A, v4 ? NFT_CT_DST_IP : NFT_CT_DST_IP6, true);
    return REG_A + (v4 ? 1 : 4); /* the next register */
}

static void load_constant(struct netlink_batch *b, uint32_t reg, const void *value, size_t n)
{
    expression(b, "immediate");
    netlink_add_be32(b, NFTA_IMMEDIATE_DREG, reg);
    data(b, NFTA_IMMEDIATE_DATA, value, n);
    expression_end(b);
}

static void look_up(struct netlink_batch *b, const char *set)
{
    expression(b, "lookup");
    netlink_add_str(b, NFTA_LOOKUP_SET, set);
    netlink_add_be32(b, NFTA_LOOKUP_SREG, REG_A);
    expression_end(b);
}

void nft_match_ct_mark(struct netlink_batch *b, uint32_t mark)
{
    load_ct(b, REG_A, NFT_CT_MARK, false);
    compare(b, NFT_CMP_EQ, &mark, sizeof(mark));
}

void nft_match_ct_status(struct netlink_batch *b, uint32_t status_bits)
{
    const uint32_t none = 0;

    load_ct(b, REG_A, NFT_CT_STATUS, false);
    mask(b, &status_bits, sizeof(status_bits));
    compare(b, NFT_CMP_NEQ, &none, sizeof(none));
}

void nft_match_ct_protocol(struct netlink_batch *b, uint8_t ipproto)
{
    load_ct(b, REG_A, NFT_CT_PROTOCOL, true);
    compare(b, NFT_CMP_EQ, &ipproto, sizeof(ipproto));
}

void nft_match_ct_port(struct netlink_batch *b, uint16_t from, uint16_t to)
{
    uint16_t first = htons(from), last = htons(to);

    load_ct(b, REG_A, NFT_CT_PROTO_DST, true);
    if (from == to) {
        compare(b, NFT_CMP_EQ, &first, sizeof(first));
        return;
    }
    compare(b, NFT_CMP_GTE, &first, sizeof(first));
    compare(b, NFT_CMP_LTE, &last, sizeof(last));
}

void nft_match_ct_prefix(struct netlink_batch *b, uint8_t nfproto, const void *prefix, size_t bits)
{
    size_t n = nfproto == NFPROTO_IPV4 ? 4 : 16;
    uint8_t ones[PREFIX_BYTES_MAX] = {0};

    for (size_t i = 0; i < bits; i++)
        ones[i / 8] |= (uint8_t)(0x80 >> i % 8);
    (void)load_ct_address(b, nfproto);
    if (bits < n * 8)
        mask(b, ones, n);
    compare(b, NFT_CMP_EQ, prefix, n);
}

void nft_match_ct_in(struct netlink_batch *b, uint8_t nfproto, const char *set)
{
    (void)load_ct_address(b, nfproto);
    look_up(b, set);
}

void nft_match_ct_key(struct netlink_batch *b, uint8_t nfproto, enum nft_ct_key last,
                      const char *set)
{
    const uint32_t none = 0;
    uint32_t next = load_ct_address(b, nfproto);

    if (last >= NFT_CT_KEY_PROTOCOL)
        load_ct(b, next, NFT_CT_PROTOCOL, true);
    else
        load_constant(b, next, &none, sizeof(none));
    if (last >= NFT_CT_KEY_PORT)
        load_ct(b, next + 1, NFT_CT_PROTO_DST, true);
    else
        load_constant(b, next + 1, &none, sizeof(none));
    look_up(b, set);
}

static uint32_t address_registers(uint8_t nfproto)
{
    return nfproto == NFPROTO_IPV4 ? 1 : 4;
}

void nft_notes_add(struct netlink_batch *b, const struct nft_table *t, const struct nft_notes *n)
{
    uint32_t address = n->nfproto == NFPROTO_IPV4 ? NFT_TYPE_V4 : NFT_TYPE_V6;
    uint64_t ms = htobe64(n->timeout_ms);

    rule_end(b);
    message(b, n->name, NFT_MSG_NEWSET, NLM_F_CREATE, t->family);
    netlink_add_str(b, NFTA_SET_TABLE, t->name);
    netlink_add_str(b, NFTA_SET_NAME, n->name);
    netlink_add_be32(b, NFTA_SET_FLAGS, NFT_SET_EVAL | NFT_SET_TIMEOUT);
    netlink_add_be32(b, NFTA_SET_KEY_TYPE,
                     address << 3 * TYPE_BITS |
                         NFT_TYPE_JOIN(address, NFT_TYPE_PROTO, NFT_TYPE_PORT));
    netlink_add_be32(b, NFTA_SET_KEY_LEN, 2 * (address_registers(n->nfproto) + 1) * REG_BYTES);
    netlink_add_be32(b, NFTA_SET_ID, SET_ID_OTHERS + (uint32_t)b->count);
    netlink_add(b, NFTA_SET_TIMEOUT, &ms, sizeof(ms));
    netlink_nest(b, NFTA_SET_DESC);
    netlink_add_be32(b, NFTA_SET_DESC_SIZE, n->max);
    netlink_nest_end(b);
}

void nft_note_ct(struct netlink_batch *b, const struct nft_notes *n)
{
    bool v4 = n->nfproto == NFPROTO_IPV4;
    uint32_t step = address_registers(n->nfproto);

    load_ct(b, REG_A, v4 ? NFT_CT_SRC_IP : NFT_CT_SRC_IP6, true);
    load_ct(b, REG_A + step, v4 ? NFT_CT_DST_IP : NFT_CT_DST_IP6, true);
    load_ct(b, REG_A + 2 * step, NFT_CT_PROTOCOL, true);
    load_ct(b, REG_A + 2 * step + 1, NFT_CT_PROTO_DST, true);
    expression(b, "dynset");
    netlink_add_str(b, NFTA_DYNSET_SET_NAME, n->name);
    netlink_add_be32(b, NFTA_DYNSET_OP, NFT_DYNSET_OP_ADD);
    netlink_add_be32(b, NFTA_DYNSET_SREG_KEY, REG_A);
    expression_end(b);
}

void nft_match_limited(struct netlink_batch *b, uint32_t per_second)
{
    uint64_t rate = htobe64(per_second), second = htobe64(1);

    expression(b, "limit");
    netlink_add(b, NFTA_LIMIT_RATE, &rate, sizeof(rate));
    netlink_add(b, NFTA_LIMIT_UNIT, &second, sizeof(second));
    netlink_add_be32(b, NFTA_LIMIT_BURST, per_second);
    netlink_add_be32(b, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    expression_end(b);
}

struct notes_reading {
    size_t address_bytes;
    void (*visit)(void *user, const struct nft_noted *noted);
    void *user;
};

/* The next attribute of a list. */
static bool cut_attribute(struct str *list, uint16_t *ret_type, struct str *ret)
{
    struct nlattr a;

    if (list->n < NLA_HDRLEN)
        return false;
    memcpy(&a, list->p, sizeof(a));
    if (a.nla_len < NLA_HDRLEN || a.nla_len > list->n)
        return false;
    *ret_type = a.nla_type & NLA_TYPE_MASK;
    *ret = str_make(list->p + NLA_HDRLEN, a.nla_len - (size_t)NLA_HDRLEN);
    *list = str_skip(*list, min_size(NLA_ALIGN(a.nla_len), list->n));
    return true;
}

static struct str attribute_in(struct str list, uint16_t wanted)
{
    struct str value;
    uint16_t type;

    while (cut_attribute(&list, &type, &value))
        if (type == wanted)
            return value;
    return STR_NONE;
}

static int take_notes(void *user, const struct nlmsghdr *reply)
{
    const struct notes_reading *r = user;
    struct str list = netlink_attr(reply, sizeof(struct nfgenmsg), NFTA_SET_ELEM_LIST_ELEMENTS);
    struct str element;
    uint16_t type;

    while (cut_attribute(&list, &type, &element)) {
        struct str key = attribute_in(attribute_in(element, NFTA_SET_ELEM_KEY), NFTA_DATA_VALUE);
        const uint8_t *p = (const uint8_t *)key.p;
        size_t n = 2 * r->address_bytes;

        if (key.n < n + REG_BYTES + sizeof(uint16_t))
            continue;
        r->visit(r->user, &(struct nft_noted){
                              .from = p,
                              .to = p + r->address_bytes,
                              .protocol = p[n],
                              .port = (uint16_t)(p[n + REG_BYTES] << 8 | p[n + REG_BYTES + 1])});
    }
    return 0;
}

int nft_notes_read(struct netlink *nl, const struct nft_table *t, const struct nft_notes *n,
                   void (*visit)(void *user, const struct nft_noted *noted), void *user,
                   struct err *e)
{
    struct notes_reading reading = {address_registers(n->nfproto) * REG_BYTES, visit, user};
    NETLINK_BATCH(b, 512);

    message(&b, n->name, NFT_MSG_GETSETELEM, NLM_F_DUMP, t->family);
    netlink_add_str(&b, NFTA_SET_ELEM_LIST_TABLE, t->name);
    netlink_add_str(&b, NFTA_SET_ELEM_LIST_SET, n->name);
    return netlink_query(nl, &b, take_notes, &reading, e);
}

/* Without a list of elements, all are removed. */
void nft_notes_empty(struct netlink_batch *b, const struct nft_table *t, const struct nft_notes *n)
{
    rule_end(b);
    message(b, n->name, NFT_MSG_DELSETELEM, 0, t->family);
    netlink_add_str(b, NFTA_SET_ELEM_LIST_TABLE, t->name);
    netlink_add_str(b, NFTA_SET_ELEM_LIST_SET, n->name);
}

void nft_set_ct_mark(struct netlink_batch *b, uint32_t mark)
{
    load_constant(b, REG_A, &mark, sizeof(mark));
    expression(b, "ct");
    netlink_add_be32(b, NFTA_CT_KEY, NFT_CT_MARK);
    netlink_add_be32(b, NFTA_CT_SREG, REG_A);
    expression_end(b);
}

void nft_match_in(struct netlink_batch *b, struct nft_at at, size_t n, const char *set)
{
    load_payload(b, REG_A, at, n);
    look_up(b, set);
}

void nft_jump_by(struct netlink_batch *b, struct nft_at at, size_t n, const char *map)
{
    load_payload(b, REG_A, at, n);
    expression(b, "lookup");
    netlink_add_str(b, NFTA_LOOKUP_SET, map);
    netlink_add_be32(b, NFTA_LOOKUP_SREG, REG_A);
    netlink_add_be32(b, NFTA_LOOKUP_DREG, NFT_REG_VERDICT);
    expression_end(b);
}

void nft_count(struct netlink_batch *b)
{
    expression(b, "counter");
    expression_end(b);
}

void nft_count_as(struct netlink_batch *b, const char *counter)
{
    expression(b, "objref");
    netlink_add_be32(b, NFTA_OBJREF_IMM_TYPE, NFT_OBJECT_COUNTER);
    netlink_add_str(b, NFTA_OBJREF_IMM_NAME, counter);
    expression_end(b);
}

static void counter_message(struct netlink_batch *b, uint16_t type, uint16_t flags,
                            const struct nft_table *t, const char *name)
{
    rule_end(b);
    message(b, name, type, flags, t->family);
    netlink_add_str(b, NFTA_OBJ_TABLE, t->name);
    netlink_add_str(b, NFTA_OBJ_NAME, name);
    netlink_add_be32(b, NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
}

void nft_counter_add(struct netlink_batch *b, const struct nft_table *t, const char *name)
{
    counter_message(b, NFT_MSG_NEWOBJ, NLM_F_CREATE, t, name);
    netlink_nest(b, NFTA_OBJ_DATA);
    netlink_nest_end(b);
}

void nft_counter_remove(struct netlink_batch *b, const struct nft_table *t, const char *name)
{
    nft_counter_add(b, t, name);
    counter_message(b, NFT_MSG_DELOBJ, 0, t, name);
}

static uint64_t be64_of(struct str attributes, uint16_t wanted)
{
    struct str found = attribute_in(attributes, wanted);
    uint64_t value;

    if (found.n != sizeof(value))
        return 0;
    memcpy(&value, found.p, sizeof(value));
    return be64toh(value);
}

static int take_counts(void *user, const struct nlmsghdr *reply)
{
    struct str inner = netlink_attr(reply, sizeof(struct nfgenmsg), NFTA_OBJ_DATA);
    struct nft_counts *ret = user;

    if (inner.p)
        *ret = (struct nft_counts){be64_of(inner, NFTA_COUNTER_PACKETS),
                                   be64_of(inner, NFTA_COUNTER_BYTES)};
    return 0;
}

int nft_counter_read(struct netlink *nl, const struct nft_table *t, const char *name,
                     struct nft_counts *ret, struct err *e)
{
    NETLINK_BATCH(b, 512);

    counter_message(&b, NFT_MSG_GETOBJ, 0, t, name);
    *ret = (struct nft_counts){0};
    return netlink_query(nl, &b, take_counts, ret, e);
}

void nft_redirect(struct netlink_batch *b, uint16_t port)
{
    uint16_t wire = htons(port);

    load_constant(b, REG_A, &wire, sizeof(wire));
    expression(b, "redir");
    netlink_add_be32(b, NFTA_REDIR_REG_PROTO_MIN, REG_A);
    expression_end(b);
}

static void verdict(struct netlink_batch *b, uint32_t code)
{
    expression(b, "immediate");
    netlink_add_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    netlink_nest(b, NFTA_IMMEDIATE_DATA);
    netlink_nest(b, NFTA_DATA_VERDICT);
    netlink_add_be32(b, NFTA_VERDICT_CODE, code);
    netlink_nest_end(b);
    netlink_nest_end(b);
    expression_end(b);
}

void nft_accept(struct netlink_batch *b)
{
    verdict(b, NF_ACCEPT);
}

void nft_drop(struct netlink_batch *b)
{
    verdict(b, NF_DROP);
}

void nft_goto(struct netlink_batch *b, const char *chain)
{
    expression(b, "immediate");
    netlink_add_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    netlink_nest(b, NFTA_IMMEDIATE_DATA);
    netlink_nest(b, NFTA_DATA_VERDICT);
    netlink_add_be32(b, NFTA_VERDICT_CODE, (uint32_t)NFT_GOTO);
    netlink_add_str(b, NFTA_VERDICT_CHAIN, chain);
    netlink_nest_end(b);
    netlink_nest_end(b);
    expression_end(b);
}

void nft_masquerade(struct netlink_batch *b)
{
    expression(b, "masq");
    expression_end(b);
}
