#include "server/server.h"

#include <assert.h>
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
#include "net/aead.h"
#include "net/tls.h"
#include "server/audit/webhook.h"
#include "server/cluster/cluster.h"
#include "server/config/apikey.h"
#include "server/config/dirs.h"
#include "server/gateway/host_route.h"
#include "server/gateway/renew_queue.h"
#include "server/gateway_start.h"
#include "server/http/logfile.h"
#include "server/http/routes.h"
#include "server/http/server_internal.h"
#include "server/http/tracing.h"
#include "server/images/images.h"
#include "server/oidc/oidc.h"
#include "server/owner.h"
#include "server/privileges.h"
#include "version.h"

enum {
    CONNECTIONS_MAX = 10 * 1000,
    LINGER_MS = 500, /* of connections, for requests that were sent before the port was closed */
    DRAIN_MS = 10 * 1000,
    POOL_QUEUE_MAX = 100 * 1000,
    SANDBOXES_MAX = 100 * 1000,
    STOP_MS = 20 * 1000,
};

/* The server, with what only start-up and shutdown use. */
/* A configuration of a SIGHUP. Workers may read it until the end. */
struct reloaded {
    struct config *config;
    struct reloaded *older;
};

struct life {
    struct server server;
    struct reloaded *reloaded;
    const struct config_options *options;
    const struct runtime_kind *kind;
    void *prepared; /* of the runtime, until its start took it over */
    char owner[OWNER_MAX];
    struct seal seal;
    unsigned char vault_key[AEAD_KEY_BYTES]; /* derived from it */
    struct apikey keys;
    struct tls_server *tls; /* NULL = plain HTTP */
    struct renew_queue *renew_queue;
    struct webhook *audit_hook, *event_hook; /* NULL = none */
    struct loop_signals signals;
    struct loop_timer deadline;
    struct logfile *log; /* NULL = standard error */
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

static const struct principal *find_made_key(void *user, struct str key)
{
    struct server *s = user;

    return s->tenants ? keys_find_secret(s->tenants, key) : NULL;
}

static bool holds_made_secret(struct str text)
{
    return keys_held_by(text) || sessions_held_by(text);
}

static const struct principal *find_user(void *user, struct http_req *req, struct err *why)
{
    return auth_principal(user, req, why);
}

static bool has_tenant(void *user, struct str name)
{
    struct server *s = user;

    return s->tenants && tenants_find(s->tenants, name);
}

/* Accesses that gateways in front saw. */
static int start_renew_queue(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;

    if (!config->renew_intent.enabled || !config->renew_redis.enabled)
        return 0;
    return renew_queue_new(
        &(struct renew_queue_conf){
            .loop = l->server.loop,
            .pool = l->server.pool,
            .dsn = config->renew_redis.dsn,
            .key = config->renew_redis.queue_key,
            .on_access = server_on_access,
            .user = &l->server,
        },
        &l->renew_queue, e);
}

static bool on_request(struct http_req *req)
{
    tracing_begin(req);
    if (server_of(req)->cluster && http_req_header(req, STR(CLUSTER_HEADER)).p)
        return forwarding_admit(req);
    if (host_route_apply(req, gateway_domain(server_of(req)->gateway)) < 0) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "out of memory for this request");
        return false;
    }
    return guard_admit(&server_of(req)->guard, req) && !http_redirect_slash(req, 307);
}

/* Requests whose body has not arrived yet do not count: on a server without API keys anyone could
 * fill the limit with them. */
static bool on_handle(struct http_req *req)
{
    struct server *s = server_of(req);
    int64_t limit = s->config->server.limit_concurrency;
    struct http_server_stats stats;

    if (guard_is_open_path(req->head.path))
        return true; /* answers at once, under any load */
    http_server_stats(s->http, &stats);
    if (!access_check(req))
        return false;
    if (limit == 0 || (int64_t)stats.admitted < limit) {
        http_req_admit(req);
        tracing_enter(req);
        return true;
    }
    http_reply_error(req, 503, "SERVICE_UNAVAILABLE",
                     "more than %lld requests at a time, try again", (long long)limit);
    return false;
}

/* --- shutdown --- */

static bool is_idle(const struct life *l)
{
    return sandboxes_busy(l->server.sandboxes) == 0 && snapshots_busy(l->server.snapshots) == 0;
}

static void stop_if_over(struct life *l)
{
    if (l->drained && is_idle(l))
        loop_stop(l->server.loop);
}

static void on_idle(void *user)
{
    struct life *l = user;

    if (!l->loaded && is_idle(l))
        loop_stop(l->server.loop);
    else if (l->server.stopping)
        stop_if_over(l);
}

static void on_end(void *user, struct str id)
{
    struct life *l = user;

    if (l->server.gateway)
        gateway_end(l->server.gateway, id);
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

    log_event(LOG_WARN, "operations take too long, stopping before they end");
    l->status = 1;
    loop_stop(l->server.loop);
}

/* Requests under way finish, those that wait for events at once; sandboxes keep running. */
static void begin_stop(struct life *l)
{
    bool at_once = l->server.stopping || !l->loaded; /* second stop signal, or nothing to finish */

    l->server.stopping = true;
    if (at_once) {
        loop_stop(l->server.loop);
        return;
    }
    loop_timer_set(l->server.loop, &l->deadline, deadline_in_ms(STOP_MS), on_deadline);
    pools_stop(l->server.pools);
    sandboxes_stop(l->server.sandboxes);
    snapshots_stop(l->server.snapshots);
    events_stop(l->server.events);
    http_server_drain(l->server.http, DRAIN_MS, on_drained, l);
}

static void on_runtime_lost(void *user)
{
    struct life *l = user;

    log_event(LOG_ERROR, "the runtime is lost, stopping; sandboxes live on");
    l->status = 1;
    begin_stop(l);
}

/* --- reloading --- */

static void set_keys(struct life *l)
{
    struct guard *g = &l->server.guard;

    g->key_count = 0;
    g->find_more = find_made_key;
    g->held_more = holds_made_secret;
    g->find_user = find_user;
    g->closed = l->server.oidc || l->server.config->auth_oidc.issuer[0]; /* oidc.h stays as it is */
    g->has_tenant = has_tenant;
    g->user = &l->server;
    g->proxied = l->server.config->auth.mode == CONFIG_AUTH_USER;
    for (size_t i = 0; i < l->keys.count; i++)
        guard_add_key(g, l->keys.keys[i]);
}

/* The file may be of root, and of the group of the account that the server runs as. */
static void warn_if_unreadable(const struct config *config, const char *what)
{
    if (config->path && access(config->path, R_OK) < 0 && errno == EACCES)
        log_event(LOG_WARN, what, LOG_STR("path", config->path),
                  LOG_STR("hint", "give the file to root:opensandbox, mode 0640"));
}

/* Reads the file of the start again, as the server's own account. */
static int load_again(struct life *l, struct config **ret_config, struct config_report *report)
{
    struct config_options options = *l->options;

    warn_if_unreadable(l->server.config, "this account cannot read the configuration");
    if (l->server.config->path)
        options.path = l->server.config->path;
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

static void keep_config(struct life *l, struct config *config)
{
    struct reloaded *kept = mem_new(struct reloaded);

    *kept = (struct reloaded){config, l->reloaded};
    l->reloaded = kept;
}

static void free_configs(struct life *l)
{
    for (struct reloaded *kept; (kept = l->reloaded);) {
        l->reloaded = kept->older;
        config_free(kept->config);
        free(kept);
    }
}

/* What handlers read at each request follows at once; the rest needs a restart. Configurations of
 * before are kept, as workers may be reading them. */
static void reload(struct life *l)
{
    struct config_report report;
    struct config *config = NULL;
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
    keep_config(l, config);
    l->server.config = config;
    if (l->server.runtime->ops->reload)
        l->server.runtime->ops->reload(l->server.runtime, config);
    apikey_done(&l->keys);
    l->keys = keys;
    set_keys(l);
    reload_tls(l, config);
    log_set_level(config->log_level);
    if (l->log) { /* log rotation sends SIGHUP after moving the files */
        logfile_reopen(l->log);
        logfile_reopen(l->server.access_log);
    }
    server_reload_gateway(&l->server);
    log_event(LOG_INFO, "reloaded the configuration: keys, TLS certificate, log level, images, "
                        "endpoints, limits of timeouts; addresses, directories and the runtime "
                        "need a restart");
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

/* While it is allowed: the TLS key, directories, what the runtime needs. Then never again. */
static int use_privileges(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;
    size_t groups = 0;
    gid_t group = 0;
    int r = start_tls(l, e);

    if (r == 0)
        r = dirs_prepare(config, config->dir, e);
    if (r == 0 && l->kind->prepare_as_root)
        r = l->kind->prepare_as_root(config, &l->prepared, e);
    if (r >= 0)
        r = start_logs(l, e);
    if (r >= 0 && l->kind->group_as_root && l->kind->group_as_root(config, &group) == 0)
        groups = 1;
    return r < 0 ? r : privileges_drop(config, &group, groups, e);
}

static void on_runtime_news(void *user)
{
    struct life *l = user;

    if (l->server.sandboxes)
        sandboxes_look(l->server.sandboxes);
}

static void on_decision(void *user, const struct runtime_decision *decision)
{
    audit_decision(&((struct life *)user)->server, decision);
}

static int start_runtime(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;
    struct runtime_conf conf = {
        .config = config,
        .owner = l->owner,
        .vault_key = l->vault_key,
        .loop = l->server.loop,
        .pool = l->server.pool,
        .prepared = l->prepared,
        .on_news = on_runtime_news,
        .on_lost = on_runtime_lost,
        .on_decision = config->audit.enabled && config->audit.egress ? on_decision : NULL,
        .user = l,
    };
    int r = seal_load(l->server.config->dir, &l->seal, e);

    if (r == 0 && aead_derive(l->seal.key, STR("vaults of egress"), l->vault_key) < 0)
        r = err_set(e, EIO, "derive the key of credential vaults");
    if (r == 0)
        r = l->kind->start(&conf, &l->server.runtime, e);
    if (r == 0)
        l->prepared = NULL;
    return r;
}

static int start_webhook(struct life *l, const char *url, const char *secret, const char *name,
                         struct webhook **ret, struct err *e)
{
    struct webhook_conf conf = {l->server.loop, l->server.pool, url, secret, name};

    return url[0] ? webhook_new(&conf, ret, e) : 0;
}

/* The audit record and events, and where they are told to. */
static int start_records(struct life *l, struct err *e)
{
    struct server *s = &l->server;
    const struct config *c = s->config;
    AUTO_BUF(path, PATH_MAX);
    struct audit_conf audit = {
        .loop = s->loop,
        .pool = s->pool,
        .file_bytes = (uint64_t)c->audit.file_max_bytes,
        .files_kept = (unsigned)c->audit.file_backup_count,
        .syslog = c->audit.syslog,
    };
    int r =
        start_webhook(l, c->audit.webhook_url, c->audit.webhook_secret, "audit", &l->audit_hook, e);

    if (r == 0)
        r = start_webhook(l, c->events.webhook_url, c->events.webhook_secret, "events",
                          &l->event_hook, e);
    if (r < 0)
        return r;
    s->events = events_new(l->event_hook);
    s->idempotency = idempotency_new();
    if (!c->audit.enabled)
        return 0;
    audit.webhook = l->audit_hook;
    r = c->audit.path[0] ? buf_add(&path, str_of(c->audit.path))
                         : buf_addf(&path, "%s/audit", c->dir);
    audit.dir = path.p;
    return r < 0 ? err_set(e, ENAMETOOLONG, "audit.path is too long")
                 : audit_open(&audit, &s->audit, e);
}

static struct store_postgres place_of(const struct life *l)
{
    const struct config *config = l->server.config;

    return (struct store_postgres){config->store.dsn, l->owner, config->cluster.advertise[0]};
}

static int open_store(struct life *l, struct err *e)
{
    const struct config *config = l->server.config;
    struct store_postgres place = place_of(l);

    return config->store.type == CONFIG_STORE_POSTGRES
               ? store_open_postgres(&place, &l->server.store, e)
               : store_open(STORE_SQLITE, config->store.path, &l->server.store, e);
}

static void on_given_up(void *user, const char *why)
{
    struct life *l = user;

    log_event(LOG_ERROR, "stopping; start this server again", LOG_STR("why", why));
    l->status = 1;
    cluster_stop(l->server.cluster);
    begin_stop(l);
}

/* One server needs none of it. */
static int start_cluster(struct life *l, struct err *e)
{
    struct server *s = &l->server;
    const struct config *config = s->config;
    struct cluster_conf conf = {
        .loop = s->loop,
        .pool = s->pool,
        .store = s->store,
        .place = place_of(l),
        .sandboxes = s->sandboxes,
        .tenants = s->tenants,
        .address = config->cluster.advertise,
        .secret = config->cluster.secret,
        .ca_file = config->cluster.ca_file,
        .lease_s = (uint32_t)config->cluster.lease_seconds,
        .give_up_s = (uint32_t)config->cluster.give_up_seconds,
        .on_given_up = on_given_up,
        .user = l,
    };
    int r = config->cluster.advertise[0] ? cluster_new(&conf, &s->cluster, e) : 0;

    if (r < 0 || !s->cluster)
        return r;
    r = forwarding_new(s, e);
    if (r == 0)
        others_events_start(s);
    return r;
}

static int start_sandboxes(struct life *l, struct err *e)
{
    struct server *s = &l->server;
    const struct config *config = s->config;

    return sandboxes_new(
        &(struct sandboxes_conf){
            .loop = s->loop,
            .pool = s->pool,
            .store = s->store,
            .runtime = s->runtime,
            .snapshots = s->snapshots,
            .tenants = s->tenants,
            .events = s->events,
            .seal = &l->seal,
            .shared_store = config->cluster.advertise[0],
            .failed_ttl_us = config->runtime.failed_ttl_seconds * TIME_US_PER_S,
            .renew_min_interval_s = (uint32_t)config->renew_intent.min_interval_seconds,
            .reconcile_ms = (uint32_t)config->runtime.reconcile_seconds * 1000,
            .max = SANDBOXES_MAX,
            .on_idle = on_idle,
            .on_end = on_end,
            .user = l,
        },
        &s->sandboxes, e);
}

static int start_parts(struct life *l, struct err *e)
{
    struct server *s = &l->server;
    const struct config *config = s->config;
    struct pool_conf pool = {"worker", (unsigned)config->server.workers, POOL_QUEUE_MAX};
    int r = owner_load(config->dir, l->owner, e);

    if (r == 0)
        r = open_store(l, e);

    s->previews = previews_new();
    if (r == 0)
        r = pool_new(&pool, &s->pool, e);
    if (r == 0)
        r = telemetry_start(config,
                            &(struct telemetry_parts){s->loop, s->pool, server_metrics_due, s},
                            &s->telemetry, e);
    if (r == 0)
        r = start_runtime(l, e);
    if (r < 0)
        return r;
    r = start_records(l, e);
    if (r < 0)
        return r;
    s->tenants = tenants_new(&(struct tenants_conf){
        .loop = s->loop,
        .pool = s->pool,
        .store = s->store,
        .defaults = {.memory_bytes = (uint64_t)config->runtime.default_memory,
                     .disk_bytes = (uint64_t)config->runtime.default_disk,
                     .cpu_millicores = (uint32_t)config->runtime.default_cpu},
    });
    s->snapshots = snapshots_new(&(struct snapshots_conf){
        .loop = s->loop,
        .pool = s->pool,
        .store = s->store,
        .runtime = s->runtime,
        .on_idle = on_idle,
        .user = l,
    });
    if (config->auth_oidc.issuer[0])
        r = oidc_new(&(struct oidc_conf){s->loop, s->pool, config, images_proxy()}, &s->oidc, e);
    if (r < 0)
        return r;
    r = start_sandboxes(l, e);
    if (r == 0 && runtime_can(s->runtime, RUNTIME_CAN_POOLS))
        r = pools_new(
            &(struct pools_conf){s->loop, s->pool, s->store, s->runtime, s->sandboxes, &l->seal},
            &s->pools, e);
    if (r == 0)
        r = start_cluster(l, e);
    return r < 0 ? r : server_start_gateway(&l->server, e);
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
        .on_handle = on_handle,
        .on_handled = tracing_leave,
        .on_done = request_log_write,
        .on_refuse = guard_refuse,
        .tls = l->tls ? tls_server_security(l->tls) : NULL,
        .connections_max = connections_max(),
        .idle_ms = (uint32_t)s->config->server.timeout_keep_alive * 1000,
        .linger_ms = LINGER_MS,
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

static void load_marks(struct server *s)
{
    char mark[IDEMPOTENCY_MARK_MAX];

    for (struct sandbox *sb = sandboxes_newest(s->sandboxes); sb;
         sb = sandboxes_older(s->sandboxes, sb)) {
        spec_json_idempotency(str_of(sb->spec), mark);
        if (mark[0])
            idempotency_load(s->idempotency, str_of(mark), sb->id, sb->created_us);
    }
}

/* Reads the store and finishes what follows from it, before the server listens. */
static int load(struct life *l, struct err *e)
{
    int r = tenants_load(l->server.tenants, e);

    if (l->server.cluster)
        cluster_start(l->server.cluster);
    if (r == 0 && l->server.pools)
        r = pools_load(l->server.pools, e);
    if (r == 0)
        r = sandboxes_load(l->server.sandboxes, e);
    if (r == 0)
        r = snapshots_load(l->server.snapshots, e);
    if (r == 0 && !is_idle(l))
        r = loop_run(l->server.loop, e); /* until on_idle */
    load_marks(&l->server);
    l->loaded = true;
    return r;
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
    (void)snprintf(url, sizeof(url), "%s%s", l->tls ? "https://" : "", text);
    log_event(LOG_INFO, "listening", LOG_STR("address", url),
              LOG_STR("version", OPENSANDBOX_VERSION), LOG_STR("runtime", l->server.runtime->name));
    apikey_print(&l->keys, text);
    return 0;
}

static int serve(struct life *l, struct err *e)
{
    int r = loop_new(&l->server.loop, e);

    if (r == 0)
        r = start_signals(l, e); /* before threads, which inherit the signal mask */
    if (r == 0)
        r = use_privileges(l, e);
    if (r == 0)
        r = apikey_load(l->server.config, &l->keys, e);
    if (r < 0)
        return r;
    warn_if_unreadable(l->server.config, "SIGHUP cannot read the configuration again");
    set_keys(l);
    r = start_parts(l, e);
    if (r == 0)
        r = start_http(l, e);
    if (r == 0)
        r = load(l, e);
    if (r == 0)
        look_for_blocks(&l->server);
    if (r < 0 || l->server.stopping)
        return r;
    r = listen_at(l, e);
    if (r == 0)
        r = start_renew_queue(l, e);
    if (r == 0 && l->server.pools)
        pools_start(l->server.pools);
    return r < 0 ? r : loop_run(l->server.loop, e);
}

static void clean_up(struct life *l)
{
    struct server *s = &l->server;

    renew_queue_free(l->renew_queue);
    http_server_free(s->http);
    gateway_free(s->gateway);
    s->gateway = NULL; /* operations that end below look at it */
    cluster_stop(s->cluster);
    previews_free(s->previews);
    oidc_free(s->oidc);
    tls_server_free(l->tls);
    pools_stop(s->pools);
    if (s->runtime && s->runtime->ops->stop)
        s->runtime->ops->stop(s->runtime);
    if (s->pool) { /* what ends now may want to go on, and hears from the pool that it cannot */
        (void)pool_stop(s->pool, UINT32_MAX);
        loop_settle(s->loop);
    }
    others_events_stop(s);
    forwarding_free(s->forwarding); /* what it has looked up has come back */
    if (s->runtime)
        s->runtime->ops->free(s->runtime);
    else if (l->prepared)
        l->kind->discard(l->prepared);
    if (s->loop)
        loop_settle(s->loop); /* tasks of the runtime that it has ended now */
    pool_free(s->pool);
    telemetry_stop(s->telemetry);
    cluster_free(s->cluster);
    sandboxes_free(s->sandboxes);
    snapshots_free(s->snapshots);
    pools_free(s->pools);
    tenants_free(s->tenants);
    events_free(s->events);
    idempotency_free(s->idempotency);
    audit_close(s->audit);
    webhook_free(l->audit_hook);
    webhook_free(l->event_hook);
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
    free_configs(l);
}

int server_run(struct config *config, const struct config_options *options)
{
    static struct life life; /* one server per process */
    struct err e = {0};

    life = (struct life){
        .server = {.config = config, .started_us = time_wall_us()},
        .options = options,
        .kind = runtime_kind_find(config_runtime_name(config)),
    };
    init_log(config, STDERR_FILENO);
    fd_raise_limit(); /* a sandbox takes one descriptor, a connection one or two */
    if (serve(&life, &e) < 0) {
        (void)log_err(&e, "cannot serve");
        life.status = 1;
    }
    if (life.server.stopping) /* not after a failed start: the loop would serve */
        telemetry_flush(life.server.telemetry);
    clean_up(&life);
    log_event(LOG_INFO, "stopped; sandboxes keep running");
    return life.status;
}
