#include "server/runtime/embedded/resolv.h"

#include <arpa/inet.h>

#include "test.h"

TEST(resolv, finds_name_servers_that_a_sandbox_can_reach)
{
    uint32_t got[3] = {0};

    CHECK_EQ(resolv_parse(STR("# nameserver 192.0.2.1\nsearch example.org\nnameserver 127.0.0.53\n"
                              "  nameserver\t192.0.2.2 \nnameserver fe80::1\nnameserver 0.0.0.0\n"
                              "nameserver 192.0.2.3"),
                          got, 3),
             2);
    CHECK_EQ(got[0], inet_addr("192.0.2.2"));
    CHECK_EQ(got[1], inet_addr("192.0.2.3"));
}

TEST(resolv, takes_no_more_than_there_is_room_for)
{
    uint32_t got[2] = {0, 7};

    CHECK_EQ(resolv_parse(STR("nameserver 192.0.2.1\nnameserver 192.0.2.2\n"), got, 1), 1);
    CHECK_EQ(got[0], inet_addr("192.0.2.1"));
    CHECK_EQ(got[1], 7);
    CHECK_EQ(resolv_parse(STR(""), got, 2), 0);
    CHECK_EQ(resolv_parse(STR("nameserver"), got, 2), 0);
}
