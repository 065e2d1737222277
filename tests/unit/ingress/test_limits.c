#include "ingress/limits.h"

#include "base/time.h"
#include "test.h"

static struct limits_key key_of(const char *text)
{
    struct sock_addr addr;

    CHECK_EQ(sock_addr_parse(str_of(text), &addr, NULL), 0);
    return limits_key_of(&addr);
}

TEST(limits, bounds_the_connections_of_a_source)
{
    struct limits l;
    struct limits_key a = key_of("1.2.3.4:5"), b = key_of("1.2.3.5:5");

    limits_init(&l, &(struct limits_conf){.connections = 2});
    CHECK(limits_connect(&l, &a));
    CHECK(limits_connect(&l, &a));
    CHECK(!limits_connect(&l, &a));
    CHECK(limits_connect(&l, &b));
    limits_disconnect(&l, &a);
    CHECK(limits_connect(&l, &a));
    limits_done(&l);
}

TEST(limits, bounds_the_rate_of_a_source)
{
    struct limits l;
    struct limits_key a = key_of("1.2.3.4:5");
    uint64_t now = 1000 * TIME_NS_PER_MS;

    limits_init(&l, &(struct limits_conf){.rate = 10, .burst = 3});
    for (int i = 0; i < 3; i++)
        CHECK(limits_request(&l, &a, now));
    CHECK(!limits_request(&l, &a, now));
    now += 100 * TIME_NS_PER_MS; /* a tenth of a second: one more */
    CHECK(limits_request(&l, &a, now));
    CHECK(!limits_request(&l, &a, now));
    now += 3600000 * TIME_NS_PER_MS;
    for (int i = 0; i < 3; i++)
        CHECK(limits_request(&l, &a, now));
    CHECK(!limits_request(&l, &a, now));
    limits_done(&l);
}

TEST(limits, bounds_wrong_secrets)
{
    struct limits l;
    struct limits_key a = key_of("1.2.3.4:5"), b = key_of("[::1]:5");
    uint64_t now = 1000 * TIME_NS_PER_MS;

    limits_init(&l, &(struct limits_conf){.failures = 5});
    for (int i = 0; i < 5; i++) {
        CHECK(limits_may_try(&l, &a, now));
        limits_failed(&l, &a, now);
    }
    CHECK(!limits_may_try(&l, &a, now));
    CHECK(limits_may_try(&l, &b, now));
    CHECK(limits_may_try(&l, &a, now + 13000 * TIME_NS_PER_MS));
    limits_done(&l);
}

TEST(limits, takes_a_network_of_ipv6_as_one_source)
{
    struct limits_key a = key_of("[2001:db8:1:2::1]:5"), b = key_of("[2001:db8:1:2:ffff::2]:5"),
                      c = key_of("[2001:db8:1:3::1]:5"), d = key_of("[::ffff:1.2.3.4]:5"),
                      e = key_of("1.2.3.4:9");

    CHECK(memcmp(&a, &b, sizeof(a)) == 0);
    CHECK(memcmp(&a, &c, sizeof(a)) != 0);
    CHECK(memcmp(&d, &e, sizeof(d)) == 0);
}

TEST(limits, forgets_quiet_sources_when_it_is_full)
{
    struct limits l;

    limits_init(&l, &(struct limits_conf){.rate = 1});
    for (uint32_t i = 0; i < LIMITS_SOURCES_MAX + 1000; i++) {
        struct limits_key key = {0};

        memcpy(key.bytes, &i, sizeof(i));
        CHECK(limits_request(&l, &key, 1));
        CHECK(l.sources.n <= LIMITS_SOURCES_MAX);
    }
    limits_done(&l);
}

static bool has(const struct limits_nets *nets, const char *text)
{
    struct sock_addr addr;

    CHECK_EQ(sock_addr_parse(str_of(text), &addr, NULL), 0);
    return limits_nets_have(nets, &addr);
}

TEST(limits, knows_networks)
{
    struct limits_nets nets;
    struct err e = {0};
    static const char *const bad[] = {"x", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0/8"};

    CHECK_EQ(limits_nets_parse(STR("10.0.0.0/9, fd00::/8,127.0.0.1"), &nets, &e), 0);
    CHECK(has(&nets, "10.1.2.3:1") && has(&nets, "10.127.2.3:1") && !has(&nets, "10.128.0.1:1"));
    CHECK(has(&nets, "[fd12::1]:1") && !has(&nets, "[fe80::1]:1"));
    CHECK(has(&nets, "127.0.0.1:1") && !has(&nets, "127.0.0.2:1"));
    CHECK(has(&nets, "[::ffff:127.0.0.1]:1"));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(limits_nets_parse(str_of(bad[i]), &nets, &e), -EINVAL);
}
