#include "kube/quantity.h"
#include "test.h"

static struct kube_quantity parse(const char *text)
{
    struct kube_quantity q = {0};

    CHECK_EQ(kube_quantity_parse(str_of(text), &q, NULL), 0);
    return q;
}

static void check_form(const char *text, const char *want)
{
    char out[KUBE_QUANTITY_TEXT_MAX];

    CHECK_EQ(kube_quantity_format(parse(text), out), strlen(want));
    CHECK_STR(out, want);
}

TEST(quantity, has_units_and_thousandths)
{
    CHECK_EQ(kube_quantity_units(parse("1Gi")), 1 << 30);
    CHECK_EQ(kube_quantity_units(parse("1G")), 1000000000);
    CHECK_EQ(kube_quantity_units(parse("2e3")), 2000);
    CHECK_EQ(kube_quantity_units(parse("1.5Ki")), 1536);
    CHECK_EQ(kube_quantity_units(parse("7Ei")), 7LL << 60);
    CHECK_EQ(kube_quantity_milli(parse("100m")), 100);
    CHECK_EQ(kube_quantity_milli(parse("0.5")), 500);
    CHECK_EQ(kube_quantity_milli(parse("+2")), 2000);
    CHECK_EQ(kube_quantity_milli(parse("-1k")), -1000000);
    CHECK_EQ(kube_quantity_milli(parse("1E-2")), 10);
    CHECK_EQ(kube_quantity_milli(parse("1E")), INT64_MAX);
}

TEST(quantity, rounds_fractions_up)
{
    CHECK_EQ(kube_quantity_units(parse("1m")), 1);
    CHECK_EQ(kube_quantity_units(parse("-1m")), 0);
    CHECK_EQ(kube_quantity_milli(parse("1n")), 1);
    CHECK(kube_quantity_cmp(parse("0.0000000001"), parse("1n")) == 0);
    CHECK(kube_quantity_cmp(parse("1.00000000000000000000000000000000001"), parse("1000000001n")) ==
          0);
}

TEST(quantity, is_compared_by_its_value)
{
    CHECK(kube_quantity_cmp(parse("1"), parse("1000m")) == 0);
    CHECK(kube_quantity_cmp(parse("1Gi"), parse("1G")) > 0);
    CHECK(kube_quantity_cmp(parse("999m"), parse("1")) < 0);
    CHECK(kube_quantity_cmp(kube_quantity_add(parse("250m"), parse("750m")), parse("1")) == 0);
    CHECK(kube_quantity_cmp(kube_quantity_add(parse("9223372036854775807"), parse("1")),
                            parse("9223372036854775807")) == 0);
}

TEST(quantity, is_written_as_the_server_does)
{
    check_form("1000m", "1");
    check_form("1500m", "1500m");
    check_form("1024Ki", "1Mi");
    check_form("1.5Gi", "1536Mi");
    check_form("512", "512");
    check_form("1000Ki", "1000Ki");
    check_form("0.5Ki", "512");
    check_form("2e3", "2k");
    check_form("-100000", "-100k");
    check_form("0", "0");
    check_form("000.000", "0");
    check_form("1u", "1u");
}

TEST(quantity, that_is_none_is_refused)
{
    static const char *const bad[] = {"",   "Gi",  "1 Gi", "1g",    "1KI", "1.2.3", "e3",
                                      "1e", "--1", ".",    "1e999", "0x1", "1kk",   "1e+"};
    struct kube_quantity q;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (kube_quantity_parse(str_of(bad[i]), &q, NULL) != -EINVAL)
            test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
    CHECK_EQ(kube_quantity_parse(STR("9223372036854775808"), &q, NULL), -ERANGE);
    CHECK_EQ(kube_quantity_parse(STR("16Ei"), &q, NULL), -ERANGE);
    CHECK_EQ(kube_quantity_parse(STR("1e100"), &q, NULL), -ERANGE);
}

TEST(quantity, may_be_a_number_in_json)
{
    AUTO_ARENA(arena, 1 << 16);
    struct kube_quantity q;
    struct json *v;

    CHECK_EQ(json_parse(&arena, STR("[2, 0.1, \"3Gi\", true]"), NULL, &v, NULL), 0);
    CHECK_EQ(kube_quantity_of(json_at(v, 0), &q, NULL), 0);
    CHECK_EQ(kube_quantity_units(q), 2);
    CHECK_EQ(kube_quantity_of(json_at(v, 1), &q, NULL), 0);
    CHECK_EQ(kube_quantity_milli(q), 100);
    CHECK_EQ(kube_quantity_of(json_at(v, 2), &q, NULL), 0);
    CHECK_EQ(kube_quantity_of(json_at(v, 3), &q, NULL), -EINVAL);
    CHECK_EQ(kube_quantity_of(NULL, &q, NULL), -EINVAL);
}
