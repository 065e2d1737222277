#include "egress/policy/policy.h"

#include <arpa/inet.h>
#include <errno.h>

#include "test.h"

static struct policy *parse(const char *json)
{
    struct policy *p = NULL;
    struct err e = {0};

    if (policy_parse(str_of(json), &p, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", json, e.msg);
    return p;
}

static void refuses(const char *json, const char *why)
{
    struct policy *p = NULL;
    struct err e = {0};

    CHECK_EQ(policy_parse(str_of(json), &p, &e), -EBADMSG);
    if (!strstr(e.msg, why))
        test_fail(__FILE__, __LINE__, "%s: '%s' does not say '%s'", json, e.msg, why);
}

static enum policy_action name(const struct policy *p, const char *text)
{
    return policy_judge_name(NULL, p, str_of(text), NULL);
}

static enum policy_action addr(const struct policy *p, const char *text, uint8_t protocol,
                               uint16_t port)
{
    uint8_t bytes[16];
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;

    CHECK_EQ(inet_pton(family, text, bytes), 1);
    return policy_judge_addr(NULL, p, family, bytes, protocol, port);
}

static void check_written(const struct policy *p, const char *want)
{
    AUTO_BUF(out, 65536);

    CHECK_EQ(policy_write(p, &out), 0);
    CHECK_STR(out.p, want);
}

TEST(policy, nothing_is_deny_all)
{
    static const char *const texts[] = {"null", "{}", "{\"egress\":null}", "{\"egress\":[]}",
                                        "{\"DEFAULTACTION\":\" Deny \",\"other\":1}"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct policy *p = parse(texts[i]);

        CHECK_STR(policy_mode(p), "deny_all");
        CHECK_EQ(name(p, "example.org"), POLICY_DENY);
        check_written(p, "{\"egress\":[],\"defaultAction\":\"deny\"}");
        policy_free(p);
    }
}

TEST(policy, the_first_rule_that_matches_a_name_counts)
{
    struct policy *p = parse("{\"defaultAction\":\"deny\",\"egress\":["
                             "{\"action\":\"deny\",\"target\":\"ads.example.com\"},"
                             "{\"action\":\"allow\",\"target\":\"*.example.com\"},"
                             "{\"action\":\"allow\",\"target\":\"PyPI.org.\"}]}");

    CHECK_STR(policy_mode(p), "enforcing");
    CHECK_EQ(name(p, "www.example.com"), POLICY_ALLOW);
    CHECK_EQ(name(p, "a.b.EXAMPLE.com"), POLICY_ALLOW);
    CHECK_EQ(name(p, "example.com"), POLICY_DENY);
    CHECK_EQ(name(p, "ads.example.com"), POLICY_DENY);
    CHECK_EQ(name(p, "x.ads.example.com"), POLICY_ALLOW);
    CHECK_EQ(name(p, "badexample.com"), POLICY_DENY);
    CHECK_EQ(name(p, ".example.com"), POLICY_DENY);
    CHECK_EQ(name(p, "pypi.org"), POLICY_ALLOW);
    CHECK_EQ(name(p, "files.pypi.org"), POLICY_DENY);
    CHECK_EQ(name(p, ""), POLICY_DENY);
    policy_free(p);
}

TEST(policy, of_addresses_denial_counts_first)
{
    struct policy *p = parse("{\"egress\":[{\"action\":\"allow\",\"target\":\"203.0.113.77/24\"},"
                             "{\"action\":\"deny\",\"target\":\"203.0.113.9\"},"
                             "{\"action\":\"allow\",\"target\":\"2001:db8::/33\"},"
                             "{\"action\":\"allow\",\"target\":\"192.0.2.1\",\"protocol\":\"TCP\","
                             "\"ports\":[443,\"8000-8010\"]}]}");

    CHECK_EQ(addr(p, "203.0.113.1", 0, 0), POLICY_ALLOW);
    CHECK_EQ(addr(p, "203.0.113.9", IPPROTO_TCP, 80), POLICY_DENY);
    CHECK_EQ(addr(p, "203.0.114.1", 0, 0), POLICY_NO_RULE);
    CHECK_EQ(addr(p, "2001:db8:7fff::1", 0, 0), POLICY_ALLOW);
    CHECK_EQ(addr(p, "2001:db8:8000::1", 0, 0), POLICY_NO_RULE);
    CHECK_EQ(addr(p, "192.0.2.1", IPPROTO_TCP, 443), POLICY_ALLOW);
    CHECK_EQ(addr(p, "192.0.2.1", IPPROTO_TCP, 8010), POLICY_ALLOW);
    CHECK_EQ(addr(p, "192.0.2.1", IPPROTO_TCP, 8011), POLICY_NO_RULE);
    CHECK_EQ(addr(p, "192.0.2.1", IPPROTO_UDP, 443), POLICY_NO_RULE);
    CHECK_EQ(name(p, "203.0.113.1"), POLICY_DENY); /* a name is no address */
    policy_free(p);
}

TEST(policy, refuses_what_could_never_match)
{
    refuses("{", "");
    refuses("[]", "expected an object");
    refuses("{} x", "");
    refuses("{\"defaultAction\":\"maybe\"}", "allow");
    refuses("{\"egress\":{}}", "expected an array");
    refuses("{\"egress\":[1]}", "expected an object");
    refuses("{\"egress\":[{}]}", "cannot be empty");
    refuses("{\"egress\":[{\"target\":\"  \"}]}", "cannot be empty");
    refuses("{\"egress\":[{\"target\":\"a\",\"action\":\"drop\"}]}", "unsupported action");
    refuses("{\"egress\":[{\"target\":\"*\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"*.\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"a.*.b\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"https://a.b\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"a..b\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"1.2.3\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"1.2.3.04\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"1.2.3.4/33\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"fe80::1%eth0\"}]}", "example.org");
    refuses("{\"egress\":[{\"target\":\"a.b\",\"ports\":[0]}]}", "65535");
    refuses("{\"egress\":[{\"target\":\"1.2.3.4\",\"ports\":[\"9-8\"]}]}", "range");
    refuses("{\"egress\":[{\"target\":\"a.b\",\"ports\":[1]}]}", "denies");
    refuses("{\"egress\":[{\"action\":\"allow\",\"target\":\"a.b\",\"ports\":[\"1-9\"]}]}",
            "single");
    refuses("{\"egress\":[{\"target\":\"1.2.3.4\",\"protocol\":\"icmp\",\"ports\":[1]}]}", "icmp");
    refuses("{\"egress\":[{\"target\":\"1.2.3.4\",\"protocol\":\"gre\"}]}", "unsupported protocol");
}

TEST(policy, a_patch_comes_first_and_replaces_targets)
{
    struct policy *old = parse("{\"egress\":[{\"action\":\"deny\",\"target\":\"ads.example.com\"},"
                               "{\"action\":\"allow\",\"target\":\"*.example.com\"},"
                               "{\"action\":\"allow\",\"target\":\"PyPI.org\"}]}");
    struct policy *p = NULL;
    struct err e = {0};

    CHECK_EQ(policy_patch(old,
                          STR("[{\"action\":\"allow\",\"target\":\"ads.example.com\"},"
                              "{\"action\":\"deny\",\"target\":\"*.example.com\"},"
                              "{\"action\":\"deny\",\"target\":\"ADS.example.com\"}]"),
                          &p, &e),
             0);
    check_written(p, "{\"egress\":[{\"action\":\"allow\",\"target\":\"ads.example.com\"},"
                     "{\"action\":\"deny\",\"target\":\"*.example.com\"},"
                     "{\"action\":\"allow\",\"target\":\"PyPI.org\"}],\"defaultAction\":\"deny\"}");
    policy_free(p);
    CHECK_EQ(policy_patch(old, STR("[]"), &p, &e), -EBADMSG);
    CHECK_EQ(policy_patch(old, STR("{}"), &p, &e), -EBADMSG);
    policy_free(old);
}

TEST(policy, a_deletion_matches_targets_in_any_case)
{
    struct policy *old = parse("{\"defaultAction\":\"allow\",\"egress\":["
                               "{\"action\":\"deny\",\"target\":\"Ads.example.com\"},"
                               "{\"action\":\"deny\",\"target\":\"10.0.0.0/8\",\"ports\":[1]}]}");
    struct policy *p = NULL;
    struct err e = {0};
    size_t removed = 0;

    CHECK_EQ(policy_without(old, STR("[\" ads.EXAMPLE.com \",\"\"]"), &p, &removed, &e), 0);
    CHECK_EQ(removed, 1);
    check_written(p, "{\"egress\":[{\"action\":\"deny\",\"target\":\"10.0.0.0/8\",\"ports\":[1]}],"
                     "\"defaultAction\":\"allow\"}");
    policy_free(p);
    CHECK_EQ(policy_without(old, STR("[\"x\"]"), &p, &removed, &e), 0);
    CHECK_EQ(removed, 0);
    policy_free(p);
    CHECK_EQ(policy_without(old, STR("[1]"), &p, &removed, &e), -EBADMSG);
    policy_free(old);
}

static enum policy_action judge_request(const struct policy *p, const char *method,
                                        const char *path)
{
    return policy_judge_request(NULL, p, STR("api.test"), str_of(method),
                                path ? str_of(path) : STR_NONE);
}

TEST(policy, rules_for_requests_have_methods_and_paths)
{
    auto_policy *p = parse(
        "{\"egress\":[{\"action\":\"deny\",\"target\":\"api.test\",\"paths\":[\"/v1/admin/*\"]},"
        "{\"action\":\"allow\",\"target\":\"api.test\",\"methods\":[\"get\"],\"paths\":[\"/v1/"
        "*\",\"/up\"]}]}");

    CHECK(policy_has_http(p));
    CHECK_EQ(policy_judge_name(NULL, p, STR("api.test"), NULL), POLICY_ALLOW);
    CHECK(policy_rule_covers(&p->rules[1], IPPROTO_TCP, 443));
    CHECK(!policy_rule_covers(&p->rules[1], IPPROTO_TCP, 8443));
    CHECK_EQ(judge_request(p, "GET", "/v1/x"), POLICY_ALLOW);
    CHECK_EQ(judge_request(p, "GET", "/up"), POLICY_ALLOW);
    CHECK_EQ(judge_request(p, "GET", "/upper"), POLICY_DENY);
    CHECK_EQ(judge_request(p, "POST", "/v1/x"), POLICY_DENY);
    CHECK_EQ(judge_request(p, "GET", "/v1/admin/x"), POLICY_DENY);
    CHECK_EQ(judge_request(p, "GET", NULL), POLICY_DENY);
    CHECK_EQ(policy_judge_request(NULL, p, STR("other.test"), STR("GET"), STR("/")),
             POLICY_NO_RULE);
}

TEST(policy, a_denied_request_leaves_the_name_alone)
{
    auto_policy *p =
        parse("{\"defaultAction\":\"allow\",\"egress\":["
              "{\"action\":\"deny\",\"target\":\"api.test\",\"methods\":[\"DELETE\"]}]}");
    auto_policy *patched = NULL;
    struct err e = {0};

    CHECK_EQ(policy_judge_name(NULL, p, STR("api.test"), NULL), POLICY_ALLOW);
    CHECK_EQ(judge_request(p, "DELETE", "/"), POLICY_DENY);
    CHECK_EQ(judge_request(p, "GET", "/"), POLICY_ALLOW);
    CHECK_EQ(policy_patch(p,
                          STR("[{\"action\":\"deny\",\"target\":\"api.test\",\"paths\":[\"/a\"]},"
                              "{\"action\":\"allow\",\"target\":\"api.test\"}]"),
                          &patched, &e),
             0);
    CHECK_EQ(patched->count, 2); /* a rule for requests is no double of one for the name */
    CHECK_EQ(judge_request(patched, "DELETE", "/"), POLICY_ALLOW);
    CHECK_EQ(judge_request(patched, "GET", "/a"), POLICY_DENY);
}

TEST(policy, the_operator_s_rules_come_first)
{
    const struct str deny[] = {STR("bad.test"), STR("10.0.0.0/8")}, allow[] = {STR("*.test")};
    struct policy *always = NULL, *p = parse("{\"egress\":[{\"action\":\"allow\",\"target\":"
                                             "\"bad.test\"},{\"action\":\"deny\",\"target\":"
                                             "\"good.test\"}]}");
    const uint8_t ten[4] = {10, 1, 2, 3};

    CHECK_EQ(policy_always(deny, 2, allow, 1, &always, NULL), 0);
    CHECK_EQ(policy_judge_name(always, p, STR("bad.test"), NULL), POLICY_DENY);
    CHECK_EQ(policy_judge_name(always, p, STR("good.test"), NULL), POLICY_ALLOW);
    CHECK_EQ(policy_judge_name(always, p, STR("test"), NULL), POLICY_DENY);
    CHECK_EQ(policy_judge_addr(always, p, AF_INET, ten, 0, 0), POLICY_DENY);
    CHECK_EQ(policy_always(&STR("* bad"), 1, NULL, 0, &always, NULL), -EBADMSG);
    policy_free(always);
    policy_free(p);
}

TEST(policy, explicit_permission_needs_a_rule)
{
    struct policy *open = parse("{\"defaultAction\":\"allow\",\"egress\":[{\"action\":\"deny\","
                                "\"target\":\"no.example.com\"},{\"action\":\"allow\",\"target\":"
                                "\"*.example.com\"}]}");

    CHECK(policy_allows_explicitly(NULL, open, STR("api.example.com")));
    CHECK(policy_allows_explicitly(NULL, open, STR("*.example.com")));
    CHECK(policy_allows_explicitly(NULL, open, STR("*.deep.example.com")));
    CHECK(!policy_allows_explicitly(NULL, open, STR("no.example.com")));
    CHECK(!policy_allows_explicitly(NULL, open, STR("example.com")));
    CHECK(!policy_allows_explicitly(NULL, open, STR("other.org")));
    CHECK(!policy_allows_explicitly(NULL, open, STR("*.org")));
    policy_free(open);
}

TEST(policy, knows_addresses_that_names_must_not_lead_to)
{
    static const char *const special[] = {"127.0.0.1",
                                          "10.1.2.3",
                                          "172.31.0.1",
                                          "192.168.1.1",
                                          "169.254.169.254",
                                          "100.100.100.200",
                                          "0.0.0.0",
                                          "224.0.0.1",
                                          "::1",
                                          "::ffff:8.8.8.8",
                                          "fe80::1",
                                          "fd00:ec2::254",
                                          "ff02::1",
                                          "::",
                                          "2002:7f00:1::",
                                          "64:ff9b::a9fe:a9fe",
                                          "255.255.255.255",
                                          "168.63.129.16"};
    static const char *const usual[] = {"8.8.8.8", "203.0.113.9", "2001:4860:4860::8888",
                                        "64:ff9b::808:808", "172.32.0.1"};
    uint8_t bytes[16];

    for (size_t i = 0; i < ARRAY_LEN(special) + ARRAY_LEN(usual); i++) {
        bool wanted = i < ARRAY_LEN(special);
        const char *text = wanted ? special[i] : usual[i - ARRAY_LEN(special)];
        int family = strchr(text, ':') ? AF_INET6 : AF_INET;

        CHECK_EQ(inet_pton(family, text, bytes), 1);
        if (policy_addr_is_special(family, bytes) != wanted)
            test_fail(__FILE__, __LINE__, "%s", text);
    }
}
