/* netns_world.h - a host and an internet for tests of networks. Each test has a "host" of its own,
 * a fresh network namespace, with an "internet" behind it:
 *
 *     sandbox eth0 -- osb0-k [bridge osb0] host up0 -- up1 internet
 *
 * Nothing leaves them, and the kernel removes all of it when the test ends. */
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/netns.h"
#include "test.h"

enum { PORT = 7, SILENCE_MS = 100, ANSWER_MS = 30 * 1000 };

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        struct err e = {0};                                                                        \
        if ((call) < 0)                                                                            \
            test_fail(__FILE__, __LINE__, "%s: %s", #call, e.msg);                                 \
    } while (0)

static const struct netns_conf *const conf = &netns_conf_default;

struct world {
    int host, internet;           /* namespaces */
    int internet_v4, internet_v6; /* listeners on PORT */
};

UNUSED static void enter(int netns)
{
    CHECK_EQ(setns(netns, CLONE_NEWNET), 0);
}

UNUSED static int own_netns(void)
{
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

UNUSED static void run(const char *script)
{
    if (system(script) != 0)
        test_fail(__FILE__, __LINE__, "failed: %s", script);
}

/* A listener on all addresses of a namespace; the kernel answers for it. */
UNUSED static int listen_in(int home, int netns, int family)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    const int on = 1;
    int fd;

    enter(netns);
    fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (family == AF_INET)
        CHECK_EQ(bind(fd, (struct sockaddr *)&v4, sizeof(v4)), 0);
    if (family == AF_INET6) {
        CHECK_EQ(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)), 0);
        CHECK_EQ(bind(fd, (struct sockaddr *)&v6, sizeof(v6)), 0);
    }
    CHECK_EQ(listen(fd, 64), 0);
    enter(home);
    return fd;
}

UNUSED static socklen_t address(const char *text, struct sockaddr_storage *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(ret, &v4, sizeof(v4));
        return sizeof(v4);
    }
    CHECK_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    memcpy(ret, &v6, sizeof(v6));
    return sizeof(v6);
}

/* Connects from a namespace. 0, or -errno; -ETIMEDOUT after a silence. */
UNUSED static int connect_from(int home, int netns, const char *to, int timeout_ms)
{
    struct sockaddr_storage sa;
    socklen_t n = address(to, &sa), size = sizeof(int);
    int fd, error = 0;

    enter(netns);
    fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&sa, n) < 0 && errno != EINPROGRESS)
        error = errno;
    else if (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, timeout_ms) == 0)
        error = ETIMEDOUT;
    else
        CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
    close(fd);
    enter(home);
    return -error;
}

/* Pings from a namespace with an unprivileged socket: 0 when answered. */
UNUSED static int ping_from(int home, int netns, const char *to, int timeout_ms)
{
    struct sockaddr_storage sa;
    socklen_t n = address(to, &sa);
    bool v4 = sa.ss_family == AF_INET;
    uint8_t echo[16] = {v4 ? ICMP_ECHO : 128}, answer[64];
    int fd, r = 0;

    enter(netns);
    fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&sa, n) < 0 || send(fd, echo, sizeof(echo), 0) < 0)
        r = -errno;
    else if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout_ms) == 0)
        r = -ETIMEDOUT;
    else if (recv(fd, answer, sizeof(answer), 0) < 0)
        r = -errno;
    close(fd);
    enter(home);
    return r;
}

UNUSED static void world_without_rules(struct world *w)
{
    if (geteuid() != 0)
        test_skip("needs root to make network namespaces");
    if (unshare(CLONE_NEWNET) < 0)
        test_skip("may not make network namespaces here");
    if (system("ip -V >/dev/null 2>&1") != 0)
        test_skip("needs ip (iproute2) to build the test's own internet");
    w->internet = own_netns();
    CHECK_EQ(unshare(CLONE_NEWNET), 0);
    w->host = own_netns();
    run("echo 0 0 >/proc/sys/net/ipv4/ping_group_range");
    run("echo 0 >/proc/sys/net/ipv4/ip_forward"); /* a new namespace copies it from the machine */
    run("ip link set lo up; ip addr add 192.0.2.1/32 dev lo; ip addr add 2001:db8:2::1/128 dev lo "
        "nodad");
    enter(w->internet);
    run("ip link set lo up"); /* all the addresses at which a service might answer */
    run("for a in 203.0.113.9 169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.192; do"
        "  ip addr add $a/32 dev lo; done");
    run("for a in 2001:db8:3::9 fd00:ec2::254 fd20:ce::254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1; do"
        "  ip addr add $a/128 dev lo nodad; done");
    {
        char command[160];

        (void)snprintf(command, sizeof(command),
                       "ip link add up1 type veth peer name up0 netns /proc/%d/fd/%d", getpid(),
                       w->host);
        run(command);
    }
    run("ip addr add 198.51.100.2/24 dev up1; ip addr add 2001:db8:1::2/64 dev up1 nodad;"
        "ip link set up1 up");
    enter(w->host);
    run("ip addr add 198.51.100.1/24 dev up0; ip addr add 2001:db8:1::1/64 dev up0 nodad;"
        "ip link set up0 up; ip route add default via 198.51.100.2;"
        "ip -6 route add default via 2001:db8:1::2");
    w->internet_v4 = listen_in(w->host, w->internet, AF_INET);
    w->internet_v6 = listen_in(w->host, w->internet, AF_INET6);
}

UNUSED static void world_make(struct world *w)
{
    world_without_rules(w);
    CHECK_OK(netns_host_setup(conf, &e));
}

UNUSED static int sandbox_make_with(const struct netns_conf *c, uint32_t slot)
{
    struct err e = {0};
    int fd = netns_make(c, PLAN_NET_BRIDGE, slot, &e);

    if (fd < 0)
        test_fail(__FILE__, __LINE__, "netns_make: %s", e.msg);
    return fd;
}

UNUSED static int sandbox_make(uint32_t slot)
{
    return sandbox_make_with(conf, slot);
}
