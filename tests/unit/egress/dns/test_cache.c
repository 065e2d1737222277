#include "egress/dns/cache.h"

#include "test.h"

#define S UINT64_C(1000000000)

TEST(dns_cache, forgets_after_the_time_of_an_answer)
{
    struct dns_cache *c = dns_cache_new(4);
    uint32_t age = 0;

    dns_cache_put(c, STR("..query"), STR("answer"), 5 * S, 10);
    CHECK_SPAN(dns_cache_get(c, STR("xxquery"), 8 * S, &age), "answer"); /* whatever the id */
    CHECK_EQ(age, 3);
    CHECK(!dns_cache_get(c, STR("..Query"), 8 * S, &age).p);
    CHECK(!dns_cache_get(c, STR("..query"), 15 * S, &age).p);
    dns_cache_put(c, STR("..query"), STR("answer"), 5 * S, 0); /* for this moment only */
    CHECK(!dns_cache_get(c, STR("..query"), 5 * S, &age).p);
    dns_cache_free(c);
}

TEST(dns_cache, holds_so_many_and_drops_the_oldest)
{
    struct dns_cache *c = dns_cache_new(2);
    uint32_t age = 0;

    dns_cache_put(c, STR("..a"), STR("1"), 0, 10);
    dns_cache_put(c, STR("..b"), STR("2"), 0, 10);
    dns_cache_put(c, STR("..a"), STR("3"), 0, 10); /* newer than b now */
    dns_cache_put(c, STR("..c"), STR("4"), 0, 10);
    CHECK_SPAN(dns_cache_get(c, STR("..a"), 1, &age), "3");
    CHECK(!dns_cache_get(c, STR("..b"), 1, &age).p);
    CHECK_SPAN(dns_cache_get(c, STR("..c"), 1, &age), "4");
    dns_cache_free(c);
}
