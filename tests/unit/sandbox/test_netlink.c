#include "sandbox/netlink.h"

#include <linux/rtnetlink.h>
#include <net/if.h>

#include "test.h"

static void ask_for(struct netlink_batch *b, const char *interface)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};

    netlink_begin(b, "find interface", RTM_GETLINK, NLM_F_ACK, &any, sizeof(any));
    netlink_add_str(b, IFLA_IFNAME, interface);
}

static int note_name(void *user, const struct nlmsghdr *m)
{
    struct str name = netlink_attr(m, sizeof(struct ifinfomsg), IFLA_IFNAME);

    return name.n > 0 ? str_copy(user, IFNAMSIZ, str_of(name.p)) : 0;
}

TEST(netlink, asks_and_is_answered)
{
    auto_netlink nl = NETLINK_NONE;
    char name[IFNAMSIZ] = "";
    struct err e = {0};
    NETLINK_BATCH(b, 256);

    CHECK_EQ(netlink_open(NETLINK_ROUTE, &nl, &e), 0);
    ask_for(&b, "lo");
    CHECK_EQ(netlink_query(&nl, &b, note_name, name, &e), 0);
    CHECK_STR(name, "lo");
}

TEST(netlink, names_the_message_that_failed)
{
    auto_netlink nl = NETLINK_NONE;
    char name[IFNAMSIZ] = "";
    struct err e = {0};
    NETLINK_BATCH(b, 256);

    CHECK_EQ(netlink_open(NETLINK_ROUTE, &nl, &e), 0);
    ask_for(&b, "no-such-thing");
    CHECK_EQ(netlink_query(&nl, &b, note_name, name, &e), -ENODEV);
    CHECK(str_starts(str_of(e.msg), STR("find interface: No such device")));
    ask_for(&b, "no-such-thing");
    CHECK_EQ(netlink_send(&nl, &b, NULL), -ENODEV); /* nobody need listen */
    ask_for(&b, "lo");                              /* and the batch and the socket go on */
    CHECK_EQ(netlink_query(&nl, &b, note_name, name, &e), 0);
    CHECK_STR(name, "lo");
}

TEST(netlink, sends_nothing_of_a_batch_that_is_full)
{
    auto_netlink nl = NETLINK_NONE;
    struct err e = {0};
    NETLINK_BATCH(b, 128);

    CHECK_EQ(netlink_open(NETLINK_ROUTE, &nl, &e), 0);
    for (int i = 0; i < 10; i++) {
        ask_for(&b, "lo");
        netlink_nest(&b, IFLA_LINKINFO);
        netlink_add_u32(&b, IFLA_EXT_MASK, 0);
        netlink_nest_end(&b);
    }
    CHECK(b.n <= 128);
    CHECK_EQ(netlink_send(&nl, &b, &e), -EMSGSIZE);
    ask_for(&b, "lo");
    CHECK_EQ(b.full, false);
}

TEST(netlink, takes_no_more_messages_than_it_can_name)
{
    static _Alignas(struct nlmsghdr) char room[64 * 1024];
    auto_netlink nl = NETLINK_NONE;
    struct netlink_batch b;

    CHECK_EQ(netlink_open(NETLINK_ROUTE, &nl, NULL), 0);
    netlink_batch_init(&b, room, sizeof(room));
    for (int i = 0; i <= NETLINK_MESSAGES_MAX; i++)
        ask_for(&b, "lo");
    CHECK_EQ(netlink_send(&nl, &b, NULL), -EMSGSIZE);
}

TEST(netlink, finds_attributes_only_within_the_message)
{
    struct {
        struct nlmsghdr h;
        struct nlattr a;
        char value[8];
    } m = {
        .h.nlmsg_len = sizeof(m), .a = {.nla_len = 12, .nla_type = 3},
             .value = "abcdefg"
    };

    CHECK_SPAN(netlink_attr(&m.h, 0, 3), "abcdefg\0");
    CHECK_EQ(netlink_attr(&m.h, 0, 4).n, 0);
    m.a.nla_len = 13; /* past the end */
    CHECK_EQ(netlink_attr(&m.h, 0, 3).n, 0);
    m.a.nla_len = 3; /* shorter than itself */
    CHECK_EQ(netlink_attr(&m.h, 0, 3).n, 0);
    m.h.nlmsg_len = sizeof(m.h);
    CHECK_EQ(netlink_attr(&m.h, 64, 3).n, 0);
}
