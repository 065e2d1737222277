/* probe_network.c - the metadata service in all spellings, the host, neighbours, and forgery. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { CONNECT_TIMEOUT_MS = 1500 };

/* Waits for a connection; the error when there is none. */
static int await_connect(int fd)
{
    struct pollfd pfd = {fd, POLLOUT, 0};
    socklen_t n = sizeof(int);
    int error = 0;

    if (poll(&pfd, 1, CONNECT_TIMEOUT_MS) == 0)
        return ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
        return errno;
    return error;
}

/* A reset from the far end counts as reached, unless the address is our own: a filter that answers
 * with resets says "administratively prohibited" or stays silent. */
static struct result connect_text(const char *address, unsigned port)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    char service[16];
    int fd, error = 0;

    (void)snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(address, service, &hints, &list) != 0)
        return verdict(NA, "'%s' is no address to this libc", address);
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        error = errno;
    else if (connect(fd, list->ai_addr, list->ai_addrlen) < 0)
        error = errno == EINPROGRESS ? await_connect(fd) : errno;
    freeaddrinfo(list);
    if (error == 0)
        return verdict(OPEN, "connected to %s port %u", address, port);
    return verdict(BLOCKED, "connect to %s: %s", address, strerror(error));
}

static struct result try_metadata(const struct context *c, const struct probe *p)
{
    return connect_text(p->path          ? p->path
                        : c->metadata_ip ? c->metadata_ip
                                         : "169.254.169.254",
                        80);
}

static struct result try_host(const struct context *c, const struct probe *p)
{
    const char *ip = p->path ? p->path : p->call[0] ? c->host_ip6 : c->host_ip;

    if (!ip || !c->host_port)
        return verdict(NA, "no address of the host was given");
    return connect_text(ip, c->host_port);
}

static struct result try_neighbour(const struct context *c, const struct probe *p)
{
    const char *ip = p->call[0] ? c->neighbour_ip6 : c->neighbour_ip;

    if (!ip)
        return verdict(NA, "no address of a neighbour was given");
    return connect_text(ip, c->neighbour_port);
}

/* An open port takes the datagram in silence, a closed one refuses: silence proves nothing, so we
 * send to a closed port and take the refusal for proof that packets arrive. */
static struct result try_neighbour_udp(const struct context *c, const struct probe *p)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    struct timeval wait = {1, 0};
    char byte = 0;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (!c->neighbour_ip || inet_pton(AF_INET, c->neighbour_ip, &to.sin_addr) != 1)
        return verdict(NA, "no address of a neighbour was given");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 || send(fd, &byte, 1, 0) < 0)
        return blocked("send");
    if (recv(fd, &byte, 1, 0) < 0 && errno == ECONNREFUSED)
        return verdict(OPEN, "datagrams arrive");
    return verdict(BLOCKED, "no answer: %s", strerror(errno));
}

static struct result try_ping(const struct context *c, const struct probe *p)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct timeval wait = {1, 0};
    unsigned char packet[64] = {8};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP);

    if (!c->neighbour_ip || inet_pton(AF_INET, c->neighbour_ip, &to.sin_addr) != 1)
        return verdict(NA, "no address of a neighbour was given");
    if (fd < 0)
        return blocked("ping socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
        return blocked("send");
    if (recv(fd, packet, sizeof(packet), 0) > 0)
        return verdict(OPEN, "it answers");
    return blocked("no answer");
}

/* All nodes of the link, over IPv6's own addresses that nobody configured. */
static struct result try_all_nodes(const struct context *c, const struct probe *p)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_scope_id = if_nametoindex("eth0")};
    struct sockaddr_in6 from;
    struct timeval wait = {1, 0};
    unsigned char packet[64] = {128};
    socklen_t n = sizeof(from);
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMPV6);

    if (fd < 0)
        return blocked("ping socket");
    if (!to.sin6_scope_id)
        return verdict(BLOCKED, "no interface but loopback");
    (void)inet_pton(AF_INET6, "ff02::1", &to.sin6_addr);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
        return blocked("send");
    for (int i = 0; i < 16; i++) {
        char text[INET6_ADDRSTRLEN] = "";
        struct sockaddr_in6 self;
        socklen_t self_n = sizeof(self);
        int probe_fd;

        if (recvfrom(fd, packet, sizeof(packet), 0, (struct sockaddr *)&from, &n) < 0)
            return blocked("no answer");
        /* Our own answer comes back, too: an address we can bind is ours. */
        probe_fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        self = from;
        self.sin6_port = 0;
        self_n = sizeof(self);
        (void)inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof(text));
        if (bind(probe_fd, (struct sockaddr *)&self, self_n) < 0)
            return verdict(OPEN, "%s answers", text);
        (void)close(probe_fd);
    }
    return verdict(BLOCKED, "none but ourselves answer");
}

static struct result try_spoof_bind(const struct context *c, const struct probe *p)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    int one = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (!c->host_ip || !c->neighbour_ip)
        return verdict(NA, "no addresses were given");
    (void)inet_pton(AF_INET, c->neighbour_ip, &from.sin_addr);
    (void)inet_pton(AF_INET, c->host_ip, &to.sin_addr);
    to.sin_port = htons(9);
    if (setsockopt(fd, IPPROTO_IP, p->call[0] ? IP_TRANSPARENT : IP_FREEBIND, &one, sizeof(one)) <
        0)
        return blocked("setsockopt");
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)
        return blocked("bind to the neighbour's address");
    if (sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
        return verdict(BLOCKED, "bound, but sending says %s", strerror(errno));
    return verdict(OPEN, "sent with the neighbour's address");
}

struct rt_request {
    struct nlmsghdr head;
    union {
        struct ifaddrmsg addr;
        struct rtmsg route;
        struct ifinfomsg link;
    } body;
};

/* The kernel checks for CAP_NET_ADMIN before it reads a request that changes something. */
static struct result try_rtnetlink(const struct context *c, const struct probe *p)
{
    struct rt_request request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = (uint16_t)p->call[0],
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
    };
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[256];
    } reply = {0};
    struct timeval wait = {2, 0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd < 0)
        return blocked("socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (send(fd, &request, sizeof(request), 0) < 0 || recv(fd, &reply, sizeof(reply), 0) < 0)
        return blocked("rtnetlink");
    errno = -reply.error.error;
    return judge_call(p->name, reply.error.error);
}

static struct result try_promiscuous(const struct context *c, const struct probe *p)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        return blocked("SIOCGIFFLAGS");
    return judge_call("SIOCSIFFLAGS", ioctl(fd, SIOCSIFFLAGS, &request)); /* the same flags */
}

static const struct probe probes[] = {
    PROBE("metadata", try_metadata, "hands out the host's credentials"),
    PROBE("metadata-decimal", try_metadata, "the same number, in another spelling",
          .path = "2852039166"),
    PROBE("metadata-hex", try_metadata, "the same", .path = "0xA9FEA9FE"),
    PROBE("metadata-octal", try_metadata, "the same", .path = "0251.0376.0251.0376"),
    PROBE("metadata-short", try_metadata, "the same", .path = "169.254.43518"),
    PROBE("metadata-mapped", try_metadata, "the same from an IPv6 socket",
          .path = "::ffff:169.254.169.254"),
    PROBE("metadata-nat64", try_metadata, "the same where NAT64 translates",
          .path = "64:ff9b::a9fe:a9fe"),
    PROBE("metadata-nat64-local", try_metadata, "the same where a network has its own NAT64",
          .path = "64:ff9b:1::a9fe:a9fe"),
    PROBE("metadata-nat64-azure", try_metadata, "another cloud's address, where NAT64 translates",
          .path = "64:ff9b::a83f:8110"),
    PROBE("metadata-nat64-alibaba", try_metadata, "another cloud's address, where NAT64 translates",
          .path = "64:ff9b::6464:64c8"),
    PROBE("metadata-nat64-oracle", try_metadata, "another cloud's address, where NAT64 translates",
          .path = "64:ff9b::c000:c0"),
    PROBE("metadata-6to4-azure", try_metadata, "another cloud's address, where 6to4 translates",
          .path = "2002:a83f:8110::1"),
    PROBE("metadata-6to4-alibaba", try_metadata, "another cloud's address, where 6to4 translates",
          .path = "2002:6464:64c8::1"),
    PROBE("metadata-6to4", try_metadata, "the same where 6to4 translates",
          .path = "2002:a9fe:a9fe::1"),
    PROBE("metadata-ipv6", try_metadata, "a cloud's own IPv6 spelling", .path = "fd00:ec2::254"),
    PROBE("metadata-ecs", try_metadata, "credentials of container services",
          .path = "169.254.170.2"),
    PROBE("metadata-azure", try_metadata, "another cloud's address", .path = "168.63.129.16"),
    PROBE("metadata-alibaba", try_metadata, "another cloud's address", .path = "100.100.100.200"),
    PROBE("link-local", try_metadata, "whatever listens on the link", .path = "169.254.1.1"),
    PROBE("host-service", try_host, "services of the host trust what is local"),
    PROBE("host-service-ipv6", try_host, "the same over IPv6", .call = {1}),
    PROBE("host-loopback", try_host, "services on loopback often need no credential",
          .path = "127.0.0.1"),
    PROBE("host-loopback-ipv6", try_host, "the same", .path = "::1"),
    PROBE("host-any", try_host, "the address that means this host", .path = "0.0.0.0"),
    PROBE("neighbour-tcp", try_neighbour, "services of another sandbox"),
    PROBE("neighbour-tcp-ipv6", try_neighbour, "the same over IPv6", .call = {1}),
    PROBE("neighbour-udp", try_neighbour_udp, "the same by datagram"),
    PROBE("neighbour-ping", try_ping, "finds others"),
    PROBE("all-nodes-ipv6", try_all_nodes, "finds all hosts on the link"),
    PROBE("spoof-freebind", try_spoof_bind, "packets in a neighbour's name"),
    PROBE("spoof-transparent", try_spoof_bind, "the same by another option", .call = {1}),
    PROBE("add-address", try_rtnetlink, "takes a neighbour's address", .call = {RTM_NEWADDR}),
    PROBE("add-route", try_rtnetlink, "chooses other ways", .call = {RTM_NEWROUTE}),
    PROBE("add-link", try_rtnetlink, "interfaces of our own, and their modules",
          .call = {RTM_NEWLINK}),
    PROBE("link-flags", try_promiscuous, "listens to others"),
};
const struct probe_group group_network = {"network", probes, ARRAY_LEN(probes)};
