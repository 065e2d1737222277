#include "sandbox/subnet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "test.h"

#define HEAD    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
#define DEFAULT "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"

static const char *pick(struct str routes, struct str resolv, unsigned start)
{
    struct in_addr net;

    return subnet_pick(routes, resolv, "osb0", start, &net, NULL) < 0 ? "none" : inet_ntoa(net);
}

TEST(subnet, takes_the_one_asked_for_when_it_is_free)
{
    CHECK_STR(pick(STR(HEAD DEFAULT), STR(""), 0), "10.231.0.0");
    CHECK_STR(pick(STR(HEAD DEFAULT), STR("nameserver 192.0.2.53\n"), 24), "10.255.0.0");
    CHECK_STR(pick(STR(""), STR(""), 3), "10.234.0.0");
}

TEST(subnet, never_hides_a_name_server)
{
    struct str resolv = STR("# comment\nnameserver 10.255.255.53\nnameserver  10.231.0.9\n");

    CHECK_STR(pick(STR(HEAD DEFAULT), resolv, 24), "10.232.0.0");
}

TEST(subnet, never_overlaps_a_route)
{
    /* 10.255.3.0/24, 10.231.0.0/16, 10.232.0.0/14 (to 10.235) */
    struct str routes =
        STR(HEAD DEFAULT "eth1\t0003FF0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                         "docker0\t0000E70A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
                         "vpn\t0000E80A\t00000000\t0001\t0\t0\t0\t0000FCFF\t0\t0\t0\n");

    CHECK_STR(pick(routes, STR(""), 24), "10.236.0.0");
}

TEST(subnet, stays_where_the_bridge_is)
{
    struct str routes =
        STR(HEAD DEFAULT "osb0\t0000F10A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n");

    CHECK_STR(pick(routes, STR(""), 0), "10.241.0.0");
}

TEST(subnet, says_so_when_all_are_taken)
{
    struct in_addr net;
    struct err e = {0};

    CHECK_EQ(subnet_pick(STR(HEAD "lan\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"),
                         STR(""), "osb0", 0, &net, &e),
             -EADDRNOTAVAIL);
    CHECK(strstr(e.msg, "no network is free") != NULL);
}
