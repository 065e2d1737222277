/* In the world of netns_world.h. */
#include "sandbox/netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/ethernet.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "netns_world.h"
#include "sandbox/netns_internal.h"
#include "sandbox/nft.h"
#include "test.h"

static void accept_peer(int listener, char *ret_text, size_t size)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof(sa);
    int fd = accept(listener, (struct sockaddr *)&sa, &n);

    CHECK(fd >= 0);
    if (sa.ss_family == AF_INET)
        CHECK(inet_ntop(AF_INET, &((struct sockaddr_in *)&sa)->sin_addr, ret_text, size));
    else
        CHECK(inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&sa)->sin6_addr, ret_text, size));
    close(fd);
}

static void check_file(const char *path, const char *want)
{
    AUTO_BUF(b, 256);

    CHECK_EQ(io_read_file(AT_FDCWD, path, 256, &b, NULL), 0);
    while (b.n > 0 && b.p[b.n - 1] == '\n')
        buf_cut(&b, b.n - 1);
    CHECK_STR(b.p, want);
}

static size_t interface_count(void)
{
    struct if_nameindex *all = if_nameindex();
    size_t n = 0;

    CHECK(all);
    while (all[n].if_index)
        n++;
    if_freenameindex(all);
    return n;
}

TEST(netns, gives_slots_addresses_in_order)
{
    struct netns_conf c = *conf;

    CHECK_EQ(ntohl(netns_slot_v4(&c, 0).s_addr), 0x0ae70002);
    CHECK_EQ(ntohl(netns_slot_v4(&c, 300).s_addr), 0x0ae70000 + 302);
    c.v4_net.s_addr = htonl(0x0a010100);
    c.v4_bits = 24;
    CHECK_EQ(ntohl(netns_slot_v4(&c, 1).s_addr), 0x0a010103);
}

TEST(netns, refuses_what_it_could_not_name_or_number)
{
    struct netns_conf c = *conf;
    struct err e = {0};

    CHECK_EQ(netns_make(&c, PLAN_NET_BRIDGE, 65533, &e), -ERANGE);
    c.v4_bits = 12;
    CHECK_EQ(netns_host_setup(&c, &e), -EINVAL);
    c.v4_bits = 16;
    c.v4_net.s_addr = htonl(0x0ae70001);
    CHECK_EQ(netns_host_setup(&c, &e), -EINVAL);
    c = *conf;
    memcpy(c.bridge, "osb-0", 6);
    CHECK_EQ(netns_host_setup(&c, &e), -EINVAL);
    memcpy(c.bridge, "osb0123456", 11);
    CHECK_EQ(netns_host_setup(&c, &e), -EINVAL);
    c.bridge[0] = '\0';
    CHECK_EQ(netns_host_remove(&c, &e), -EINVAL);
}

TEST(netns, with_no_network_has_a_loopback_and_nothing_else)
{
    struct world w;
    struct err e = {0};
    int before, fd;

    world_without_rules(&w);
    before = (int)interface_count();
    fd = netns_make(conf, PLAN_NET_NONE, 3, &e);
    CHECK(fd >= 0);
    CHECK_EQ(interface_count(), before); /* and we are back where we were */
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    enter(fd);
    for (unsigned i = 2; i <= interface_count(); i++) { /* tunnels a kernel adds stay down */
        char name[IFNAMSIZ];

        CHECK(!if_indextoname(i, name) || strcmp(name, "eth0") != 0);
    }
    check_file("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    check_file("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
    CHECK_EQ(ping_from(fd, fd, "127.0.0.1", ANSWER_MS), 0);
    CHECK_EQ(ping_from(fd, fd, "::1", ANSWER_MS), 0);
    CHECK_EQ(connect_from(fd, fd, "127.0.0.1", ANSWER_MS), -ECONNREFUSED);
    CHECK_EQ(connect_from(fd, fd, "203.0.113.9", ANSWER_MS), -ENETUNREACH);
}

TEST(netns, reaches_out_behind_the_host_s_address)
{
    struct world w;
    char peer[64];
    int fd;

    world_make(&w);
    fd = sandbox_make(0);
    CHECK_EQ(connect_from(w.host, fd, "203.0.113.9", ANSWER_MS), 0);
    accept_peer(w.internet_v4, peer, sizeof(peer));
    CHECK_STR(peer, "198.51.100.1");
    CHECK_EQ(connect_from(w.host, fd, "2001:db8:3::9", ANSWER_MS), 0);
    accept_peer(w.internet_v6, peer, sizeof(peer));
    CHECK_STR(peer, "2001:db8:1::1");
    CHECK_EQ(ping_from(w.host, fd, "203.0.113.9", ANSWER_MS), 0);
    CHECK_EQ(ping_from(w.host, fd, "2001:db8:3::9", ANSWER_MS), 0);
    check_file("/proc/sys/net/ipv4/ip_forward", "0"); /* only where it was needed */
    check_file("/proc/sys/net/ipv4/conf/lo/forwarding", "0");
}

TEST(netns, keeps_sandboxes_from_each_other)
{
    struct world w;
    int one, two;

    world_make(&w);
    one = sandbox_make(0);
    two = sandbox_make(1);
    listen_in(w.host, two, AF_INET);
    listen_in(w.host, two, AF_INET6);
    CHECK_EQ(connect_from(w.host, w.host, "10.231.0.3", ANSWER_MS), 0); /* it listens */
    CHECK_EQ(connect_from(w.host, w.host, "fd4f:7362:ae7::3", ANSWER_MS), 0);
    CHECK_EQ(connect_from(w.host, one, "10.231.0.3", SILENCE_MS), -ETIMEDOUT);
    CHECK_EQ(connect_from(w.host, one, "fd4f:7362:ae7::3", SILENCE_MS), -ETIMEDOUT);
    CHECK_EQ(ping_from(w.host, w.host, "10.231.0.3", ANSWER_MS), 0);
    CHECK_EQ(ping_from(w.host, one, "10.231.0.3", SILENCE_MS), -ETIMEDOUT);
    CHECK_EQ(ping_from(w.host, one, "fd4f:7362:ae7::3", SILENCE_MS), -ETIMEDOUT);
}

/* A port of the bridge takes a moment to open, and until the neighbour is known packets wait: what
 * is sent before is lost, or counted later than we look. */
static void wait_until_answers(int host, const char *address)
{
    uint64_t deadline = deadline_in_ms(ANSWER_MS);

    while (ping_from(host, host, address, SILENCE_MS) < 0)
        CHECK(!deadline_passed(deadline));
}

/* What is sent from one CPU arrives in the order it was sent. */
static void stay_on_this_cpu(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    CHECK_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* Sends a packet from a port of its own: one more connection to be tracked. */
static int flow_from(int home, int netns, const char *to)
{
    struct sockaddr_storage sa;
    socklen_t n = address(to, &sa);
    int fd;

    enter(netns);
    fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(sendto(fd, "x", 1, 0, (struct sockaddr *)&sa, n), 1);
    enter(home);
    return fd;
}

TEST(netns, counts_the_connections_of_each_sandbox)
{
    enum { FLOWS_MAX = 20 };
    struct netns_conf c = *conf;
    struct world w;
    int one, other, kept[FLOWS_MAX];

    world_without_rules(&w);
    c.flows_max = 0;
    CHECK_EQ(netns_host_setup(&c, NULL), -EINVAL);
    c.flows_max = FLOWS_MAX;
    CHECK_OK(netns_host_setup(&c, &e));
    one = sandbox_make_with(&c, 0);
    other = sandbox_make_with(&c, 1);
    wait_until_answers(w.host, "10.231.0.2");
    wait_until_answers(w.host, "fd4f:7362:ae7::2");
    stay_on_this_cpu();
    for (int i = 0; i < FLOWS_MAX; i++) /* of both IP versions, together */
        kept[i] = flow_from(w.host, one, i % 2 ? "203.0.113.9" : "2001:db8:3::9");
    CHECK_EQ(connect_from(w.host, one, "203.0.113.9", SILENCE_MS), -ETIMEDOUT);
    CHECK_EQ(connect_from(w.host, one, "2001:db8:3::9", SILENCE_MS), -ETIMEDOUT);
    for (int i = 0; i < 2 * FLOWS_MAX; i++) /* what is forbidden anyway does not count */
        close(flow_from(w.host, other, "169.254.169.254"));
    CHECK_EQ(connect_from(w.host, other, "203.0.113.9", ANSWER_MS), 0);
    CHECK_EQ(connect_from(w.host, other, "2001:db8:3::9", ANSWER_MS), 0);
    for (int i = 0; i < FLOWS_MAX; i++)
        close(kept[i]);
}

TEST(netns, keeps_strangers_from_sandboxes)
{
    struct world w;
    int fd;

    world_make(&w);
    fd = sandbox_make(0);
    listen_in(w.host, fd, AF_INET);
    enter(w.internet);
    run("ip route add 10.231.0.0/16 via 198.51.100.1");
    enter(w.host);
    CHECK_EQ(connect_from(w.host, w.internet, "10.231.0.2", SILENCE_MS), -ETIMEDOUT);
    CHECK_OK(netns_rules_remove(conf, &e));
    CHECK_EQ(connect_from(w.host, w.internet, "10.231.0.2", ANSWER_MS), 0);
}

static const char *const host_addresses[] = {
    "10.231.0.1", "198.51.100.1", "192.0.2.1", "fd4f:7362:ae7::1", "2001:db8:1::1", "2001:db8:2::1",
};

TEST(netns, keeps_sandboxes_from_every_address_of_the_host)
{
    struct world w;
    int fd;

    world_make(&w);
    fd = sandbox_make(0);
    listen_in(w.host, w.host, AF_INET);
    listen_in(w.host, w.host, AF_INET6);
    for (size_t i = 0; i < ARRAY_LEN(host_addresses); i++) {
        CHECK_EQ(connect_from(w.host, fd, host_addresses[i], SILENCE_MS), -ETIMEDOUT);
        CHECK_EQ(ping_from(w.host, fd, host_addresses[i], SILENCE_MS), -ETIMEDOUT);
    }
    CHECK_OK(netns_rules_remove(conf, &e)); /* it was the rules, and nothing else */
    for (size_t i = 0; i < ARRAY_LEN(host_addresses); i++)
        CHECK_EQ(connect_from(w.host, fd, host_addresses[i], ANSWER_MS), 0);
}

static const char *const forbidden[] = {
    "169.254.169.254", "100.100.100.200", "168.63.129.16",      "192.0.0.192",
    "fd00:ec2::254",   "fd20:ce::254",    "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
};

/* IPv6 addresses that translators and tunnels take for an IPv4 address. */
struct v6_form {
    const char *before, *after;
};
static const struct v6_form v4_in_v6[] = {
    {"64:ff9b::",             ""   }, /* NAT64 */
    {"64:ff9b:1::",           ""   }, /* NAT64 of a network's own, where the prefix has 96 bits, */
    {"64:ff9b:1:",            "::" }, /* 48, */
    {"64:ff9b:1:2:",          "::" }, /* or about 64 */
    {"2002:",                 "::1"}, /* 6to4 */
    {"2001:0:",               "::1"}, /* Teredo: its server, */
    {"2001::",                ""   }, /* and its client */
    {"::ffff:0:",             ""   }, /* SIIT */
    {"2001:db8:3::5efe:",     ""   }, /* ISATAP */
    {"2001:db8:3::200:5efe:", ""   }, /* the same of a global address */
};

static void spell_in_v6(const struct v6_form *form, const char *v4, char ret[INET6_ADDRSTRLEN])
{
    uint8_t b[4];

    CHECK_EQ(inet_pton(AF_INET, v4, b), 1);
    (void)snprintf(ret, INET6_ADDRSTRLEN, "%s%02x%02x:%02x%02x%s", form->before, b[0], b[1], b[2],
                   b[3], form->after);
}

static void add_to_internet(const struct world *w, const char *v6)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "ip addr replace %s/128 dev lo nodad", v6);
    enter(w->internet);
    run(command);
    enter(w->host);
}

TEST(netns, keeps_sandboxes_from_metadata_services)
{
    struct world w;
    int fd;

    world_make(&w);
    fd = sandbox_make(0);
    for (size_t i = 0; i < ARRAY_LEN(forbidden); i++)
        CHECK_EQ(connect_from(w.host, fd, forbidden[i], SILENCE_MS), -ETIMEDOUT);
    for (size_t i = 0; i < ARRAY_LEN(forbidden); i++) /* while the host gets there */
        CHECK_EQ(connect_from(w.host, w.host, forbidden[i], ANSWER_MS), 0);
}

TEST(netns, keeps_sandboxes_from_ipv6_forms_of_forbidden_ipv4_addresses)
{
    static const char *const v4[] = {"169.254.169.254", "100.100.100.200", "168.63.129.16",
                                     "192.0.0.192",     "10.231.0.9",      "127.0.0.1"};
    char v6[INET6_ADDRSTRLEN];
    struct world w;
    int fd;

    world_make(&w);
    fd = sandbox_make(0);
    for (size_t i = 0; i < ARRAY_LEN(v4) * ARRAY_LEN(v4_in_v6); i++) {
        spell_in_v6(&v4_in_v6[i % ARRAY_LEN(v4_in_v6)], v4[i / ARRAY_LEN(v4_in_v6)], v6);
        add_to_internet(&w, v6);
        if (connect_from(w.host, fd, v6, SILENCE_MS) != -ETIMEDOUT)
            test_fail(__FILE__, __LINE__, "reached %s", v6);
        CHECK_EQ(connect_from(w.host, w.host, v6, ANSWER_MS), 0); /* while the host gets there */
    }
    /* What is translated to an address that is not forbidden stays open. */
    spell_in_v6(&v4_in_v6[0], "203.0.113.9", v6);
    add_to_internet(&w, v6);
    CHECK_EQ(connect_from(w.host, fd, v6, ANSWER_MS), 0);
}

/* A frame that names its sender at will, and how to recognise it. */
struct frame {
    const char *what;
    const char *dst, *src; /* MAC addresses */
    const char *ip;        /* the sender's; for ARP also */
    uint16_t type;
    bool passes;
};

static const char marker[8] = "osbmark";
#define GATEWAY   "02:4f:53:62:00:01"
#define OWN       "02:4f:53:62:00:02"
#define NEIGHBOUR "02:4f:53:62:00:03"
#define EVERYBODY "ff:ff:ff:ff:ff:ff"

static const struct frame frames[] = {
    {"own IPv4",              GATEWAY,             OWN,                 "10.231.0.2",         ETH_P_IP,    true },
    {"own IPv6",              GATEWAY,             OWN,                 "fd4f:7362:ae7::2",   ETH_P_IPV6,  true },
    {"neighbour's IPv4",      GATEWAY,             OWN,                 "10.231.0.3",         ETH_P_IP,    false},
    {"that of 256 further",   GATEWAY,             OWN,                 "10.231.1.2",         ETH_P_IP,    false},
    {"gateway's IPv4",        GATEWAY,             OWN,                 "10.231.0.1",         ETH_P_IP,    false},
    {"a stranger's IPv4",     GATEWAY,             OWN,                 "198.51.0.2",         ETH_P_IP,    false},
    {"no IPv4 yet",           GATEWAY,             OWN,                 "0.0.0.0",            ETH_P_IP,    false},
    {"neighbour's MAC",       GATEWAY,             NEIGHBOUR,           "10.231.0.2",         ETH_P_IP,    false},
    {"neighbour's both",      GATEWAY,             NEIGHBOUR,           "10.231.0.3",         ETH_P_IP,    false},
    {"gateway's both",        GATEWAY,             GATEWAY,             "10.231.0.1",         ETH_P_IP,    false},
    {"another vendor's MAC",  GATEWAY,             "06:4f:53:62:00:02", "10.231.0.2",         ETH_P_IP,    false},
    {"neighbour's IPv6",      GATEWAY,             OWN,                 "fd4f:7362:ae7::3",   ETH_P_IPV6,  false},
    {"neighbour's MAC, IPv6", GATEWAY,             NEIGHBOUR,           "fd4f:7362:ae7::3",   ETH_P_IPV6,  false},
    {"longer IPv6",           GATEWAY,             OWN,                 "fd4f:7362:ae7::1:2", ETH_P_IPV6,  false},
    {"link-local IPv6",       GATEWAY,             OWN,                 "fe80::2",            ETH_P_IPV6,  false},
    {"IPv4 to a neighbour",   NEIGHBOUR,           OWN,                 "10.231.0.2",         ETH_P_IP,    false},
    {"IPv4 to everybody",     EVERYBODY,           OWN,                 "10.231.0.2",         ETH_P_IP,    false},
    {"IPv6 to all nodes",     "33:33:00:00:00:01", OWN,                 "fd4f:7362:ae7::2",   ETH_P_IPV6,  false},
    {"IPv4 to a multicast",   "01:00:5e:00:00:fb", OWN,                 "10.231.0.2",         ETH_P_IP,    false},
    {"IPv4 to a bridge MAC",  "01:80:c2:00:00:0e", OWN,                 "10.231.0.2",         ETH_P_IP,    false},
    {"ARP with own address",  EVERYBODY,           OWN,                 "10.231.0.2",         ETH_P_ARP,   false},
    {"ARP as the gateway",    EVERYBODY,           OWN,                 "10.231.0.1",         ETH_P_ARP,   false},
    {"ARP to the gateway",    GATEWAY,             OWN,                 "10.231.0.3",         ETH_P_ARP,   false},
    {"ARP to a neighbour",    NEIGHBOUR,           OWN,                 "10.231.0.1",         ETH_P_ARP,   false},
    {"IPv4 in a VLAN",        GATEWAY,             OWN,                 "10.231.0.2",         ETH_P_8021Q, false},
    {"LLDP",                  "01:80:c2:00:00:0e", OWN,                 "10.231.0.2",         ETH_P_LLDP,  false},
};

static void mac_of(const char *text, uint8_t ret[6])
{
    unsigned m[6];

    CHECK_EQ(sscanf(text, "%x:%x:%x:%x:%x:%x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]), 6);
    for (size_t i = 0; i < 6; i++)
        ret[i] = (uint8_t)m[i];
}

static void checksum(uint8_t *header, size_t n)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i += 2)
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    header[10] = (uint8_t)(~sum >> 8);
    header[11] = (uint8_t)~sum;
}

/* Just enough of a header that a receiver would take the sender from it. */
static size_t frame_fill(const struct frame *f, uint8_t p[128])
{
    uint8_t *body = p + 14;

    memset(p, 0, 128);
    mac_of(f->dst, p);
    mac_of(f->src, p + 6);
    p[12] = (uint8_t)(f->type >> 8);
    p[13] = (uint8_t)f->type;
    if (f->type == ETH_P_8021Q) {
        memcpy(body, "\0\5\x08\0", 4);
        body += 4;
    }
    if (f->type == ETH_P_ARP) {
        memcpy(body, "\0\1\x08\0\6\4\0\2", 8); /* a reply */
        mac_of(f->src, body + 8);
        CHECK_EQ(inet_pton(AF_INET, f->ip, body + 14), 1);
        CHECK_EQ(inet_pton(AF_INET, "10.231.0.1", body + 24), 1);
    } else if (f->type == ETH_P_IPV6) {
        memcpy(body, "\x60\0\0\0\0\x2a\x11\x40", 8);
        CHECK_EQ(inet_pton(AF_INET6, f->ip, body + 8), 1);
        CHECK_EQ(inet_pton(AF_INET6, "2001:db8:3::9", body + 24), 1);
    } else {
        memcpy(body, "\x45\0\0\x4e\0\0\0\0\x40\x11\0\0", 12);
        CHECK_EQ(inet_pton(AF_INET, f->ip, body + 12), 1);
        CHECK_EQ(inet_pton(AF_INET, "203.0.113.9", body + 16), 1);
        checksum(body, 20);
    }
    memcpy(p + 80, marker, sizeof(marker));
    return 96;
}

static int packet_socket(int home, int netns, const char *device)
{
    struct sockaddr_ll sa = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    int fd;

    enter(netns);
    sa.sll_ifindex = (int)if_nametoindex(device);
    CHECK(sa.sll_ifindex > 0);
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    enter(home);
    return fd;
}

/* Whether a frame of ours arrives before a silence of `ms`. */
static bool hears(int fd, int ms)
{
    while (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms) > 0) {
        uint8_t p[256];
        ssize_t n = recv(fd, p, sizeof(p), 0);

        if (n > 0 && memmem(p, (size_t)n, marker, sizeof(marker)))
            return true;
    }
    return false;
}

TEST(netns, passes_only_frames_from_the_sender_s_own_addresses)
{
    struct world w;
    int one, two, out, host, neighbour;

    world_make(&w);
    one = sandbox_make(0);
    two = sandbox_make(1);
    out = packet_socket(w.host, one, "eth0");
    host = packet_socket(w.host, w.host, conf->bridge);
    neighbour = packet_socket(w.host, two, "eth0");
    wait_until_answers(w.host, "10.231.0.2");
    wait_until_answers(w.host, "10.231.0.3");
    for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
        uint8_t p[128];
        size_t n = frame_fill(&frames[i], p);

        CHECK_EQ(send(out, p, n, 0), n);
        if (hears(host, frames[i].passes ? ANSWER_MS : SILENCE_MS / 2) != frames[i].passes)
            test_fail(__FILE__, __LINE__, "%s %s", frames[i].what,
                      frames[i].passes ? "was dropped" : "reached the host");
        if (hears(neighbour, 0))
            test_fail(__FILE__, __LINE__, "%s reached a neighbour", frames[i].what);
    }
}

/* Asks for the gateway by a MAC that bridges keep for themselves: it comes in on the port. */
static bool arp_answered(int out, const char *mac, int ms)
{
    const struct frame f = {"", mac, OWN, "10.231.0.2", ETH_P_ARP, false};
    uint8_t p[128];
    size_t n = frame_fill(&f, p);

    p[14 + 7] = 1; /* a request */
    CHECK_EQ(send(out, p, n, 0), n);
    while (poll(&(struct pollfd){.fd = out, .events = POLLIN}, 1, ms) > 0) {
        CHECK(recv(out, p, sizeof(p), 0) > 0);
        if (memcmp(p + 12, "\x08\x06", 2) == 0 && p[14 + 7] == 2)
            return true;
    }
    return false;
}

TEST(netns, lets_no_frame_in_past_the_bridge)
{
    struct world w;
    int out;

    world_make(&w);
    out = packet_socket(w.host, sandbox_make(0), "eth0");
    wait_until_answers(w.host, "10.231.0.2");
    CHECK(!arp_answered(out, "01:80:c2:00:00:0e", SILENCE_MS)); /* which no rule sees */
    CHECK(!arp_answered(out, "01:80:c2:00:00:0d", SILENCE_MS));
    run("ip link set osb0-0 arp on");
    CHECK(arp_answered(out, "01:80:c2:00:00:0e", ANSWER_MS));
    CHECK(!arp_answered(out, "01:80:c2:00:00:0d", SILENCE_MS));
    CHECK_OK(netns_rules_remove(conf, &e));
    CHECK(arp_answered(out, "01:80:c2:00:00:0d", ANSWER_MS));
}

/* The rules alone hold MACs and IPs together, the locked port alone holds the MAC. */
TEST(netns, holds_a_port_to_its_mac_even_without_rules)
{
    const struct frame honest = {"", GATEWAY, OWN, "10.231.0.2", ETH_P_IP, true};
    const struct frame forged = {"", GATEWAY, NEIGHBOUR, "10.231.0.3", ETH_P_IP, false};
    struct world w;
    uint8_t p[128];
    int one, out, host;
    size_t n;

    world_make(&w);
    one = sandbox_make(0);
    wait_until_answers(w.host, "10.231.0.2");
    CHECK_OK(netns_rules_remove(conf, &e));
    out = packet_socket(w.host, one, "eth0");
    host = packet_socket(w.host, w.host, conf->bridge);
    n = frame_fill(&honest, p);
    CHECK_EQ(send(out, p, n, 0), n);
    CHECK(hears(host, ANSWER_MS));
    n = frame_fill(&forged, p);
    CHECK_EQ(send(out, p, n, 0), n);
    CHECK(!hears(host, SILENCE_MS));
}

TEST(netns, without_ipv6_has_none_at_all)
{
    struct netns_conf c = *conf;
    struct world w;
    int fd, out, host;
    uint8_t p[128];
    const struct frame own = {"", GATEWAY, OWN, "fd4f:7362:ae7::2", ETH_P_IPV6, false};
    size_t n;

    world_without_rules(&w);
    c.v6 = false;
    CHECK_OK(netns_host_setup(&c, &e));
    fd = sandbox_make_with(&c, 0);
    CHECK_EQ(connect_from(w.host, fd, "203.0.113.9", ANSWER_MS), 0);
    out = packet_socket(w.host, fd, "eth0");
    host = packet_socket(w.host, w.host, c.bridge);
    n = frame_fill(&own, p);
    CHECK_EQ(send(out, p, n, 0), n);
    CHECK(!hears(host, SILENCE_MS));
    enter(fd);
    check_file("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1");
    check_file("/proc/net/if_inet6", "");
}

/* Tables as "family name handle chains" lines. */
static int note_table(void *user, const struct nlmsghdr *m)
{
    struct str name = netlink_attr(m, sizeof(struct nfgenmsg), NFTA_TABLE_NAME);
    struct str handle = netlink_attr(m, sizeof(struct nfgenmsg), NFTA_TABLE_HANDLE);
    struct str use = netlink_attr(m, sizeof(struct nfgenmsg), NFTA_TABLE_USE);
    const struct nfgenmsg *g = NLMSG_DATA(m);

    if (name.n == 0 || handle.n != 8 || use.n != 4)
        return 0;
    return buf_addf(user, "%u %s %u %u\n", g->nfgen_family, name.p, (uint8_t)handle.p[7],
                    (uint8_t)use.p[3]);
}

static void tables(struct buf *out)
{
    const struct nfgenmsg all = {.version = NFNETLINK_V0};
    auto_netlink nl = NETLINK_NONE;
    NETLINK_BATCH(b, 128);

    buf_clear(out);
    CHECK_OK(netlink_open(NETLINK_NETFILTER, &nl, &e));
    netlink_begin(&b, "list tables", NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE, NLM_F_DUMP, &all,
                  sizeof(all));
    CHECK_OK(netlink_query(&nl, &b, note_table, out, &e));
}

static void make_strangers_tables(void)
{
    const struct nft_table strangers[] = {
        {NFPROTO_INET, "stranger"    },
        {NFPROTO_INET, "opensandbox2"},
        {NFPROTO_IPV4, "opensandbox" },
    };
    const struct nft_chain chain = {"forward", "filter", NF_INET_FORWARD, 0};
    auto_netlink nl = NETLINK_NONE;
    NETLINK_BATCH(b, 4096);

    CHECK_OK(netlink_open(NETLINK_NETFILTER, &nl, &e));
    nft_begin(&b);
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
        nft_table_renew(&b, &strangers[i]);
        nft_chain_add(&b, &strangers[i], &chain);
    }
    nft_commit(&b);
    CHECK_OK(netlink_send(&nl, &b, &e));
}

TEST(netns, setup_repeats_and_removal_leaves_what_was_there)
{
    AUTO_BUF(before, 4096);
    AUTO_BUF(once, 4096);
    AUTO_BUF(after, 4096);
    size_t interfaces;
    struct world w;
    int fd;

    world_without_rules(&w);
    make_strangers_tables();
    tables(&before);
    interfaces = interface_count();
    CHECK_OK(netns_host_remove(conf, &e)); /* absent is fine */
    CHECK_OK(netns_host_setup(conf, &e));
    tables(&once);
    CHECK(str_starts(buf_str(&once), buf_str(&before)));
    CHECK(!str_eq(buf_str(&once), buf_str(&before)));
    CHECK_OK(netns_host_setup(conf, &e));
    fd = sandbox_make(0);
    run("ip link set osb0 down");         /* forgets its neighbours */
    CHECK_OK(netns_host_setup(conf, &e)); /* under a living sandbox */
    CHECK_EQ(connect_from(w.host, fd, "203.0.113.9", ANSWER_MS), 0);
    CHECK_EQ(connect_from(w.host, fd, "192.0.2.1", SILENCE_MS), -ETIMEDOUT);
    close(fd);
    CHECK_OK(netns_release(conf, 0, &e));
    CHECK_OK(netns_host_remove(conf, &e));
    tables(&after);
    CHECK_STR(after.p, before.p);
    CHECK_EQ(interface_count(), interfaces);
    CHECK_OK(netns_host_remove(conf, &e));
}

TEST(netns, stands_beside_another_of_its_kind)
{
    struct netns_conf second = *conf;
    struct world w;
    int one, other;

    world_make(&w);
    memcpy(second.bridge, "osb1", 5);
    second.v4_net.s_addr = htonl(0x0ae80000);
    CHECK_OK(netns_host_setup(&second, &e));
    one = sandbox_make(0);
    other = sandbox_make_with(&second, 0);
    listen_in(w.host, other, AF_INET);
    CHECK_EQ(connect_from(w.host, other, "203.0.113.9", ANSWER_MS), 0);
    CHECK_EQ(connect_from(w.host, one, "10.232.0.2", SILENCE_MS), -ETIMEDOUT);
    CHECK_OK(netns_host_remove(&second, &e));
    CHECK_EQ(connect_from(w.host, one, "203.0.113.9", ANSWER_MS), 0);
    CHECK_EQ(connect_from(w.host, one, "192.0.2.1", SILENCE_MS), -ETIMEDOUT);
}

static void note_slot(void *user, uint32_t slot)
{
    *(uint64_t *)user |= UINT64_C(1) << slot;
}

static uint64_t slots(void)
{
    uint64_t seen = 0;

    CHECK_OK(netns_each_slot(conf, note_slot, &seen, &e));
    return seen;
}

TEST(netns, goes_with_its_descriptor)
{
    struct world w;
    int fds[3];

    world_make(&w);
    CHECK_EQ(slots(), 0);
    for (uint32_t i = 0; i < 3; i++)
        fds[i] = sandbox_make(i * 5);
    CHECK_EQ(slots(), 1 | 1 << 5 | 1 << 10);
    close(fds[1]);
    for (int i = 0; i < ANSWER_MS / 10 && slots() != (1 | 1 << 10); i++)
        usleep(10 * 1000);
    CHECK_EQ(slots(), 1 | 1 << 10);
    CHECK_OK(netns_release(conf, 10, &e));
    CHECK_EQ(slots(), 1);
    CHECK_OK(netns_release(conf, 10, &e));
    close(fds[0]);
    fds[0] = sandbox_make(0); /* at once, though the last may still be going */
    CHECK_EQ(connect_from(w.host, fds[0], "203.0.113.9", ANSWER_MS), 0);
}

TEST(netns, says_when_the_host_is_not_set_up)
{
    struct world w;
    struct err e = {0};

    world_without_rules(&w);
    CHECK_EQ(netns_make(conf, PLAN_NET_BRIDGE, 0, &e), -ENODEV);
    CHECK(strstr(e.msg, "is the host set up?"));
}
