#include "server/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/tls.h"
#include "server/config/apikey.h"
#include "server/http/logfile.h"
#include "server/http/routes.h"
#include "server/http/server_internal.h"
#include "server/privileges.h"
#include "server/rereader.h"
#include "server/runtime/embedded/embedded.h"
#include "server/runtime/embedded/resolv.h"
#include "version.h"

enum {
    BROKER_WAIT_MS = 15 * 1000, /* another broker may have to end first */
    CONNECTIONS_MAX = 10 * 1000,
    DRAIN_MS = 10 * 1000,
    LOG_NAMES_BYTES_MAX = 1024,
    POOL_QUEUE_MAX = 100 * 1000,
    SANDBOXES_MAX = 100 * 1000,
    STOP_MS = 20 * 1000,
};

/* The server, with what only start-up and shutdown use. */
struct life {
    struct server server;
    const struct config_options *options;
    struct roots *roots; /* the newest set; workers read it */
    struct apikey keys;
    struct tls_server *tls; /* NULL = plain HTTP */
    struct loop_signals signals;
    struct loop_child broker_watch;
    struct loop_timer deadline;
    struct proc broker;       /* started by us, or none */
    int tie;                  /* the broker ends when this is closed */
    struct rereader rereader; /* none if we were never root, or there is no file */
    struct logfile *log;      /* NULL = standard error */
    int status;
    bool loaded, drained;
};

static void init_log(const struct config *config, int fd)
{
    log_init(&(struct log_conf){
        .level = config->log_level,
        .format = config->log.format == CONFIG_LOG_JSON ? LOG_JSON : LOG_TEXT,
        .fd = fd,
        .area = "server",
    });
}

/* --- callbacks between parts --- */

static const struct embedded_root *find_root(void *user, struct str image)
{
    static const struct embedded_root host = {.host = true, .dir = -EBADF};
    struct life *l = user;
    struct roots *roots = __atomic_load_n(&l->roots, __ATOMIC_ACQUIRE);
    const struct config_image *found = config_image_find(roots->config, image);
    size_t i = found ? (size_t)(found - roots->config->images) : 0;

    if (!found)
        return NULL;
    if (found->kind == CONFIG_IMAGE_HOST)
        return &host;
    return i < roots->config->image_count && roots->images[i].dir >= 0 ? &roots->images[i] : NULL;
}

static bool is_api_key(void *user, struct str key)
{
    return guard_is_key(&((struct life *)user)->server.guard, key);
}

static bool holds_api_key(void *user, struct str text)
{
    return guard_holds_key(&((struct life *)user)->server.guard, text);
}

static bool is_signed(void *user, struct str sandbox_id, uint16_t port, struct str token)
{
    const struct config *config = ((struct life *)user)->server.config;
    uint64_t now_s = (uint64_t)(time_wall_us() / TIME_US_PER_S);

    for (size_t i = 0; i < config->ingress_secure.keys.count; i++) {
        const struct config_key *key = &config->ingress_secure.keys.at[i];
        struct api_route route;

        if (api_route_verify(key->secret, key->id, token, now_s, &route) == 0)
            return route.port == port && str_eq(route.sandbox_id, sandbox_id);
    }
    return false;
}

static const char *refusal_of(enum sandbox_state state)
{
    static const char *const texts[SANDBOX_STATE_COUNT] = {
        [SANDBOX_PENDING] = "the sandbox is still being created",
        [SANDBOX_PAUSING] = "the sandbox is being paused",
        [SANDBOX_PAUSED] = "the sandbox is paused",
        [SANDBOX_RESUMING] = "the sandbox is being resumed",
        [SANDBOX_STOPPING] = "the sandbox is being removed",
        [SANDBOX_TERMINATED] = "the sandbox has ended",
        [SANDBOX_FAILED] = "the sandbox has failed",
    };

    return texts[state];
}

static bool find_target(void *user, struct str sandbox_id, struct gateway_target *ret)
{
    struct server *s = &((struct life *)user)->server;
    struct sandbox *sb = sandboxes_find(s->sandboxes, sandbox_id);

    if (!sb)
        return false;
    *ret = (struct gateway_target){
        .token = str_of(sb->token),
        .secure = sb->facts.secure,
        .refusal = refusal_of(sb->state),
    };
    if (sb->state == SANDBOX_TERMINATED || sb->state == SANDBOX_FAILED)
        ret->cause = sb->message;
    s->runtime->ops->address(s->runtime, sandbox_id, &ret->addr);
    return true;
}

/* Without API keys the lifecycle API shows every client each sandbox's token: requiring it would
 * protect nothing, and clients that expect no access control do not send it. A sandbox created with
 * secureAccess always requires it: gateway_target.secure. */
static bool is_open(const struct server *s)
{
    return s->config->server.proxy_access == CONFIG_PROXY_OPEN || s->guard.key_count == 0;
}

static void on_access(void *user, struct str sandbox_id)
{
    struct server *s = &((struct life *)user)->server;
    struct sandbox *sb =
        s->config->renew_intent.enabled ? sandboxes_find(s->sandboxes, sandbox_id) : NULL;

    if (sb)
        sandbox_touch(sb);
}

static bool on_request(struct http_req *req)
{
    struct server *s = server_of(req);
    int64_t limit = s->config->server.limit_concurrency;
    struct http_server_stats stats;

    if (!guard_admit(&s->guard, req) || server_redirect(req))
        return false;
    if (guard_is_open_path(req->head.path))
        return true; /* answers at once, under any load */
    http_server_stats(s->http, &stats);
    if (limit == 0 || (int64_t)stats.admitted < limit) {
        http_req_admit(req);
        return true;
    }
    http_reply_error(req, 503, "SERVICE_UNAVAILABLE",
                     "more than %lld requests at a time, try again", (long long)limit);
    return false;
}

/* --- shutdown --- */

static void stop_if_over(struct life *l)
{
    if (l->drained && sandboxes_busy(l->server.sandboxes) == 0)
        loop_stop(l->server.loop);
}

static void on_idle(void *user)
{
    struct life *l = user;

    if (!l->loaded)
        loop_stop(l->server.loop);
    else if (l->server.stopping)
        stop_if_over(l);
}

static void on_drained(void *user)
{
    struct life *l = user;

    l->drained = true;
    stop_if_over(l);
}

static void on_deadline(struct loop_timer *timer)
{
    struct life *l = container_of(timer, struct life, deadline);

    log_event(LOG_WARN, "operations take too long, stopping without them");
    l->status = 1;
    loop_stop(l->server.loop);
}

/* Requests under way finish; sandboxes keep running. */
static void begin_stop(struct life *l)
{
    bool at_once = l->server.stopping || !l->loaded; /* second stop signal, or nothing to finish */

    l->server.stopping = true;
    if (at_once) {
        loop_stop(l->server.loop);
        return;
    }
    loop_timer_set(l->server.loop, &l->deadline, deadline_in_ms(STOP_MS), on_deadline);
    http_server_drain(l->server.http, DRAIN_MS, on_drained, l);
}

static void on_broker_exit(struct loop_child *child, int status)
{
    struct life *l = container_of(child, struct life, broker_watch);

    log_event(LOG_ERROR, "the broker has ended, stopping; sandboxes live on",
              LOG_I64("status", status));
    proc_close(&l->broker);
    l->status = 1;
    begin_stop(l);
}

/* --- reloading --- */

static void set_keys(struct life *l)
{
    struct guard *g = &l->server.guard;

    g->key_count = 0;
    for (size_t i = 0; i < l->keys.count && i < GUARD_KEYS_MAX; i++)
        g->keys[g->key_count++] = l->keys.keys[i];
}

/* Reads again the file that was read at the start, as root if the server started as root. If this
 * fails, config_load tries by itself and reports the error. */
static int read_again(struct life *l, struct buf *out)
{
    struct err e = {0};
    auto_fd fd = rereader_open(&l->rereader, &e);
    size_t n = 0;
    int r = fd < 0 ? fd : buf_reserve(out, out->max);

    if (r == 0)
        r = io_read_full(fd, out->p, out->max, DEADLINE_NEVER, &n);
    if (r == 0 && n > CONFIG_FILE_BYTES_MAX)
        r = -EFBIG;
    if (r == 0)
        buf_claim(out, n);
    else
        log_event(LOG_WARN, "cannot read the configuration as root, trying without",
                  LOG_STR("error", fd < 0 ? e.msg : strerror(-r)));
    return r;
}

static int load_again(struct life *l, struct config **ret_config, struct config_report *report)
{
    AUTO_BUF(text, CONFIG_FILE_BYTES_MAX + 1);
    struct config_options options = *l->options;

    if (l->server.config->path)
        options.path = l->server.config->path;
    if (l->rereader.pid > 0 && read_again(l, &text) == 0)
        options.text = buf_str(&text);
    return config_load(&options, ret_config, report);
}

static struct tls_server_conf tls_conf(const struct config *config)
{
    return (struct tls_server_conf){
        .cert_file = config->server.tls_cert,
        .key_file = config->server.tls_key,
        .client_ca_file = config->server.tls_client_ca,
    };
}

/* For connections to come. Whatever goes wrong, the certificate of before goes on serving. */
static void reload_tls(struct life *l, const struct config *config)
{
    struct tls_server_conf conf = tls_conf(config);
    struct err e = {0};

    if ((l->tls != NULL) != (config->server.tls_cert[0] != '\0'))
        log_event(LOG_WARN, "server.tls_cert: turning TLS on or off needs a restart");
    else if (l->tls && tls_server_reload(l->tls, &conf, &e) < 0)
        log_event(LOG_ERROR, "cannot reload the TLS certificate, keeping the old one",
                  LOG_STR("error", e.msg));
}

/* What handlers read at each request follows at once; the rest needs a restart. Configurations of
 * before are kept, as workers may be reading them. */
static void reload(struct life *l)
{
    struct config_report report;
    struct config *config = NULL;
    struct roots *roots;
    struct err e = {0};
    struct apikey keys;

    config_report_init(&report);
    if (load_again(l, &config, &report) < 0 || apikey_load(config, &keys, &e) < 0) {
        log_event(LOG_ERROR, "cannot reload the configuration, keeping the old one",
                  LOG_STR("error", e.code ? e.msg : report.lines.p));
        config_free(config);
        config_report_done(&report);
        return;
    }
    config_report_done(&report);
    roots = roots_open(config, l->roots);
    if (l->broker.pidfd >= 0)
        roots_warn_new(roots);
    __atomic_store_n(&l->roots, roots, __ATOMIC_RELEASE);
    l->server.config = config;
    apikey_done(&l->keys);
    l->keys = keys;
    set_keys(l);
    reload_tls(l, config);
    log_set_level(config->log_level);
    if (l->log) { /* log rotation sends SIGHUP after moving the files */
        logfile_reopen(l->log);
        logfile_reopen(l->server.access_log);
    }
    gateway_set_open(l->server.gateway, is_open(&l->server));
    log_event(LOG_INFO, "reloaded the configuration: keys, TLS certificate, log level, images, "
                        "endpoints, limits of timeouts; addresses, directories and the broker need "
                        "a restart");
}

static void on_signal(struct loop_signals *signals, int signo)
{
    struct life *l = container_of(signals, struct life, signals);

    if (signo == SIGHUP)
        reload(l);
    else
        begin_stop(l);
}

/* --- start-up --- */

static int start_signals(struct life *l, struct err *e)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    return loop_signals_start(l->server.loop, &l->signals, &set, on_signal, e);
}

/* A process that stays root reads root's configuration file again at SIGHUP. */
static int start_rereader(struct life *l, struct err *e)
{
    const char *path = l->server.config->path;

    return path && geteuid() == 0 ? rereader_start(path, &l->rereader, e) : 0;
}

/* Logs to files from here on, if configured; the account the server switches to owns them. */
static int start_logs(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;
    struct logfile_conf conf = {
        .path = config->log.file_path,
        .bytes_max = (uint64_t)config->log.file_max_bytes,
        .backups = (unsigned)config->log.file_backup_count,
        .uid = (uid_t)-1,
        .gid = (gid_t)-1,
    };
    int r = 0;

    if (!config->log.file_enabled)
        return 0;
    if (geteuid() == 0)
        r = config_account(config, &conf.uid, &conf.gid, e);
    if (r == 0)
        r = logfile_open(l->server.loop, &conf, &l->log, e);
    conf.path = config->log.access_file_path;
    if (r == 0)
        r = logfile_open(l->server.loop, &conf, &l->server.access_log, e);
    if (r == 0)
        init_log(config, logfile_fd(l->log));
    return r;
}

static int start_tls(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;
    struct tls_server_conf conf = tls_conf(config);
    int r = config->server.tls_cert[0] ? tls_server_new(&conf, &l->tls, e) : 0;

    return r < 0 ? err_wrap(e, r, "TLS") : 0;
}

/* While it is allowed: the TLS key, directories, the broker. Then never again. */
static int use_privileges(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;
    int r = start_tls(l, e);

    if (r == 0)
        r = data_dir_prepare(config, e);
    if (r < 0)
        return r;
    l->roots = roots_open(config, NULL);
    r = broker_start(l->roots, &l->broker, &l->tie, e);
    if (r >= 0)
        r = start_logs(l, e);
    return r < 0 ? r : privileges_drop(config, e);
}

static int start_runtime(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;
    struct embedded_conf conf = {
        .broker = config->embedded.broker,
        .broker_pid = l->broker.pid,
        .dir = config->dir,
        .ready = (uint32_t)config->embedded.ready,
        .network = config->embedded.network == CONFIG_NETWORK_BRIDGE,
        .limits = {.memory_bytes = config->embedded.default_memory,
                   .disk_bytes = config->embedded.default_disk,
                   .cpu_millicores = config->embedded.default_cpu},
        .pids = (uint32_t)config->embedded.pids_limit,
        .connections = (unsigned)config->embedded.workers,
        .host_paths = l->roots->host_paths,
        .host_path_count = l->roots->host_path_count,
        .find_root = find_root,
        .user = l,
    };

    memcpy(conf.dns, config->dns, sizeof(conf.dns));
    if (config->dns_count == 0)
        (void)resolv_servers(conf.dns, ARRAY_LEN(conf.dns));
    return embedded_new(&conf, BROKER_WAIT_MS, &l->server.runtime, e);
}

static int start_parts(struct life *l, struct err *e)
{
    struct server *s = &l->server;
    const struct config *config = s->config;
    struct pool_conf pool = {"worker", (unsigned)config->embedded.workers, POOL_QUEUE_MAX};
    int r = store_open(config->store.path, &s->store, e);

    if (r == 0)
        r = pool_new(&pool, &s->pool, e);
    if (r == 0)
        r = start_runtime(l, e);
    if (r < 0)
        return r;
    r = sandboxes_new(
        &(struct sandboxes_conf){
            .loop = s->loop,
            .pool = s->pool,
            .store = s->store,
            .runtime = s->runtime,
            .failed_ttl_us = config->embedded.failed_ttl_seconds * TIME_US_PER_S,
            .renew_min_interval_s = (uint32_t)config->renew_intent.min_interval_seconds,
            .reconcile_ms = (uint32_t)config->embedded.reconcile_seconds * 1000,
            .max = SANDBOXES_MAX,
            .on_idle = on_idle,
            .user = l,
        },
        &s->sandboxes, e);
    return r < 0 ? r
                 : gateway_new(
                       &(struct gateway_conf){
                           .loop = s->loop,
                           .open = is_open(s),
                           .is_api_key = is_api_key,
                           .holds_api_key = holds_api_key,
                           .is_signed = is_signed,
                           .find = find_target,
                           .on_access = on_access,
                           .user = l,
                       },
                       &s->gateway, e);
}

/* Half of the descriptors are left for sandboxes and for connections to them: a client that opens
 * many connections meets our limit, which evicts idle ones, before it meets the kernel's. */
static uint32_t connections_max(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return CONNECTIONS_MAX;
    return (uint32_t)min_size(CONNECTIONS_MAX, limit.rlim_cur / 2);
}

static int start_http(struct life *l, struct err *e)
{
    struct server *s = &l->server;
    struct http_server_conf conf = {
        .user = s,
        .on_request = on_request,
        .on_done = request_log_write,
        .on_refuse = guard_refuse,
        .tls = l->tls ? tls_server_security(l->tls) : NULL,
        .connections_max = connections_max(),
        .idle_ms = (uint32_t)s->config->server.timeout_keep_alive * 1000,
    };

    conf.routes = server_routes(&conf.route_count);
    s->metrics = metrics_new(conf.routes, conf.route_count);
    return http_server_new(s->loop, &conf, &s->http, e);
}

/* For /health, which asks again only while sandboxes are blocked. The broker logs the reason. */
static void look_for_blocks(struct server *s)
{
    struct runtime_levels levels = {0};

    if (s->runtime->ops->levels(s->runtime, &levels, NULL) >= 0)
        s->blocked = levels.blocked;
}

/* Reads the store and finishes what follows from it, before the server listens. */
static int load(struct life *l, struct err *e)
{
    int r = sandboxes_load(l->server.sandboxes, e);

    if (r == 0 && sandboxes_busy(l->server.sandboxes) > 0)
        r = loop_run(l->server.loop, e); /* until on_idle */
    l->loaded = true;
    return r;
}

/* Names the images that are the host's /usr: programs may expect more than this host has. */
static void log_host_images(const struct config *config)
{
    AUTO_BUF(names, LOG_NAMES_BYTES_MAX);

    for (size_t i = 0; i < config->image_count; i++)
        if (config->images[i].kind == CONFIG_IMAGE_HOST)
            (void)buf_addf(&names, "%s%s", names.n ? ", " : "", config->images[i].pattern);
    if (names.n)
        log_event(LOG_INFO,
                  "sandboxes of these images get this host's /usr; embedded.images maps them to "
                  "unpacked images instead",
                  LOG_STR("images", names.p));
}

static int listen_at(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;
    struct sock_addr addr;
    char text[SOCK_ADDR_TEXT_MAX], url[SOCK_ADDR_TEXT_MAX + sizeof("https://")];
    int r = sock_resolve(config->server.host, (uint16_t)config->server.port, &addr, e);
    int fd = r < 0 ? r : sock_listen(&addr, (int)config->server.backlog, e);

    if (fd < 0)
        return fd;
    sock_addr_format(&addr, text);
    r = http_server_listen(l->server.http, fd, e);
    if (r < 0)
        return r;
    log_host_images(config);
    (void)snprintf(url, sizeof(url), "%s%s", l->tls ? "https://" : "", text);
    log_event(LOG_INFO, "listening", LOG_STR("address", url),
              LOG_STR("version", OPENSANDBOX_VERSION), LOG_STR("runtime", l->server.runtime->name));
    apikey_print(&l->keys, text);
    return 0;
}

static int serve(struct life *l, struct err *e)
{
    int r = start_rereader(l, e);

    if (r == 0)
        r = loop_new(&l->server.loop, e);
    if (r == 0)
        r = start_signals(l, e); /* before threads, which inherit the signal mask */
    if (r == 0)
        r = use_privileges(l, e);
    if (r == 0)
        r = apikey_load(l->server.config, &l->keys, e);
    if (r < 0)
        return r;
    set_keys(l);
    r = start_parts(l, e);
    if (r == 0 && l->broker.pidfd >= 0)
        r = loop_child_start(l->server.loop, &l->broker_watch, l->broker.pidfd, on_broker_exit, e);
    if (r == 0)
        r = start_http(l, e);
    if (r == 0)
        r = load(l, e);
    if (r == 0)
        look_for_blocks(&l->server);
    if (r < 0 || l->server.stopping)
        return r;
    r = listen_at(l, e);
    return r < 0 ? r : loop_run(l->server.loop, e);
}

static void clean_up(struct life *l)
{
    struct server *s = &l->server;

    if (l->broker.pidfd >= 0 && l->broker_watch.loop)
        loop_child_stop(&l->broker_watch);
    http_server_free(s->http);
    gateway_free(s->gateway);
    tls_server_free(l->tls);
    if (s->pool) { /* what ends now may want to go on, and hears from the pool that it cannot */
        (void)pool_stop(s->pool, UINT32_MAX);
        loop_settle(s->loop);
    }
    pool_free(s->pool);
    sandboxes_free(s->sandboxes);
    if (s->runtime)
        s->runtime->ops->free(s->runtime);
    if (s->store)
        (void)store_checkpoint(s->store, NULL);
    store_close(s->store);
    metrics_free(s->metrics);
    apikey_done(&l->keys);
    if (s->loop) {
        request_log_done(s);
        init_log(s->config, STDERR_FILENO);
        logfile_close(s->access_log);
        logfile_close(l->log);
        loop_signals_stop(&l->signals);
    }
    loop_free(s->loop);
    rereader_stop(&l->rereader);
    fd_close(l->tie); /* this ends the broker */
    if (l->broker.pidfd >= 0 &&
        proc_wait(l->broker.pidfd, deadline_in_ms(STOP_MS), &(struct proc_exit){0}) < 0)
        log_event(LOG_WARN, "the broker takes its time to end");
    proc_close(&l->broker);
}

/* A sandbox takes one descriptor, a connection one or two. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int server_run(struct config *config, const struct config_options *options)
{
    static struct life life; /* one server per process */
    struct err e = {0};

    life = (struct life){
        .server = {.config = config, .started_us = time_wall_us()},
        .options = options,
        .tie = -EBADF,
        .broker = PROC_NONE,
        .rereader = REREADER_NONE,
    };
    init_log(config, STDERR_FILENO);
    raise_file_limit();
    if (serve(&life, &e) < 0) {
        (void)log_err(&e, "cannot serve");
        life.status = 1;
    }
    clean_up(&life);
    log_event(LOG_INFO, "stopped; sandboxes live on");
    return life.status;
}
