#include "api/signed.h"

#include "base/codec.h"
#include "test.h"

#define ID "5bcf5cf1-bd21-437a-be5a-0872b1dc0e4e"

TEST(signed, makes_the_signatures_of_the_contract)
{
    char signature[API_SIGNATURE_MAX], counting[32];

    api_route_sign(STR("secret"), 'a', STR(ID), 8080, 2000000000, signature);
    CHECK_STR(signature, "98d61318a");
    for (size_t i = 0; i < sizeof(counting); i++)
        counting[i] = (char)i;
    api_route_sign(str_make(counting, sizeof(counting)), 'z', STR(ID), 44772, 1999999999,
                   signature);
    CHECK_STR(signature, "a2444667z");
}

TEST(signed, spells_expiry_in_base_36)
{
    static const struct {
        uint64_t n;
        const char *text;
    } rows[] = {
        {0,          "0"            },
        {35,         "z"            },
        {36,         "10"           },
        {2000000000, "x2qxvk"       },
        {UINT64_MAX, "3w5e11264sgsf"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[BASE36_TEXT_MAX];
        uint64_t n = 1;

        base36_encode(rows[i].n, text);
        CHECK_STR(text, rows[i].text);
        CHECK_EQ(base36_decode(str_of(text), &n), 0);
        CHECK(n == rows[i].n);
    }
}

TEST(signed, opens_with_the_right_key_until_it_expires)
{
    struct str token = STR(ID "-8080-x2qxvk-98d61318a");
    struct api_route route = {0};

    CHECK_EQ(api_route_verify(STR("secret"), 'a', token, 1999999999, &route), 0);
    CHECK_SPAN(route.sandbox_id, ID);
    CHECK_EQ(route.port, 8080);
    CHECK_EQ(route.expires_s, 2000000000);
    CHECK_EQ(route.key_id, 'a');
    CHECK_EQ(api_route_verify(STR("secret"), 'a', token, 2000000000, &route), 0);
    CHECK_EQ(api_route_verify(STR("secret"), 'a', token, 2000000001, &route), -ETIME);
    CHECK_EQ(api_route_verify(STR("secret"), 'b', token, 0, &route), -ENOKEY);
    CHECK_EQ(api_route_verify(STR("Secret"), 'a', token, 0, &route), -EACCES);
}

TEST(signed, refuses_every_other_claim)
{
    static const char *const forged[] = {
        ID "-8081-x2qxvk-98d61318a",
        ID "-8080-x2qxvl-98d61318a",
        ID "-8080-x2qxvk-98d61319a",
        "x" ID "-8080-x2qxvk-98d61318a",
    };
    struct api_route route;

    for (size_t i = 0; i < ARRAY_LEN(forged); i++)
        CHECK_EQ(api_route_verify(STR("secret"), 'a', str_of(forged[i]), 0, &route), -EACCES);
}

TEST(signed, knows_exactly_one_spelling)
{
    static const char *const bad[] = {
        "",
        "-",
        "---",
        ID,
        "8080-x2qxvk-98d61318a",
        "-8080-x2qxvk-98d61318a",
        ID "-08080-x2qxvk-98d61318a",
        ID "-0-x2qxvk-98d61318a",
        ID "-65536-x2qxvk-98d61318a",
        ID "-+80-x2qxvk-98d61318a",
        ID "--x2qxvk-98d61318a",
        ID "-8080-X2QXVK-98d61318a",
        ID "-8080-0x2qxvk-98d61318a",
        ID "-8080-3w5e11264sgsg-98d61318a",
        ID "-8080--98d61318a",
        ID "-8080-x2qxvk-98D61318a",
        ID "-8080-x2qxvk-98d61318",
        ID "-8080-x2qxvk-98d61318aa",
        ID "-8080-x2qxvk-98d6131ga",
        ID "-8080-x2qxvk-98d61318A",
        ID "-8080-x2qxvk-98d61318a ",
        ID "-8080-x2qxvk-98d61318a-",
    };
    struct api_route route;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (api_route_parse(str_of(bad[i]), &route) != -EINVAL)
            test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
    CHECK_EQ(api_route_parse(STR_NONE, &route), -EINVAL);
    CHECK_EQ(api_route_parse(STR("a-1-0-00000000z"), &route), 0);
}
