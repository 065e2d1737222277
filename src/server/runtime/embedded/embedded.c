#include "server/runtime/embedded/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/report.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/trace.h"
#include "base/tree.h"
#include "server/config/config.h"
#include "server/runtime/embedded/egress.h"
#include "server/runtime/embedded/embedded_images.h"
#include "server/runtime/embedded/embedded_internal.h"

enum {
    CONNECT_RETRY_MS = 20,
    LISTEN_BACKLOG = 128,
    SPAWN_TRIES = 4,            /* a try ends when a worker of the broker dies */
    SPAWN_RETRY_MS = 60 * 1000, /* after this long no further try is made */
};

/* --- connections: each serves one call at a time --- */

/* Refuses the broker of an earlier server, which may answer until it has ended. */
static bool is_our_broker(const struct embedded *em, int sock)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return !em->conf.broker_pid || (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                                    peer.pid == em->conf.broker_pid);
}

static int connect_broker(const struct embedded *em, struct broker_client *ret, struct err *e)
{
    struct broker_config config = {
        .version = BROKER_WIRE_VERSION,
        .ready_none = em->conf.network ? 0 : em->conf.ready,
        .ready_bridge = em->conf.network ? em->conf.ready : 0,
    };
    int r = broker_connect(ret, em->conf.broker, &config, e);

    if (r < 0 || is_our_broker(em, ret->sock))
        return r;
    broker_close(ret);
    return err_set(e, EAGAIN, "the broker of another server has not ended yet");
}

static int take_client(struct embedded *em, struct broker_client *ret, struct err *e)
{
    bool have;

    (void)pthread_mutex_lock(&em->lock);
    have = em->idle_count > 0;
    if (have) { /* the one that waited longest, so that all workers of the broker take turns */
        *ret = em->idle[0];
        memmove(em->idle, em->idle + 1, --em->idle_count * sizeof(em->idle[0]));
    }
    (void)pthread_mutex_unlock(&em->lock);
    return have ? 0 : connect_broker(em, ret, e);
}

static void give_client(struct embedded *em, struct broker_client *c)
{
    if (c->sock < 0)
        return;
    (void)pthread_mutex_lock(&em->lock);
    if (em->idle_count < em->conf.connections)
        em->idle[em->idle_count++] = *c;
    else
        broker_close(c);
    (void)pthread_mutex_unlock(&em->lock);
}

struct call;
typedef int call_fn(struct call *c, struct broker_client *client, struct err *e);

/* One call to a broker. */
struct call {
    struct embedded *em;
    call_fn *fn;
    char id[PLAN_ID_MAX];
    const struct plan *plan;
    const int *layers, *binds;
    int listener;
    int started;                 /* of create: runtime_birth.started */
    struct broker_handle handle; /* filled by spawn and open */
    struct broker_sandbox sandbox;
    struct cgroup_stat stat;
    struct broker_info info;
    const char *path; /* relative to dir */
    int dir;
    bool make;
    runtime_visit_fn *visit;
    void *user;
};

/* Whether to repeat the call over a new connection: the broker of a kept one may have been
 * restarted. A broker that timed out would not answer a new connection either. */
static bool is_lost(const struct broker_client *client, int r)
{
    return r < 0 && r != -ETIMEDOUT && client->sock < 0;
}

/* For calls that can be repeated without change, which is all but spawn. */
int embedded_call(struct embedded *em, embedded_call_fn *fn, void *user, struct err *e)
{
    struct broker_client client = {-EBADF};
    int r = take_client(em, &client, e);

    if (r == 0)
        r = fn(user, &client, e);
    if (is_lost(&client, r)) {
        r = connect_broker(em, &client, e);
        if (r == 0)
            r = fn(user, &client, e);
    }
    give_client(em, &client);
    return r;
}

static int run_call(void *user, struct broker_client *client, struct err *e)
{
    struct call *c = user;

    return c->fn(c, client, e);
}

static int with_broker(struct call *c, call_fn *fn, struct err *e)
{
    c->fn = fn;
    return embedded_call(c->em, run_call, c, e);
}

static int call_init(struct call *c, struct runtime *r, struct str id, struct err *e)
{
    *c = (struct call){.em = container_of(r, struct embedded, base), .started = -EBADF};
    if (!plan_id_is_valid(id) || str_copy(c->id, sizeof(c->id), id) < 0)
        return err_set(e, ENOENT, "'%.*s' cannot be the id of a sandbox", STR_ARG(id));
    return 0;
}

static int call_broker(struct call *c, struct runtime *r, struct str id, call_fn *fn, struct err *e)
{
    int result = call_init(c, r, id, e);

    return result < 0 ? result : with_broker(c, fn, e);
}

/* --- the sandbox's directory: sandboxes/<id> --- */

static void socket_path(const struct embedded *em, const char *id, struct sock_addr *ret)
{
    *ret = (struct sock_addr){.size = sizeof(ret->path)};
    ret->path.sun_family = AF_UNIX;
    (void)snprintf(ret->path.sun_path, sizeof(ret->path.sun_path), "%s/sandboxes/%s/sock",
                   em->conf.dir, id);
}

static int open_sandbox_dir(const struct embedded *em, const char *id, struct err *e)
{
    int fd;

    if (mkdirat(em->sandboxes, id, 0700) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make a directory for sandbox %s", id);
    fd = openat(em->sandboxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open the directory of sandbox %s", id) : fd;
}

int embedded_open_sandbox(const struct embedded *em, struct str id, struct err *e)
{
    char text[PLAN_ID_MAX];
    int fd;

    if (!plan_id_is_valid(id) || str_copy(text, sizeof(text), id) < 0)
        return err_set(e, ENOENT, "'%.*s' cannot be the id of a sandbox", STR_ARG(id));
    fd = openat(em->sandboxes, text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open the directory of sandbox %.*s", STR_ARG(id)) : fd;
}

static int make_listener(const struct embedded *em, const char *id, struct err *e)
{
    struct sock_addr addr;

    socket_path(em, id, &addr);
    return sock_listen(&addr, LISTEN_BACKLOG, e);
}

/* --- runtime_ops --- */

/* Checks volumes before the image, the order of the API contract. Makes host paths last, when no
 * other check refuses the request. */
static int embedded_check(struct runtime *r, struct runtime_create *c, struct api_fail *f)
{
    struct embedded *em = container_of(r, struct embedded, base);
    auto_free struct embedded_plan *plan = mem_new(struct embedded_plan);
    int result = embedded_volumes_check(em, c->spec, f);

    if (result >= 0)
        result = embedded_egress_check(em, c->spec, f);
    if (result >= 0)
        result = embedded_plan_make(em, c, NULL, plan, f);
    if (result >= 0)
        result = embedded_volumes_make(em, c->spec, f);
    if (result >= 0)
        c->plan = take_ptr(&plan);
    return result;
}

static void files_name(const struct call *c, char ret[NAME_MAX + 1])
{
    (void)snprintf(ret, NAME_MAX + 1, "%s" EMBEDDED_FILES_SUFFIX, c->id);
}

/* What a persistent sandbox wrote. */
static int erase_files(const struct call *c, struct err *e)
{
    char name[NAME_MAX + 1];

    files_name(c, name);
    return embedded_layer_erase(c->em, name, e);
}

struct files_call {
    int dir;
    const char *name;
    uint64_t bytes;
};

static int call_make_files(void *user, struct broker_client *client, struct err *e)
{
    const struct files_call *c = user;

    return broker_make_volume(client, c->dir, c->name, c->bytes, e);
}

static int make_files(struct call *c, const char *name, uint64_t bytes, struct err *e)
{
    struct files_call files = {c->em->layers.dir, name, bytes};
    int r;

    if (bytes == 0)
        return mkdirat(files.dir, name, 0700) < 0 && errno != EEXIST
                   ? err_sys(e, errno, "make a directory for the files of sandbox %s", c->id)
                   : 0;
    r = embedded_call(c->em, call_make_files, &files, e);
    return r < 0 && r != -EEXIST ? err_wrap(e, r, "limit the disk of a persistent sandbox") : 0;
}

/* Opens it, and makes it if need be: for a new sandbox, or after a rollback that was cut short. One
 * that is there keeps its limit, or none. */
static int open_files(struct call *c, uint64_t bytes, struct err *e)
{
    char name[NAME_MAX + 1];
    int r = 0;

    files_name(c, name);
    if (faccessat(c->em->layers.dir, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        r = make_files(c, name, bytes, e);
    return r < 0 ? r : embedded_reach(c->em, c->em->layers.dir, name, false, e);
}

static int call_remove(struct call *c, struct broker_client *client, struct err *e)
{
    auto_fd dir = openat(c->em->sandboxes, c->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int removed = broker_remove_soon(client, c->id, e);
    int r = 0;

    if (removed < 0 && removed != -ENOENT)
        return removed;
    if (dir >= 0)
        r = embedded_volumes_erase(c->em, dir, client, e);
    if (dir >= 0 && r >= 0)
        r = embedded_source_remove(c->em, dir, EMBEDDED_SOURCE_FILE, e);
    if (r >= 0)
        r = erase_files(c, e);
    return r < 0 ? r : removed >= 0;
}

static int call_halt(struct call *c, struct broker_client *client, struct err *e)
{
    int removed = broker_remove(client, c->id, e);

    return removed == -ENOENT ? 0 : removed < 0 ? removed : 1;
}

static int call_reach(struct call *c, struct broker_client *client, struct err *e)
{
    return broker_reach(client, c->dir, c->path, c->make, e);
}

int embedded_reach(struct embedded *em, int dir, const char *path, bool make, struct err *e)
{
    struct call c = {.em = em, .dir = dir, .path = path, .make = make};

    return with_broker(&c, call_reach, e);
}

static int call_spawn(struct call *c, struct broker_client *client, struct err *e)
{
    return broker_spawn(client, c->plan, c->layers, c->binds, c->listener, &c->handle, e);
}

static int embedded_halt(struct runtime *r, struct str id, struct err *e)
{
    struct call c;

    return call_broker(&c, r, id, call_halt, e);
}

static int embedded_remove(struct runtime *r, struct str id, struct err *e)
{
    struct call c;
    int result = call_broker(&c, r, id, call_remove, e);

    if (result >= 0) {
        embedded_egress_detach(c.em, c.id);
    }
    if (result >= 0) {
        int rest = tree_remove(c.em->sandboxes, c.id, e);

        result = rest < 0 ? rest : result;
    }
    return result;
}

/* Finds out what became of a create whose broker was lost half-way. 1: the sandbox is complete and
 * runs; it is in c->handle. 0: nothing is left, as nothing was made or it has been removed now. The
 * sandbox can be of no other create: the server never uses an id twice. */
static int settle(struct call *c, struct broker_client *client, struct err *e)
{
    int r = broker_open(client, c->id, &c->handle, e);

    if (r == 0) {
        if (c->handle.sandbox.state != BROKER_DEAD)
            return 1;
        broker_handle_done(&c->handle);
    }
    if (r == 0 || r == -ENOENT)
        r = broker_remove(client, c->id, e);
    return r == -ENOENT ? 0 : r;
}

static bool plan_is_idle(const struct plan *plan)
{
    const char *argv[PLAN_ARGS_MAX + 1], *env[PLAN_ENV_MAX + 1], *cwd;

    plan_strings(plan, argv, env, &cwd);
    return entry_is_idle(argv);
}

/* Connects to execd and sends GET /ping before execd runs, so that the connection waits in the
 * listener's backlog. execd starts the entrypoint before it accepts the first connection, and exits
 * when that fails. So an answer means that the entrypoint was started, and end of file that it was
 * not. */
static int ask_started(const struct embedded *em, const char *id, struct err *e)
{
    const struct trace_context *trace = trace_current();
    char parent[TRACE_PARENT_MAX], request[128];
    struct sock_addr addr;
    auto_fd fd = -EBADF;
    int n = snprintf(request, sizeof(request), "GET /ping HTTP/1.0\r\n");

    if (trace) {
        trace_format(trace, parent);
        n += snprintf(request + n, sizeof(request) - (size_t)n, "traceparent: %s\r\n", parent);
    }
    n += snprintf(request + n, sizeof(request) - (size_t)n, "\r\n");
    socket_path(em, id, &addr);
    fd = sock_connect_start(&addr, e);
    if (fd < 0)
        return fd;
    if (send(fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        return err_set(e, EIO, "cannot write to the socket of sandbox %s", id);
    return take_fd(&fd);
}

/* The first try's execd may have answered the first connection, or taken it along in its end. */
static int ask_again(struct call *c, struct err *e)
{
    if (c->started < 0)
        return 0;
    fd_close(c->started);
    c->started = ask_started(c->em, c->id, e);
    return c->started < 0 ? c->started : 0;
}

/* Uses a kept connection. If the broker is lost half-way, settles what became of that try and then
 * uses a new connection. */
static int spawn(struct call *c, struct err *e)
{
    struct broker_client client = {-EBADF};
    uint64_t deadline = deadline_in_ms(SPAWN_RETRY_MS);
    int r = take_client(c->em, &client, e);

    if (r == 0)
        r = call_spawn(c, &client, e);
    for (int tries = 1; is_lost(&client, r) && tries < SPAWN_TRIES && !deadline_passed(deadline);
         tries++) {
        log_event(LOG_WARN, "the broker was lost in the middle of a create, trying again",
                  LOG_STR("sandbox", c->id), LOG_STR("error", e->msg));
        r = connect_broker(c->em, &client, e);
        if (r == 0)
            r = settle(c, &client, e);
        if (r == 0)
            r = ask_again(c, e);
        if (r == 0)
            r = call_spawn(c, &client, e);
    }
    give_client(c->em, &client);
    return r < 0 ? r : 0;
}

static int spawn_with(struct call *c, struct runtime_create *create, int dir, struct err *e)
{
    const struct api_create *spec = create->spec;
    const struct embedded_plan *plan = create->plan;
    int binds[PLAN_BINDS_MAX + 2];
    size_t count = spec->volumes_count;
    auto_fd listener = make_listener(c->em, c->id, e);
    int r = listener;

    if (r >= 0 && !plan_is_idle(c->plan))
        c->started = r = ask_started(c->em, c->id, e);
    if (r >= 0)
        r = embedded_volumes_open(c->em, create, dir, binds, e);
    if (r < 0)
        return r;
    if (c->plan->lasting) {
        binds[count] = r = open_files(c, plan->files_bytes, e);
        count += r >= 0;
    }
    if (r >= 0 && c->plan->memory) {
        binds[count] = r = embedded_snapshot_memory(c->em, spec->snapshot_id);
        count += r >= 0;
        if (r < 0)
            (void)err_sys(e, -r, "open the memory of the snapshot");
    }
    c->listener = listener;
    c->binds = binds;
    if (r >= 0)
        r = spawn(c, e);
    c->binds = NULL;
    while (count > 0)
        fd_close(binds[--count]);
    return r;
}

/* From the moment that its source is written, the layers stay until remove(). */
static int note_source(struct call *c, enum runtime_again again,
                       const struct embedded_source *source, int dir, struct err *e)
{
    int r;

    if (again != RUNTIME_NEW && unlinkat(dir, "sock", 0) < 0 && errno != ENOENT)
        return err_sys(e, errno, "remove the socket of sandbox %s", c->id);
    if (again == RUNTIME_START)
        return 0;
    if (again == RUNTIME_NEW)
        return embedded_source_write(c->em, dir, EMBEDDED_SOURCE_FILE, source, false, e);
    r = erase_files(c, e); /* first: they do not fit the new source */
    return r < 0 ? r : embedded_source_replace(c->em, dir, EMBEDDED_SOURCE_FILE, source, e);
}

static int create_in(struct call *c, const struct embedded_plan *plan,
                     const struct images_base *image, struct runtime_create *create, int dir,
                     struct err *e)
{
    int layers[PLAN_LAYERS_MAX + 1];
    int r = note_source(c, create->again, &plan->source, dir, e);

    if (r >= 0)
        r = embedded_source_open(c->em, &plan->source, layers, e);
    if (r < 0)
        return r;
    if (image)
        memcpy(layers + plan->source.count, image->layers, image->layer_count * sizeof(layers[0]));
    else
        layers[plan->source.count] = plan->root->dir;
    c->layers = layers;
    r = spawn_with(c, create, dir, e);
    c->layers = NULL;
    for (size_t i = 0; i < plan->source.count; i++)
        fd_close(layers[i]);
    return r;
}

/* A sandbox with a policy begins closed, and is opened as soon as it runs. */
static int create_guarded(struct call *c, struct embedded_plan *plan,
                          const struct images_base *image, struct runtime_create *create, int dir,
                          struct err *e)
{
    int r = embedded_egress_prepare(c->em, create, dir, e);

    if (r < 0)
        return r;
    plan->plan.guarded = r > 0;
    if (r > 0) {
        memset(plan->plan.dns, 0, sizeof(plan->plan.dns));
        plan->plan.dns[0] = c->em->gateway.s_addr;
        r = embedded_egress_trust(c->em, create, c->id, &plan->plan, e);
        if (r < 0)
            return r;
    }
    r = create_in(c, plan, image, create, dir, e);
    if (r < 0 || !plan->plan.guarded)
        return r;
    r = embedded_egress_attach(c->em, c->id, e);
    if (r < 0)
        broker_handle_done(&c->handle);
    return r;
}

int embedded_create_as_planned(struct embedded *em, struct runtime_create *create,
                               const struct images_base *image, struct err *e)
{
    struct runtime_birth *ret = &create->birth;
    struct embedded_plan *plan = create->plan;
    auto_fd dir = -EBADF;
    struct call c;
    int result = call_init(&c, &em->base, create->id, e);

    if (result < 0)
        return result;
    c.plan = &plan->plan;
    dir = open_sandbox_dir(c.em, c.id, e);
    result = dir < 0 ? dir : create_guarded(&c, plan, image, create, dir, e);
    if (result < 0) {
        fd_close(c.started);
        return result;
    }
    ret->started = c.started;
    ret->report = take_fd(&c.handle.files[BROKER_FILE_EXIT]);
    ret->watch = take_fd(&c.handle.files[BROKER_FILE_PIDFD]);
    broker_handle_done(&c.handle);
    return 1;
}

static int embedded_create(struct runtime *r, struct runtime_create *create, struct err *e)
{
    struct embedded *em = container_of(r, struct embedded, base);
    const struct embedded_plan *plan = create->plan;

    return plan->root ? embedded_create_as_planned(em, create, NULL, e)
                      : embedded_image_create(em, create, e);
}

static void embedded_cancel(struct runtime *r, struct runtime_task *task)
{
    struct embedded *em = container_of(r, struct embedded, base);
    struct embedded_work *work;

    (void)pthread_mutex_lock(&em->layers.work_lock);
    work = task->of_runtime;
    if (work)
        work->cancel(work);
    (void)pthread_mutex_unlock(&em->layers.work_lock);
}

static void embedded_stop(struct runtime *r)
{
    images_stop(r->images);
}

static int call_open(struct call *c, struct broker_client *client, struct err *e)
{
    return broker_open(client, c->id, &c->handle, e);
}

static int call_stat(struct call *c, struct broker_client *client, struct err *e)
{
    return broker_stat(client, c->id, &c->sandbox, &c->stat, e);
}

/* Reads the report of a sandbox that ended. A hostile PID 1 may have forged it, but can lie only
 * about its own sandbox. False when execd was killed before it could report an end. */
static bool read_report(int fd, struct runtime_status *ret)
{
    struct exit_report report = {0};
    int r = exit_report_read(fd, &report);

    ret->state = RUNTIME_EXITED;
    if (r < 0 || report.phase == REPORT_STARTING || report.phase == REPORT_RUNNING) {
        ret->exit_signal = SIGKILL;
        return false;
    }
    ret->exit_code = report.exit_code;
    ret->exit_signal = report.exit_signal;
    ret->ended_us = report.ended_us;
    if (report.phase == REPORT_FAILED) {
        ret->state = RUNTIME_FAILED;
        (void)err_set(&ret->err, report.error_code ? report.error_code : EIO, "%s", report.message);
    }
    return true;
}

static int embedded_start_error(struct runtime *r, struct str id, const struct runtime_birth *birth,
                                struct err *e)
{
    struct exit_report report = {0};
    struct call c;

    if (exit_report_read(birth->report, &report) < 0)
        report.phase = REPORT_STARTING;
    if (report.phase == REPORT_FAILED)
        return err_set(e, report.error_code > 0 ? report.error_code : EIO, "%s", report.message);
    if (report.phase != REPORT_STARTING)
        return 0;
    return err_set(e, EIO, "execd ended before it started the entrypoint%s",
                   call_broker(&c, r, id, call_stat, NULL) >= 0 && c.stat.init_oom_kills > 0
                       ? ": execd ran out of memory"
                       : "");
}

static int embedded_adopt(struct runtime *r, struct str id, int *ret_watch,
                          struct runtime_status *ret, struct err *e)
{
    struct call c;
    int result = call_broker(&c, r, id, call_open, e);

    if (result < 0)
        return result;
    *ret = (struct runtime_status){
        .state = c.handle.sandbox.state == BROKER_PAUSED ? RUNTIME_PAUSED : RUNTIME_RUNNING};
    if (c.handle.sandbox.state == BROKER_DEAD) {
        bool told = read_report(c.handle.files[BROKER_FILE_EXIT], ret);

        if (with_broker(&c, call_stat, NULL) >= 0) {
            ret->out_of_memory = c.stat.oom_kills > 0;
            ret->execd_out_of_memory = !told && c.stat.init_oom_kills > 0;
        }
    } else {
        *ret_watch = take_fd(&c.handle.files[BROKER_FILE_PIDFD]);
    }
    broker_handle_done(&c.handle);
    return 0;
}

static int call_pause(struct call *c, struct broker_client *client, struct err *e)
{
    return broker_pause(client, c->id, e);
}

static int call_resume(struct call *c, struct broker_client *client, struct err *e)
{
    return broker_resume(client, c->id, e);
}

static int embedded_pause(struct runtime *r, struct str id, struct err *e)
{
    struct call c;

    return call_broker(&c, r, id, call_pause, e);
}

static int embedded_resume(struct runtime *r, struct str id, struct err *e)
{
    struct call c;

    return call_broker(&c, r, id, call_resume, e);
}

static int embedded_usage(struct runtime *r, struct str id, struct runtime_usage *ret,
                          struct err *e)
{
    struct call c;
    int result = call_broker(&c, r, id, call_stat, e);

    if (result < 0)
        return result;
    *ret = (struct runtime_usage){
        .memory_bytes = c.stat.memory_bytes,
        .memory_peak_bytes = c.stat.memory_peak_bytes,
        .cpu_us = c.stat.cpu_us,
        .pids = c.stat.pids,
        .oom_kills = c.stat.oom_kills,
        .pid = c.sandbox.pid,
        .address = c.sandbox.address,
    };
    return 0;
}

static int embedded_logs(struct runtime *r, struct str id, const struct runtime_log_query *query,
                         struct buf *out, bool *ret_cut, struct err *e)
{
    struct call c;
    int result = call_broker(&c, r, id, call_open, e);

    if (result < 0)
        return result;
    result = entry_log_read_lines(c.handle.files[BROKER_FILE_LOG], query->since_us, query->lines,
                                  out, ret_cut);
    broker_handle_done(&c.handle);
    if (result == -ENODATA)
        return 0; /* the entrypoint printed nothing */
    return result < 0 ? err_sys(e, -result, "read the output of the sandbox") : 0;
}

/* Several servers may share a broker. A sandbox belongs to the one whose data directory has a
 * directory for it, which is made before the sandbox and removed after it. */
static bool is_ours(const struct embedded *em, const char *id)
{
    return faccessat(em->sandboxes, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void on_listed(void *user, const struct broker_sandbox *sandbox)
{
    static const enum runtime_state states[] = {
        [BROKER_RUNNING] = RUNTIME_RUNNING,
        [BROKER_PAUSED] = RUNTIME_PAUSED,
        [BROKER_DEAD] = RUNTIME_EXITED,
    };
    struct call *c = user;

    if (sandbox->state < ARRAY_LEN(states) && is_ours(c->em, sandbox->id))
        c->visit(c->user, str_of(sandbox->id), states[sandbox->state]);
}

static int call_list(struct call *c, struct broker_client *client, struct err *e)
{
    return broker_list(client, on_listed, c, e);
}

static int embedded_list(struct runtime *r, runtime_visit_fn *visit, void *user, struct err *e)
{
    struct call c = {
        .em = container_of(r, struct embedded, base),
        .visit = visit,
        .user = user,
    };

    return with_broker(&c, call_list, e);
}

static int call_info(struct call *c, struct broker_client *client, struct err *e)
{
    return broker_info(client, &c->info, e);
}

static int embedded_levels(struct runtime *r, struct runtime_levels *ret, struct err *e)
{
    struct call c = {.em = container_of(r, struct embedded, base)};
    int result = with_broker(&c, call_info, e);

    if (result < 0)
        return result;
    *ret = (struct runtime_levels){
        .ready = c.info.ready.none + c.info.ready.bridge,
        .ready_wanted = c.info.wanted.none + c.info.wanted.bridge,
        .live = c.info.live,
        .blocked = c.info.blocked,
    };
    embedded_egress_figures(c.em, &ret->egress);
    return 0;
}

static int embedded_endpoint(struct runtime *r, struct str id, struct runtime_endpoint *ret)
{
    char text[PLAN_ID_MAX];

    if (str_copy(text, sizeof(text), id) < 0)
        return -ENOENT;
    *ret = (struct runtime_endpoint){0};
    socket_path(container_of(r, struct embedded, base), text, &ret->addr);
    return 0;
}

static void embedded_free(struct runtime *r)
{
    struct embedded *em = container_of(r, struct embedded, base);

    embedded_egress_stop(em);
    images_free(r->images);
    while (em->idle_count)
        broker_close(&em->idle[--em->idle_count]);
    fd_close(em->sandboxes);
    fd_close(em->volumes);
    embedded_claims_done(em);
    embedded_layers_done(&em->layers);
    (void)pthread_mutex_destroy(&em->claims);
    (void)pthread_mutex_destroy(&em->lock);
    embedded_host_free(em->host);
    free(em);
}

static const struct runtime_ops embedded_ops = {
    .check_abilities = embedded_check_abilities,
    .check = embedded_check,
    .image_note = embedded_image_note,
    .create = embedded_create,
    .cancel = embedded_cancel,
    .start_error = embedded_start_error,
    .adopt = embedded_adopt,
    .pause = embedded_pause,
    .resume = embedded_resume,
    .halt = embedded_halt,
    .remove = embedded_remove,
    .usage = embedded_usage,
    .logs = embedded_logs,
    .list = embedded_list,
    .levels = embedded_levels,
    .trouble = embedded_egress_trouble,
    .endpoint = embedded_endpoint,
    .egress_endpoint = embedded_egress_endpoint,
    .egress_report = embedded_egress_report,
    .snapshot = embedded_snapshot,
    .snapshot_remove = embedded_snapshot_remove,
    .snapshot_each = embedded_snapshot_each,
    .volume_list = embedded_volume_list,
    .volume_get = embedded_volume_get,
    .volume_create = embedded_volume_create,
    .volume_remove = embedded_volume_remove,
    .reload = embedded_reload,
    .stop = embedded_stop,
    .free = embedded_free,
};

/* --- start-up --- */

int embedded_open_dir(const char *parent, const char *name, struct err *e)
{
    char path[512];
    int n = snprintf(path, sizeof(path), "%s/%s", parent, name);
    int fd;

    if (n < 0 || (size_t)n >= sizeof(path))
        return err_set(e, ENAMETOOLONG, "the path '%s' is too long", parent);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make the directory '%s'", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open the directory '%s'", path);
    (void)fchmod(fd, 0700); /* of an existing one, too: volumes hold setuid files of root */
    return fd;
}

/* Whether the broker that was started for us has already ended. It logged the reason. */
static bool broker_ended(const struct embedded *em)
{
    siginfo_t info = {0};

    return em->conf.broker_pid &&
           waitid(P_PID, (id_t)em->conf.broker_pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

/* Connects all at once, so that the broker's workers share them and begin to make sandboxes. */
static int connect_all(struct embedded *em, uint64_t deadline, struct err *e)
{
    const struct timespec pause = {.tv_nsec = CONNECT_RETRY_MS * 1000000L};
    bool said = em->conf.broker_pid != 0; /* do not log that our own broker takes a moment */

    while (em->idle_count < em->conf.connections) {
        int r = connect_broker(em, &em->idle[em->idle_count], e);

        if (r == 0) {
            em->idle_count++;
            continue;
        }
        if (broker_ended(em))
            return err_set(e, ECHILD,
                           "the broker that the server started has ended; its log has the reason");
        if (deadline_passed(deadline))
            return err_wrap(e, r,
                            "no broker answers; start opensandbox-broker, or the server as root");
        if (!said)
            log_event(LOG_INFO, "waiting for a broker", LOG_STR("socket", em->conf.broker));
        said = true;
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

static int start_egress(struct embedded *em, struct err *e)
{
    struct call c = {.em = em};
    int r = with_broker(&c, call_info, e);

    if (r < 0)
        return r;
    em->gateway = c.info.gateway;
    return embedded_egress_start(em, e);
}

int embedded_new(const struct embedded_conf *conf, uint32_t wait_ms, struct runtime **ret_runtime,
                 struct err *e)
{
    struct embedded *em = mem_new(struct embedded);
    int r;

    em->base = (struct runtime){
        .ops = &embedded_ops,
        .name = "embedded",
        .can = RUNTIME_CAN_PAUSE | RUNTIME_CAN_POOLS | RUNTIME_CAN_SNAPSHOT | RUNTIME_CAN_KEEP |
               RUNTIME_CAN_VOLUME_HOST | RUNTIME_CAN_VOLUME_CLAIM | RUNTIME_CAN_VOLUME_OBJECTS |
               RUNTIME_CAN_CHOOSE,
    };
    em->conf = *conf;
    if (config_runtime_find(conf->config, STR("gvisor")))
        em->base.can |= RUNTIME_CAN_MEMORY;
    em->sandboxes = em->volumes = em->claims_dir = em->layers.dir = -EBADF;
    if (em->conf.connections > EMBEDDED_CONNECTIONS_MAX)
        em->conf.connections = EMBEDDED_CONNECTIONS_MAX;
    (void)pthread_mutex_init(&em->lock, NULL);
    (void)pthread_mutex_init(&em->claims, NULL);
    em->sandboxes = r = embedded_open_dir(conf->dir, "sandboxes", e);
    if (r >= 0)
        em->volumes = r = embedded_open_dir(conf->dir, "volumes", e);
    if (r >= 0)
        r = embedded_layers_open(em, e);
    if (r >= 0)
        r = connect_all(em, deadline_in_ms(wait_ms), e);
    if (r >= 0)
        r = embedded_claims_open(em, e);
    if (r >= 0)
        r = embedded_images_start(em, e);
    if (r >= 0)
        r = embedded_layers_load(em, e);
    if (r >= 0)
        r = start_egress(em, e);
    if (r < 0) {
        embedded_free(&em->base);
        return r;
    }
    *ret_runtime = &em->base;
    return 0;
}
