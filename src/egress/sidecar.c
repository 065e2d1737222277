#include "egress/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/log_outputs.h"
#include "base/mem.h"
#include "version.h"

enum {
    POOL_QUEUE_MAX = 1024,
    ASKS_MAX = 1024,
    CACHE_ENTRIES_MAX = 4096,
    POLL_MS = 60 * 1000,
    DRAIN_MS = 5 * 1000,
    TEXT_BYTES_MAX = 64 * 1024,
    ARENA_BYTES_MAX = 256 * 1024,
    DNS_LISTEN_PORT = NETNS_DNS_PORT,
};

static struct sidecar *sidecar_of(const struct egress *g)
{
    return container_of((struct egress *)(uintptr_t)g, struct sidecar, egress);
}

/* --- how policies get into the kernel --- */

static int own_set(struct guarded *b, const struct netns_policy *rules,
                   struct broker_sandbox *ret UNUSED, struct err *e)
{
    return netns_own_set(&sidecar_of(b->egress)->own, rules, e);
}

static int own_learn(struct guarded *b, const struct netns_entry *entries, size_t count,
                     struct err *e)
{
    return b->egress->conf.dns_only ? 0 : netns_own_learn(entries, count, e);
}

static int own_save(struct guarded *b, const struct policy *policy, struct err *e)
{
    const char *path = sidecar_of(b->egress)->conf.policy_file;

    return path ? sidecar_policy_save(path, policy, e) : 0;
}

static int own_traffic(struct guarded *b, struct netns_traffic *ret, struct err *e)
{
    *ret = (struct netns_traffic){0};
    return b->egress->conf.dns_only ? 0 : netns_own_traffic(ret, e);
}

static int own_denied(struct egress *g, struct netns_denied ret[NETNS_DENIED_MAX], struct err *e)
{
    return g->conf.dns_only ? 0 : netns_own_denied(ret, e);
}

static int own_dir(struct guarded *b UNUSED, struct err *e)
{
    return sidecar_ca_dir(e);
}

static int mark_socket(void *egress, int fd)
{
    uint32_t mark = sidecar_of(egress)->own.mark;

    return setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ? -errno : 0;
}

/* A resolver that is exempt gets no mark: its traffic is routed as all other. */
static int mark_question(void *egress, int fd, const struct sock_addr *to)
{
    const struct netns_own *own = &sidecar_of(egress)->own;
    bool v4 = to->any.sa_family == AF_INET;

    for (size_t i = 0; i < own->exempt_count; i++) {
        const struct netns_own_addr *a = &own->exempt[i];
        const void *addr = v4 ? (const void *)&to->v4.sin_addr : &to->v6.sin6_addr;

        if (a->family == to->any.sa_family && memcmp(a->addr, addr, v4 ? 4 : 16) == 0)
            return 0;
    }
    return mark_socket(egress, fd);
}

static const struct enforcer own_enforcer = {
    .set = own_set,
    .learn = own_learn,
    .save = own_save,
    .traffic = own_traffic,
    .denied = own_denied,
    .open_dir = own_dir,
    .on_socket = mark_socket,
};

static void fill_own(struct sidecar *s)
{
    struct netns_own *own = &s->own;

    *own = (struct netns_own){.uid = (uint32_t)getuid(),
                              .filters = s->conf.filters,
                              .intercepts = s->conf.intercepts,
                              .connects = s->conf.intercepts || s->conf.webhook.n || s->conf.otlp.n,
                              .dns_port = DNS_LISTEN_PORT,
                              .tls_port = s->conf.tls_port};
    while (getrandom(&own->mark, sizeof(own->mark), 0) != sizeof(own->mark) || own->mark == 0)
        ;
    for (size_t i = 0; i < s->conf.upstream_count; i++) {
        const struct sock_addr *up = &s->conf.upstreams[i];
        struct netns_own_addr *a = &own->resolvers[own->resolver_count++];
        bool v4 = up->any.sa_family == AF_INET;

        a->family = (uint8_t)up->any.sa_family;
        a->port = sock_addr_port(up);
        memcpy(a->addr, v4 ? (const void *)&up->v4.sin_addr : &up->v6.sin6_addr, v4 ? 4 : 16);
    }
    memcpy(own->exempt, s->conf.exempt, sizeof(own->exempt));
    own->exempt_count = s->conf.exempt_count;
}

/* --- lists of the operator, live --- */

static void on_reloaded(void *user UNUSED, int result, const struct err *e)
{
    if (result < 0)
        log_event(LOG_ERROR, "cannot put the lists of the operator in force",
                  LOG_STR("error", e->msg));
}

static void reload_always(struct sidecar *s)
{
    struct policy *fresh = NULL;
    struct err e = {0};

    if (!sidecar_always_changed(s))
        return;
    if (sidecar_always_load(s, &fresh, &e) < 0) {
        (void)log_err(&e, "keeping the rules there are");
        return;
    }
    policy_free(s->egress.always);
    s->egress.always = fresh;
    log_event(LOG_INFO, "lists of the operator changed", LOG_U64("rules", fresh->count));
    change_start(s->egress.only, NULL, false, on_reloaded, s);
}

static void on_poll(struct loop_timer *timer)
{
    struct sidecar *s = container_of(timer, struct sidecar, poll);

    reload_always(s);
    loop_timer_after(s->egress.loop, &s->poll, POLL_MS, on_poll);
}

/* --- start --- */

static void stop(struct sidecar *s, int result)
{
    s->result = result;
    loop_stop(s->egress.loop);
}

static void on_drained(void *user)
{
    loop_stop(((struct sidecar *)user)->egress.loop);
}

static void on_signal(struct loop_signals *signals, int signo)
{
    struct sidecar *s = container_of(signals, struct sidecar, signals);

    if (signo == SIGHUP && s->ready)
        reload_always(s);
    if (signo == SIGHUP || s->draining)
        return;
    s->draining = true;
    if (s->egress.http)
        http_server_drain(s->egress.http, DRAIN_MS, on_drained, s);
    else
        loop_stop(s->egress.loop);
}

static void log_loaded(const struct guarded *b)
{
    AUTO_BUF(text, 2048);

    if (policy_write(b->policy, &text) < 0)
        buf_clear(&text);
    log_event(
        LOG_INFO, "policy loaded", LOG_STR("opensandbox.event", "egress.loaded"),
        LOG_STR("rules", buf_str(&text)), LOG_U64("count", b->policy->count),
        LOG_STR("egress.default", b->policy->default_action == POLICY_ALLOW ? "allow" : "deny"));
}

/* The rules are in force: serve. */
static void on_in_force(void *user, int result, const struct err *e)
{
    struct sidecar *s = user;
    struct err why = {0};

    if (result < 0) {
        (void)log_err(e, "cannot filter; is CAP_NET_ADMIN missing?");
        stop(s, EXIT_FAILURE);
        return;
    }
    if (sidecar_api_start(s, &why) < 0) {
        (void)log_err(&why, "cannot serve");
        stop(s, EXIT_FAILURE);
        return;
    }
    log_loaded(s->egress.only);
    s->ready = true;
    denied_start(&s->egress);
    (void)sidecar_always_changed(s);
    loop_timer_after(s->egress.loop, &s->poll, POLL_MS, on_poll);
    log_event(LOG_INFO, "ready", LOG_STR("mode", s->conf.filters ? "dns+nft" : "dns"),
              LOG_BOOL("interception", s->conf.intercepts),
              LOG_U64("resolvers", s->conf.upstream_count));
}

static bool has_ipv6(void)
{
    auto_fd fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

    return fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;
}

static int start_interception(struct sidecar *s, const struct broker_info *info, struct err *e)
{
    struct egress *g = &s->egress;
    int r = catcher_start(g, info, e);

    if (r >= 0)
        r = catcher_attach(g->only, e);
    if (r >= 0)
        r = sidecar_ca_export(intercept_ca_certificate(g->only->box), e);
    return r;
}

static int open_parts(struct sidecar *s, struct err *e)
{
    struct egress *g = &s->egress;
    const struct pool_conf pool = {"rules", 1, POOL_QUEUE_MAX};
    struct dns_forward_conf forward = {.upstream_count = s->conf.upstream_count,
                                       .timeout_ms = s->conf.dns_timeout_ms,
                                       .asks_max = ASKS_MAX,
                                       .on_socket = mark_question,
                                       .user = g};
    sigset_t set;
    int r = loop_new(&g->loop, e);

    if (r < 0)
        return r;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    r = loop_signals_start(g->loop, &s->signals, &set, on_signal, e);
    if (r == 0)
        r = pool_new(&pool, &g->pool, e);
    forward.loop = g->loop;
    memcpy(forward.upstreams, s->conf.upstreams, sizeof(forward.upstreams));
    g->forward = dns_forward_new(&forward);
    g->cache = dns_cache_new(CACHE_ENTRIES_MAX);
    return r;
}

static int start_webhook(struct sidecar *s, struct err *e)
{
    const struct outcall_conf conf = {.loop = s->egress.loop,
                                      .forward = s->egress.forward,
                                      .on_socket = mark_socket,
                                      .user = &s->egress,
                                      .url = s->conf.webhook};

    return s->conf.webhook.n ? webhook_new(&conf, &s->egress.webhook, e) : 0;
}

static void start_metrics(struct sidecar *s)
{
    const struct metrics_export_conf conf = {.egress = &s->egress,
                                             .url = s->conf.otlp,
                                             .is_base = s->conf.otlp_is_base,
                                             .interval_ms = s->conf.otlp_interval_ms,
                                             .on_socket = mark_socket,
                                             .user = &s->egress,
                                             .sandbox_id = s->conf.sandbox_id,
                                             .attrs = s->attrs,
                                             .attr_count = s->conf.attr_count};
    struct err e = {0};

    for (size_t i = 0; i < s->conf.attr_count; i++)
        s->attrs[i] =
            (struct otlp_attribute){.key = s->conf.attrs[i].key, .text = s->conf.attrs[i].value};
    if (s->conf.otlp.n && metrics_export_start(&conf, &s->metrics, &e) < 0)
        (void)log_err(&e, "metrics are not exported");
}

/* The order of the contract: a failure of any step ends the process. */
static int start(struct sidecar *s, struct err *e)
{
    struct egress *g = &s->egress;
    struct broker_info info = {.gateway.s_addr = htonl(INADDR_LOOPBACK)};
    struct policy *policy = NULL;
    int r = open_parts(s, e);

    if (has_ipv6())
        info.gateway6 = in6addr_loopback;
    if (r == 0)
        r = sidecar_policy_load(s, &policy, e);
    if (r < 0)
        return r;
    (void)guarded_make_only(g, s->conf.sandbox_id, policy, s->conf.intercepts);
    r = sidecar_always_load(s, &g->always, e);
    if (r == 0)
        r = policy_always(s->conf.doh, s->conf.doh_count, NULL, 0, &g->doh, e);
    if (r == 0)
        r = policy_always(NULL, 0, s->conf.exempt_texts, s->conf.exempt_count, &g->exempt, e);
    if (r == 0)
        r = sidecar_skip_load(s, e);
    if (r == 0)
        r = start_webhook(s, e);
    if (r == 0)
        start_metrics(s);
    if (r == 0)
        r = resolver_start(g, &info, e);
    if (r >= 0 && s->conf.intercepts)
        r = start_interception(s, &info, e);
    if (r < 0)
        return r;
    fill_own(s);
    change_start(g->only, NULL, false, on_in_force, s);
    return 0;
}

/* --- end --- */

static void clean_up(struct sidecar *s)
{
    struct egress *g = &s->egress;

    http_server_free(g->http);
    if (g->pool) {
        (void)pool_stop(g->pool, UINT32_MAX);
        loop_settle(g->loop);
    }
    denied_stop(g);
    resolver_free(g->resolver);
    if (g->loop)
        loop_timer_stop(g->loop, &s->poll);
    guarded_free_all(g);
    catcher_free(g->catcher);
    webhook_free(g->webhook);
    metrics_export_stop(s->metrics);
    dns_forward_free(g->forward);
    dns_cache_free(g->cache);
    pool_free(g->pool);
    policy_free(g->always);
    policy_free(g->doh);
    policy_free(g->exempt);
    policy_free(g->log_skip);
    if (g->loop) {
        loop_signals_stop(&s->signals);
        loop_settle(g->loop);
    }
    loop_free(g->loop);
    arena_done(&s->arena);
}

static void print_banner(void)
{
    struct utsname u;

    if (uname(&u) < 0)
        u = (struct utsname){0};
    (void)printf("component: opensandbox-egress\nversion: %s\ncommit: unknown\n"
                 "build time: unknown\nruntime: C, gcc %s\nplatform: %s/%s\n",
                 OPENSANDBOX_VERSION, __VERSION__, u.sysname, u.machine);
    (void)fflush(stdout);
}

static int read_conf(struct sidecar *s, struct err *e)
{
    AUTO_BUF(resolv, TEXT_BYTES_MAX);
    AUTO_BUF(hostinfo, TEXT_BYTES_MAX);
    const struct egress_conf base = {.until_eof = -EBADF, .record = -EBADF, .private_names = true};
    struct egress_conf *c = &s->egress.conf;
    int r;

    (void)io_read_file(AT_FDCWD, "/etc/resolv.conf", TEXT_BYTES_MAX, &resolv, NULL);
    (void)io_read_file(AT_FDCWD, "/etc/hostinfo", TEXT_BYTES_MAX, &hostinfo, NULL);
    r = sidecar_conf_read((const char *const *)environ, buf_str(&resolv), buf_str(&hostinfo),
                          &s->arena, &s->conf, e);
    if (r < 0)
        return r;
    *c = base;
    c->rules_max = s->conf.rules_max;
    c->dns_timeout_ms = s->conf.dns_timeout_ms;
    c->block_doh = s->conf.block_doh;
    c->dns_only = !s->conf.filters;
    c->insecure = s->conf.insecure;
    c->vault_cleartext = !s->conf.vault_by_loopback;
    c->tls_port = s->conf.tls_port;
    c->trust_dir = s->conf.trust_dir;
    c->ca_file = "mitmproxy-ca.pem";
    return 0;
}

static int start_log(const struct sidecar_conf *conf, struct err *e)
{
    struct json_pair members[SIDECAR_ATTRS_MAX + 2] = {
        {STR("logger"),     STR("opensandbox.egress")},
        {STR("sandbox_id"), conf->sandbox_id         },
    };

    for (size_t i = 0; i < conf->attr_count; i++)
        members[i + 2] = (struct json_pair){conf->attrs[i].key, conf->attrs[i].value};
    return log_outputs_start(&(struct log_outputs_conf){.outputs = conf->log_output,
                                                        .level = conf->log_level,
                                                        .area = "egress",
                                                        .members = members,
                                                        .member_count = conf->attr_count + 2},
                             e);
}

int sidecar_main(void)
{
    static struct sidecar s; /* one per process */
    struct egress *g = &s.egress;
    struct err e = {0};
    int r;

    print_banner();
    arena_init(&s.arena, ARENA_BYTES_MAX);
    s.always[0].path = "/var/egress/rules/deny.always";
    s.always[1].path = "/var/egress/rules/allow.always";
    r = read_conf(&s, &e);
    if (r == 0)
        r = start_log(&s.conf, &e);
    *g = (struct egress){.conf = g->conf,
                         .enforcer = &own_enforcer,
                         .client = {-EBADF},
                         .sandboxes = -EBADF,
                         .sandbox_id = s.conf.sandbox_id};
    map_init(&g->guarded, EGRESS_GUARDED_MAX, NULL);
    map_init(&g->by_addr, 2, NULL);
    fd_raise_limit();
    (void)prctl(PR_SET_DUMPABLE, 0); /* it holds credentials */
    for (size_t i = 0; r == 0 && i < s.conf.warning_count; i++)
        log_event(LOG_WARN, s.conf.warnings[i], LOG_U64("n", i));
    if (r == 0 && s.conf.token.n == 0)
        log_event(LOG_WARN,
                  "OPENSANDBOX_EGRESS_TOKEN is not set: the workload can change its "
                  "policy",
                  LOG_BOOL("authentication", false));
    if (r == 0)
        r = start(&s, &e);
    if (r == 0)
        r = loop_run(g->loop, &e);
    if (r < 0)
        (void)log_err(&e, "cannot serve");
    if (r == 0 && s.result == 0 && s.conf.opens_at_stop && netns_own_clear(&e) < 0)
        (void)log_err(&e, "cannot remove the rules");
    clean_up(&s);
    return r < 0 ? EXIT_FAILURE : s.result;
}
