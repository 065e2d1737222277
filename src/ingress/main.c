/* main.c - opensandbox-ingress: start, signals, new connections, end. The control loop. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "base/log_outputs.h"
#include "base/mem.h"
#include "base/time.h"
#include "ingress/ingress.h"
#include "version.h"

enum {
    BACKLOG = 4096,
    WORKERS_DEFAULT_MAX = 16,
    POLL_MS = 20,
    POOL_THREADS = 4,
    LAST_PUSH_MS = 2000,
    END_SLACK_MS = 5000,
    START_PROBLEM_MAX = 256,
};

/* The process. */
struct gateway {
    struct ingress ingress;
    struct intents intents;
    struct tls_client *redis_tls;
    struct admin *admin;
    struct sock_listener listener;
    bool listening;
    struct loop_signals signals;
    struct loop_timer start, drain, end;
    uint64_t start_deadline_ns, end_deadline_ns;
    char start_problem[START_PROBLEM_MAX]; /* that was logged */
    enum { GATEWAY_STARTING, GATEWAY_SERVING, GATEWAY_DELAYED, GATEWAY_DRAINING } state;
    int result;
};

static void gateway_stop(struct gateway *g, int result)
{
    g->result = result;
    loop_stop(g->ingress.loop);
}

/* --- new connections --- */

static struct worker *least_busy(struct ingress *g)
{
    struct worker *best = &g->workers[0];

    for (size_t i = 1; i < g->worker_count; i++)
        if (atomic_load(&g->workers[i].connections) < atomic_load(&best->connections))
            best = &g->workers[i];
    return best;
}

static void on_accept(struct sock_listener *l, int fd, const struct sock_addr *peer)
{
    struct gateway *g = container_of(l, struct gateway, listener);
    struct worker *w = least_busy(&g->ingress);
    struct arrival *a = mem_new(struct arrival);

    *a = (struct arrival){.fd = fd, .peer = *peer, .source = limits_key_of(peer)};
    if (!limits_connect(&g->ingress.limits, &a->source)) {
        metric_add(&g->ingress.workers[0].metrics, METRIC_CONN_LIMITED, 1);
        fd_close(fd);
        free(a);
        return;
    }
    worker_give(w, a);
}

static int gateway_listen(struct gateway *g, struct err *e)
{
    const struct options *o = &g->ingress.options;
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr addr;
    int fd, r;

    (void)snprintf(text, sizeof(text), strchr(o->address, ':') ? "[%.100s]:%u" : "%.100s:%u",
                   o->address, (unsigned)o->port);
    r = sock_addr_parse(str_of(text), &addr, e);
    fd = r < 0 ? r : sock_listen(&addr, BACKLOG, e);
    if (fd < 0)
        return fd;
    (void)sock_local_addr(fd, &addr);
    r = sock_listener_start(&g->listener, g->ingress.loop, fd, on_accept, e);
    if (r < 0) {
        fd_close(fd);
        return r;
    }
    g->listening = true;
    g->state = GATEWAY_SERVING;
    sock_addr_format(&addr, text);
    log_event(LOG_INFO, "listening", LOG_STR("address", (const char *)text),
              LOG_U64("port", sock_addr_port(&addr)), LOG_STR("mode", o->mode_text),
              LOG_STR("provider", o->provider), LOG_BOOL("tls", o->tls_cert[0] != '\0'),
              LOG_U64("workers", g->ingress.worker_count));
    return 0;
}

/* --- the start: the port stays closed until the table of sandboxes is complete --- */

/* Why the list does not come, once for each reason. */
static void log_start_problem(struct gateway *g)
{
    char why[START_PROBLEM_MAX] = "";

    watch_problem(g->ingress.watch, why, sizeof(why));
    if (!why[0] || strcmp(why, g->start_problem) == 0)
        return;
    memcpy(g->start_problem, why, sizeof(why));
    log_event(LOG_WARN, "waiting for the first list of sandboxes",
              LOG_STR("provider", g->ingress.options.provider), LOG_STR("why", (const char *)why));
}

static void on_start(struct loop_timer *t)
{
    struct gateway *g = container_of(t, struct gateway, start);
    struct err e = {0};
    char why[START_PROBLEM_MAX] = "";

    if (!g->ingress.watch || watch_is_synced(g->ingress.watch)) {
        if (gateway_listen(g, &e) < 0) {
            (void)log_err(&e, "cannot start");
            gateway_stop(g, 1);
        }
    } else if (deadline_passed(g->start_deadline_ns)) {
        watch_problem(g->ingress.watch, why, sizeof(why));
        log_event(LOG_ERROR, "cannot start: the first list of sandboxes did not come in time",
                  LOG_STR("provider", g->ingress.options.provider),
                  LOG_STR("why", (const char *)why));
        gateway_stop(g, 1);
    } else {
        log_start_problem(g);
        loop_timer_after(g->ingress.loop, t, POLL_MS, on_start);
    }
}

/* --- the end --- */

static void on_end(struct loop_timer *t)
{
    struct gateway *g = container_of(t, struct gateway, end);
    bool ended = true;

    for (size_t i = 0; i < g->ingress.worker_count; i++)
        ended &= atomic_load(&g->ingress.workers[i].ended);
    if (ended && g->end_deadline_ns > deadline_in_ms(LAST_PUSH_MS))
        g->end_deadline_ns = deadline_in_ms(LAST_PUSH_MS);
    if ((ended && (!g->ingress.intents || intents_idle(g->ingress.intents))) ||
        deadline_passed(g->end_deadline_ns))
        gateway_stop(g, 0);
    else
        loop_timer_after(g->ingress.loop, t, POLL_MS, on_end);
}

static void on_drain(struct loop_timer *t)
{
    struct gateway *g = container_of(t, struct gateway, drain);

    g->state = GATEWAY_DRAINING;
    log_event(LOG_INFO, "draining", LOG_U64("connections", atomic_load(&g->ingress.connections)));
    sock_listener_stop(&g->listener);
    g->listening = false;
    for (size_t i = 0; i < g->ingress.worker_count; i++)
        worker_drain(&g->ingress.workers[i]);
    g->end_deadline_ns = deadline_in_ms(g->ingress.options.drain_s * 1000 + END_SLACK_MS);
    loop_timer_after(g->ingress.loop, &g->end, 1, on_end);
}

static void on_signal(struct loop_signals *s, int signo)
{
    struct gateway *g = container_of(s, struct gateway, signals);

    if (signo == SIGHUP) {
        for (size_t i = 0; i < g->ingress.worker_count; i++)
            worker_reload(&g->ingress.workers[i]);
        log_event(LOG_INFO, "keys and certificates are read again", LOG_I64("signal", signo));
        return;
    }
    if (g->state != GATEWAY_SERVING) { /* not begun, or asked a second time */
        gateway_stop(g, 0);
        return;
    }
    g->state = GATEWAY_DELAYED;
    atomic_store(&g->ingress.draining, true);
    loop_timer_after(g->ingress.loop, &g->drain, g->ingress.options.drain_delay_s * 1000, on_drain);
}

/* --- construction --- */

static int read_keys(struct ingress *g, struct err *e)
{
    const struct options *o = &g->options;
    AUTO_BUF(text, ACCESS_KEYS_TEXT_MAX);
    int r = 0;

    buf_keep_secret(&text);
    if (o->keys_file[0])
        r = io_read_file(AT_FDCWD, o->keys_file, ACCESS_KEYS_TEXT_MAX, &text, e);
    else
        r = buf_add(&text, str_of(o->keys));
    return r < 0 ? r : access_keys_parse(buf_str(&text), &g->keys, e);
}

static int read_settings(struct gateway *gateway, struct err *e)
{
    struct ingress *g = &gateway->ingress;
    const struct options *o = &g->options;
    AUTO_BUF(names, 256);
    int r;

    g->provider = provider_find(o->provider);
    if (!g->provider) {
        provider_names(&names);
        return err_set(e, EINVAL, "--provider-type %.60s: expected one of %s", o->provider,
                       names.p);
    }
    if (g->provider->on_servers && !o->servers_file[0])
        return err_set(e, EINVAL, "--provider-type servers needs --servers-file");
    r = read_keys(g, e);
    if (r < 0)
        return err_wrap(e, r, "--secure-access-keys");
    r = limits_nets_parse(str_of(o->trusted_proxies), &g->trusted, e);
    if (r < 0)
        return err_wrap(e, r, "--trusted-proxies");
    if (o->servers_file[0])
        r = servers_load(o->servers_file, &g->servers, e);
    return r < 0 ? err_wrap(e, r, "--servers-file") : 0;
}

static int start_intents(struct gateway *gateway, struct err *e)
{
    struct ingress *g = &gateway->ingress;
    const struct options *o = &g->options;
    struct intents_conf conf = {
        .loop = g->loop,
        .redis = {.pool = g->pool},
        .key = o->queue_key,
        .length_max = o->queue_max,
        .min_interval_s = o->min_interval_s,
    };
    struct tls_client_conf tls = {.and_system = true};
    int r = redis_dsn_parse(str_of(o->redis_dsn), &conf.redis.dsn, e);

    if (r < 0)
        return err_wrap(e, r, "--renew-intent-redis-dsn");
    if (!o->renew)
        return 0;
    if (conf.redis.dsn.tls) {
        r = tls_client_new(&tls, &gateway->redis_tls, e);
        if (r < 0)
            return r;
        conf.redis.tls = tls_client_security(gateway->redis_tls);
    }
    r = intents_start(&gateway->intents, &conf, e);
    if (r == 0)
        g->intents = &gateway->intents;
    return r;
}

static int start_signals(struct gateway *g, struct err *e)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    return loop_signals_start(g->ingress.loop, &g->signals, &set, on_signal, e);
}

static int start_workers(struct ingress *g, struct err *e)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = g->options.workers;
    int r = 0;

    if (!count)
        count = cpus < 1 ? 1 : min_size((size_t)cpus, WORKERS_DEFAULT_MAX);
    g->workers = mem_new_array(struct worker, count);
    g->worker_count = count;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = worker_start(&g->workers[i], g, e);
    return r;
}

static int start_admin(struct gateway *g, struct err *e)
{
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr addr = {0};
    int r;

    if (!g->ingress.options.metrics_address[0])
        return 0;
    r = admin_start(&g->ingress, &g->admin, &addr, e);
    if (r < 0)
        return err_wrap(e, r, "--metrics-address");
    sock_addr_format(&addr, text);
    log_event(LOG_INFO, "metrics are served", LOG_STR("address", (const char *)text),
              LOG_U64("port", sock_addr_port(&addr)));
    return 0;
}

static int gateway_start(struct gateway *g, struct err *e)
{
    struct ingress *i = &g->ingress;
    const struct options *o = &i->options;
    struct limits_conf limits = {
        .connections = (uint32_t)o->source_connections,
        .rate = (uint32_t)o->source_rate,
        .burst = (uint32_t)o->source_burst,
        .failures = (uint32_t)o->source_failures,
    };
    int r = read_settings(g, e);

    limits_init(&i->limits, &limits);
    places_init(&i->places);
    id_short(i->id_prefix, sizeof(i->id_prefix) - 1);
    if (r == 0)
        r = loop_new(&i->loop, e);
    if (r == 0)
        r = start_signals(g, e);
    if (r == 0)
        r = pool_new(&(struct pool_conf){"names", POOL_THREADS, 1024}, &i->pool, e);
    if (r == 0)
        r = start_intents(g, e);
    if (r == 0 && i->provider->start)
        r = i->provider->start(i, e);
    if (r == 0)
        r = start_workers(i, e);
    if (r == 0)
        r = start_admin(g, e);
    if (r < 0)
        return r;
    g->start_deadline_ns = o->start_s ? deadline_in_ms(o->start_s * 1000) : DEADLINE_NEVER;
    loop_timer_after(i->loop, &g->start, 0, on_start);
    return 0;
}

static void gateway_free(struct gateway *g)
{
    struct ingress *i = &g->ingress;

    if (g->listening)
        sock_listener_stop(&g->listener);
    admin_stop(g->admin);
    pool_free(take_ptr(&i->pool)); /* its jobs are delivered below, as their loops settle */
    for (size_t n = 0; n < i->worker_count; n++)
        worker_join(&i->workers[n]);
    free(i->workers);
    watch_stop(i->watch);
    if (i->intents)
        intents_stop(i->intents);
    if (i->loop) {
        loop_timer_stop(i->loop, &g->start);
        loop_timer_stop(i->loop, &g->drain);
        loop_timer_stop(i->loop, &g->end);
        if (g->signals.loop)
            loop_signals_stop(&g->signals);
        loop_settle(i->loop);
        loop_free(i->loop);
    }
    tls_client_free(g->redis_tls);
    servers_done(&i->servers);
    places_done(&i->places);
    limits_done(&i->limits);
    mem_wipe(&i->keys, sizeof(i->keys));
}

static int start_log(const struct options *o, struct err *e)
{
    const struct json_pair members[] = {
        {STR("logger"), STR("opensandbox.ingress")}
    };

    return log_outputs_start(
        &(struct log_outputs_conf){
            .outputs = str_of(getenv("OPENSANDBOX_LOG_OUTPUT")),
            .level = o->log_level,
            .area = "ingress",
            .members = members,
            .member_count = ARRAY_LEN(members),
        },
        e);
}

int main(int argc, char **argv)
{
    static struct gateway gateway; /* one per process */
    enum options_wish wish;
    struct err e = {0};
    int r = options_parse(argc, argv, &gateway.ingress.options, &wish, &e);

    if (r < 0) {
        (void)fprintf(stderr, "opensandbox-ingress: %s\n", e.msg);
        return 2;
    }
    if (wish != OPTIONS_RUN) {
        (void)fputs(wish == OPTIONS_HELP ? options_help
                                         : "opensandbox-ingress " OPENSANDBOX_VERSION "\n",
                    stdout);
        return 0;
    }
    r = start_log(&gateway.ingress.options, &e);
    if (r < 0) {
        (void)fprintf(stderr, "opensandbox-ingress: %s\n", e.msg);
        return 1;
    }
    fd_raise_limit();
    (void)prctl(PR_SET_DUMPABLE, 0); /* it holds keys and tokens */
    log_event(LOG_INFO, "OpenSandbox ingress starts", LOG_STR("version", OPENSANDBOX_VERSION));
    if (gateway.ingress.options.mode == ROUTE_BY_NOTHING)
        log_event(LOG_ERROR, "every request will be refused: --mode is neither header nor uri",
                  LOG_STR("mode", gateway.ingress.options.mode_text));
    r = gateway_start(&gateway, &e);
    if (r == 0)
        r = loop_run(gateway.ingress.loop, &e);
    if (r < 0) {
        (void)log_err(&e, "cannot start");
        gateway.result = 1;
    }
    gateway_free(&gateway);
    log_event(LOG_INFO, "OpenSandbox ingress ends", LOG_I64("status", gateway.result));
    return gateway.result;
}
