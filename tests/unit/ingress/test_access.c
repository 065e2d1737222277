#include "ingress/access.h"

#include "test.h"

#define KEYS "a=Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZS0zMmI="

static struct access_keys keys;

static struct access_verdict check(const char *token, const char *header, const char *label,
                                   uint64_t now_s, uint64_t ahead_s)
{
    struct http_header rows[1] = {
        {STR(ACCESS_HEADER), str_of(header)}
    };
    struct http_headers headers = {rows, header ? 1 : 0, 1};
    struct access_rules rules = {&keys, now_s, ahead_s};
    struct route route;
    const char *why;

    CHECK_EQ(route_parse_label(str_of(label), &route, &why), 0);
    return access_check(&rules, str_of(token), &headers, &route);
}

#define SIGNED "web-7f3a-8080-vbbc00-78d0cfa8a"
enum { EXPIRY = 1893456000 };

static void load(const char *text)
{
    struct err e = {0};

    CHECK_EQ(access_keys_parse(str_of(text), &keys, &e), 0);
}

TEST(access, verifies_the_signatures_of_the_contract)
{
    load(KEYS ",9=AAECAwQFBgcICQoLDA0ODw==");
    CHECK_EQ(check("tok", NULL, SIGNED, EXPIRY, 0).status, 0); /* the second itself is valid */
    CHECK_EQ(check("tok", NULL, SIGNED, EXPIRY + 1, 0).status, 401);
    CHECK_STR(check("tok", NULL, SIGNED, EXPIRY + 1, 0).reason, "signature: access expired");
    CHECK_EQ(check("tok", NULL, "s-1-0-155e311c9", 0, 0).status, 0);
    CHECK_EQ(check("tok", NULL, "0b7c1f2e-4d5a-4c3b-9e8f-112233445566-44772-vbbc00-329dc072a", 0, 0)
                 .status,
             0);
}

TEST(access, says_what_is_wrong_with_a_signature)
{
    struct access_verdict v;

    load(KEYS);
    v = check("tok", NULL, "web-7f3a-8080-vbbc00-78d0cfa9a", 0, 0);
    CHECK_EQ(v.status, 401);
    CHECK_STR(v.reason, "signature: unauthorized: signature mismatch");
    CHECK(v.guessed);
    v = check("tok", NULL, "web-7f3a-8080-vbbc00-78d0cfa8b", 0, 0);
    CHECK_STR(v.reason, "signature: unauthorized: unknown signed_key_id");
    v = check("tok", NULL, "web-7f3a-8080", 0, 0);
    CHECK_EQ(v.status, 401);
    CHECK_STR(v.reason, "signature: signature required for this sandbox");
    CHECK(!v.guessed);
    load("");
    v = check("tok", NULL, SIGNED, 0, 0);
    CHECK_EQ(v.status, 503);
    CHECK_STR(v.reason, "signature: ingress verifier not configured");
}

TEST(access, takes_the_token_before_any_signature)
{
    load(KEYS);
    CHECK_EQ(check("tok", "tok", "web-8080", 0, 0).status, 0);
    CHECK_EQ(check("tok", " tok ", "web-8080", 0, 0).status, 0);
    CHECK_EQ(check("tok", "tok", "web-7f3a-8080-vbbc00-78d0cfa9a", 0, 0).status, 0);
    CHECK_EQ(check("tok", "nope", SIGNED, 0, 0).status, 401);
    CHECK_EQ(check("tok", "", SIGNED, 0, 0).status, 401);
    CHECK_STR(check("tok", "", SIGNED, 0, 0).reason, "signature: secure access header mismatch");
}

TEST(access, checks_nothing_of_a_sandbox_without_a_token)
{
    load(KEYS);
    CHECK_EQ(check("", "nope", "web-7f3a-8080-vbbc00-78d0cfa9a", EXPIRY + 1, 0).status, 0);
    CHECK_EQ(check("  ", NULL, "web-8080", 0, 0).status, 0);
}

TEST(access, can_bound_how_long_a_route_is_valid)
{
    load(KEYS);
    CHECK_EQ(check("tok", NULL, SIGNED, EXPIRY - 100, 100).status, 0);
    CHECK_EQ(check("tok", NULL, SIGNED, EXPIRY - 101, 100).status, 401);
}

TEST(access, reads_keys)
{
    struct access_keys got;
    struct err e = {0};
    static const char *const bad[] = {"A=YQ==", "ab=YQ==", "a", "a=", "a=YQ", "a=Y Q==", "=YQ=="};

    CHECK_EQ(access_keys_parse(STR(" a = YQ== ,, b=Yg==,a=Yw== "), &got, &e), 0);
    CHECK_EQ(got.count, 2);
    CHECK(got.at[0].id == 'a' && got.at[0].bytes == 1 && got.at[0].secret[0] == 'c');
    CHECK_EQ(access_keys_parse(STR("# comment, with a comma\na=YQ==\r\n\nb=Yg==\n"), &got, &e), 0);
    CHECK_EQ(got.count, 2);
    CHECK_EQ(access_keys_parse(STR(""), &got, &e), 0);
    CHECK_EQ(got.count, 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(access_keys_parse(str_of(bad[i]), &got, &e), -EINVAL);
}
