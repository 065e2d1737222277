#include "egress/sidecar_env.h"

#include "test.h"

static struct sidecar_conf conf;
static struct err e;

static int read_with(struct arena *a, const char *const *env, const char *resolv)
{
    e = (struct err){0};
    return sidecar_conf_read(env, str_of(resolv), STR(""), a, &conf, &e);
}

static void check_upstream(size_t i, const char *text)
{
    char got[SOCK_ADDR_TEXT_MAX];

    CHECK(i < conf.upstream_count);
    sock_addr_format(&conf.upstreams[i], got);
    CHECK_STR(got, text);
}

TEST(sidecar_env, has_the_defaults_of_the_contract)
{
    AUTO_ARENA(a, 64 * 1024);
    const char *const env[] = {NULL};

    CHECK_EQ(read_with(&a, env, ""), 0);
    CHECK(!conf.filters && !conf.intercepts && !conf.opens_at_stop && conf.vault_by_loopback);
    CHECK_EQ(conf.rules_max, 4096);
    CHECK_EQ(conf.dns_timeout_ms, 5000);
    CHECK_EQ(conf.tls_port, 18081);
    CHECK(str_eq(conf.http_addr, STR(":18080")));
    check_upstream(0, "8.8.8.8:53");
    CHECK_EQ(conf.otlp.n, 0);
}

TEST(sidecar_env, takes_modes_in_any_order_and_case)
{
    AUTO_ARENA(a, 64 * 1024);
    static const struct {
        const char *mode;
        bool filters;
        size_t warnings;
    } rows[] = {
        {"OPENSANDBOX_EGRESS_MODE= NFT + dns ",  true,  0},
        {"OPENSANDBOX_EGRESS_MODE=dns",          false, 0},
        {"OPENSANDBOX_EGRESS_MODE=nft",          false, 1},
        {"OPENSANDBOX_EGRESS_MODE=dns+iptables", false, 1},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const env[] = {rows[i].mode, NULL};

        CHECK_EQ(read_with(&a, env, ""), 0);
        CHECK_EQ(conf.filters, rows[i].filters);
        CHECK_EQ(conf.warning_count, rows[i].warnings);
    }
}

TEST(sidecar_env, takes_resolvers_as_addresses_only)
{
    AUTO_ARENA(a, 64 * 1024);
    const char *const good[] = {
        "OPENSANDBOX_EGRESS_DNS_UPSTREAM=10.0.0.2, 10.0.0.2:53,[2001:db8::1]:5353,2001:db8::2",
        NULL};
    const char *const bad[][2] = {
        {"OPENSANDBOX_EGRESS_DNS_UPSTREAM=dns.test", NULL},
        {"OPENSANDBOX_EGRESS_DNS_UPSTREAM=,",        NULL},
        {"OPENSANDBOX_EGRESS_DNS_UPSTREAM=:53",      NULL}
    };

    CHECK_EQ(read_with(&a, good, "nameserver 1.1.1.1\n"), 0);
    CHECK_EQ(conf.upstream_count, 3);
    check_upstream(0, "10.0.0.2:53");
    check_upstream(1, "[2001:db8::1]:5353");
    check_upstream(2, "[2001:db8::2]:53");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(read_with(&a, bad[i], "") < 0);
}

TEST(sidecar_env, finds_resolvers_elsewhere_before_those_of_loopback)
{
    AUTO_ARENA(a, 64 * 1024);
    const char *const env[] = {NULL};
    const char *text = "# x\nnameserver 127.0.0.11\nsearch a\nnameserver\t9.9.9.9\nnameserverx 1\n";

    CHECK_EQ(read_with(&a, env, text), 0);
    CHECK_EQ(conf.upstream_count, 2);
    check_upstream(0, "9.9.9.9:53");
    check_upstream(1, "127.0.0.11:53");
}

TEST(sidecar_env, skips_what_is_no_address_or_pair)
{
    AUTO_ARENA(a, 64 * 1024);
    const char *const env[] = {
        "OPENSANDBOX_EGRESS_NAMESERVER_EXEMPT=10.0.0.2,x,10.0.0.0/8,10.0.0.2,::1",
        "OPENSANDBOX_EGRESS_METRICS_EXTRA_ATTRS=a=b=c,=x,y=,z",
        "OPENSANDBOX_EGRESS_BLOCK_DOH_443=On",
        "OPENSANDBOX_EGRESS_DOH_BLOCKLIST=9.9.9.9,nope,2620:fe::/48",
        "OPENSANDBOX_EGRESS_MAX_RULES=-1",
        "OPENSANDBOX_EGRESS_DNS_UPSTREAM_TIMEOUT=500",
        "HOST_IP=192.0.2.8",
        NULL};

    CHECK_EQ(read_with(&a, env, ""), 0);
    CHECK_EQ(conf.exempt_count, 2);
    CHECK_EQ(conf.attr_count, 1);
    CHECK(str_eq(conf.attrs[0].value, STR("b=c")));
    CHECK_EQ(conf.doh_count, 2);
    CHECK_EQ(conf.warning_count, 1);
    CHECK_EQ(conf.rules_max, 4096);
    CHECK_EQ(conf.dns_timeout_ms, 120 * 1000);
    CHECK(str_eq(conf.otlp, STR("http://192.0.2.8:4318")) && conf.otlp_is_base);
}

TEST(sidecar_env, reads_lines_without_comments)
{
    struct str lines[3];

    CHECK_EQ(sidecar_lines(STR("# a\n\n x.test \n10.0.0.0/8\n"), lines, 3), 2);
    CHECK(str_eq(lines[0], STR("x.test")));
    CHECK(sidecar_lines(STR("a\nb\nc\nd\n"), lines, 3) < 0);
}
