#include "ingress/route.h"

#include "test.h"

static void check_label(const char *text, const char *id, int port, const char *signature)
{
    struct route r;
    const char *why = NULL;
    int e = route_parse_label(str_of(text), &r, &why);

    if (!id) {
        CHECK_EQ(e, -EINVAL);
        CHECK(why && why[0]);
        return;
    }
    CHECK_EQ(e, 0);
    if (!str_eq(r.id, str_of(id)))
        test_fail(__FILE__, __LINE__, "%s: id is %.*s", text, STR_ARG(r.id));
    CHECK_EQ(r.port, port);
    CHECK_EQ(r.is_signed, signature != NULL);
    if (signature)
        CHECK(str_eq(r.signature, str_of(signature)));
}

TEST(route, reads_labels)
{
    check_label("web-8080", "web", 8080, NULL);
    check_label("web-7f3a-8080", "web-7f3a", 8080, NULL);
    check_label("web-7f3a-8080-vbbc00-78d0cfa8a", "web-7f3a", 8080, "78d0cfa8a");
    check_label("web-7f3a-8080-vbbc00-78d0cfa8a.sbx.example.net", "web-7f3a", 8080, "78d0cfa8a");
    check_label("https://web-8080.example.net:443/x", "web", 8080, NULL);
    check_label("http://web-8080", "web", 8080, NULL);
    check_label("web-08080", "web", 8080, NULL);
    check_label("a-b-c-d-1", "a-b-c-d", 1, NULL);
    check_label("web-65535", "web", 65535, NULL);
}

TEST(route, refuses_labels_without_a_sandbox_or_a_port)
{
    static const char *const bad[] = {
        "web",
        "-80",
        "10.0.0.5:28888",
        "web-8080:443",
        "web-8080-vbbc00-XYZ",
        "",
        "web-",
        "web-0",
        "web-65536",
        "web-+80",
        "web- 80",
        ".a-80",
        "-",
        "web-80x",
        "web-99999999999999999999",
        "-web-80",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        check_label(bad[i], NULL, 0, NULL);
}

TEST(route, reads_what_is_signed_only_in_its_one_spelling)
{
    check_label("s-1-0-155e311c9", "s", 1, "155e311c9");
    check_label("s-1-3w5e11264sgsf-155e311c9", "s", 1, "155e311c9");
    check_label("s-1-00-155e311c9", NULL, 0, NULL);            /* leading zero */
    check_label("s-1-3w5e11264sgsg-155e311c9", NULL, 0, NULL); /* past 64 bits */
    check_label("s-1-VBBC00-155e311c9", NULL, 0, NULL);
    check_label("s-1-vbbc00-155E311c9", NULL, 0, NULL);
    check_label("s-1-vbbc00-155e311cA", NULL, 0, NULL);
    /* A signature may consist of digits only; one digit less is a port. */
    check_label("s-1-vbbc00-123456789", "s", 1, "123456789");
    check_label("s-1-vbbc00-00000080", "s-1-vbbc00", 80, NULL);
}

TEST(route, refuses_ids_that_are_too_long)
{
    char text[512];

    for (size_t n = ROUTE_ID_MAX; n <= ROUTE_ID_MAX + 1; n++) {
        struct route r;
        const char *why = NULL;

        memset(text, 'a', sizeof(text));
        memcpy(text + n, "-80", sizeof("-80"));
        CHECK_EQ(route_parse_label(str_of(text), &r, &why), n > ROUTE_ID_MAX ? -EINVAL : 0);
    }
}

static void check_path(const char *text, const char *id, int port, const char *rest,
                       const char *rest_unsigned)
{
    struct route r;
    const char *why = NULL;
    int e = route_parse_path(str_of(text), &r, &why);

    if (!id) {
        if (e != -EINVAL)
            test_fail(__FILE__, __LINE__, "%s was read", text);
        CHECK(why && why[0]);
        return;
    }
    CHECK_EQ(e, 0);
    CHECK(str_eq(r.id, str_of(id)));
    CHECK_EQ(r.port, port);
    CHECK_EQ(r.is_signed, strcmp(rest, rest_unsigned) != 0);
    CHECK(str_eq(r.rest, str_of(rest)));
    CHECK(str_eq(r.rest_unsigned, str_of(rest_unsigned)));
}

TEST(route, reads_paths)
{
    check_path("/web/8080", "web", 8080, "", "");
    check_path("/web/8080/", "web", 8080, "/", "/");
    check_path("/web/8080/api/x", "web", 8080, "/api/x", "/api/x");
    check_path("/web/8080/vbbc00/78d0cfa8a/api", "web", 8080, "/api", "/vbbc00/78d0cfa8a/api");
    check_path("/web/8080/vbbc00/78d0cfa8a", "web", 8080, "", "/vbbc00/78d0cfa8a");
    check_path("/web/8080/vbbc00/78D0cfa8a/x", "web", 8080, "/vbbc00/78D0cfa8a/x",
               "/vbbc00/78D0cfa8a/x");
    check_path("/web/8080/a%2Fb", "web", 8080, "/a%2Fb", "/a%2Fb");
    check_path("/a-b/1/0-0/78d0cfa8a", "a-b", 1, "/0-0/78d0cfa8a", "/0-0/78d0cfa8a");
}

TEST(route, refuses_paths_without_a_sandbox_or_a_port)
{
    static const char *const bad[] = {"/",      "/web",       "/web/",       "/web/08080/x",
                                      "/web/0", "/web/65536", "/web/x/8080", "//8080",
                                      "",       "*"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        check_path(bad[i], NULL, 0, NULL, NULL);
}

static void check_clean(const char *path, const char *want)
{
    AUTO_BUF(out, 256);
    int r = route_clean_path(str_of(path), &out);

    CHECK_EQ(r, want != NULL);
    CHECK_STR(out.p, want ? want : "");
}

TEST(route, cleans_paths)
{
    check_clean("/a/b", NULL);
    check_clean("/a/b/", NULL);
    check_clean("/", NULL);
    check_clean("/a/..b/.c", NULL);
    check_clean("/a%2F..%2fb", NULL);
    check_clean("*", NULL);
    check_clean("//", "/");
    check_clean("/a//b", "/a/b");
    check_clean("/a/./b", "/a/b");
    check_clean("/a/../b", "/b");
    check_clean("/../../b/", "/b/");
    check_clean("/a/b/..", "/a");
    check_clean("/a/.", "/a");
    check_clean("/..", "/");
    check_clean("//evil.example/x", "/evil.example/x");
}

static void check_redacted(const char *path, const char *query, bool by_path, const char *want)
{
    AUTO_BUF(out, 1024);

    CHECK_EQ(route_redact(str_of(path), str_of(query), by_path, &out), 0);
    CHECK_STR(out.p, want);
}

TEST(route, hides_signatures_and_values_in_logs)
{
    check_redacted("/web/8080/vbbc00/78d0cfa8a/api", NULL, true, "/web/8080/vbbc00/***/api");
    check_redacted("/web/8080/vbbc00/78d0cfa8a/api", NULL, false, "/web/8080/vbbc00/78d0cfa8a/api");
    check_redacted("/x", "token=abc&b&c=", false, "/x?token=***&b&c=***");
    check_redacted("/x", "", false, "/x?");
}

static void check_dns(const char *id, const char *want)
{
    char out[ROUTE_DNS_MAX];

    route_dns_label(str_of(id), out);
    CHECK_STR(out, want);
}

TEST(route, makes_dns_labels)
{
    char id[101] = {0}, out[ROUTE_DNS_MAX];

    check_dns("1234", "sandbox-1234");
    check_dns("My_Box", "my-box");
    check_dns("  a--b..c  ", "a-b-c");
    check_dns("web", "web");
    route_dns_label(STR("___"), out);
    CHECK(strncmp(out, "sandbox-", 8) == 0);
    CHECK_EQ(strlen(out), 16);
    memset(id, 'a', 100);
    route_dns_label(str_of(id), out);
    CHECK_EQ(strlen(out), 63);
    CHECK(out[54] == '-');
}
