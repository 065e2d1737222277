/* host.c - what the embedded runtime needs of the host: it begins as root, with directories and the
 * broker, and goes on without. */
#include "server/runtime/embedded/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/client.h"
#include "sandbox/oci.h"
#include "server/config/dirs.h"
#include "server/runtime/embedded/embedded_internal.h"
#include "server/runtime/embedded/resolv.h"

enum {
    BROKER_ARGS_MAX = 256,
    BROKER_WAIT_MS = 15 * 1000, /* another broker may have to end first */
    BROKER_STOP_MS = 20 * 1000,
    BROKER_WORKERS_MAX = 16,
    LOG_NAMES_BYTES_MAX = 1024,
};

/* --- the broker --- */

/* Whether a broker answers that was not started by another server. */
static bool broker_answers(const struct config *config)
{
    struct broker_config none = {.version = BROKER_WIRE_VERSION};
    struct broker_client client = {-EBADF};
    struct broker_info info = {0};
    bool answers = broker_connect(&client, config->embedded.broker, &none, NULL) == 0 &&
                   broker_info(&client, &info, NULL) >= 0 && !info.tied;

    broker_close(&client);
    return answers;
}

struct args {
    const char *at[BROKER_ARGS_MAX];
    size_t count;
};

static void add_arg(struct args *args, const char *name, const char *value)
{
    if (args->count + 3 > ARRAY_LEN(args->at))
        return;
    args->at[args->count++] = name;
    args->at[args->count++] = value;
}

/* Directories below the data directory that the broker reads and fills. */
static const char *const own_dirs[] = {"volumes", "snapshots", "images"};
typedef char own_paths[ARRAY_LEN(own_dirs)][PATH_MAX];

static void add_allowed(struct args *args, const struct roots *roots, const own_paths own)
{
    for (size_t i = 0; i < ARRAY_LEN(own_dirs); i++)
        add_arg(args, "--allow", own[i]);
    for (size_t i = 0; i < roots->config->image_count; i++)
        if (roots->images[i].dir >= 0)
            add_arg(args, "--allow", roots->config->images[i].dir);
    for (size_t i = 0; i < roots->host_path_count; i++)
        add_arg(args, "--allow", roots->host_paths[i].path);
}

typedef char runtime_texts[OCI_RUNTIMES_MAX][OCI_COMMAND_MAX + PLAN_RUNTIME_MAX];

static void add_runtimes(struct args *args, const struct config *config, runtime_texts texts)
{
    for (size_t i = 0; i < config->runtime_count && i < OCI_RUNTIMES_MAX; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%s=%s", config->runtimes[i].name,
                       config->runtimes[i].command);
        if (config->runtimes[i].command[0]) /* not native */
            add_arg(args, "--runtime", texts[i]);
    }
}

static int spawn_broker(const struct roots *roots, const own_paths own, uid_t uid, int tie,
                        struct proc *ret, struct err *e)
{
    const struct config *config = roots->config;
    char workers[16], caller[16];
    runtime_texts runtimes;
    struct args args = {0};
    struct proc_spec spec = PROC_SPEC(config->embedded.broker_program, args.at);
    long cores = get_nprocs();
    int64_t count = config->embedded.broker_workers ? config->embedded.broker_workers : cores;

    (void)snprintf(workers, sizeof(workers), "%d",
                   (int)(count < 1                    ? 1
                         : count > BROKER_WORKERS_MAX ? BROKER_WORKERS_MAX
                                                      : count));
    (void)snprintf(caller, sizeof(caller), "%u", uid);
    args.at[args.count++] = config->embedded.broker_program;
    add_arg(&args, "--state", config->server.state);
    add_arg(&args, "--socket", config->embedded.broker);
    add_arg(&args, "--execd", config->runtime.execd_program);
    add_arg(&args, "--workers", workers);
    add_arg(&args, "--caller", caller);
    add_arg(&args, "--until-eof", "0");
    add_allowed(&args, roots, own);
    add_runtimes(&args, config, runtimes);
    if (access(config->embedded.unpack_program, X_OK) == 0)
        add_arg(&args, "--unpack", config->embedded.unpack_program);
    spec.env = (const char *const[]){"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    spec.stdio[0] = tie;
    spec.stdio[1] = STDERR_FILENO;
    spec.stdio[2] = STDERR_FILENO;
    spec.flags = PROC_NEW_SESSION; /* Ctrl-C is for the server; the broker ends with it */
    return proc_spawn(&spec, ret, e);
}

/* Starts a broker that may use the roots and ends when this process does, if the configuration
 * wants one. */
static int start_broker(struct embedded_host *h, struct err *e)
{
    const struct config *config = h->roots->config;
    own_paths own;
    int ends[2];
    uid_t uid;
    gid_t gid;
    int r;

    if (config->embedded.start_broker == CONFIG_START_NEVER ||
        (config->embedded.start_broker == CONFIG_START_AUTO &&
         (geteuid() != 0 || broker_answers(config))))
        return 0;
    r = config_account(config, &uid, &gid, e);
    if (r < 0)
        return r;
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(own_dirs); i++) {
        (void)snprintf(own[i], sizeof(own[i]), "%s/%s", config->dir, own_dirs[i]);
        r = dirs_prepare(config, own[i], e);
    }
    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    r = spawn_broker(h->roots, own, uid, ends[0], &h->broker, e);
    fd_close(ends[0]);
    if (r < 0) {
        fd_close(ends[1]);
        return err_wrap(e, r, "start the broker");
    }
    h->tie = ends[1];
    return 0;
}

/* --- life --- */

static int embedded_prepare(const struct config *config, void **ret_prepared, struct err *e)
{
    struct embedded_host *h = mem_new(struct embedded_host);
    int r;

    h->broker = PROC_NONE;
    h->tie = -EBADF;
    h->roots = roots_open(config, NULL);
    r = start_broker(h, e);
    if (r < 0) {
        embedded_host_free(h);
        return r;
    }
    *ret_prepared = h;
    return 0;
}

void embedded_host_free(struct embedded_host *h)
{
    if (!h)
        return;
    if (h->broker_watch.loop)
        loop_child_stop(&h->broker_watch);
    fd_close(h->tie); /* this ends the broker */
    if (h->broker.pidfd >= 0 &&
        proc_wait(h->broker.pidfd, deadline_in_ms(BROKER_STOP_MS), &(struct proc_exit){0}) < 0)
        log_event(LOG_WARN, "the broker has not ended in time");
    proc_close(&h->broker);
    roots_free(h->roots);
    free(h);
}

static void embedded_discard(void *prepared)
{
    embedded_host_free(prepared);
}

static const struct embedded_root *find_root(void *user, struct str image)
{
    struct embedded_host *h = user;

    return roots_find(__atomic_load_n(&h->roots, __ATOMIC_ACQUIRE), image);
}

static const struct embedded_root *find_dir(void *user, struct str path)
{
    struct embedded_host *h = user;

    return roots_find_dir(__atomic_load_n(&h->roots, __ATOMIC_ACQUIRE), path);
}

static void on_broker_exit(struct loop_child *child, int status)
{
    struct embedded_host *h = container_of(child, struct embedded_host, broker_watch);

    log_event(LOG_ERROR, "the broker has ended", LOG_I64("status", status));
    proc_close(&h->broker);
    h->on_lost(h->user);
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

static struct embedded_conf conf_of(const struct runtime_conf *runtime, struct embedded_host *h)
{
    const struct config *config = runtime->config;
    struct embedded_conf conf = {
        .broker = config->embedded.broker,
        .broker_pid = h->broker.pid,
        .dir = config->dir,
        .ready = (uint32_t)config->runtime.ready,
        .network = config->embedded.network == CONFIG_NETWORK_BRIDGE,
        .limits = {.memory_bytes = config->runtime.default_memory,
                   .disk_bytes = config->runtime.default_disk,
                   .cpu_millicores = config->runtime.default_cpu},
        .pids = (uint32_t)config->embedded.pids_limit,
        .connections = (unsigned)config->server.workers,
        .host_paths = h->roots->host_paths,
        .host_path_count = h->roots->host_path_count,
        .find_root = find_root,
        .find_dir = find_dir,
        .user = h,
        .config = config,
        .vault_key = runtime->vault_key,
        .on_decision = runtime->on_decision,
        .decision_user = runtime->user,
        .loop = runtime->loop,
        .pool = runtime->pool,
    };

    memcpy(conf.dns, config->dns, sizeof(conf.dns));
    if (config->dns_count == 0)
        (void)resolv_servers(conf.dns, ARRAY_LEN(conf.dns));
    return conf;
}

static int embedded_start(const struct runtime_conf *conf, struct runtime **ret, struct err *e)
{
    struct embedded_host *h = conf->prepared;
    struct embedded_conf own = conf_of(conf, h);
    struct runtime *runtime = NULL;
    int r = embedded_new(&own, BROKER_WAIT_MS, &runtime, e);

    h->on_lost = conf->on_lost;
    h->user = conf->user;
    if (r == 0 && h->broker.pidfd >= 0)
        r = loop_child_start(conf->loop, &h->broker_watch, h->broker.pidfd, on_broker_exit, e);
    if (r < 0) {
        if (runtime)
            runtime->ops->free(runtime);
        return r;
    }
    container_of(runtime, struct embedded, base)->host = h;
    log_host_images(conf->config);
    *ret = runtime;
    return 0;
}

void embedded_reload(struct runtime *r, const struct config *config)
{
    struct embedded_host *h = container_of(r, struct embedded, base)->host;
    struct roots *roots = roots_open(config, h->roots);

    if (h->broker.pidfd >= 0)
        roots_warn_new(roots);
    __atomic_store_n(&h->roots, roots, __ATOMIC_RELEASE);
}

const struct runtime_kind embedded_runtime = {
    .name = "embedded",
    .prepare_as_root = embedded_prepare,
    .discard = embedded_discard,
    .start = embedded_start,
};
