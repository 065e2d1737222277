/* ops.c - operations on sandboxes: queued per sandbox, run by the worker pool, applied on the loop.
 *
 * The order of steps lets the next start repair an operation that was cut short: a sandbox has a
 * row before it exists, and loses the row only after it is gone; in between, ask the runtime.
 *
 *   create   row Pending -> runtime -> the entrypoint runs -> row Running
 *            on failure: runtime, remove -> no row; row Failed if a client got the id
 *   pause    runtime -> row Paused;     resume the same
 *   delete   row Stopping -> runtime -> no row;     expire the same, if the expiry is still due */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "api/answer.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/renew.h"
#include "server/core/sandboxes_internal.h"
#include "server/core/spec_json.h"

enum {
    OP_ARENA_MAX = 4 << 20,
    START_WAIT_MS = 10 * 1000, /* limit for execd to start the entrypoint; then assume it runs */
};

/* --- the queue --- */

static void op_free(struct op *op)
{
    fd_close(op->watch);
    fd_close(op->birth.watch);
    fd_close(op->birth.started);
    fd_close(op->birth.report);
    arena_done(&op->arena);
    free(op);
}

static struct op *op_new(const struct op_kind *kind, op_done_fn *done, void *user)
{
    struct op *op = mem_new(struct op);

    op->kind = kind;
    op->done = done;
    op->user = user;
    op->watch = -EBADF;
    op->birth = (struct runtime_birth)RUNTIME_BIRTH_NONE;
    op->started_io.fd = -EBADF;
    arena_init(&op->arena, OP_ARENA_MAX);
    list_init(&op->link);
    return op;
}

/* Calls done, and frees the operation. */
static void op_end(struct op *op)
{
    struct sandbox *sb = op->sb;

    sb->op_count--;
    if (op->done)
        op->done(op->user, sb->gone ? NULL : sb, op->fail.status ? &op->fail : NULL);
    else if (op->fail.status && !sb->gone) {
        log_event(LOG_WARN, "operation failed", LOG_STR("op", op->kind->name),
                  LOG_STR("sandbox", sb->id), LOG_STR("error", op->fail.message));
        sandbox_retry(sb);
    }
    op_free(op);
    sandboxes_op_ended(sb->table);
}

static void op_on_done(struct pool_job *job, int error);

static void op_on_work(struct pool_job *job)
{
    struct op *op = container_of(job, struct op, job);

    op->kind->work(op);
}

/* True: the operation runs and belongs to its worker. False: it failed. */
static bool op_start(struct op *op)
{
    struct sandbox *sb = op->sb;
    struct sandboxes *t = sb->table;

    if (sb->gone)
        (void)api_fail_set(&op->fail, 404, "DOCKER::SANDBOX_NOT_FOUND", "sandbox %s is gone",
                           sb->id);
    else if (!(op->kind->from & STATE_BIT(sb->state)))
        (void)api_fail_set(&op->fail, 409, op->kind->refuse_code, "cannot %s a sandbox that is %s",
                           op->kind->name, sandbox_state_name(sb->state));
    else if (pool_submit(t->conf.pool, &op->job, t->conf.loop, op_on_work, op_on_done, 0) == 0)
        return true;
    else
        (void)api_fail_set(&op->fail, 503, "SERVICE_UNAVAILABLE",
                           "the server is too busy, try again");
    return false;
}

static void ops_go_on(struct sandbox *sb)
{
    while (!sb->active && !list_empty(&sb->ops)) {
        struct op *op = container_of(sb->ops.next, struct op, link);

        list_remove(&op->link);
        if (op_start(op)) {
            sb->active = op;
            return;
        }
        sb->active = op; /* keeps the sandbox while done is called */
        if (!atomic_load(&sb->stored))
            sandbox_drop(sb); /* its creation never began */
        op_end(op);
        sb->active = NULL;
    }
    sandbox_release(sb);
}

static void op_on_done(struct pool_job *job, int error)
{
    struct op *op = container_of(job, struct op, job);
    struct sandbox *sb = op->sb;

    if (error)
        (void)api_fail_set(&op->fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    else if (op->go_on && op->go_on(op))
        return;
    if (op->changed)
        sandbox_set_status(sb, op->now.state, op->now.reason, op->now.err.msg, op->now.now_us);
    if (op->removed)
        sandbox_drop(sb);
    if (!op->fail.status && op->kind->apply)
        op->kind->apply(op);
    if (op->unsure)
        sandbox_sync(sb);
    op_end(op);
    sb->active = NULL;
    ops_go_on(sb);
}

static void op_submit(struct op *op, struct sandbox *sb)
{
    op->sb = sb;
    sb->table->busy++;
    if (++sb->op_count > SANDBOX_OPS_MAX) {
        (void)api_fail_set(&op->fail, 503, "SERVICE_UNAVAILABLE",
                           "too many operations wait for sandbox %s, try again", sb->id);
        op_end(op);
        return;
    }
    list_push(&sb->ops, &op->link);
    ops_go_on(sb);
}

/* --- helpers of workers --- */

bool sandboxes_failure_passes(int code)
{
    return code == ENOSPC || code == EDQUOT || code == EBUSY || code == ETIMEDOUT;
}

static void op_fail(struct op *op, const struct err *e)
{
    if (sandboxes_failure_passes(e->code)) {
        (void)api_fail_set(&op->fail, 503, "SERVICE_UNAVAILABLE", "%s", e->msg);
        return;
    }
    if (e->code == ESRCH && op->kind->refuse_code[0]) {
        /* It ended meanwhile; its watch will report that. */
        (void)api_fail_set(&op->fail, 409, op->kind->refuse_code, "%s", e->msg);
        return;
    }
    (void)api_fail_set(&op->fail, 500, op->kind->fail_code, "%s", e->msg);
}

static void op_status(struct op *op, enum sandbox_state state, const char *reason,
                      const char *message)
{
    op->now.state = state;
    op->now.reason = reason;
    op->now.now_us = time_wall_us();
    (void)err_set(&op->now.err, EIO, "%s", message); /* truncates a long message */
}

static struct store_status op_store_status(const struct op *op)
{
    return (struct store_status){op->now.state, str_of(op->now.reason), str_of(op->now.err.msg),
                                 op->now.now_us};
}

static bool is_disk_full(int r)
{
    return r == -ENOSPC || r == -EDQUOT;
}

/* Writes op->now to the row; false when that failed. */
static bool op_write_status(struct op *op)
{
    struct store_status status = op_store_status(op);
    struct err e = {0};
    int r = store_set_status(op->sb->table->conf.store, str_of(op->sb->id), STATE_ANY, &status, &e);

    if (r == 0)
        (void)err_set(&e, ENOENT, "the row of sandbox %s is gone", op->sb->id);
    op->changed = r > 0;
    op->disk_full = is_disk_full(r);
    if (r <= 0)
        op_fail(op, &e);
    return r > 0;
}

/* Sets the status of a running sandbox. */
static void op_status_running(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    const struct str plain = STR("the sandbox is running");
    AUTO_BUF(text, OP_ARENA_MAX);

    (void)buf_addf(&text, "%.*s; ", STR_ARG(plain));
    rt->ops->image_note(rt, str_of(op->sb->image), &text);
    if (str_ends(buf_str(&text), STR("; ")))
        buf_cut(&text, plain.n);
    op_status(op, SANDBOX_RUNNING, "CONTAINER_RUNNING", text.p);
}

/* Translates a runtime's status to one of the API. */
static void status_of_runtime(const struct runtime_status *status, struct op *op)
{
    char message[128];

    switch (status->state) {
    case RUNTIME_RUNNING:
        op_status_running(op);
        return;
    case RUNTIME_PAUSED:
        op_status(op, SANDBOX_PAUSED, "CONTAINER_PAUSED", "the sandbox is paused");
        return;
    case RUNTIME_FAILED:
        op_status(op, SANDBOX_FAILED, "CONTAINER_EXITED_ERROR", status->err.msg);
        return;
    case RUNTIME_EXITED:
        break;
    }
    if (status->execd_out_of_memory)
        (void)snprintf(message, sizeof(message),
                       "execd ran out of memory: the kernel killed it, and the sandbox with it");
    else if (status->exit_signal)
        (void)snprintf(message, sizeof(message), "the entrypoint was ended by signal %d%s",
                       status->exit_signal,
                       status->out_of_memory ? ", after the sandbox ran out of memory" : "");
    else
        (void)snprintf(message, sizeof(message), "the entrypoint exited with status %d%s",
                       status->exit_code,
                       status->out_of_memory ? ", after the sandbox ran out of memory" : "");
    if (status->exit_signal || status->exit_code)
        op_status(op, SANDBOX_FAILED, "CONTAINER_EXITED_ERROR", message);
    else
        op_status(op, SANDBOX_TERMINATED, "CONTAINER_EXITED", message);
}

/* --- create --- */

/* False when it cannot be removed now: it stays Pending, and the reconciler settles it later. */
static bool remove_half_made(struct op *op, const struct err *why)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    struct err e = {0};

    if (rt->ops->remove(rt, str_of(op->sb->id), &e) >= 0)
        return true;
    log_event(LOG_WARN, "cannot remove what is left of a creation that failed, trying again later",
              LOG_STR("sandbox", op->sb->id), LOG_STR("why", why->msg), LOG_STR("error", e.msg));
    return false;
}

static void create_succeed(struct op *op)
{
    const struct sandboxes_conf *conf = &op->sb->table->conf;
    struct err e = {0};

    op_status_running(op);
    if (!op_write_status(op)) {
        /* Its state cannot be stored: remove it rather than keep a sandbox with a wrong state. */
        (void)conf->runtime->ops->remove(conf->runtime, str_of(op->sb->id), &e);
        op_status(op, SANDBOX_FAILED, "PROVISIONING_ERROR", op->fail.message);
        op->changed = true;
    }
}

/* Whether the error is due to the entrypoint that the request names. */
static bool is_bad_entrypoint(int code)
{
    static const int codes[] = {ENOENT, EACCES,       EPERM, ENOEXEC, ENOTDIR, EISDIR,
                                ELOOP,  ENAMETOOLONG, E2BIG, EINVAL,  ELIBBAD, ETXTBSY};

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (code == codes[i])
            return true;
    return false;
}

/* A client that got the id finds the sandbox Failed. Without one, the sandbox is removed. */
static void create_fail(struct op *op)
{
    const struct err *why = &op->why;
    struct err e = {0};

    if (!remove_half_made(op, why))
        return;
    if (op->sb->failing && store_delete(op->sb->table->conf.store, str_of(op->sb->id), &e) >= 0) {
        if (op->start_ended && is_bad_entrypoint(why->code))
            (void)api_fail_set(&op->fail, 400, "DOCKER::INVALID_ENTRYPOINT", "%s", why->msg);
        else
            op_fail(op, why);
        op->removed = true;
        return;
    }
    op_status(op, SANDBOX_FAILED, "PROVISIONING_ERROR", why->msg);
    (void)op_write_status(op);
}

static void create_work(struct op *op)
{
    struct sandbox *sb = op->sb;
    const struct sandboxes_conf *conf = &sb->table->conf;
    struct store_sandbox row = {
        .id = str_of(sb->id),
        .state = sb->state,
        .reason = str_of(sb->reason),
        .message = str_of(sb->message),
        .created_us = sb->created_us,
        .since_us = sb->since_us,
        .expires_us = sb->expires_us,
        .image = str_of(sb->image),
        .snapshot_id = str_of(sb->snapshot_id),
        .os = str_of(sb->os),
        .arch = str_of(sb->arch),
        .entrypoint = str_of(sb->entrypoint),
        .metadata = str_of(sb->metadata),
        .token = str_of(sb->token),
        .spec = str_of(sb->spec),
        .renew_extend_s = sb->renew_extend_s,
    };
    struct err e = {0};

    op->removed = true; /* true until its row is stored */
    if (conf->runtime->ops->check(conf->runtime, &op->spec, &op->fail) < 0)
        return;
    if (store_insert(conf->store, &row, &e) < 0) {
        op_fail(op, &e);
        return;
    }
    op->removed = false;
    sandbox_show(sb);
    if (conf->runtime->ops->create(conf->runtime, row.id, &op->spec, &op->birth, &e) < 0)
        op->why = e; /* only now: after a failed try and a success e still has the first error */
    else if (op->birth.started < 0)
        create_succeed(op);
}

/* Runs once it is known whether the entrypoint was started. */
static void settle_work(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    int r = 0;

    if (op->start_ended)
        r = rt->ops->start_error(rt, str_of(op->sb->id), &op->birth, &op->why);
    if (r < 0)
        (void)err_wrap(&op->why, r, "entrypoint");
    if (op->why.code)
        create_fail(op);
    else
        create_succeed(op);
}

static void settle_on_work(struct pool_job *job)
{
    settle_work(container_of(job, struct op, job));
}

/* Starts the second half of a create. When the pool refuses it the row stays Pending, and the
 * reconciler settles the sandbox later. */
static void create_settle(struct op *op)
{
    struct sandboxes *t = op->sb->table;

    op->settled = true;
    if (pool_submit(t->conf.pool, &op->job, t->conf.loop, settle_on_work, op_on_done, 0) < 0)
        op_on_done(&op->job, 0);
}

static void create_stop_waiting(struct op *op)
{
    struct loop *loop = op->sb->table->conf.loop;

    if (op->started_io.fd >= 0)
        loop_io_stop(loop, &op->started_io);
    loop_timer_stop(loop, &op->started_timer);
}

void op_abandon(struct op *op)
{
    if (op->started_io.fd < 0)
        return;
    create_stop_waiting(op);
    (void)api_fail_set(&op->fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    op_end(op);
}

/* From now on a client without the sandbox's id gets only the failure. */
static void create_note_failure(struct op *op)
{
    op->sb->failing = !op->sb->announced;
}

static void create_on_started(struct loop_io *io, uint32_t events UNUSED)
{
    struct op *op = container_of(io, struct op, started_io);
    char byte;
    ssize_t n = recv(io->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    create_stop_waiting(op);
    op->start_ended = n <= 0;
    if (op->start_ended)
        create_note_failure(op);
    create_settle(op);
}

static void create_on_late(struct loop_timer *timer)
{
    struct op *op = container_of(timer, struct op, started_timer);

    create_stop_waiting(op);
    create_settle(op);
}

static bool create_go_on(struct op *op)
{
    struct loop *loop = op->sb->table->conf.loop;

    if (op->settled || op->removed || op->now.reason)
        return false;
    if (op->why.code)
        create_note_failure(op);
    else if (loop_io_start(loop, &op->started_io, op->birth.started, EPOLLIN, create_on_started,
                           NULL) == 0) {
        loop_timer_set(loop, &op->started_timer, deadline_in_ms(START_WAIT_MS), create_on_late);
        return true;
    }
    create_settle(op);
    return true;
}

static void create_apply(struct op *op)
{
    if (op->sb->state != SANDBOX_FAILED)
        sandbox_watch(op->sb, take_fd(&op->birth.watch));
    log_event(LOG_INFO, "sandbox created", LOG_STR("sandbox", op->sb->id),
              LOG_STR("state", sandbox_state_name(op->sb->state)), LOG_STR("image", op->sb->image),
              LOG_STR("message", op->sb->message));
}

static const struct op_kind op_create = {
    "create", STATE_ANY, "", create_work, create_apply, "DOCKER::SANDBOX_START_FAILED",
};

static char *pairs_json(const struct json_pair *pairs, size_t count)
{
    AUTO_BUF(out, OP_ARENA_MAX);

    return api_pairs_write(&out, pairs, count) < 0 ? NULL : buf_take(&out);
}

static char *list_json(const struct str *items, size_t count)
{
    AUTO_BUF(out, OP_ARENA_MAX);

    return api_strs_write(&out, items, count) < 0 ? NULL : buf_take(&out);
}

static int sandbox_fill(struct sandbox *sb, const struct api_create *spec)
{
    sb->state = SANDBOX_PENDING;
    (void)snprintf(sb->reason, sizeof(sb->reason), "CONTAINER_STARTING");
    sb->message = mem_strdup("the sandbox is being created");
    sb->created_us = sb->since_us = time_wall_us();
    sb->expires_us = spec->timeout_s ? sb->created_us + spec->timeout_s * TIME_US_PER_S : 0;
    sb->image = sandbox_text(spec->image);
    sb->snapshot_id = sandbox_text(spec->snapshot_id);
    sb->os = sandbox_text(spec->os);
    sb->arch = sandbox_text(spec->arch);
    sb->entrypoint = list_json(spec->entrypoint, spec->entrypoint_count);
    sb->metadata =
        spec->metadata_count ? pairs_json(spec->metadata, spec->metadata_count) : mem_strdup("");
    sb->spec = spec_json_new(spec);
    sb->facts = spec_json_facts(str_of(sb->spec));
    sb->renew_extend_s = spec->renew_extend_s;
    id_token(sb->token);
    return sb->entrypoint && sb->metadata && sb->spec ? 0 : -ENOMEM;
}

static int check_source(void *user, const struct api_create *spec, struct api_fail *f)
{
    struct runtime *rt = user;

    return rt->ops->check_source(rt, spec, f);
}

static int check_abilities(void *user, const struct api_create *spec, struct api_fail *f)
{
    struct runtime *rt = user;

    return rt->ops->check_abilities(rt, spec, f);
}

int sandboxes_create(struct sandboxes *t, struct str type, struct str body, int64_t timeout_s_max,
                     op_done_fn *done, void *user, struct sandbox **ret_sandbox, struct api_fail *f)
{
    struct op *op = op_new(&op_create, done, user);
    struct str copy = arena_str(&op->arena, body);
    struct api_create_host host = {timeout_s_max, check_source, check_abilities, t->conf.runtime};
    char id[ID_UUID_MAX];
    struct sandbox *sb;

    if (!copy.p || api_create_parse(&op->arena, type, copy, &host, &op->spec, f) < 0) {
        if (!copy.p)
            (void)api_fail_set(f, 413, "SANDBOX::INVALID_PARAMETER", "the body is too large");
        op_free(op);
        return -EBADMSG;
    }
    id_uuid(id);
    sb = sandbox_new(t, str_of(id));
    if (!sb || sandbox_fill(sb, &op->spec) < 0) {
        if (sb) {
            sandbox_drop(sb);
            sandbox_release(sb);
        }
        op_free(op);
        return api_fail_set(f, 503, "SERVICE_UNAVAILABLE",
                            "this server has as many sandboxes as it may have");
    }
    op->go_on = create_go_on;
    *ret_sandbox = sb;
    op_submit(op, sb);
    return 0;
}

/* --- pause and resume --- */

/* A runtime that timed out may have acted: the state must be checked. If it does not answer even
 * then, the reconciler checks. */
static void freeze_failed(struct op *op, const struct err *e)
{
    op->unsure = e->code == ETIMEDOUT;
    op_fail(op, e);
}

static void pause_work(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    struct err e = {0};

    if (rt->ops->pause(rt, str_of(op->sb->id), &e) < 0) {
        freeze_failed(op, &e);
        return;
    }
    status_of_runtime(&(struct runtime_status){.state = RUNTIME_PAUSED}, op);
    if (!op_write_status(op))
        (void)rt->ops->resume(rt, str_of(op->sb->id), NULL); /* a failed pause has no effect */
}

static void resume_work(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    struct err e = {0};

    if (rt->ops->resume(rt, str_of(op->sb->id), &e) < 0) {
        freeze_failed(op, &e);
        return;
    }
    status_of_runtime(&(struct runtime_status){.state = RUNTIME_RUNNING}, op);
    if (!op_write_status(op))
        (void)rt->ops->pause(rt, str_of(op->sb->id), NULL);
}

static const struct op_kind op_pause = {
    "pause", STATE_BIT(SANDBOX_RUNNING),     "DOCKER::SANDBOX_NOT_RUNNING", pause_work,
    NULL,    "DOCKER::SANDBOX_PAUSE_FAILED",
};
static const struct op_kind op_resume = {
    "resume", STATE_BIT(SANDBOX_PAUSED),       "DOCKER::SANDBOX_NOT_PAUSED", resume_work,
    NULL,     "DOCKER::SANDBOX_RESUME_FAILED",
};

void sandbox_pause(struct sandbox *sb, op_done_fn *done, void *user)
{
    op_submit(op_new(&op_pause, done, user), sb);
}

void sandbox_resume(struct sandbox *sb, op_done_fn *done, void *user)
{
    op_submit(op_new(&op_resume, done, user), sb);
}

/* --- delete and expire --- */

/* The row is Stopping: removes the sandbox, then the row. */
static void remove_rest(struct op *op)
{
    const struct sandboxes_conf *conf = &op->sb->table->conf;
    struct str id = str_of(op->sb->id);
    struct err e = {0};

    if (conf->runtime->ops->remove(conf->runtime, id, &e) < 0 ||
        store_delete(conf->store, id, &e) < 0)
        op_fail(op, &e);
    else
        op->removed = true;
}

static void delete_work(struct op *op)
{
    op_status(op, SANDBOX_STOPPING, "user_delete", "the sandbox is being removed");
    if (op->sb->state != SANDBOX_STOPPING && !op_write_status(op)) {
        if (!op->disk_full)
            return;
        /* This sandbox may be what fills the disk, so remove it anyway. If its row cannot be
         * deleted even then, we retry, and the next server finds the sandbox lost. */
        op->fail = (struct api_fail){0};
        op->changed = true;
    }
    remove_rest(op);
}

static void expire_work(struct op *op)
{
    struct store *store = op->sb->table->conf.store;
    struct store_status status;
    struct err e = {0};
    int r;

    op_status(op, SANDBOX_STOPPING, "ttl_expiry", "the sandbox has expired");
    status = op_store_status(op);
    r = store_expire(store, str_of(op->sb->id), op->expires_us, &status, &e);
    if (is_disk_full(r) && op->sb->expires_us == op->expires_us)
        r = 1; /* not renewed, and it may be what fills the disk: as in delete_work */
    if (r < 0)
        op_fail(op, &e);
    op->changed = r > 0;
    if (r > 0)
        remove_rest(op);
}

static void delete_apply(struct op *op)
{
    if (op->removed)
        log_event(LOG_INFO, "sandbox removed", LOG_STR("sandbox", op->sb->id),
                  LOG_STR("reason", op->sb->reason));
    else if (op->sb->expires_us == op->expires_us)
        sandbox_retry(op->sb); /* not renewed either: the row differs */
}

static const struct op_kind op_delete = {
    "delete", STATE_ANY, "", delete_work, delete_apply, "DOCKER::SANDBOX_DELETE_FAILED",
};
static const struct op_kind op_expire = {
    "expire", STATE_ANY, "", expire_work, delete_apply, "DOCKER::SANDBOX_DELETE_FAILED",
};

void sandbox_delete(struct sandbox *sb, op_done_fn *done, void *user)
{
    op_submit(op_new(&op_delete, done, user), sb);
}

void sandbox_expire(struct sandbox *sb)
{
    struct op *op;

    if (!sb->expires_us) { /* it never ran, and failed_ttl is over */
        sandbox_delete(sb, NULL, NULL);
        return;
    }
    op = op_new(&op_expire, NULL, NULL);
    op->expires_us = sb->expires_us;
    op_submit(op, sb);
}

/* --- renew --- */

static void renew_work(struct op *op)
{
    struct store *store = op->sb->table->conf.store;
    struct err e = {0};
    int r =
        store_renew(store, str_of(op->sb->id), op->kind->from, op->expected_us, op->expires_us, &e);

    if (r < 0)
        op_fail(op, &e);
    else if (r == 0)
        (void)api_fail_set(
            &op->fail, 409, "DOCKER::INVALID_EXPIRATION",
            "sandbox %s has no expiry to renew, is about to end, or was just renewed", op->sb->id);
}

static void renew_apply(struct op *op)
{
    op->sb->expires_us = op->expires_us;
    sandbox_arm(op->sb);
}

static const struct op_kind op_renew = {
    "renew",
    STATE_ANY & ~STATE_BIT(SANDBOX_STOPPING),
    "DOCKER::INVALID_EXPIRATION",
    renew_work,
    renew_apply,
    "SANDBOX::UNKNOWN_ERROR",
};

static void renew(struct sandbox *sb, int64_t expected_us, int64_t expires_us, op_done_fn *done,
                  void *user)
{
    struct op *op = op_new(&op_renew, done, user);

    op->expires_us = expires_us;
    op->expected_us = expected_us;
    op_submit(op, sb);
}

void sandbox_renew(struct sandbox *sb, int64_t expires_us, op_done_fn *done, void *user)
{
    renew(sb, 0, expires_us, done, user);
}

void sandbox_touch(struct sandbox *sb)
{
    int64_t now = time_wall_us();
    int64_t expires_us = renew_due(&(struct renew_facts){
        .now_us = now,
        .expires_us = sb->expires_us,
        .renewed_us = sb->renewed_us,
        .extend_s = sb->renew_extend_s,
        .min_interval_s = sb->table->conf.renew_min_interval_s,
        .state = sb->state,
    });

    if (!expires_us)
        return;
    sb->renewed_us = now;
    log_event(LOG_INFO, "renewed on access", LOG_STR("renew_sandbox_id", sb->id),
              LOG_STR("renew_source", "server_proxy"));
    renew(sb, sb->expires_us, expires_us, NULL, NULL); /* only if the expiry is unchanged */
}

/* --- metadata --- */

static void patch_work(struct op *op)
{
    struct store *store = op->sb->table->conf.store;
    struct err e = {0};
    int r =
        api_patch_apply(&op->arena, str_of(op->sb->metadata), &op->patch, &op->metadata, &op->fail);

    if (r < 0)
        return;
    r = store_set_metadata(store, str_of(op->sb->id), op->metadata, &e);
    if (r == 0)
        r = err_set(&e, ENOENT, "the row of sandbox %s is gone", op->sb->id);
    if (r < 0)
        op_fail(op, &e);
}

static void patch_apply(struct op *op)
{
    free(op->sb->metadata);
    op->sb->metadata = sandbox_text(op->metadata);
}

static const struct op_kind op_patch = {
    "patch", STATE_ANY, "", patch_work, patch_apply, "SANDBOX::UNKNOWN_ERROR",
};

int sandbox_patch(struct sandbox *sb, struct str type, struct str body, op_done_fn *done,
                  void *user, struct api_fail *f)
{
    struct op *op = op_new(&op_patch, done, user);
    struct str copy = arena_str(&op->arena, body);

    if (!copy.p || api_patch_parse(&op->arena, type, copy, &op->patch, f) < 0) {
        if (!copy.p)
            (void)api_fail_set(f, 413, "SANDBOX::INVALID_PARAMETER", "the body is too large");
        op_free(op);
        return -EBADMSG;
    }
    op_submit(op, sb);
    return 0;
}

/* --- sync --- */

/* Asks the runtime for the real state. */
static void sync_work(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    struct runtime_status status = {0};
    struct err e = {0};
    int r = rt->ops->adopt(rt, str_of(op->sb->id), &op->watch, &status, &e);

    if (r == -ENOENT && op->sb->state == SANDBOX_PENDING) {
        if (rt->ops->remove(rt, str_of(op->sb->id), &e) < 0) /* leftover directories and volumes */
            op_fail(op, &e);
        else
            op_status(op, SANDBOX_FAILED, "PROVISIONING_ERROR",
                      "the server stopped while it created the sandbox");
    } else if (r == -ENOENT)
        op_status(op, SANDBOX_FAILED, "SANDBOX_LOST",
                  "the sandbox is gone, and nobody asked for it");
    else if (r < 0)
        op_fail(op, &e);
    else
        status_of_runtime(&status, op);
    if (!op->fail.status && op->now.state != op->sb->state)
        (void)op_write_status(op);
}

static void sync_apply(struct op *op)
{
    if (op->changed)
        log_event(LOG_INFO, "sandbox changed", LOG_STR("sandbox", op->sb->id),
                  LOG_STR("state", sandbox_state_name(op->sb->state)),
                  LOG_STR("message", op->sb->message));
    if (op->sb->state == SANDBOX_RUNNING || op->sb->state == SANDBOX_PAUSED)
        sandbox_watch(op->sb, take_fd(&op->watch));
}

static const struct op_kind op_sync = {
    "sync", STATE_LIVE, "", sync_work, sync_apply, "DOCKER::SANDBOX_QUERY_FAILED",
};

void sandbox_sync(struct sandbox *sb)
{
    op_submit(op_new(&op_sync, NULL, NULL), sb);
}
