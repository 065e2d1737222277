#include "sandbox/netns_own.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "sandbox/netns_policy_internal.h"

enum {
    PRIORITY_REDIRECT = -110, /* before NAT of others: Docker's resolver, a service mesh */
    PRIORITY_FILTER = 0,
    CT_STATE_INVALID = 1 << 0,
    CT_STATE_RELATED = 1 << 2,
    PORT_DNS = 53,
    ND_FIRST = 133, /* ICMPv6: router solicitation ... */
    ND_LAST = 136,  /* ... neighbour advertisement */
    MLD_REPORT = 143,
};

static const struct nft_at destination_port = {NFT_PAYLOAD_TRANSPORT_HEADER, 2};
static const uint8_t tcp_and_udp[] = {IPPROTO_UDP, IPPROTO_TCP};

static void names_fill(struct policy_names *n)
{
    static const char versions[] = {'4', '6'};

    (void)snprintf(n->table, sizeof(n->table), "opensandbox");
    (void)snprintf(n->chain, sizeof(n->chain), "egress");
    (void)snprintf(n->denied, sizeof(n->denied), "denied");
    (void)snprintf(n->all, sizeof(n->all), "sent");
    (void)snprintf(n->begun, sizeof(n->begun), "begun");
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        (void)snprintf(n->deny[i], POLICY_NAME_MAX, "deny_v%c", versions[i]);
        (void)snprintf(n->allow[i], POLICY_NAME_MAX, "allow_v%c", versions[i]);
        (void)snprintf(n->learned[i], POLICY_NAME_MAX, "dyn_allow_v%c", versions[i]);
    }
}

static void match_port(struct netlink_batch *b, uint8_t protocol, uint16_t port)
{
    uint16_t wire = htons(port);

    nft_match_l4proto(b, protocol);
    nft_match_bytes(b, NFT_CMP_EQ, destination_port, &wire, sizeof(wire));
}

static void match_address(struct netlink_batch *b, const struct netns_own_addr *a)
{
    const struct policy_version *v = &policy_versions[a->family == AF_INET6];

    nft_match_nfproto(b, v->nfproto);
    nft_match_bytes(b, NFT_CMP_EQ, v->daddr, a->addr, v->bytes);
}

static void match_ours(struct policy_change *c)
{
    nft_match_mark(&c->b, c->own->mark);
    nft_match_skuid(&c->b, c->own->uid);
}

static void match_loopback(struct netlink_batch *b, const struct policy_version *v)
{
    static const uint8_t first4[4] = {127}, only6[16] = {[15] = 1};

    nft_match_nfproto(b, v->nfproto);
    if (v->family == AF_INET)
        nft_match_prefix(b, v->daddr, sizeof(first4), first4, 8);
    else
        nft_match_bytes(b, NFT_CMP_EQ, v->daddr, only6, sizeof(only6));
}

/* --- redirection --- */

static void redirect_rule(struct policy_change *c)
{
    nft_rule(&c->b, &c->table, "redirect");
}

static void redirect_dns(struct policy_change *c)
{
    const struct netns_own *own = c->own;

    for (size_t p = 0; p < ARRAY_LEN(tcp_and_udp); p++) {
        for (size_t i = 0; i < own->exempt_count; i++) {
            redirect_rule(c);
            match_address(&c->b, &own->exempt[i]);
            match_port(&c->b, tcp_and_udp[p], PORT_DNS);
            nft_accept(&c->b);
        }
        redirect_rule(c);
        match_port(&c->b, tcp_and_udp[p], PORT_DNS);
        match_ours(c);
        nft_accept(&c->b);
        redirect_rule(c);
        match_port(&c->b, tcp_and_udp[p], PORT_DNS);
        nft_redirect(&c->b, own->dns_port);
    }
}

static void redirect_web(struct policy_change *c)
{
    static const uint16_t ports[] = {80, 443};

    redirect_rule(c);
    nft_match_daddr_type(&c->b, RTN_LOCAL);
    nft_accept(&c->b);
    redirect_rule(c);
    match_ours(c);
    nft_accept(&c->b);
    for (size_t i = 0; i < ARRAY_LEN(ports); i++) {
        redirect_rule(c);
        match_port(&c->b, IPPROTO_TCP, ports[i]);
        nft_redirect(&c->b, c->own->tls_port);
    }
}

/* --- the filter --- */

/* Our questions to resolvers; with `connects`, all TCP that carries the mark. */
static void accept_ours(struct policy_change *c)
{
    const struct netns_own *own = c->own;

    for (size_t i = 0; i < own->resolver_count; i++)
        for (size_t p = 0; p < ARRAY_LEN(tcp_and_udp); p++) {
            policy_rule(c);
            match_ours(c);
            match_address(&c->b, &own->resolvers[i]);
            match_port(&c->b, tcp_and_udp[p], own->resolvers[i].port);
            nft_accept(&c->b);
        }
    if (!own->connects)
        return;
    policy_rule(c);
    match_ours(c);
    nft_match_l4proto(&c->b, IPPROTO_TCP);
    nft_accept(&c->b);
}

/* IPv6 finds no neighbour without these. Connection tracking does not know them. */
static void accept_neighbours(struct policy_change *c)
{
    static const struct nft_at type = {NFT_PAYLOAD_TRANSPORT_HEADER, 0};

    for (int t = ND_FIRST; t <= ND_LAST + 1; t++) {
        uint8_t wanted = (uint8_t)(t <= ND_LAST ? t : MLD_REPORT);

        policy_rule(c);
        nft_match_nfproto(&c->b, NFPROTO_IPV6);
        nft_match_l4proto(&c->b, IPPROTO_ICMPV6);
        nft_match_bytes(&c->b, NFT_CMP_EQ, type, &wanted, sizeof(wanted));
        nft_accept(&c->b);
    }
}

static void accept_local(struct policy_change *c)
{
    policy_rule(c);
    nft_match_oif(&c->b, NFT_CMP_EQ, "lo");
    nft_accept(&c->b);
    for (size_t i = 0; i < POLICY_VERSIONS; i++) { /* redirected, and not routed anew yet */
        policy_rule(c);
        match_loopback(&c->b, &policy_versions[i]);
        nft_accept(&c->b);
    }
}

static void fill_filter(struct policy_change *c)
{
    const struct nft_chain chain = {c->names.chain, "filter", NF_INET_LOCAL_OUT, PRIORITY_FILTER,
                                    !(c->policy->flags & NETNS_DEFAULT_ALLOW)};

    nft_chain_add(&c->b, &c->table, &chain);
    policy_chain_sets(c);
    policy_chain_denied(c);
    policy_chain_count(c);
    policy_rule(c);
    nft_match_ct_reply(&c->b);
    nft_accept(&c->b);
    policy_rule(c);
    nft_match_ct_state(&c->b, CT_STATE_RELATED);
    nft_accept(&c->b);
    accept_local(c);
    accept_ours(c);
    accept_neighbours(c);
    policy_rule(c);
    nft_match_ct_state(&c->b, CT_STATE_INVALID);
    nft_count(&c->b);
    nft_drop(&c->b);
    policy_rule(c);
    nft_match_ct_mark(&c->b, c->policy->mark);
    nft_accept(&c->b);
    policy_chain_judge(c);
}

static void fill_set(struct policy_change *c)
{
    static const struct nft_chain redirect = {"redirect", "nat", NF_INET_LOCAL_OUT,
                                              PRIORITY_REDIRECT, false};

    nft_table_renew(&c->b, &c->table);
    nft_chain_add(&c->b, &c->table, &redirect);
    redirect_dns(c);
    if (c->own->intercepts)
        redirect_web(c);
    if (c->own->filters)
        fill_filter(c);
}

static void fill_clear(struct policy_change *c)
{
    nft_table_remove(&c->b, &c->table);
}

int netns_own_set(const struct netns_own *own, const struct netns_policy *p, struct err *e)
{
    struct policy_change c = {
        .own = own, .policy = p, .learned = p->entries, .learned_count = p->count};
    int r = netns_policy_check(p, e);

    if (r < 0)
        return r;
    if (own->mark == 0 || own->resolver_count > NETNS_OWN_RESOLVERS_MAX ||
        own->exempt_count > NETNS_OWN_EXEMPT_MAX)
        return err_set(e, EINVAL, "policy: wrong mark, or too many resolvers");
    names_fill(&c.names);
    return policy_transact(&c, fill_set, e);
}

int netns_own_learn(const struct netns_entry *entries, size_t count, struct err *e)
{
    struct policy_change c = {.learned = entries, .learned_count = count};

    for (size_t i = 0; i < count; i++) {
        int r = netns_entry_check(&entries[i], e);

        if (r < 0)
            return r;
    }
    names_fill(&c.names);
    return policy_transact(&c, policy_fill_learn, e);
}

int netns_own_traffic(struct netns_traffic *ret, struct err *e)
{
    struct policy_names names;

    names_fill(&names);
    return policy_traffic(&names, ret, e);
}

int netns_own_denied(struct netns_denied ret[NETNS_DENIED_MAX], struct err *e)
{
    struct policy_names names;

    names_fill(&names);
    return policy_denied(&names, ret, e);
}

int netns_own_clear(struct err *e)
{
    struct policy_change c = {0};

    names_fill(&c.names);
    return policy_transact(&c, fill_clear, e);
}
