/* The host's side: one bridge, its rules, and forwarding where needed. */
#include "sandbox/netns_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "sandbox/netns_policy.h"

enum {
    UPLINKS_MAX = 8,
    SYSCTL_BYTES_MAX = 64,
};

/* Interfaces of default routes. */
struct uplinks {
    char names[UPLINKS_MAX][IFNAMSIZ];
    size_t count;
};

/* Makes or repairs the bridge. Sets its MAC only when it differs: the kernel drops all neighbours
 * then, even for the same value. */
static int make_bridge(const struct netns_conf *conf, struct netlink *nl, struct err *e)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    const struct netns_addr gateway = netns_gateway(conf);
    struct netns_link old = {0};
    NETLINK_BATCH(b, 512);
    int r = netns_link_find(nl, conf->bridge, &old, e);

    if (r < 0 && r != -ENODEV)
        return r;
    netlink_begin(&b, "make bridge", RTM_NEWLINK, NLM_F_CREATE | NLM_F_ACK, &any, sizeof(any));
    netlink_add_str(&b, IFLA_IFNAME, conf->bridge);
    if (memcmp(old.mac, gateway.mac, sizeof(old.mac)) != 0)
        netlink_add(&b, IFLA_ADDRESS, gateway.mac, sizeof(gateway.mac));
    netlink_nest(&b, IFLA_LINKINFO);
    netlink_add_str(&b, IFLA_INFO_KIND, "bridge");
    netlink_nest(&b, IFLA_INFO_DATA);
    netlink_add_u32(&b, IFLA_BR_FORWARD_DELAY, 0); /* ports forward at once */
    netlink_add_u32(&b, IFLA_BR_STP_STATE, 0);
    netlink_add_u8(&b, IFLA_BR_MCAST_SNOOPING, 0); /* multicast is not used */
    netlink_nest_end(&b);
    netlink_nest_end(&b);
    return netlink_send(nl, &b, e);
}

static void add_bridge_address(struct netlink_batch *b, unsigned index, uint8_t family,
                               uint8_t bits, const void *ip)
{
    const struct ifaddrmsg address = {.ifa_family = family,
                                      .ifa_prefixlen = bits,
                                      .ifa_flags = family == AF_INET ? 0 : IFA_F_NODAD,
                                      .ifa_index = index};

    netlink_begin(b, "add bridge address", RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK,
                  &address, sizeof(address));
    netlink_add(b, IFA_LOCAL, ip, family == AF_INET ? 4 : 16);
    netlink_add(b, IFA_ADDRESS, ip, family == AF_INET ? 4 : 16);
}

static int bridge_up(const struct netns_conf *conf, struct netlink *nl, unsigned index, bool v6,
                     struct err *e)
{
    const struct netns_addr gateway = netns_gateway(conf);
    const struct ifinfomsg up = {
        .ifi_index = (int)index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    NETLINK_BATCH(b, 512);

    add_bridge_address(&b, index, AF_INET, conf->v4_bits, &gateway.v4);
    if (v6)
        add_bridge_address(&b, index, AF_INET6, NETNS_V6_BITS, &gateway.v6);
    netlink_begin(&b, "set bridge up", RTM_NEWLINK, NLM_F_ACK, &up, sizeof(up));
    return netlink_send(nl, &b, e);
}

/* Settings of the bridge; "%s" is its name. */
struct setting {
    const char *path, *value;
};
static const struct setting bridge_v4[] = {
    {"/proc/sys/net/ipv4/conf/%s/forwarding",       "1"},
    {"/proc/sys/net/ipv4/conf/%s/rp_filter",        "1"}, /* only from the sandboxes' network */
    {"/proc/sys/net/ipv4/conf/%s/route_localnet",   "0"},
    {"/proc/sys/net/ipv4/conf/%s/accept_redirects", "0"},
    {"/proc/sys/net/ipv4/conf/%s/send_redirects",   "0"},
    {"/proc/sys/net/ipv4/conf/%s/proxy_arp",        "0"},
    {"/proc/sys/net/ipv4/conf/%s/arp_ignore",       "8"}, /* never answer: neighbours are fixed */
};
static const struct setting bridge_v6[] = {
    {"/proc/sys/net/ipv6/conf/%s/disable_ipv6",     "0"},
    {"/proc/sys/net/ipv6/conf/%s/addr_gen_mode",    "1"}, /* no link-local address */
    {"/proc/sys/net/ipv6/conf/%s/accept_ra",        "0"},
    {"/proc/sys/net/ipv6/conf/%s/autoconf",         "0"},
    {"/proc/sys/net/ipv6/conf/%s/accept_redirects", "0"},
    {"/proc/sys/net/ipv6/conf/%s/accept_dad",       "0"},
};
static const struct setting bridge_no_v6[] = {
    {"/proc/sys/net/ipv6/conf/%s/disable_ipv6", "1"},
};

static int sysctl_of(const char *pattern, const char *name, const char *value, struct err *e)
{
    char path[96];
    struct str head = str_make(pattern, str_find_str(str_of(pattern), STR("%s")));

    (void)snprintf(path, sizeof(path), "%.*s%s%s", STR_ARG(head), name, pattern + head.n + 2);
    return netns_sysctl_write(AT_FDCWD, path, value, e);
}

static int sysctls_of(const struct setting *rows, size_t count, const char *name, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < count && r >= 0; i++)
        r = sysctl_of(rows[i].path, name, rows[i].value, e);
    return r;
}

static bool sysctl_is(const char *path, const char *value)
{
    AUTO_BUF(text, SYSCTL_BYTES_MAX);

    return io_read_file(AT_FDCWD, path, SYSCTL_BYTES_MAX, &text, NULL) >= 0 &&
           str_starts(buf_str(&text), str_of(value));
}

static int note_uplink(void *user, const struct nlmsghdr *m)
{
    struct uplinks *u = user;
    struct str oif = netlink_attr(m, sizeof(struct rtmsg), RTA_OIF);
    struct rtmsg route;
    unsigned index;

    if (m->nlmsg_type != RTM_NEWROUTE || m->nlmsg_len < NLMSG_LENGTH(sizeof(route)))
        return 0;
    memcpy(&route, NLMSG_DATA(m), sizeof(route));
    if (route.rtm_dst_len != 0 || route.rtm_type != RTN_UNICAST || oif.n != sizeof(index) ||
        u->count == UPLINKS_MAX)
        return 0;
    memcpy(&index, oif.p, sizeof(index));
    if (if_indextoname(index, u->names[u->count]) && strcmp(u->names[u->count], "lo") != 0)
        u->count++;
    return 0;
}

static int find_uplinks(struct netlink *nl, uint8_t family, struct uplinks *u, struct err *e)
{
    const struct rtmsg all = {.rtm_family = family};
    NETLINK_BATCH(b, 128);

    u->count = 0;
    netlink_begin(&b, "list routes", RTM_GETROUTE, NLM_F_DUMP, &all, sizeof(all));
    return netlink_query(nl, &b, note_uplink, u, e);
}

/* IPv4 is forwarded if the setting is on for the receiving interface: the bridge for packets out,
 * the uplinks for replies. */
static int forward_v4(struct netlink *nl, struct err *e)
{
    struct uplinks u;
    int r;

    if (sysctl_is("/proc/sys/net/ipv4/ip_forward", "1"))
        return 0;
    r = find_uplinks(nl, AF_INET, &u, e);
    for (size_t i = 0; r >= 0 && i < u.count; i++)
        r = sysctl_of("/proc/sys/net/ipv4/conf/%s/forwarding", u.names[i], "1", e);
    return r;
}

/* Older kernels forward IPv6 on all interfaces or none, and then ignore router advertisements
 * unless accept_ra is 2: without it the host would lose its own default route. */
static int forward_v6_all(const struct uplinks *u, struct err *e)
{
    for (size_t i = 0; i < u->count; i++) {
        char path[96];
        int r;

        (void)snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/accept_ra", u->names[i]);
        r = sysctl_is(path, "1") ? netns_sysctl_write(AT_FDCWD, path, "2", e) : 0;
        if (r < 0)
            return r;
    }
    return netns_sysctl_write(AT_FDCWD, "/proc/sys/net/ipv6/conf/all/forwarding", "1", e);
}

static int forward_v6(const struct netns_conf *conf, struct netlink *nl, struct err *e)
{
    struct uplinks u;
    int r;

    if (sysctl_is("/proc/sys/net/ipv6/conf/all/forwarding", "1"))
        return 0;
    r = find_uplinks(nl, AF_INET6, &u, e);
    if (r < 0 || u.count == 0)
        return r; /* no IPv6 beyond this host */
    r = sysctl_of("/proc/sys/net/ipv6/conf/%s/force_forwarding", conf->bridge, "1", e);
    if (r == -ENOENT)
        return forward_v6_all(&u, e);
    for (size_t i = 0; r >= 0 && i < u.count; i++)
        r = sysctl_of("/proc/sys/net/ipv6/conf/%s/force_forwarding", u.names[i], "1", e);
    return r;
}

static int configure_bridge(const struct netns_conf *conf, struct err *e)
{
    int r = sysctls_of(bridge_v4, ARRAY_LEN(bridge_v4), conf->bridge, e);

    if (r < 0 || !netns_has_v6())
        return r;
    if (conf->v6)
        return sysctls_of(bridge_v6, ARRAY_LEN(bridge_v6), conf->bridge, e);
    return sysctls_of(bridge_no_v6, ARRAY_LEN(bridge_no_v6), conf->bridge, e);
}

struct neighbour_walk {
    const struct netns_conf *conf;
    struct netlink nl;
    unsigned bridge;
    bool v6;
    int result;
    struct err *e;
};

static void restore_neighbours(void *user, uint32_t slot)
{
    struct neighbour_walk *w = user;
    const struct netns_addr addr = netns_addr_of(w->conf, slot);
    NETLINK_BATCH(b, 256);

    if (w->result < 0)
        return;
    netns_add_neighbours(&b, w->bridge, &addr, w->v6);
    w->result = netlink_send(&w->nl, &b, w->e);
}

/* Loads the rules before the bridge is up, so that no packet passes without them. A bridge that was
 * down has lost the neighbour entries of running sandboxes: adds them again. */
static int setup(const struct netns_conf *conf, struct netlink *nl, struct err *e)
{
    struct neighbour_walk walk = {
        .conf = conf, .nl = *nl, .v6 = conf->v6 && netns_has_v6(), .e = e};
    struct netns_link bridge;
    int r = netns_rules_apply(conf, e);

    if (r < 0)
        return r;
    (void)netns_policy_setup(conf, NULL); /* a policy that needs it makes it, or says what fails */
    r = make_bridge(conf, nl, e);
    if (r < 0)
        return r;
    r = netns_link_find(nl, conf->bridge, &bridge, e);
    if (r < 0)
        return r;
    r = configure_bridge(conf, e);
    if (r < 0)
        return r;
    r = bridge_up(conf, nl, bridge.index, walk.v6, e);
    if (r < 0)
        return r;
    walk.bridge = bridge.index;
    r = netns_each_slot(conf, restore_neighbours, &walk, e);
    if (r < 0 || walk.result < 0)
        return r < 0 ? r : walk.result;
    r = forward_v4(nl, e);
    return r < 0 || !walk.v6 ? r : forward_v6(conf, nl, e);
}

int netns_host_setup(const struct netns_conf *conf, struct err *e)
{
    auto_netlink nl = NETLINK_NONE;
    int r = netns_conf_check(conf, e);

    if (r < 0)
        return r;
    r = netlink_open(NETLINK_ROUTE, &nl, e);
    if (r < 0)
        return r;
    r = setup(conf, &nl, e);
    return r < 0 ? err_wrap(e, r, "set up bridge '%s'", conf->bridge) : 0;
}

static int remove_link(const char *name, struct err *e)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    auto_netlink nl = NETLINK_NONE;
    NETLINK_BATCH(b, 256);
    int r = netlink_open(NETLINK_ROUTE, &nl, e);

    if (r < 0)
        return r;
    if (if_nametoindex(name) == 0)
        return 0;
    netlink_begin(&b, "remove interface", RTM_DELLINK, NLM_F_ACK, &any, sizeof(any));
    netlink_add_str(&b, IFLA_IFNAME, name);
    r = netlink_send(&nl, &b, e);
    return r == -ENODEV ? 0 : r;
}

int netns_host_remove(const struct netns_conf *conf, struct err *e)
{
    int r = netns_conf_check(conf, e);

    if (r < 0)
        return r;
    r = remove_link(conf->bridge, e); /* first: ports without a bridge forward nothing */
    if (r < 0)
        return err_wrap(e, r, "remove bridge '%s'", conf->bridge);
    r = netns_policy_teardown(conf, e);
    return r < 0 ? r : netns_rules_remove(conf, e);
}

int netns_release(const struct netns_conf *conf, uint32_t slot, struct err *e)
{
    char port[IFNAMSIZ];
    int r = netns_conf_check(conf, e);

    if (r < 0)
        return r;
    netns_port_name(conf, slot, port);
    r = remove_link(port, e);
    return r < 0 ? err_wrap(e, r, "release network of slot %u", slot) : 0;
}

struct slot_walk {
    const struct netns_conf *conf;
    void (*visit)(void *user, uint32_t slot);
    void *user;
};

static int visit_link(void *user, const struct nlmsghdr *m)
{
    struct slot_walk *w = user;
    struct str name = netlink_attr(m, sizeof(struct ifinfomsg), IFLA_IFNAME);
    struct str bridge = str_of(w->conf->bridge);
    uint16_t slot;

    if (name.n < bridge.n + 3 || !str_starts(name, bridge) || name.p[bridge.n] != '-')
        return 0;
    name = str_skip(name, bridge.n + 1);
    if (str_to_u16(str_make(name.p, name.n - 1), &slot) >= 0) /* without its NUL */
        w->visit(w->user, slot);
    return 0;
}

int netns_each_slot(const struct netns_conf *conf, void (*visit)(void *user, uint32_t slot),
                    void *user, struct err *e)
{
    const struct ifinfomsg all = {.ifi_family = AF_UNSPEC};
    struct slot_walk walk = {conf, visit, user};
    auto_netlink nl = NETLINK_NONE;
    NETLINK_BATCH(b, 128);
    int r = netns_conf_check(conf, e);

    if (r < 0)
        return r;
    r = netlink_open(NETLINK_ROUTE, &nl, e);
    if (r < 0)
        return r;
    netlink_begin(&b, "list interfaces", RTM_GETLINK, NLM_F_DUMP, &all, sizeof(all));
    netlink_add_u32(&b, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    return netlink_query(&nl, &b, visit_link, &walk, e);
}
