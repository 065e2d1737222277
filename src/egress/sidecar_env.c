#include "egress/sidecar_env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/url.h"

enum {
    DNS_PORT = 53,
    OTLP_PORT = 4318,
    TIMEOUT_S = 5,
    TIMEOUT_S_MAX = 120,
    RESOLVERS_MAX = DNS_UPSTREAMS_MAX,
    OTLP_INTERVAL_MS = 60 * 1000,
    OTLP_INTERVAL_MS_MIN = 100,
    OTLP_INTERVAL_MS_MAX = 24 * 3600 * 1000,
};

#define EGRESS(name) STR("OPENSANDBOX_EGRESS_" name)

static struct str env_get(const char *const *env, struct str name)
{
    for (; *env; env++) {
        struct str row = str_of(*env);

        if (str_starts(row, name) && row.n > name.n && row.p[name.n] == '=')
            return str_skip(row, name.n + 1);
    }
    return STR("");
}

static bool is_truthy(const char *const *env, struct str name)
{
    static const char *const words[] = {"1", "true", "yes", "y", "on"};
    struct str value = str_trim(env_get(env, name));

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq_nocase(value, str_of(words[i])))
            return true;
    return false;
}

static void warn(struct sidecar_conf *c, const char *text)
{
    if (c->warning_count < ARRAY_LEN(c->warnings))
        c->warnings[c->warning_count++] = text;
}

static void read_mode(const char *const *env, struct sidecar_conf *ret)
{
    struct str rest = str_trim(env_get(env, EGRESS("MODE"))), word;
    bool dns = rest.n == 0, nft = false, other = false;

    while (rest.n && str_cut(&rest, '+', &word)) {
        word = str_trim(word);
        if (str_eq_nocase(word, STR("dns")))
            dns = true;
        else if (str_eq_nocase(word, STR("nft")))
            nft = true;
        else
            other = true;
    }
    if (!dns || other)
        warn(ret, "OPENSANDBOX_EGRESS_MODE is not 'dns' or 'dns+nft', taking 'dns'");
    ret->filters = dns && nft && !other;
}

static enum log_level level_of(struct str word)
{
    static const struct {
        const char *word;
        enum log_level level;
    } rows[] = {
        {"debug",   LOG_DEBUG},
        {"warn",    LOG_WARN },
        {"warning", LOG_WARN },
        {"error",   LOG_ERROR},
        {"fatal",   LOG_ERROR},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq_nocase(word, str_of(rows[i].word)))
            return rows[i].level;
    return LOG_INFO;
}

static void read_attrs(struct str list, struct sidecar_conf *ret)
{
    struct str entry;

    while (list.n && str_cut(&list, ',', &entry)) {
        size_t at = str_find(entry, '=');
        struct str key = str_trim(str_make(entry.p, min_size(at, entry.n)));
        struct str value = at < entry.n ? str_trim(str_skip(entry, at + 1)) : STR("");

        if (key.n && value.n && key.n <= 128 && value.n <= 256 &&
            ret->attr_count < SIDECAR_ATTRS_MAX)
            ret->attrs[ret->attr_count++] = (struct sidecar_attr){key, value};
    }
}

static void read_exempt(struct str list, struct sidecar_conf *ret)
{
    struct str entry;

    while (list.n && str_cut(&list, ',', &entry)) {
        struct netns_own_addr addr = {0};
        struct policy_net net;
        bool again = false;

        entry = str_trim(entry);
        if (str_find(entry, '/') < entry.n || policy_net_parse(entry, &net) < 0 ||
            ret->exempt_count == NETNS_OWN_EXEMPT_MAX)
            continue;
        addr.family = net.family;
        memcpy(addr.addr, net.addr, sizeof(addr.addr));
        for (size_t i = 0; i < ret->exempt_count; i++)
            again |= ret->exempt[i].family == addr.family &&
                     memcmp(ret->exempt[i].addr, addr.addr, sizeof(addr.addr)) == 0;
        if (again)
            continue;
        ret->exempt_texts[ret->exempt_count] = entry;
        ret->exempt[ret->exempt_count++] = addr;
    }
}

/* --- resolvers --- */

/* "1.2.3.4", "1.2.3.4:53", "[::1]:53", "[::1]", "::1". */
static int parse_resolver(struct str text, struct sock_addr *ret)
{
    struct policy_net net;
    char full[SOCK_ADDR_TEXT_MAX];
    struct str bare = text;
    int n;

    if (bare.n > 2 && bare.p[0] == '[' && bare.p[bare.n - 1] == ']')
        bare = str_make(bare.p + 1, bare.n - 2);
    if (str_find(bare, '/') >= bare.n && policy_net_parse(bare, &net) == 0)
        n = snprintf(full, sizeof(full), net.family == AF_INET ? "%.*s:%d" : "[%.*s]:%d",
                     STR_ARG(bare), DNS_PORT);
    else
        n = snprintf(full, sizeof(full), "%.*s", STR_ARG(text));
    if (n < 0 || (size_t)n >= sizeof(full) || text.n == 0 || text.p[0] == ':')
        return -EINVAL;
    if (sock_addr_parse(str_of(full), ret, NULL) < 0 ||
        (ret->any.sa_family != AF_INET && ret->any.sa_family != AF_INET6))
        return -EINVAL;
    return 0;
}

static void add_upstream(struct sidecar_conf *c, const struct sock_addr *addr)
{
    for (size_t i = 0; i < c->upstream_count; i++)
        if (sock_addr_eq(&c->upstreams[i], addr))
            return;
    if (c->upstream_count < DNS_UPSTREAMS_MAX)
        c->upstreams[c->upstream_count++] = *addr;
}

static int listed_upstreams(struct str list, struct sidecar_conf *ret, struct err *e)
{
    struct str entry;

    while (list.n && str_cut(&list, ',', &entry)) {
        struct sock_addr addr;

        entry = str_trim(entry);
        if (entry.n == 0)
            continue;
        if (parse_resolver(entry, &addr) < 0)
            return err_set(e, EINVAL,
                           "OPENSANDBOX_EGRESS_DNS_UPSTREAM: '%.*s' is not an IP address with an "
                           "optional port, such as 10.0.0.2, 10.0.0.2:53 or [2001:db8::1]:53",
                           (int)min_size(entry.n, 64), entry.p);
        add_upstream(ret, &addr);
    }
    return ret->upstream_count ? 0
                               : err_set(e, EINVAL, "OPENSANDBOX_EGRESS_DNS_UPSTREAM has no entry");
}

static bool is_loopback(const struct sock_addr *a)
{
    return a->any.sa_family == AF_INET ? ntohl(a->v4.sin_addr.s_addr) >> 24 == 127
                                       : IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

/* Resolvers elsewhere come before those of loopback. */
static void found_upstreams(struct str resolv, struct sidecar_conf *ret)
{
    struct sock_addr last;

    for (int loopback = 0; loopback < 2; loopback++) {
        struct str rest = resolv, line;

        while (rest.n && str_cut(&rest, '\n', &line)) {
            struct sock_addr addr;

            line = str_trim(line);
            if (!str_starts(line, STR("nameserver")) || line.n < 11 ||
                (line.p[10] != ' ' && line.p[10] != '\t'))
                continue;
            line = str_trim(str_skip(line, 10));
            if (parse_resolver(line, &addr) == 0 && is_loopback(&addr) == (loopback == 1))
                add_upstream(ret, &addr);
        }
    }
    if (ret->upstream_count == 0 && parse_resolver(STR("8.8.8.8"), &last) == 0)
        add_upstream(ret, &last);
}

/* --- numbers, targets --- */

static uint64_t number_or(const char *const *env, struct str name, uint64_t min, uint64_t max,
                          uint64_t usual)
{
    uint64_t n;

    return str_to_u64_range(str_trim(env_get(env, name)), min, max, &n) < 0 ? usual : n;
}

static void read_doh(struct str list, struct sidecar_conf *ret)
{
    struct policy_net net;
    struct str entry;

    while (list.n && str_cut(&list, ',', &entry)) {
        entry = str_trim(entry);
        if (entry.n == 0)
            continue;
        if (policy_net_parse(entry, &net) < 0 || ret->doh_count == EGRESS_TARGETS_MAX)
            warn(ret, "OPENSANDBOX_EGRESS_DOH_BLOCKLIST has an entry that is no address or "
                      "network, skipping it");
        else
            ret->doh[ret->doh_count++] = entry;
    }
}

static void read_otlp(const char *const *env, struct str hostinfo, struct arena *a,
                      struct sidecar_conf *ret)
{
    struct str host = str_trim(env_get(env, STR("HOST_IP"))), line;
    struct policy_net net;

    ret->otlp = str_trim(env_get(env, STR("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")));
    ret->otlp_interval_ms =
        (uint32_t)number_or(env, STR("OTEL_METRIC_EXPORT_INTERVAL"), OTLP_INTERVAL_MS_MIN,
                            OTLP_INTERVAL_MS_MAX, OTLP_INTERVAL_MS);
    if (ret->otlp.n)
        return;
    ret->otlp_is_base = true;
    ret->otlp = str_trim(env_get(env, STR("OTEL_EXPORTER_OTLP_ENDPOINT")));
    while (ret->otlp.n == 0 && policy_net_parse(host, &net) < 0 && hostinfo.n &&
           str_cut(&hostinfo, '\n', &line))
        host = str_trim(line);
    if (ret->otlp.n == 0 && policy_net_parse(host, &net) == 0)
        ret->otlp =
            str_of(arena_printf(a, net.family == AF_INET ? "http://%.*s:%d" : "http://[%.*s]:%d",
                                STR_ARG(host), OTLP_PORT));
}

static int read_interception(const char *const *env, struct arena *a, struct sidecar_conf *ret,
                             struct err *e)
{
    struct str dir = str_trim(env_get(env, EGRESS("MITMPROXY_UPSTREAM_TRUST_DIR")));
    struct str loopback = str_trim(env_get(env, EGRESS("CREDENTIAL_VAULT_REQUIRE_TLS")));

    ret->intercepts = is_truthy(env, EGRESS("MITMPROXY_TRANSPARENT"));
    ret->insecure = is_truthy(env, EGRESS("MITMPROXY_SSL_INSECURE"));
    ret->tls_port =
        (uint16_t)number_or(env, EGRESS("MITMPROXY_PORT"), 1, UINT16_MAX, NETNS_TLS_PORT);
    ret->trust_dir = arena_strdup(a, dir.n ? dir : STR("/etc/ssl/certs"));
    ret->vault_by_loopback =
        loopback.n == 0 || is_truthy(env, EGRESS("CREDENTIAL_VAULT_REQUIRE_TLS"));
    if (ret->intercepts && str_trim(env_get(env, EGRESS("MITMPROXY_SCRIPT"))).n)
        return err_set(e, EINVAL,
                       "OPENSANDBOX_EGRESS_MITMPROXY_SCRIPT: this interceptor runs no Python; use "
                       "rules of the policy and bindings of the vault");
    return 0;
}

int sidecar_conf_read(const char *const *env, struct str resolv, struct str hostinfo,
                      struct arena *a, struct sidecar_conf *ret, struct err *e)
{
    struct str file = env_get(env, EGRESS("POLICY_FILE"));
    struct str upstreams = env_get(env, EGRESS("DNS_UPSTREAM"));
    uint64_t seconds;
    int r;

    *ret = (struct sidecar_conf){.rules = str_trim(env_get(env, EGRESS("RULES")))};
    read_mode(env, ret);
    ret->policy_file = str_trim(file).n ? arena_strdup(a, str_trim(file)) : NULL;
    ret->http_addr = str_trim(env_get(env, EGRESS("HTTP_ADDR")));
    if (ret->http_addr.n == 0)
        ret->http_addr = STR(":18080");
    ret->token = env_get(env, EGRESS("TOKEN"));
    ret->rules_max = (uint32_t)number_or(env, EGRESS("MAX_RULES"), 0, UINT32_MAX, POLICY_RULES_MAX);
    ret->log_level = level_of(str_trim(env_get(env, EGRESS("LOG_LEVEL"))));
    ret->log_output = str_trim(env_get(env, STR("OPENSANDBOX_LOG_OUTPUT")));
    ret->webhook = str_trim(env_get(env, EGRESS("DENY_WEBHOOK")));
    ret->sandbox_id = env_get(env, EGRESS("SANDBOX_ID"));
    read_attrs(env_get(env, EGRESS("METRICS_EXTRA_ATTRS")), ret);
    read_exempt(env_get(env, EGRESS("NAMESERVER_EXEMPT")), ret);
    if (str_to_u64_range(str_trim(env_get(env, EGRESS("DNS_UPSTREAM_TIMEOUT"))), 1, UINT32_MAX,
                         &seconds) < 0)
        seconds = TIMEOUT_S;
    ret->dns_timeout_ms = (uint32_t)(seconds > TIMEOUT_S_MAX ? TIMEOUT_S_MAX : seconds) * 1000;
    ret->block_doh = is_truthy(env, EGRESS("BLOCK_DOH_443"));
    ret->opens_at_stop = is_truthy(env, EGRESS("OPEN_ON_STOP"));
    if (ret->block_doh)
        read_doh(env_get(env, EGRESS("DOH_BLOCKLIST")), ret);
    read_otlp(env, hostinfo, a, ret);
    r = upstreams.n ? listed_upstreams(upstreams, ret, e) : 0;
    if (upstreams.n == 0)
        found_upstreams(resolv, ret);
    return r < 0 ? r : read_interception(env, a, ret, e);
}

int sidecar_lines(struct str text, struct str *ret, size_t max)
{
    struct str line;
    size_t n = 0;

    while (text.n && str_cut(&text, '\n', &line)) {
        line = str_trim(line);
        if (line.n == 0 || line.p[0] == '#')
            continue;
        if (n == max)
            return -E2BIG;
        ret[n++] = line;
    }
    return (int)n;
}
