#include "sandbox/netns_policy.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/netns_internal.h"
#include "sandbox/netns_policy_internal.h"

enum {
    PRIORITY_REDIRECT = -110, /* before other programs redirect; all NAT is after netns_rules.c */
    PRIORITY_FILTER = 0,
    CT_STATE_INVALID = 1 << 0,
    CT_STATE_NEW = 1 << 3,
    CT_STATE_UNTRACKED = 1 << 6,
    BATCH_BYTES = 192 * 1024, /* below the room of a socket's send buffer */
    ELEMENTS_PER_MESSAGE = 256,
    PORT_DNS = 53,
    PORT_DOT = 853,
    PORT_HTTP = 80,
    PORT_HTTPS = 443,
    LEARNED_KEY_MAX = 24, /* address, protocol, port */
    DENIED_PER_S = 20,    /* that are noted of one sandbox */
    DENIED_NOTES_MAX = 1024,
    DENIED_MS = 60 * 1000,
};

static const struct nft_notes denied_notes[POLICY_VERSIONS] = {
    {"denied4", NFPROTO_IPV4, DENIED_NOTES_MAX, DENIED_MS},
    {"denied6", NFPROTO_IPV6, DENIED_NOTES_MAX, DENIED_MS},
};

#define SETS(digit, type, bytes)                                                                   \
    {"guard" digit, type, bytes, 0, true}, {"member" digit, type, bytes, 0, false},                \
    {                                                                                              \
        "caught" digit, type, bytes, 0, false                                                      \
    }
const struct policy_version policy_versions[POLICY_VERSIONS] = {
    {AF_INET,
     NFPROTO_IPV4, 4,
     NFT_TYPE_V4, '4',
     {NFT_PAYLOAD_NETWORK_HEADER, 12},
     {NFT_PAYLOAD_NETWORK_HEADER, 16},
     SETS("4", NFT_TYPE_V4, 4) },
    {AF_INET6,
     NFPROTO_IPV6, 16,
     NFT_TYPE_V6, '6',
     {NFT_PAYLOAD_NETWORK_HEADER, 8},
     {NFT_PAYLOAD_NETWORK_HEADER, 24},
     SETS("6", NFT_TYPE_V6, 16)},
};

static const struct policy_version *version_of(int family)
{
    return &policy_versions[family == AF_INET6];
}

static void names_fill(const struct netns_conf *conf, uint32_t slot, struct policy_names *n)
{
    bool usual = strcmp(conf->bridge, netns_conf_default.bridge) == 0;

    (void)snprintf(n->table, sizeof(n->table), "opensandbox-egress%s%.9s", usual ? "" : "-",
                   usual ? "" : conf->bridge);
    (void)snprintf(n->chain, sizeof(n->chain), "sb%u", slot);
    (void)snprintf(n->denied, sizeof(n->denied), "sb%u-denied", slot);
    (void)snprintf(n->all, sizeof(n->all), "sb%u-all", slot);
    (void)snprintf(n->begun, sizeof(n->begun), "sb%u-begun", slot);
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        char digit = policy_versions[i].digit;

        (void)snprintf(n->deny[i], POLICY_NAME_MAX, "sb%u-deny%c", slot, digit);
        (void)snprintf(n->allow[i], POLICY_NAME_MAX, "sb%u-allow%c", slot, digit);
        (void)snprintf(n->learned[i], POLICY_NAME_MAX, "sb%u-learned%c", slot, digit);
    }
}

/* --- checks --- */

static bool protocol_is_known(uint8_t protocol)
{
    return protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
           protocol == IPPROTO_ICMP;
}

int netns_entry_check(const struct netns_entry *entry, struct err *e)
{
    uint8_t bits = entry->family == AF_INET ? 32 : 128;

    if (entry->kind > NETNS_LEARNED || (entry->family != AF_INET && entry->family != AF_INET6))
        return err_set(e, EINVAL, "policy: an entry of an unknown kind");
    if (entry->bits > bits || !protocol_is_known(entry->protocol) ||
        entry->port_from > entry->port_to || (entry->port_from == 0 && entry->port_to != 0))
        return err_set(e, EINVAL, "policy: an entry with a wrong prefix, protocol or port");
    if (entry->kind == NETNS_LEARNED &&
        (entry->bits != bits || entry->port_from != entry->port_to || entry->seconds == 0 ||
         entry->protocol == IPPROTO_ICMP || (entry->port_from && !entry->protocol)))
        return err_set(e, EINVAL, "policy: a learned address has a time, and one port or none");
    return 0;
}

static bool is_qualified(const struct netns_entry *entry)
{
    return entry->protocol || entry->port_from;
}

int netns_policy_check(const struct netns_policy *p, struct err *e)
{
    size_t qualified = 0;
    int r = 0;

    if (p->count > NETNS_POLICY_ENTRIES_MAX || p->flags & ~(uint32_t)NETNS_POLICY_FLAGS ||
        p->mark == 0)
        return err_set(e, EINVAL, "policy: wrong count, flags or mark");
    for (size_t i = 0; r == 0 && i < p->count; i++) {
        r = netns_entry_check(&p->entries[i], e);
        qualified += p->entries[i].kind != NETNS_LEARNED && is_qualified(&p->entries[i]);
    }
    if (r == 0 && qualified > NETNS_POLICY_PORT_RULES_MAX)
        return err_set(e, EINVAL, "policy: more than %d entries with protocol or ports",
                       NETNS_POLICY_PORT_RULES_MAX);
    return r;
}

/* --- the table --- */

static void redirect_rules(struct netlink_batch *b, const struct nft_table *t,
                           const struct netns_conf *conf, const struct policy_version *v)
{
    static const struct {
        uint8_t protocol;
        uint16_t port, to;
    } rows[] = {
        {IPPROTO_UDP, PORT_DNS,   NETNS_DNS_PORT},
        {IPPROTO_TCP, PORT_DNS,   NETNS_DNS_PORT},
        {IPPROTO_TCP, PORT_HTTP,  NETNS_TLS_PORT},
        {IPPROTO_TCP, PORT_HTTPS, NETNS_TLS_PORT},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint16_t port = htons(rows[i].port);
        const struct nft_set *set = rows[i].to == NETNS_DNS_PORT ? &v->member : &v->caught;

        nft_rule(b, t, "redirect");
        nft_match_iif(b, NFT_CMP_EQ, conf->bridge);
        nft_match_nfproto(b, v->nfproto);
        nft_match_l4proto(b, rows[i].protocol);
        nft_match_bytes(b, NFT_CMP_EQ, (struct nft_at){NFT_PAYLOAD_TRANSPORT_HEADER, 2}, &port,
                        sizeof(port));
        nft_match_in(b, v->saddr, v->bytes, set->name);
        nft_redirect(b, rows[i].to);
    }
}

static void guard_rules(struct netlink_batch *b, const struct nft_table *t,
                        const struct netns_conf *conf, const struct policy_version *v)
{
    nft_rule(b, t, "forward");
    nft_match_iif(b, NFT_CMP_EQ, conf->bridge);
    nft_match_nfproto(b, v->nfproto);
    nft_jump_by(b, v->saddr, v->bytes, v->guard.name);
    nft_rule(b, t, "forward");
    nft_match_oif(b, NFT_CMP_EQ, conf->bridge);
    nft_match_nfproto(b, v->nfproto);
    nft_jump_by(b, v->daddr, v->bytes, v->guard.name);
}

static void fill_table(struct netlink_batch *b, const struct nft_table *t,
                       const struct netns_conf *conf)
{
    static const struct nft_chain chains[] = {
        {"redirect", "nat",    NF_INET_PRE_ROUTING, PRIORITY_REDIRECT},
        {"forward",  "filter", NF_INET_FORWARD,     PRIORITY_FILTER  },
    };

    nft_table_make(b, t);
    for (size_t i = 0; i < ARRAY_LEN(chains); i++)
        nft_chain_add(b, t, &chains[i]);
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        nft_set_add(b, t, &policy_versions[i].guard);
        nft_set_add(b, t, &policy_versions[i].member);
        nft_set_add(b, t, &policy_versions[i].caught);
        redirect_rules(b, t, conf, &policy_versions[i]);
        guard_rules(b, t, conf, &policy_versions[i]);
    }
}

/* --- transactions --- */

/* The socket of this process, kept open: closing one waits until the kernel has freed what was
 * deleted, an RCU grace period of some 10 ms. A forked child must not share it: replies would
 * mix. */
static struct {
    struct netlink nl;
    pid_t pid;
} kept = {
    {-1, 0},
    0
};

static int kept_open(struct err *e)
{
    int r;

    if (kept.pid == getpid() && kept.nl.fd >= 0)
        return 0;
    netlink_close(&kept.nl);
    r = netlink_open(NETLINK_NETFILTER, &kept.nl, e);
    kept.pid = getpid();
    return r < 0 ? err_wrap(e, r, "nftables in the kernel") : 0;
}

int policy_transact(struct policy_change *c, void (*fill)(struct policy_change *c), struct err *e)
{
    auto_free char *room = mem_alloc(BATCH_BYTES);
    int r = kept_open(e);

    if (r < 0)
        return r;
    c->table = (struct nft_table){NFPROTO_INET, c->names.table};
    netlink_batch_init(&c->b, room, BATCH_BYTES);
    nft_begin(&c->b);
    fill(c);
    nft_commit(&c->b);
    r = netlink_send(&kept.nl, &c->b, e);
    if (r < 0)
        netlink_close(&kept.nl); /* with replies that nobody read */
    return r < 0 ? err_wrap(e, r, "nftables table '%s'", c->names.table) : 0;
}

static int transact(const struct netns_conf *conf, uint32_t slot, struct policy_change *c,
                    void (*fill)(struct policy_change *c), struct err *e)
{
    c->conf = conf;
    c->slot = slot;
    names_fill(conf, slot, &c->names);
    return policy_transact(c, fill, e);
}

static void fill_setup(struct policy_change *c)
{
    fill_table(&c->b, &c->table, c->conf);
}

static void fill_teardown(struct policy_change *c)
{
    nft_table_remove(&c->b, &c->table);
}

int netns_policy_setup(const struct netns_conf *conf, struct err *e)
{
    struct policy_change c = {0};
    struct err ignored = {0};
    int r = transact(conf, 0, &c, fill_setup, &ignored);

    if (r == -EEXIST)
        return 0;
    if (r < 0 && e)
        *e = ignored;
    return r;
}

int netns_policy_teardown(const struct netns_conf *conf, struct err *e)
{
    struct policy_change c = {0};

    return transact(conf, 0, &c, fill_teardown, e);
}

/* --- the chain of a sandbox --- */

/* Adds or removes the slot's addresses in the table's sets. Adding what is there changes nothing,
 * so that it can be removed afterwards. */
static void put_address(struct policy_change *c, const struct policy_version *v,
                        const struct nft_set *set, bool present)
{
    const struct netns_addr addr = netns_addr_of(c->conf, c->slot);
    const struct nft_element el = {
        .key = v->family == AF_INET ? (const void *)&addr.v4 : (const void *)&addr.v6,
        .jump = set->verdicts ? c->names.chain : NULL,
    };

    nft_elements_begin(&c->b, &c->table, set, false);
    nft_element(&c->b, set, &el);
    nft_elements_end(&c->b);
    if (present)
        return;
    nft_elements_begin(&c->b, &c->table, set, true);
    nft_element(&c->b, set, &el);
    nft_elements_end(&c->b);
}

static struct nft_set prefix_set(const struct policy_version *v, const char *name)
{
    return (struct nft_set){name, v->type, v->bytes, NFT_SET_INTERVAL, false};
}

static struct nft_set learned_set(const struct policy_version *v, const char *name)
{
    return (struct nft_set){name, NFT_TYPE_JOIN(v->type, NFT_TYPE_PROTO, NFT_TYPE_PORT),
                            v->bytes + 8U, NFT_SET_TIMEOUT, false};
}

/* Removes the sets of the slot, which no rule uses. */
static void remove_sets(struct policy_change *c)
{
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        const struct nft_set sets[] = {
            prefix_set(&policy_versions[i], c->names.deny[i]),
            prefix_set(&policy_versions[i], c->names.allow[i]),
            learned_set(&policy_versions[i], c->names.learned[i]),
        };

        for (size_t k = 0; k < ARRAY_LEN(sets); k++)
            nft_set_remove(&c->b, &c->table, &sets[k]);
    }
}

static bool prefix_has(const struct netns_entry *outer, const struct netns_entry *inner)
{
    if (outer->bits > inner->bits)
        return false;
    for (size_t i = 0; i < outer->bits; i++)
        if ((outer->addr[i / 8] ^ inner->addr[i / 8]) & (0x80 >> i % 8))
            return false;
    return true;
}

/* Whether the set has it by another entry: sets of intervals take no overlaps. */
static bool is_covered(const struct netns_policy *p, size_t at)
{
    const struct netns_entry *inner = &p->entries[at];

    for (size_t i = 0; i < p->count; i++) {
        const struct netns_entry *outer = &p->entries[i];

        if (i != at && outer->kind == inner->kind && outer->family == inner->family &&
            !is_qualified(outer) && prefix_has(outer, inner) &&
            (outer->bits < inner->bits || i < at))
            return true;
    }
    return false;
}

/* The first and the one after the last address; false when the last is the highest of all. */
static bool prefix_range(const struct netns_entry *entry, size_t bytes, uint8_t first[16],
                         uint8_t end[16])
{
    memcpy(first, entry->addr, bytes);
    for (size_t i = entry->bits; i < bytes * 8; i++)
        first[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
    memcpy(end, first, bytes);
    for (size_t i = entry->bits; i < bytes * 8; i++)
        end[i / 8] |= (uint8_t)(0x80 >> i % 8);
    for (size_t i = bytes; i > 0; i--)
        if (++end[i - 1] != 0)
            return true;
    return false;
}

static void add_prefixes(struct policy_change *c, const struct policy_version *v,
                         const struct nft_set *set, enum netns_entry_kind kind)
{
    const struct netns_policy *p = c->policy;
    size_t n = 0;

    nft_set_add(&c->b, &c->table, set);
    for (size_t i = 0; i < p->count; i++) {
        const struct netns_entry *entry = &p->entries[i];
        uint8_t first[16], end[16];
        bool bounded;

        if (entry->kind != kind || entry->family != v->family || is_qualified(entry) ||
            is_covered(p, i))
            continue;
        if (n++ % ELEMENTS_PER_MESSAGE == 0) {
            if (n > 1)
                nft_elements_end(&c->b);
            nft_elements_begin(&c->b, &c->table, set, false);
        }
        bounded = prefix_range(entry, v->bytes, first, end);
        nft_element(&c->b, set, &(struct nft_element){.key = first});
        if (bounded)
            nft_element(&c->b, set, &(struct nft_element){.key = end, .interval_end = true});
    }
    if (n > 0)
        nft_elements_end(&c->b);
}

static void learned_key(const struct netns_entry *entry, const struct policy_version *v,
                        uint8_t key[LEARNED_KEY_MAX])
{
    uint16_t port = htons(entry->port_from);

    memset(key, 0, LEARNED_KEY_MAX);
    memcpy(key, entry->addr, v->bytes);
    key[v->bytes] = entry->protocol;
    memcpy(key + v->bytes + 4, &port, sizeof(port));
}

static bool same_learned(const struct netns_entry *a, const struct netns_entry *b)
{
    return a->kind == b->kind && a->family == b->family && a->protocol == b->protocol &&
           a->port_from == b->port_from && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

static void learned_elements(struct policy_change *c, const struct policy_version *v,
                             const struct nft_set *set, bool remove)
{
    size_t n = 0;

    for (size_t i = 0; i < c->learned_count; i++) {
        const struct netns_entry *entry = &c->learned[i];
        uint8_t key[LEARNED_KEY_MAX];
        bool again = false;

        for (size_t k = 0; k < i && c->learned_count <= NETNS_LEARN_MAX && !again; k++)
            again = same_learned(&c->learned[k], entry);
        if (again || entry->kind != NETNS_LEARNED || entry->family != v->family)
            continue;
        if (n++ % ELEMENTS_PER_MESSAGE == 0) {
            if (n > 1)
                nft_elements_end(&c->b);
            nft_elements_begin(&c->b, &c->table, set, remove);
        }
        learned_key(entry, v, key);
        nft_element(&c->b, set,
                    &(struct nft_element){
                        .key = key, .timeout_ms = remove ? 0 : (uint64_t)entry->seconds * 1000});
    }
    if (n > 0)
        nft_elements_end(&c->b);
}

static void rule_accept(struct policy_change *c)
{
    nft_set_ct_mark(&c->b, c->policy->mark);
    nft_accept(&c->b);
}

static void rule_drop(struct policy_change *c)
{
    nft_count(&c->b);
    if (c->names.denied[0])
        nft_goto(&c->b, c->names.denied);
    else
        nft_drop(&c->b);
}

void policy_rule(struct policy_change *c)
{
    nft_rule(&c->b, &c->table, c->names.chain);
}

static void drop_port(struct policy_change *c, uint8_t protocol, uint16_t port)
{
    policy_rule(c);
    nft_match_ct_protocol(&c->b, protocol);
    nft_match_ct_port(&c->b, port, port);
    rule_drop(c);
}

static void rule_end_of(struct policy_change *c, enum netns_entry_kind kind)
{
    if (kind == NETNS_DENY)
        rule_drop(c);
    else
        rule_accept(c);
}

/* One rule for a prefix with protocol or ports; ports without a protocol are those of TCP and
 * UDP. */
static void qualified_rule(struct policy_change *c, const struct netns_entry *entry,
                           uint8_t protocol)
{
    const struct policy_version *v = version_of(entry->family);
    uint8_t first[16], end[16];

    (void)prefix_range(entry, v->bytes, first, end);
    policy_rule(c);
    nft_match_nfproto(&c->b, v->nfproto);
    nft_match_ct_protocol(&c->b, protocol);
    if (entry->bits > 0)
        nft_match_ct_prefix(&c->b, v->nfproto, first, entry->bits);
    if (entry->port_from)
        nft_match_ct_port(&c->b, entry->port_from, entry->port_to);
    rule_end_of(c, entry->kind);
}

static void prefix_rules(struct policy_change *c, enum netns_entry_kind kind)
{
    for (size_t i = 0; i < c->policy->count; i++) {
        const struct netns_entry *entry = &c->policy->entries[i];

        if (entry->kind != kind || !is_qualified(entry))
            continue;
        if (entry->protocol == IPPROTO_ICMP && entry->family == AF_INET6) {
            qualified_rule(c, entry, IPPROTO_ICMPV6);
        } else if (entry->protocol) {
            qualified_rule(c, entry, entry->protocol);
        } else {
            qualified_rule(c, entry, IPPROTO_TCP);
            qualified_rule(c, entry, IPPROTO_UDP);
        }
    }
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        policy_rule(c);
        nft_match_nfproto(&c->b, policy_versions[i].nfproto);
        nft_match_ct_in(&c->b, policy_versions[i].nfproto,
                        kind == NETNS_DENY ? c->names.deny[i] : c->names.allow[i]);
        rule_end_of(c, kind);
    }
}

static void learned_rules(struct policy_change *c)
{
    static const enum nft_ct_key keys[] = {NFT_CT_KEY_ADDRESS, NFT_CT_KEY_PROTOCOL,
                                           NFT_CT_KEY_PORT};
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};

    for (size_t i = 0; i < POLICY_VERSIONS; i++)
        for (size_t p = 0; p < ARRAY_LEN(protocols); p++)
            for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
                policy_rule(c);
                nft_match_nfproto(&c->b, policy_versions[i].nfproto);
                nft_match_ct_protocol(&c->b, protocols[p]);
                nft_match_ct_key(&c->b, policy_versions[i].nfproto, keys[k], c->names.learned[i]);
                rule_accept(c);
            }
}

void policy_chain_judge(struct policy_change *c)
{
    drop_port(c, IPPROTO_TCP, PORT_DOT);
    drop_port(c, IPPROTO_UDP, PORT_DOT);
    if (c->policy->flags & (NETNS_NO_QUIC | NETNS_INTERCEPT))
        drop_port(c, IPPROTO_UDP, PORT_HTTPS);
    if (c->policy->flags & NETNS_INTERCEPT) { /* of before the policy, as for DNS */
        drop_port(c, IPPROTO_TCP, PORT_HTTP);
        drop_port(c, IPPROTO_TCP, PORT_HTTPS);
    }
    prefix_rules(c, NETNS_DENY);
    learned_rules(c);
    prefix_rules(c, NETNS_ALLOW);
    policy_rule(c);
    rule_end_of(c, c->policy->flags & NETNS_DEFAULT_ALLOW ? NETNS_ALLOW : NETNS_DENY);
}

void policy_chain_count(struct policy_change *c)
{
    nft_counter_add(&c->b, &c->table, c->names.all);
    nft_counter_add(&c->b, &c->table, c->names.begun);
    policy_rule(c);
    nft_count_as(&c->b, c->names.all);
    policy_rule(c);
    nft_match_ct_state(&c->b, CT_STATE_NEW);
    nft_count_as(&c->b, c->names.begun);
}

int policy_traffic(const struct policy_names *names, struct netns_traffic *ret, struct err *e)
{
    const struct nft_table table = {NFPROTO_INET, names->table};
    struct nft_counts all, begun;
    int r = kept_open(e);

    if (r == 0)
        r = nft_counter_read(&kept.nl, &table, names->all, &all, e);
    if (r == 0)
        r = nft_counter_read(&kept.nl, &table, names->begun, &begun, e);
    if (r == 0)
        *ret = (struct netns_traffic){all.packets, all.bytes, begun.packets};
    else if (r != -ENOENT)
        netlink_close(&kept.nl);
    return r;
}

static void chain_rules(struct policy_change *c)
{
    policy_chain_count(c);
    policy_rule(c);
    nft_match_ct_state(&c->b, CT_STATE_INVALID | CT_STATE_UNTRACKED);
    rule_drop(c);
    policy_rule(c);
    nft_match_ct_mark(&c->b, c->policy->mark);
    nft_accept(&c->b);
    drop_port(c, IPPROTO_UDP, PORT_DNS); /* of before the policy: now it is redirected */
    drop_port(c, IPPROTO_TCP, PORT_DNS);
    policy_chain_judge(c);
}

void policy_chain_sets(struct policy_change *c)
{
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        const struct policy_version *v = &policy_versions[i];
        const struct nft_set deny = prefix_set(v, c->names.deny[i]);
        const struct nft_set allow = prefix_set(v, c->names.allow[i]);
        const struct nft_set learned = learned_set(v, c->names.learned[i]);

        add_prefixes(c, v, &deny, NETNS_DENY);
        add_prefixes(c, v, &allow, NETNS_ALLOW);
        nft_set_add(&c->b, &c->table, &learned);
        learned_elements(c, v, &learned, false);
    }
}

/* A rule each, as a full set and a limit that is reached end a rule. */
void policy_chain_denied(struct policy_change *c)
{
    nft_branch_add(&c->b, &c->table, c->names.denied);
    nft_chain_empty(&c->b, &c->table, c->names.denied);
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        nft_notes_add(&c->b, &c->table, &denied_notes[i]);
        nft_rule(&c->b, &c->table, c->names.denied);
        nft_match_nfproto(&c->b, policy_versions[i].nfproto);
        nft_match_limited(&c->b, DENIED_PER_S);
        nft_note_ct(&c->b, &denied_notes[i]);
    }
    nft_rule(&c->b, &c->table, c->names.denied);
    nft_drop(&c->b);
}

static void fill_slot(struct policy_change *c)
{
    nft_branch_add(&c->b, &c->table, c->names.chain);
    nft_chain_empty(&c->b, &c->table, c->names.chain);
    if (c->policy) {
        policy_chain_denied(c);
        remove_sets(c); /* a closed slot has none, or those of a chain that does not use them */
        policy_chain_sets(c);
        chain_rules(c);
    } else {
        policy_rule(c);
        nft_count(&c->b);
        nft_drop(&c->b);
    }
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        put_address(c, &policy_versions[i], &policy_versions[i].guard, true);
        put_address(c, &policy_versions[i], &policy_versions[i].member, true);
        if (c->policy && c->policy->flags & NETNS_INTERCEPT)
            put_address(c, &policy_versions[i], &policy_versions[i].caught, true);
    }
}

/* Notes of packets are by address, which the next sandbox of the slot will have: none are left to
 * it. Those of other sandboxes since the last reading go with them. */
static void fill_clear(struct policy_change *c)
{
    nft_branch_add(&c->b, &c->table, c->names.chain);
    nft_branch_add(&c->b, &c->table, c->names.denied);
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        nft_notes_add(&c->b, &c->table, &denied_notes[i]);
        nft_notes_empty(&c->b, &c->table, &denied_notes[i]);
    }
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        put_address(c, &policy_versions[i], &policy_versions[i].guard, false);
        put_address(c, &policy_versions[i], &policy_versions[i].member, false);
        put_address(c, &policy_versions[i], &policy_versions[i].caught, false);
    }
    nft_chain_empty(&c->b, &c->table, c->names.chain);
    remove_sets(c);
    nft_counter_remove(&c->b, &c->table, c->names.all);
    nft_counter_remove(&c->b, &c->table, c->names.begun);
    nft_branch_remove(&c->b, &c->table, c->names.chain);
    nft_chain_empty(&c->b, &c->table, c->names.denied);
    nft_branch_remove(&c->b, &c->table, c->names.denied);
}

void policy_fill_learn(struct policy_change *c)
{
    for (size_t i = 0; i < POLICY_VERSIONS; i++) {
        const struct nft_set set = learned_set(&policy_versions[i], c->names.learned[i]);

        /* Older kernels keep the time of an element that is added again. */
        learned_elements(c, &policy_versions[i], &set, false);
        learned_elements(c, &policy_versions[i], &set, true);
        learned_elements(c, &policy_versions[i], &set, false);
    }
}

/* The table may be missing: an administrator removed it, or it could not be made at start. */
static int transact_slot(const struct netns_conf *conf, uint32_t slot, struct policy_change *c,
                         struct err *e)
{
    int r = transact(conf, slot, c, fill_slot, e);

    if (r != -ENOENT)
        return r;
    r = netns_policy_setup(conf, e);
    return r < 0 ? r : transact(conf, slot, c, fill_slot, e);
}

int netns_policy_close(const struct netns_conf *conf, uint32_t slot, struct err *e)
{
    struct policy_change c = {0};

    return transact_slot(conf, slot, &c, e);
}

int netns_policy_set(const struct netns_conf *conf, uint32_t slot, const struct netns_policy *p,
                     struct err *e)
{
    struct policy_change c = {.policy = p, .learned = p->entries, .learned_count = p->count};
    int r = netns_policy_check(p, e);

    return r < 0 ? r : transact_slot(conf, slot, &c, e);
}

int netns_policy_learn(const struct netns_conf *conf, uint32_t slot,
                       const struct netns_entry *entries, size_t count, struct err *e)
{
    struct policy_change c = {.learned = entries, .learned_count = count};

    for (size_t i = 0; i < count; i++) {
        int r = netns_entry_check(&entries[i], e);

        if (r < 0)
            return r;
    }
    return transact(conf, slot, &c, policy_fill_learn, e);
}

int netns_policy_traffic(const struct netns_conf *conf, uint32_t slot, struct netns_traffic *ret,
                         struct err *e)
{
    struct policy_names names;

    names_fill(conf, slot, &names);
    return policy_traffic(&names, ret, e);
}

/* --- what was dropped --- */

struct denied_reading {
    struct netns_denied *ret;
    int family;
    size_t count;
};

static void take_denied(void *user, const struct nft_noted *noted)
{
    struct denied_reading *r = user;
    size_t bytes = r->family == AF_INET ? 4 : 16;
    struct netns_denied *d = &r->ret[r->count];

    if (r->count == NETNS_DENIED_MAX)
        return;
    *d = (struct netns_denied){
        .family = (uint8_t)r->family, .protocol = noted->protocol, .port = noted->port};
    memcpy(d->from, noted->from, bytes);
    memcpy(d->to, noted->to, bytes);
    r->count++;
}

static void fill_forget_denied(struct policy_change *c)
{
    for (size_t i = 0; i < POLICY_VERSIONS; i++)
        nft_notes_empty(&c->b, &c->table, &denied_notes[i]);
}

int policy_denied(const struct policy_names *names, struct netns_denied ret[NETNS_DENIED_MAX],
                  struct err *e)
{
    struct denied_reading reading = {.ret = ret};
    struct policy_change c = {.names = *names};
    const struct nft_table table = {NFPROTO_INET, names->table};
    int r = kept_open(e);

    for (size_t i = 0; r >= 0 && i < POLICY_VERSIONS; i++) {
        reading.family = policy_versions[i].family;
        r = nft_notes_read(&kept.nl, &table, &denied_notes[i], take_denied, &reading, e);
    }
    if (r == -ENOENT)
        return 0; /* no sandbox had a policy yet */
    if (r < 0)
        netlink_close(&kept.nl); /* with replies that nobody read */
    if (r >= 0 && reading.count > 0)
        r = policy_transact(&c, fill_forget_denied, e);
    return r < 0 ? r : (int)reading.count;
}

int netns_policy_denied(const struct netns_conf *conf, struct netns_denied ret[NETNS_DENIED_MAX],
                        struct err *e)
{
    struct policy_names names;

    names_fill(conf, 0, &names);
    return policy_denied(&names, ret, e);
}

int netns_policy_clear(const struct netns_conf *conf, uint32_t slot, struct err *e)
{
    struct policy_change c = {0};

    int r = transact(conf, slot, &c, fill_clear, e);

    return r == -ENOENT ? 0 : r; /* no table, so no rules */
}
