#include "base/otlp.h"

#include <errno.h>

#include "test.h"

static const struct otlp_attribute resource[] = {
    {STR_INIT("a"), STR_INIT("b"), 0}
};
static const struct otlp_attribute common[] = {
    {STR_INIT("s"), STR_INIT("1"), 0}
};

static const struct otlp_conf conf = {
    .resource = resource,
    .resource_count = 1,
    .common = common,
    .common_count = 1,
    .scope = STR_INIT("m"),
    .version = STR_INIT("2"),
    .begin_ns = 1,
    .now_ns = 0x0102,
};

/* What goes before every metric, but for the two lengths that depend on them. */
#define HEAD(all, scope)                                                                           \
    "\x0a" all "\x0a\x0a\x0a\x08\x0a\x01"                                                          \
    "a\x12\x03\x0a\x01"                                                                            \
    "b\x12" scope "\x0a\x06\x0a\x01m\x12\x01"                                                      \
    "2"
#define COMMON                                                                                     \
    "\x0a\x01s\x12\x03\x0a\x01"                                                                    \
    "1"

static void check_bytes(const struct buf *got, const char *want, size_t n)
{
    CHECK_EQ(got->n, n);
    CHECK(got->n == n && memcmp(got->p, want, n) == 0);
}
#define CHECK_BYTES(got, want) check_bytes((got), (want), sizeof(want) - 1)

TEST(otlp, writes_a_resource_and_a_scope)
{
    AUTO_BUF(out, 1024);
    struct otlp o;

    otlp_begin(&o, &out, &conf);
    CHECK_EQ(otlp_end(&o), 0);
    CHECK_BYTES(&out, HEAD("\x16", "\x08"));
}

TEST(otlp, writes_a_gauge)
{
    static const struct otlp_attribute own[] = {
        {STR("k"), STR_NONE, 300}
    };
    AUTO_BUF(out, 1024);
    struct otlp o;

    otlp_begin(&o, &out, &conf);
    otlp_metric_begin(&o, OTLP_GAUGE, "g", "%");
    otlp_point_double(&o, 1.0, own, 1);
    otlp_metric_end(&o);
    CHECK_EQ(otlp_end(&o), 0);
    CHECK_BYTES(&out, HEAD("\x48", "\x3a") "\x12\x30\x0a\x01g\x1a\x01%\x2a\x28\x0a\x26"
                                           "\x19\x02\x01\0\0\0\0\0\0"
                                           "\x3a\x08" COMMON "\x3a\x08\x0a\x01k\x12\x03\x18\xac\x02"
                                           "\x21\0\0\0\0\0\0\xf0\x3f");
}

TEST(otlp, writes_a_counter_that_only_grows)
{
    AUTO_BUF(out, 1024);
    struct otlp o;

    otlp_begin(&o, &out, &conf);
    otlp_metric_begin(&o, OTLP_COUNTER, "c", "");
    otlp_point_i64(&o, 5, NULL, 0);
    otlp_metric_end(&o);
    CHECK_EQ(otlp_end(&o), 0);
    CHECK_BYTES(&out, HEAD("\x48", "\x3a") "\x12\x30\x0a\x01"
                                           "c\x3a\x2b\x0a\x25"
                                           "\x11\x01\0\0\0\0\0\0\0"
                                           "\x19\x02\x01\0\0\0\0\0\0"
                                           "\x3a\x08" COMMON "\x31\x05\0\0\0\0\0\0\0"
                                           "\x10\x02\x18\x01");
}

TEST(otlp, writes_a_histogram)
{
    static const double bounds[] = {2.0};
    static const uint64_t buckets[] = {1, 2};
    struct otlp_histogram h = {3, 1.0, 0.0, 1.0, bounds, 1, buckets};
    AUTO_BUF(out, 1024);
    struct otlp o;

    otlp_begin(&o, &out, &conf);
    otlp_metric_begin(&o, OTLP_HISTOGRAM, "h", "ms");
    otlp_point_histogram(&o, &h, NULL, 0);
    otlp_metric_end(&o);
    CHECK_EQ(otlp_end(&o), 0);
    CHECK_BYTES(&out, HEAD("\x81\x01", "\x73") "\x12\x69\x0a\x01h\x1a\x02ms\x4a\x60\x0a\x5c"
                                               "\x11\x01\0\0\0\0\0\0\0"
                                               "\x19\x02\x01\0\0\0\0\0\0"
                                               "\x4a\x08" COMMON "\x21\x03\0\0\0\0\0\0\0"
                                               "\x29\0\0\0\0\0\0\xf0\x3f"
                                               "\x59\0\0\0\0\0\0\0\0"
                                               "\x61\0\0\0\0\0\0\xf0\x3f"
                                               "\x32\x10\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"
                                               "\x3a\x08\0\0\0\0\0\0\0\x40"
                                               "\x10\x02");
}

TEST(otlp, fails_whole_where_there_is_no_room)
{
    for (size_t max = 0; max < 24; max++) {
        AUTO_BUF(out, max);
        struct otlp o;

        otlp_begin(&o, &out, &conf);
        CHECK_EQ(otlp_end(&o), -EMSGSIZE);
    }
}

TEST(otlp, reads_lists_of_the_environment)
{
    struct str list = STR("a=1, b = x%20y ,,c,=d,e=,%zz=1,f=%ff,g==h"), key, value;
    AUTO_ARENA(arena, 4096);

    CHECK(otlp_list_next(&list, &arena, true, 8, &key, &value));
    CHECK(str_eq(key, STR("a")) && str_eq(value, STR("1")));
    CHECK(otlp_list_next(&list, &arena, true, 8, &key, &value));
    CHECK(str_eq(key, STR("b")) && str_eq(value, STR("x y")));
    CHECK(otlp_list_next(&list, &arena, true, 8, &key, &value));
    CHECK(str_eq(key, STR("g")) && str_eq(value, STR("=h")));
    CHECK(!otlp_list_next(&list, &arena, true, 8, &key, &value));
    list = STR("a=123456789,b=%20");
    CHECK(otlp_list_next(&list, &arena, false, 8, &key, &value)); /* the first is too long */
    CHECK(str_eq(key, STR("b")) && str_eq(value, STR("%20")));
}
