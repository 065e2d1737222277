#include "execd/metrics/figures.h"

#include <errno.h>
#include <unistd.h>

#include "test.h"

TEST(figures, adds_the_traffic_of_all_but_the_loopback)
{
    int64_t in, out;

    CHECK_EQ(
        figures_parse_traffic(
            STR("Inter-|   Receive                |  Transmit\n"
                " face |bytes    packets errs drop fifo frame compressed multicast|bytes\n"
                "    lo:  999       1    0    0    0     0          0         0      999   1\n"
                "  eth0:    1000    2    0    0    0     0          0         0       70   1 0\n"
                "  eth1:20 2    0    0    0     0          0         0       3   1 0\n"),
            &in, &out),
        0);
    CHECK_EQ(in, 1020);
    CHECK_EQ(out, 73);
    CHECK_EQ(figures_parse_traffic(STR("  eth0: 1 2 x\n"), &in, &out), -EINVAL);
    CHECK_EQ(figures_parse_traffic(STR(""), &in, &out), 0);
    CHECK_EQ(in + out, 0);
}

TEST(figures, finds_what_is_established)
{
    int64_t n;

    CHECK_EQ(figures_parse_established(STR("Ip: Forwarding\nIp: 1\nTcp: RtoMax CurrEstab InSegs\n"
                                           "Tcp: -1 17 4\nUdp: InDatagrams\n"),
                                       &n),
             0);
    CHECK_EQ(n, 17);
    CHECK_EQ(figures_parse_established(STR("Tcp: RtoMax\nTcp: 1\n"), &n), -ENOENT);
    CHECK_EQ(figures_parse_established(STR("Tcp: CurrEstab\nTcp: x\n"), &n), -EINVAL);
    CHECK_EQ(figures_parse_established(STR("Tcp: CurrEstab\n"), &n), -EINVAL);
    CHECK_EQ(figures_parse_established(STR(""), &n), -EINVAL);
}

TEST(figures, finds_sockets_in_use)
{
    struct str text = STR("sockets: used 9\nUDP: inuse 5 mem 2\nUDPLITE: inuse 0\nRAW: 1\n");
    int64_t n;

    CHECK_EQ(figures_parse_in_use(text, "UDP", &n), 0);
    CHECK_EQ(n, 5);
    CHECK_EQ(figures_parse_in_use(text, "UDP6", &n), -ENOENT);
    CHECK_EQ(figures_parse_in_use(text, "RAW", &n), -EINVAL);
}

TEST(figures, are_there)
{
    struct figures f;

    figures_take(&f);
    CHECK(f.processes >= 1);
    CHECK(f.bytes_in >= 0 && f.bytes_out >= 0);
    CHECK(f.tcp >= 0 && f.udp >= 0);
}
