/* What sandboxes may send, as nftables rules. The policy, from the wire inwards:
 *
 *   bridge: a port may send only IP from its own addresses to the bridge's MAC. The bridge
 *           enforces the port's MAC (locked port); rules compare the last two bytes of the IP
 *           address with those of the MAC.
 *   inet:   from the bridge no new connection goes to an address of the host, to other sandboxes,
 *           to link-local, metadata, loopback or multicast addresses, nor to the IPv6 forms of
 *           such IPv4 addresses (NAT64, 6to4, ISATAP, ...). New connections to a sandbox come only
 *           from the host itself. Connections per sandbox are limited, since all share the
 *           conntrack table. Packets that leave are masqueraded. */
#include "sandbox/netns_internal.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter_bridge.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <stdio.h>

#include "base/mem.h"
#include "sandbox/netns_policy.h"
#include "sandbox/nft.h"

enum {
    PRIORITY_BEFORE_DNAT = -150, /* after conntrack, before others redirect packets */
    PRIORITY_FILTER = 0,
    PRIORITY_SNAT = 100,
    PRIORITY_BRIDGE_FIRST = -300,
    CT_STATE_ESTABLISHED = 1 << 1, /* as in nft's ct state */
    CT_STATE_RELATED = 1 << 2,
    CT_STATE_NEW = 1 << 3,
};

static const char set_same[] = "same", set_flows[] = "flows";
static const struct nft_at ether_daddr = {NFT_PAYLOAD_LL_HEADER, 0};
static const struct nft_at ether_saddr = {NFT_PAYLOAD_LL_HEADER, 6};
static const struct nft_at ether_type = {NFT_PAYLOAD_LL_HEADER, 12};

/* Positions of the addresses in an IP version's header. */
struct ip_version {
    uint8_t nfproto;
    uint16_t ether_type;
    uint8_t addr_bytes;
    struct nft_at saddr, daddr;
};
static const struct ip_version ip_v4 = {
    NFPROTO_IPV4,
    ETHERTYPE_IP,
    4,
    {NFT_PAYLOAD_NETWORK_HEADER, 12},
    {NFT_PAYLOAD_NETWORK_HEADER, 16}
};
static const struct ip_version ip_v6 = {
    NFPROTO_IPV6,
    ETHERTYPE_IPV6,
    16,
    {NFT_PAYLOAD_NETWORK_HEADER, 8 },
    {NFT_PAYLOAD_NETWORK_HEADER, 24}
};

static const struct nft_chain bridge_chains[] = {
    {"prerouting", "filter", NF_BR_PRE_ROUTING, PRIORITY_BRIDGE_FIRST},
    {"input",      "filter", NF_BR_LOCAL_IN,    PRIORITY_BRIDGE_FIRST},
    {"forward",    "filter", NF_BR_FORWARD,     PRIORITY_BRIDGE_FIRST},
};
static const struct nft_chain inet_chains[] = {
    {"prerouting",  "filter", NF_INET_PRE_ROUTING,  PRIORITY_BEFORE_DNAT},
    {"input",       "filter", NF_INET_LOCAL_IN,     PRIORITY_FILTER     },
    {"forward",     "filter", NF_INET_FORWARD,      PRIORITY_FILTER     },
    {"postrouting", "nat",    NF_INET_POST_ROUTING, PRIORITY_SNAT       },
};

struct prefix {
    const struct ip_version *ip;
    uint8_t bits;
    uint8_t bytes[16];
    uint8_t from; /* first byte of the address that is compared */
};

/* Networks that no sandbox may use. The sandboxes' own networks come from the configuration. */
static const struct prefix forbidden[] = {
    {&ip_v4, 8,   {0}                                               },
    {&ip_v4, 32,  {100, 100, 100, 200}                              }, /* Alibaba */
    {&ip_v4, 8,   {127}                                             },
    {&ip_v4, 32,  {168, 63, 129, 16}                                }, /* Azure */
    {&ip_v4, 16,  {169, 254}                                        }, /* metadata */
    {&ip_v4, 32,  {192, 0, 0, 192}                                  }, /* Oracle */
    {&ip_v4, 4,   {224}                                             }, /* multicast */
    {&ip_v4, 4,   {240}                                             }, /* with broadcast */
    {&ip_v6, 96,  {0}                                               }, /* ::1, ::a.b.c.d */
    {&ip_v6, 96,  {[10] = 0xff, [11] = 0xff}                        }, /* ::ffff:a.b.c.d */
    {&ip_v6, 96,  {[8] = 0xff, [9] = 0xff}                          }, /* ::ffff:0:a.b.c.d, SIIT */
    {&ip_v6, 48,  {0, 0x64, 0xff, 0x9b, 0, 1}                       }, /* NAT64, v4 anywhere in it */
    {&ip_v6, 32,  {0x20, 0x01}                                      }, /* Teredo, v4 scrambled */
    {&ip_v6, 128, {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54}}, /* Amazon */
    {&ip_v6, 128, {0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54}}, /* Google */
    {&ip_v6, 10,  {0xfe, 0x80}                                      }, /* link-local */
    {&ip_v6, 8,   {0xff}                                            }, /* multicast */
};

/* IPv6 forms of an IPv4 address that translators and tunnels use: these bytes, followed by the
 * address. Each forbidden IPv4 prefix is forbidden in all of them. */
static const struct {
    uint8_t from, n;
    uint8_t bytes[12];
} v4_forms[] = {
    {0, 12, {0, 0x64, 0xff, 0x9b}}, /* NAT64, 64:ff9b::a.b.c.d */
    {0, 2,  {0x20, 0x02}         }, /* 6to4, 2002:a.b.c.d:: */
    {8, 4,  {0, 0, 0x5e, 0xfe}   }, /* ISATAP, any prefix and ::5efe:a.b.c.d */
    {8, 4,  {0x02, 0, 0x5e, 0xfe}}, /* the same, ::200:5efe:a.b.c.d */
};

/* Address types that the kernel considers local or multi-target. */
static const uint32_t forbidden_types[] = {RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST, RTN_MULTICAST};

/* The configuration, as the rules use it. */
struct policy {
    char table[40];       /* "opensandbox", or "opensandbox-<bridge>" */
    const char *bridge;   /* "osb0" */
    char ports[IFNAMSIZ]; /* "osb0-*" */
    uint8_t gateway_mac[NETNS_MAC_BYTES];
    uint32_t flows_max;
    struct prefix own[2]; /* networks of the sandboxes; only the first without IPv6 */
    size_t own_count;
};

static void policy_fill(const struct netns_conf *conf, struct policy *p)
{
    const struct netns_addr gateway = netns_gateway(conf);
    bool usual = strcmp(conf->bridge, netns_conf_default.bridge) == 0;

    *p = (struct policy){
        .bridge = conf->bridge,
        .flows_max = conf->flows_max,
        .own = {{&ip_v4, conf->v4_bits, {0}, 0}, {&ip_v6, NETNS_V6_BITS, {0}, 0}},
        .own_count = conf->v6 ? 2 : 1,
    };
    (void)snprintf(p->table, sizeof(p->table), "opensandbox%s%s", usual ? "" : "-",
                   usual ? "" : conf->bridge);
    (void)snprintf(p->ports, sizeof(p->ports), "%.9s-*", conf->bridge);
    memcpy(p->gateway_mac, gateway.mac, sizeof(gateway.mac));
    memcpy(p->own[0].bytes, &gateway.v4, sizeof(gateway.v4));
    memcpy(p->own[1].bytes, &gateway.v6, sizeof(gateway.v6));
}

static struct nft_at byte_of(struct nft_at field, uint32_t offset)
{
    return (struct nft_at){field.base, field.offset + offset};
}

/* Accepts a port's packet if its source is in the network and ends like its MAC. */
static void accept_own(struct netlink_batch *b, const struct nft_table *t, const struct prefix *own)
{
    const struct ip_version *ip = own->ip;
    uint16_t type = htons(ip->ether_type);
    uint32_t low = ip->addr_bytes - 2U;

    nft_rule(b, t, "prerouting");
    nft_match_bytes(b, NFT_CMP_EQ, ether_type, &type, sizeof(type));
    nft_match_prefix(b, ip->saddr, ip->addr_bytes, own->bytes, own->bits);
    nft_match_same(b, set_same, byte_of(ether_saddr, 4), byte_of(ip->saddr, low));
    nft_match_same(b, set_same, byte_of(ether_saddr, 5), byte_of(ip->saddr, low + 1));
    nft_accept(b);
}

static void bridge_rules(struct netlink_batch *b, const struct policy *p)
{
    const struct nft_table t = {NFPROTO_BRIDGE, p->table};

    nft_table_renew(b, &t);
    nft_same_bytes_add(b, &t, set_same);
    for (size_t i = 0; i < ARRAY_LEN(bridge_chains); i++)
        nft_chain_add(b, &t, &bridge_chains[i]);

    nft_rule(b, &t, "prerouting");
    nft_match_iif(b, NFT_CMP_NEQ, p->ports);
    nft_accept(b);
    nft_rule(b, &t, "prerouting");
    nft_match_bytes(b, NFT_CMP_NEQ, ether_daddr, p->gateway_mac, NETNS_MAC_BYTES);
    nft_drop(b);
    nft_rule(b, &t, "prerouting");
    nft_match_bytes(b, NFT_CMP_NEQ, ether_saddr, netns_mac_prefix, sizeof(netns_mac_prefix));
    nft_drop(b);
    for (size_t i = 0; i < p->own_count; i++)
        accept_own(b, &t, &p->own[i]);
    nft_rule(b, &t, "prerouting");
    nft_drop(b);

    /* Frames to link-local groups (01:80:c2:...) bypass prerouting. */
    nft_rule(b, &t, "input");
    nft_match_iif(b, NFT_CMP_EQ, p->ports);
    nft_match_bytes(b, NFT_CMP_NEQ, ether_daddr, p->gateway_mac, NETNS_MAC_BYTES);
    nft_drop(b);

    nft_rule(b, &t, "forward");
    nft_match_iif(b, NFT_CMP_EQ, p->ports);
    nft_drop(b);
}

static void rule_from_bridge(struct netlink_batch *b, const struct nft_table *t, const char *chain,
                             const struct policy *p)
{
    nft_rule(b, t, chain);
    nft_match_iif(b, NFT_CMP_EQ, p->bridge);
}

/* Every packet of the host passes here, and few are a sandbox's: accept the others first. */
static void accept_others(struct netlink_batch *b, const struct nft_table *t, const char *chain,
                          const struct policy *p)
{
    nft_rule(b, t, chain);
    nft_match_iif(b, NFT_CMP_NEQ, p->bridge);
    nft_accept(b);
}

/* Replies, and related ICMP errors, which carry the path MTU. */
static void accept_replies(struct netlink_batch *b, const struct nft_table *t, const char *chain,
                           void (*match)(struct netlink_batch *, enum nft_cmp_ops, const char *),
                           const struct policy *p)
{
    static const uint8_t icmp[] = {IPPROTO_ICMP, IPPROTO_ICMPV6};

    nft_rule(b, t, chain);
    match(b, NFT_CMP_EQ, p->bridge);
    nft_match_ct_state(b, CT_STATE_ESTABLISHED);
    nft_accept(b);
    for (size_t i = 0; i < ARRAY_LEN(icmp); i++) {
        nft_rule(b, t, chain);
        match(b, NFT_CMP_EQ, p->bridge);
        nft_match_l4proto(b, icmp[i]);
        nft_match_ct_state(b, CT_STATE_RELATED);
        nft_accept(b);
    }
}

/* Accepts what the table of netns_policy.h has redirected to the proxies of egress. A sandbox
 * cannot reach their ports in any other way. */
static void accept_redirected(struct netlink_batch *b, const struct nft_table *t,
                              const struct policy *p)
{
    static const struct {
        uint8_t protocol;
        uint16_t port;
    } proxies[] = {
        {IPPROTO_UDP, NETNS_DNS_PORT},
        {IPPROTO_TCP, NETNS_DNS_PORT},
        {IPPROTO_TCP, NETNS_TLS_PORT},
    };

    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        uint16_t port = htons(proxies[i].port);

        rule_from_bridge(b, t, "input", p);
        nft_match_ct_status(b, IPS_DST_NAT);
        nft_match_l4proto(b, proxies[i].protocol);
        nft_match_bytes(b, NFT_CMP_EQ, (struct nft_at){NFT_PAYLOAD_TRANSPORT_HEADER, 2}, &port,
                        sizeof(port));
        nft_accept(b);
    }
}

/* Connections per sandbox. The last two bytes of an address are those of the slot in both IP
 * versions, so both share a counter. */
static void limit_flows(struct netlink_batch *b, const struct nft_table *t, const struct policy *p)
{
    for (size_t i = 0; i < p->own_count; i++) {
        const struct ip_version *ip = p->own[i].ip;

        rule_from_bridge(b, t, "prerouting", p);
        nft_match_ct_state(b, CT_STATE_NEW | CT_STATE_RELATED);
        nft_match_nfproto(b, ip->nfproto);
        nft_match_more_flows(b, set_flows, byte_of(ip->saddr, ip->addr_bytes - 2U), p->flows_max);
        nft_drop(b);
    }
}

static void match_local_dns(struct netlink_batch *b, const struct nft_table *t,
                            const struct policy *p, uint8_t protocol)
{
    const uint16_t port = htons(53);

    rule_from_bridge(b, t, "prerouting", p);
    nft_match_l4proto(b, protocol);
    nft_match_bytes(b, NFT_CMP_EQ, (struct nft_at){NFT_PAYLOAD_TRANSPORT_HEADER, 2}, &port,
                    sizeof(port));
    nft_match_daddr_type(b, RTN_LOCAL);
}

/* DNS to addresses of the host, such as the bridge's own, goes on to the redirection, which comes
 * later. Where that does not apply, chain input drops it. */
static void accept_local_dns(struct netlink_batch *b, const struct nft_table *t,
                             const struct policy *p)
{
    static const uint8_t protocols[] = {IPPROTO_UDP, IPPROTO_TCP};

    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        for (size_t k = 0; k < p->own_count; k++) {
            const struct ip_version *ip = p->own[k].ip;

            match_local_dns(b, t, p, protocols[i]);
            nft_match_ct_state(b, CT_STATE_NEW | CT_STATE_RELATED);
            nft_match_nfproto(b, ip->nfproto);
            nft_match_more_flows(b, set_flows, byte_of(ip->saddr, ip->addr_bytes - 2U),
                                 p->flows_max);
            nft_drop(b);
        }
        match_local_dns(b, t, p, protocols[i]);
        nft_accept(b);
    }
}

static void drop_to(struct netlink_batch *b, const struct nft_table *t, const struct policy *p,
                    const struct prefix *to)
{
    rule_from_bridge(b, t, "prerouting", p);
    nft_match_nfproto(b, to->ip->nfproto);
    nft_match_prefix(b, byte_of(to->ip->daddr, to->from), (size_t)to->ip->addr_bytes - to->from,
                     to->bytes, to->bits);
    nft_drop(b);
}

/* Drops packets to the prefix and, for IPv4, to all its IPv6 forms. */
static void drop_to_all_forms(struct netlink_batch *b, const struct nft_table *t,
                              const struct policy *p, const struct prefix *to)
{
    drop_to(b, t, p, to);
    if (to->ip != &ip_v4)
        return;
    for (size_t i = 0; i < ARRAY_LEN(v4_forms); i++) {
        uint8_t n = v4_forms[i].n;
        struct prefix form = {&ip_v6, (uint8_t)(n * 8 + to->bits), {0}, v4_forms[i].from};

        memcpy(form.bytes, v4_forms[i].bytes, n);
        memcpy(form.bytes + n, to->bytes, ip_v4.addr_bytes);
        drop_to(b, t, p, &form);
    }
}

static void prerouting_rules(struct netlink_batch *b, const struct nft_table *t,
                             const struct policy *p)
{
    /* A port's packets arrive from the bridge; one from the port itself has bypassed it. */
    nft_rule(b, t, "prerouting");
    nft_match_iif(b, NFT_CMP_EQ, p->ports);
    nft_drop(b);
    accept_others(b, t, "prerouting", p);
    accept_replies(b, t, "prerouting", nft_match_iif, p);
    accept_local_dns(b, t, p);
    for (size_t i = 0; i < ARRAY_LEN(forbidden_types); i++) {
        rule_from_bridge(b, t, "prerouting", p);
        nft_match_daddr_type(b, forbidden_types[i]);
        nft_drop(b);
    }
    for (size_t i = 0; i < p->own_count; i++)
        drop_to_all_forms(b, t, p, &p->own[i]);
    for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
        drop_to_all_forms(b, t, p, &forbidden[i]);
    limit_flows(b, t, p); /* packets dropped above are never tracked */
}

static void inet_rules(struct netlink_batch *b, const struct policy *p)
{
    const struct nft_table t = {NFPROTO_INET, p->table};

    nft_table_renew(b, &t);
    nft_flow_counters_add(b, &t, set_flows);
    for (size_t i = 0; i < ARRAY_LEN(inet_chains); i++)
        nft_chain_add(b, &t, &inet_chains[i]);
    prerouting_rules(b, &t, p);

    accept_others(b, &t, "input", p);
    accept_replies(b, &t, "input", nft_match_iif, p);
    accept_redirected(b, &t, p);
    rule_from_bridge(b, &t, "input", p);
    nft_drop(b);

    rule_from_bridge(b, &t, "forward", p);
    nft_match_oif(b, NFT_CMP_EQ, p->bridge);
    nft_drop(b);
    accept_replies(b, &t, "forward", nft_match_oif, p);
    nft_rule(b, &t, "forward");
    nft_match_oif(b, NFT_CMP_EQ, p->bridge);
    nft_drop(b);

    for (size_t i = 0; i < p->own_count; i++) {
        const struct prefix *own = &p->own[i];

        nft_rule(b, &t, "postrouting");
        nft_match_oif(b, NFT_CMP_NEQ, p->bridge);
        nft_match_nfproto(b, own->ip->nfproto);
        nft_match_prefix(b, own->ip->saddr, own->ip->addr_bytes, own->bytes, own->bits);
        nft_masquerade(b);
    }
}

static void remove_tables(struct netlink_batch *b, const struct policy *p)
{
    nft_table_remove(b, &(struct nft_table){NFPROTO_BRIDGE, p->table});
    nft_table_remove(b, &(struct nft_table){NFPROTO_INET, p->table});
}

static void apply_tables(struct netlink_batch *b, const struct policy *p)
{
    bridge_rules(b, p);
    inet_rules(b, p);
}

static int transact(const struct netns_conf *conf,
                    void (*fill)(struct netlink_batch *, const struct policy *), struct err *e)
{
    auto_free char *room = mem_alloc(NFT_BATCH_BYTES);
    auto_netlink nl = NETLINK_NONE;
    struct netlink_batch b;
    struct policy p;
    int r = netlink_open(NETLINK_NETFILTER, &nl, e);

    if (r < 0)
        return err_wrap(e, r, "nftables in the kernel");
    policy_fill(conf, &p);
    netlink_batch_init(&b, room, NFT_BATCH_BYTES);
    nft_begin(&b);
    fill(&b, &p);
    nft_commit(&b);
    r = netlink_send(&nl, &b, e);
    return r < 0 ? err_wrap(e, r, "nftables table '%s'", p.table) : 0;
}

int netns_rules_apply(const struct netns_conf *conf, struct err *e)
{
    return transact(conf, apply_tables, e);
}

int netns_rules_remove(const struct netns_conf *conf, struct err *e)
{
    return transact(conf, remove_tables, e);
}
