#include "sandbox/netns.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/netns_internal.h"

enum {
    LOOPBACK_INDEX = 1,
    SLOT_FIRST = 2, /* after the addresses of the network and of the bridge */
    BRIDGE_NAME_MAX = 9,
    PORT_LOCKED = 39, /* IFLA_BRPORT_LOCKED; headers before Linux 5.18 lack it */
};

const struct netns_conf netns_conf_default = {
    .bridge = "osb0",
    .v4_net = {__builtin_bswap32(0x0ae70000)}, /* 10.231.0.0 */
    .v4_bits = 16,
    .flows_max = 4096,
    .v6 = true,
};
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the constant above is in network order");

const uint8_t netns_mac_prefix[4] = {0x02, 0x4f, 0x53, 0x62}; /* locally administered */

static struct netns_addr addr_at(const struct netns_conf *conf, uint32_t host)
{
    const uint8_t v6_prefix[4] = {0xfd, 0x4f, 0x73, 0x62};
    struct netns_addr a = {.v4.s_addr = htonl(ntohl(conf->v4_net.s_addr) + host)};
    const uint8_t *low = (const uint8_t *)&a.v4 + 2;

    memcpy(a.mac, netns_mac_prefix, sizeof(netns_mac_prefix));
    memcpy(a.mac + sizeof(netns_mac_prefix), low, 2);
    memcpy(a.v6.s6_addr, v6_prefix, sizeof(v6_prefix));
    memcpy(a.v6.s6_addr + 4, &conf->v4_net, sizeof(conf->v4_net));
    memcpy(a.v6.s6_addr + 14, low, 2);
    return a;
}

struct netns_addr netns_addr_of(const struct netns_conf *conf, uint32_t slot)
{
    return addr_at(conf, slot + SLOT_FIRST);
}

struct netns_addr netns_gateway(const struct netns_conf *conf)
{
    return addr_at(conf, 1);
}

struct in_addr netns_slot_v4(const struct netns_conf *conf, uint32_t slot)
{
    return netns_addr_of(conf, slot).v4;
}

struct in6_addr netns_slot_v6(const struct netns_conf *conf, uint32_t slot)
{
    return netns_addr_of(conf, slot).v6;
}

void netns_gateways(const struct netns_conf *conf, struct in_addr *ret_v4, struct in6_addr *ret_v6)
{
    const struct netns_addr gateway = netns_gateway(conf);

    *ret_v4 = gateway.v4;
    *ret_v6 = gateway.v6;
}

void netns_port_name(const struct netns_conf *conf, uint32_t slot, char ret[IFNAMSIZ])
{
    (void)snprintf(ret, IFNAMSIZ, "%.*s-%u", BRIDGE_NAME_MAX, conf->bridge, slot & 0xffff);
}

static uint32_t slot_count(const struct netns_conf *conf)
{
    return (UINT32_C(1) << (32 - conf->v4_bits)) - SLOT_FIRST - 1; /* the last is broadcast */
}

int netns_conf_check(const struct netns_conf *conf, struct err *e)
{
    size_t n = strnlen(conf->bridge, sizeof(conf->bridge));
    uint32_t host_mask;

    if (n == 0 || n > BRIDGE_NAME_MAX)
        return err_set(e, EINVAL, "the bridge's name has 1 to %d characters", BRIDGE_NAME_MAX);
    for (size_t i = 0; i < n; i++)
        if (!ascii_is_digit(conf->bridge[i]) && !(conf->bridge[i] >= 'a' && conf->bridge[i] <= 'z'))
            return err_set(e, EINVAL, "bridge '%s': only a-z and 0-9 may name it", conf->bridge);
    if (conf->v4_bits < 16 || conf->v4_bits > 29)
        return err_set(e, EINVAL, "the sandboxes' network has 16 to 29 bits, not %u",
                       conf->v4_bits);
    host_mask = (UINT32_C(1) << (32 - conf->v4_bits)) - 1;
    if (ntohl(conf->v4_net.s_addr) & host_mask)
        return err_set(e, EINVAL, "the sandboxes' network has bits set behind its first %u",
                       conf->v4_bits);
    if (conf->flows_max == 0)
        return err_set(e, EINVAL, "a sandbox has one connection at least");
    return 0;
}

static int slot_check(const struct netns_conf *conf, uint32_t slot, struct err *e)
{
    int r = netns_conf_check(conf, e);

    if (r < 0)
        return r;
    if (slot >= slot_count(conf))
        return err_set(e, ERANGE, "slot %u has no address: the network holds %u", slot,
                       slot_count(conf));
    return 0;
}

bool netns_has_v6(void)
{
    return access("/proc/sys/net/ipv6", F_OK) == 0;
}

int netns_sysctl_write(int dirfd, const char *path, const char *value, struct err *e)
{
    auto_fd fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    if (write(fd, value, strlen(value)) < 0) /* the kernel takes all of it or nothing */
        return err_sys(e, errno, "write '%s' to %s", value, path);
    return 0;
}

struct setting {
    const char *path, *value;
};

/* Addresses and routes are fixed: neither router advertisements nor redirects may change them. */
static const struct setting inside_v4[] = {
    {"ip_unprivileged_port_start", "0"}, /* root inside has no capability in this namespace */
    {"conf/all/rp_filter",         "0"}, /* it would inherit the host's */
    {"conf/default/rp_filter",     "0"},
    {"conf/all/accept_redirects",  "0"},
};
static const struct setting inside_v6[] = {
    {"conf/default/accept_ra",        "0"}, /* so no address is derived from one */
    {"conf/default/accept_redirects", "0"},
    {"conf/default/addr_gen_mode",    "1"}, /* no link-local address */
};
static const struct setting inside_no_v6[] = {
    {"conf/all/disable_ipv6", "1"}, /* of later interfaces, too */
};

static int write_all(int dirfd, const struct setting *rows, size_t count, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < count && r >= 0; i++)
        r = netns_sysctl_write(dirfd, rows[i].path, rows[i].value, e);
    return r;
}

static int configure_v4(struct err *e)
{
    auto_fd dir = open("/proc/sys/net/ipv4", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (dir < 0)
        return err_sys(e, errno, "open /proc/sys/net/ipv4");
    r = write_all(dir, inside_v4, ARRAY_LEN(inside_v4), e);
    if (r < 0)
        return r;
    r = netns_sysctl_write(dir, "ping_group_range", "0 4294967294", e);
    if (r == -EINVAL) /* older kernels allow half the range */
        r = netns_sysctl_write(dir, "ping_group_range", "0 2147483647", e);
    return r;
}

/* For the calling thread's namespace. Opens each directory once: the kernel keeps those of all
 * namespaces in one list, which is long with a thousand of them. */
static int configure_inside(const struct netns_conf *conf, struct err *e)
{
    auto_fd dir = open("/proc/sys/net/ipv6", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (dir >= 0) {
        int r = conf->v6 ? write_all(dir, inside_v6, ARRAY_LEN(inside_v6), e)
                         : write_all(dir, inside_no_v6, ARRAY_LEN(inside_no_v6), e);

        if (r < 0)
            return r;
    }
    return configure_v4(e);
}

static int loopback_up(struct netlink *nl, struct err *e)
{
    const struct ifinfomsg lo = {
        .ifi_index = LOOPBACK_INDEX, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    NETLINK_BATCH(b, 256);

    netlink_begin(&b, "set loopback up", RTM_NEWLINK, NLM_F_ACK, &lo, sizeof(lo));
    return netlink_send(nl, &b, e);
}

static int open_own_netns(struct err *e)
{
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

    return fd < 0 ? err_sys(e, errno, "open own network namespace") : fd;
}

/* In the new namespace: opens its descriptor, writes its settings, and opens a netlink socket. */
static int furnish(const struct netns_conf *conf, struct netlink *ret_inside, struct err *e)
{
    auto_netlink nl = NETLINK_NONE;
    auto_fd fd = open_own_netns(e);
    int r;

    if (fd < 0)
        return fd;
    r = configure_inside(conf, e);
    if (r < 0)
        return r;
    r = netlink_open(NETLINK_ROUTE, &nl, e);
    if (r < 0)
        return r;
    r = loopback_up(&nl, e);
    if (r < 0)
        return r;
    *ret_inside = nl;
    nl = NETLINK_NONE;
    return take_fd(&fd);
}

/* Enters a new namespace and returns to the old one. */
static int make_empty(const struct netns_conf *conf, struct netlink *ret_inside, struct err *e)
{
    auto_fd home = open_own_netns(e);
    int fd;

    if (home < 0)
        return home;
    if (unshare(CLONE_NEWNET) < 0)
        return err_sys(e, errno, "make network namespace");
    fd = furnish(conf, ret_inside, e);
    if (setns(home, CLONE_NEWNET) < 0)
        abort(); /* anything further would affect the wrong namespace */
    return fd;
}

/* Makes both ends with one message: ours on the bridge, eth0 inside. */
static void add_veth(struct netlink_batch *b, const char *port, unsigned bridge, int netns,
                     const struct netns_addr *addr)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};

    netlink_begin(b, "make veth pair", RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &any,
                  sizeof(any));
    netlink_add_str(b, IFLA_IFNAME, port);
    netlink_add_u32(b, IFLA_MASTER, bridge);
    netlink_nest(b, IFLA_LINKINFO);
    netlink_add_str(b, IFLA_INFO_KIND, "veth");
    netlink_nest(b, IFLA_INFO_DATA);
    netlink_nest(b, VETH_INFO_PEER);
    netlink_add_raw(b, &any, sizeof(any));
    netlink_add_str(b, IFLA_IFNAME, "eth0");
    netlink_add_u32(b, IFLA_NET_NS_FD, (uint32_t)netns);
    netlink_add(b, IFLA_ADDRESS, addr->mac, sizeof(addr->mac));
    netlink_nest_end(b);
    netlink_nest_end(b);
    netlink_nest_end(b);
}

/* Options of our bridge ports: a port reaches only the bridge, is not flooded, and accepts frames
 * only from the MAC we enter for it (Linux 5.18). A locked port learns nothing.
 * IFLA_BRPORT_LEARNING stays on all the same: without it and flooding, the bridge would add every
 * MAC to every port's own filter, a million entries for a thousand sandboxes. */
static const struct {
    uint16_t attr;
    uint8_t value;
} port_settings[] = {
    {IFLA_BRPORT_ISOLATED,      1},
    {IFLA_BRPORT_UNICAST_FLOOD, 0},
    {IFLA_BRPORT_MCAST_FLOOD,   0},
    {IFLA_BRPORT_BCAST_FLOOD,   0},
    {IFLA_BRPORT_GUARD,         1}, /* no spanning tree from inside */
    {PORT_LOCKED,               1},
};

static void set_port(struct netlink_batch *b, const char *port, bool has_v6)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    /* Frames to 01:80:c2:00:00:0e reach the port itself and bypass the bridge's rules: a rule of
     * the inet table drops IP among these, this flag drops ARP. */
    const struct ifinfomsg up = {
        .ifi_family = AF_UNSPEC, .ifi_flags = IFF_UP | IFF_NOARP, .ifi_change = IFF_UP | IFF_NOARP};

    netlink_begin(b, "set bridge port", RTM_NEWLINK, NLM_F_ACK, &any, sizeof(any));
    netlink_add_str(b, IFLA_IFNAME, port);
    netlink_nest(b, IFLA_LINKINFO);
    netlink_add_str(b, IFLA_INFO_SLAVE_KIND, "bridge");
    netlink_nest(b, IFLA_INFO_SLAVE_DATA);
    for (size_t i = 0; i < ARRAY_LEN(port_settings); i++)
        netlink_add_u8(b, port_settings[i].attr, port_settings[i].value);
    netlink_nest_end(b);
    netlink_nest_end(b);
    if (has_v6) { /* the port itself has no IPv6 */
        netlink_nest(b, IFLA_AF_SPEC);
        netlink_nest(b, AF_INET6);
        netlink_add_u8(b, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
        netlink_nest_end(b);
        netlink_nest_end(b);
    }
    netlink_begin(b, "set bridge port up", RTM_NEWLINK, NLM_F_ACK, &up, sizeof(up));
    netlink_add_str(b, IFLA_IFNAME, port);
}

static int note_link(void *user, const struct nlmsghdr *m)
{
    struct netns_link *l = user;
    struct str mac = netlink_attr(m, sizeof(struct ifinfomsg), IFLA_ADDRESS);
    struct ifinfomsg header;

    if (m->nlmsg_type != RTM_NEWLINK || m->nlmsg_len < NLMSG_LENGTH(sizeof(header)))
        return 0;
    memcpy(&header, NLMSG_DATA(m), sizeof(header));
    l->index = (unsigned)header.ifi_index;
    if (mac.n == sizeof(l->mac))
        memcpy(l->mac, mac.p, sizeof(l->mac));
    return 0;
}

int netns_link_find(struct netlink *nl, const char *name, struct netns_link *ret, struct err *e)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    struct netns_link link = {0};
    NETLINK_BATCH(b, 128);
    int r;

    netlink_begin(&b, name, RTM_GETLINK, NLM_F_ACK, &any, sizeof(any));
    netlink_add_str(&b, IFLA_IFNAME, name);
    netlink_add_u32(&b, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    r = netlink_query(nl, &b, note_link, &link, e);
    if (r >= 0)
        *ret = link;
    return r;
}

static void add_neighbour(struct netlink_batch *b, unsigned index, uint8_t family, const void *ip,
                          const uint8_t mac[NETNS_MAC_BYTES])
{
    const struct ndmsg entry = {
        .ndm_family = family, .ndm_ifindex = (int)index, .ndm_state = NUD_PERMANENT};

    netlink_begin(b, "add neighbour", RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK,
                  &entry, sizeof(entry));
    netlink_add(b, NDA_DST, ip, family == AF_INET ? 4 : 16);
    netlink_add(b, NDA_LLADDR, mac, NETNS_MAC_BYTES);
}

void netns_add_neighbours(struct netlink_batch *b, unsigned index, const struct netns_addr *addr,
                          bool v6)
{
    add_neighbour(b, index, AF_INET, &addr->v4, addr->mac);
    if (v6)
        add_neighbour(b, index, AF_INET6, &addr->v6, addr->mac);
}

/* Binds the sandbox's MAC to this port, which may send from no other. */
static void add_forwarding_entry(struct netlink_batch *b, unsigned port,
                                 const struct netns_addr *addr)
{
    const struct ndmsg entry = {.ndm_family = AF_BRIDGE,
                                .ndm_ifindex = (int)port,
                                .ndm_state = NUD_NOARP,
                                .ndm_flags = NTF_MASTER};

    netlink_begin(b, "add MAC to bridge", RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK,
                  &entry, sizeof(entry));
    netlink_add(b, NDA_LLADDR, addr->mac, sizeof(addr->mac));
}

static void add_address(struct netlink_batch *b, unsigned index, uint8_t family, const void *ip)
{
    const struct ifaddrmsg address = {.ifa_family = family,
                                      .ifa_prefixlen = family == AF_INET ? 32 : 128,
                                      .ifa_flags = family == AF_INET ? 0 : IFA_F_NODAD,
                                      .ifa_index = index};

    netlink_begin(b, "add address", RTM_NEWADDR, NLM_F_CREATE | NLM_F_ACK, &address,
                  sizeof(address));
    netlink_add(b, IFA_LOCAL, ip, family == AF_INET ? 4 : 16);
    netlink_add(b, IFA_ADDRESS, ip, family == AF_INET ? 4 : 16);
}

/* The gateway is the only neighbour, so there is no route to an on-link network. */
static void add_default_route(struct netlink_batch *b, unsigned index, uint8_t family,
                              const void *gateway)
{
    const struct rtmsg route = {.rtm_family = family,
                                .rtm_table = RT_TABLE_MAIN,
                                .rtm_protocol = RTPROT_STATIC,
                                .rtm_scope = RT_SCOPE_UNIVERSE,
                                .rtm_type = RTN_UNICAST,
                                .rtm_flags = RTNH_F_ONLINK};

    netlink_begin(b, "add default route", RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK, &route,
                  sizeof(route));
    netlink_add(b, RTA_GATEWAY, gateway, family == AF_INET ? 4 : 16);
    netlink_add_u32(b, RTA_OIF, index);
}

static int attach_inside(const struct netns_conf *conf, struct netlink *inside,
                         const struct netns_addr *addr, bool has_v6, struct err *e)
{
    const struct netns_addr gateway = netns_gateway(conf);
    struct ifinfomsg up = {.ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    NETLINK_BATCH(b, 1024);
    struct netns_link eth0;
    int r = netns_link_find(inside, "eth0", &eth0, e);

    if (r < 0)
        return r;
    up.ifi_index = (int)eth0.index;
    netlink_begin(&b, "set eth0 up", RTM_NEWLINK, NLM_F_ACK, &up, sizeof(up));
    add_address(&b, eth0.index, AF_INET, &addr->v4);
    netns_add_neighbours(&b, eth0.index, &gateway, has_v6);
    add_default_route(&b, eth0.index, AF_INET, &gateway.v4);
    if (has_v6) {
        add_address(&b, eth0.index, AF_INET6, &addr->v6);
        add_default_route(&b, eth0.index, AF_INET6, &gateway.v6);
    }
    return netlink_send(inside, &b, e);
}

/* The kernel removes an unused namespace with delay: a veth of the slot's last one may still exist,
 * and is removed now. */
static int make_veth(const struct netns_conf *conf, uint32_t slot, struct netlink *host,
                     unsigned bridge, int netns, struct err *e)
{
    const struct netns_addr addr = netns_addr_of(conf, slot);
    char port[IFNAMSIZ];
    NETLINK_BATCH(b, 512);
    int r;

    netns_port_name(conf, slot, port);
    add_veth(&b, port, bridge, netns, &addr);
    r = netlink_send(host, &b, e);
    if (r != -EEXIST)
        return r;
    r = netns_release(conf, slot, e);
    if (r < 0)
        return r;
    add_veth(&b, port, bridge, netns, &addr);
    return netlink_send(host, &b, e);
}

static int attach(const struct netns_conf *conf, uint32_t slot, int netns, struct netlink *inside,
                  struct err *e)
{
    const struct netns_addr addr = netns_addr_of(conf, slot);
    bool host_v6 = netns_has_v6(), has_v6 = conf->v6 && host_v6;
    auto_netlink host = NETLINK_NONE;
    struct netns_link bridge, link;
    char port[IFNAMSIZ];
    NETLINK_BATCH(b, 1024);
    int r = netlink_open(NETLINK_ROUTE, &host, e);

    if (r < 0)
        return r;
    r = netns_link_find(&host, conf->bridge, &bridge, e);
    if (r < 0)
        return err_wrap(e, r, "bridge (is the host set up?)");
    netns_port_name(conf, slot, port);
    r = make_veth(conf, slot, &host, bridge.index, netns, e);
    if (r < 0)
        return r;
    r = netns_link_find(&host, port, &link, e);
    if (r < 0)
        return r;
    set_port(&b, port, host_v6);
    add_forwarding_entry(&b, link.index, &addr);
    netns_add_neighbours(&b, bridge.index, &addr, has_v6);
    r = netlink_send(&host, &b, e);
    return r < 0 ? r : attach_inside(conf, inside, &addr, has_v6, e);
}

int netns_make(const struct netns_conf *conf, enum plan_net net, uint32_t slot, struct err *e)
{
    auto_netlink inside = NETLINK_NONE;
    auto_fd fd = -EBADF;
    int r = slot_check(conf, slot, e);

    if (r < 0)
        return r;
    fd = make_empty(conf, &inside, e);
    if (fd < 0)
        return err_wrap(e, fd, "network of slot %u", slot);
    if (net == PLAN_NET_BRIDGE) {
        r = attach(conf, slot, fd, &inside, e); /* a failure removes the pair with the namespace */
        if (r < 0)
            return err_wrap(e, r, "network of slot %u", slot);
    }
    return take_fd(&fd);
}
