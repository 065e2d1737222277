/* ops.c - operations on sandboxes: queued per sandbox, run by the worker pool, applied on the loop.
 *
 * ops_create.c has creation, ops_change.c the rest. The order of their steps lets the next start
 * repair an operation that was cut short: a sandbox has a row before it exists, and loses the row
 * only after it is gone; in between, ask the runtime. */
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/sandboxes_internal.h"
#include "server/tenants/tenants.h"

/* --- the queue --- */

void op_free(struct op *op)
{
    fd_close(op->watch);
    fd_close(op->create.birth.watch);
    fd_close(op->create.birth.started);
    fd_close(op->create.birth.report);
    runtime_task_done(&op->create.task);
    free(op->create.plan);
    if (op->spec.secrets.count)
        arena_wipe(&op->arena);
    else
        arena_done(&op->arena);
    free(op);
}

struct op *op_new(const struct op_kind *kind, const struct principal *by, op_done_fn *done,
                  void *user)
{
    struct op *op = mem_new(struct op);

    op->kind = kind;
    op->work = kind->work;
    op->by = *by;
    op->span = trace_begin(trace_current());
    op->done = done;
    op->user = user;
    op->watch = -EBADF;
    runtime_task_init(&op->create.task, NULL);
    op->create.birth = (struct runtime_birth)RUNTIME_BIRTH_NONE;
    op->started_io.fd = -EBADF;
    arena_init(&op->arena, OP_ARENA_MAX);
    list_init(&op->link);
    return op;
}

/* The operation as a span of the request that had it done. */
static void op_trace_end(const struct op *op)
{
    const struct trace_attribute rows[] = {
        {"opensandbox.sandbox_id", str_of(op->sb->id),    0},
        {"opensandbox.error_code", str_of(op->fail.code), 0},
    };
    char name[64];

    if (!trace_is_recorded(&op->span))
        return;
    (void)snprintf(name, sizeof(name), "sandbox %s", op->kind->name);
    trace_end(&op->span, &(struct trace_note){str_of(name), TRACE_INTERNAL, op->fail.status > 0,
                                              rows, op->fail.status ? 2 : 1});
}

void op_end(struct op *op)
{
    struct sandbox *sb = op->sb;
    struct trace_context before;

    op_trace_end(op);
    before = trace_enter(&op->span.context);
    sb->op_count--;
    if (op->done)
        op->done(op->user, sb->gone ? NULL : sb, op->fail.status ? &op->fail : NULL);
    else if (op->fail.status && !sb->gone) {
        log_event(LOG_WARN, "operation failed", LOG_STR("op", op->kind->name),
                  LOG_STR("sandbox", sb->id), LOG_STR("error", op->fail.message));
        sandbox_retry(sb);
    }
    (void)trace_enter(&before);
    op_free(op);
    sandboxes_op_ended(sb->table);
}

void op_log(const struct op *op, const char *event)
{
    log_event(LOG_INFO, event, LOG_STR("sandbox", op->sb->id), LOG_STR("by", op->by.key_id),
              LOG_STR("tenant", op->by.tenant));
}

static void op_on_done(struct pool_job *job, int error);

static void op_on_work(struct pool_job *job)
{
    struct op *op = container_of(job, struct op, job);

    (void)trace_enter(&op->span.context);
    op->work(op);
    (void)trace_enter(NULL);
}

/* True: the operation runs and belongs to its worker. False: it failed. */
static bool op_start(struct op *op)
{
    struct sandbox *sb = op->sb;
    struct sandboxes *t = sb->table;

    if (sb->gone)
        (void)api_fail_set(&op->fail, 404, "DOCKER::SANDBOX_NOT_FOUND", "sandbox %s is gone",
                           sb->id);
    else if (!runtime_can(t->conf.runtime, op->kind->needs))
        (void)api_fail_set(&op->fail, 501, "SANDBOX::API_NOT_SUPPORTED",
                           "this runtime cannot %s sandboxes", op->kind->name);
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
    if (sb->table->conf.on_end &&
        (op->removed || op->halted ||
         (op->changed && (sb->state == SANDBOX_FAILED || sb->state == SANDBOX_TERMINATED))))
        sb->table->conf.on_end(sb->table->conf.user, str_of(sb->id));
    if (!op->fail.status && op->kind->apply) {
        struct trace_context before = trace_enter(&op->span.context);

        op->kind->apply(op);
        (void)trace_enter(&before);
    }
    if (op->unsure)
        sandbox_sync(sb);
    op_end(op);
    sb->active = NULL;
    ops_go_on(sb);
}

void op_submit(struct op *op, struct sandbox *sb)
{
    op->sb = sb;
    sb->table->busy++;
    if (++sb->op_count > SANDBOX_OPS_MAX)
        (void)api_fail_set(&op->fail, 503, "SERVICE_UNAVAILABLE",
                           "too many operations wait for sandbox %s, try again", sb->id);
    if (op->fail.status) {
        op_end(op);
        return;
    }
    list_push(&sb->ops, &op->link);
    ops_go_on(sb);
}

void op_share(struct op *op, struct sandboxes *t, const char *tenant, const char *key_id,
              const struct api_limits *limits)
{
    if (!t->conf.shared_store || !t->conf.tenants)
        return;
    tenants_share(t->conf.tenants, tenant, limits, &op->share);
    if (!principal_is_of_pool(key_id))
        return;
    op->share.tenant = STR("");
    for (size_t i = 0; i < STORE_QUOTAS; i++)
        op->share.limits[i] = -1;
}

void op_work_more(struct op *op, void (*work)(struct op *op))
{
    struct sandboxes *t = op->sb->table;

    op->work = work;
    if (pool_submit(t->conf.pool, &op->job, t->conf.loop, op_on_work, op_on_done, 0) < 0)
        op_on_done(&op->job, 0);
}

/* --- helpers of workers --- */

bool sandboxes_failure_passes(int code)
{
    return code == ENOSPC || code == EDQUOT || code == EBUSY || code == ETIMEDOUT;
}

void op_fail(struct op *op, const struct err *e)
{
    if (e->code == E2BIG && op->share.tenant.p) {
        (void)api_fail_set(&op->fail, 403, "QUOTA_EXCEEDED",
                           "tenant '%.*s' uses its quota up, with its sandboxes at all servers",
                           STR_ARG(op->share.tenant));
        return;
    }
    if (e->code == EALREADY && op->share.mark.n) {
        (void)api_fail_set(&op->fail, 409, "IDEMPOTENCY::IN_PROGRESS",
                           "Idempotency-Key: a request with it is under way at another server");
        return;
    }
    if (sandboxes_failure_passes(e->code)) {
        (void)api_fail_set(&op->fail, 503, "SERVICE_UNAVAILABLE", "%s", e->msg);
        return;
    }
    if (e->code == ESRCH && op->kind->refuse_code[0]) {
        /* It ended meanwhile; its watch will report that. */
        (void)api_fail_set(&op->fail, 409, op->kind->refuse_code, "%s", e->msg);
        return;
    }
    if (e->code == ENOTSUP && op->kind->refuse_code[0] &&
        runtime_can(op->sb->table->conf.runtime, RUNTIME_CAN_SHARE)) {
        (void)api_fail_set(&op->fail, 400, op->kind->refuse_code, "%s", e->msg);
        return;
    }
    (void)api_fail_set(&op->fail, 500, op->kind->fail_code, "%s", e->msg);
}

void op_status(struct op *op, enum sandbox_state state, const char *reason, const char *message)
{
    op->now.state = state;
    op->now.reason = reason;
    op->now.now_us = time_wall_us();
    (void)err_set(&op->now.err, EIO, "%s", message); /* truncates a long message */
}

struct store_status op_store_status(const struct op *op)
{
    return (struct store_status){op->now.state, str_of(op->now.reason), str_of(op->now.err.msg),
                                 op->now.now_us};
}

bool op_disk_is_full(int r)
{
    return r == -ENOSPC || r == -EDQUOT;
}

bool op_write_status(struct op *op)
{
    struct store_status status = op_store_status(op);
    struct err e = {0};
    int r = store_set_status(op->sb->table->conf.store, str_of(op->sb->id), STATE_ANY, &status, &e);

    if (r == 0)
        (void)err_set(&e, ENOENT, "the row of sandbox %s is gone", op->sb->id);
    op->changed = r > 0;
    op->disk_full = op_disk_is_full(r);
    if (r <= 0)
        op_fail(op, &e);
    return r > 0;
}

void op_status_running(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    const struct str plain = STR("the sandbox is running");
    AUTO_BUF(text, OP_ARENA_MAX);

    (void)buf_addf(&text, "%.*s; ", STR_ARG(plain));
    rt->ops->image_note(rt, str_of(op->sb->image), &text);
    if (str_ends(buf_str(&text), STR("; ")))
        buf_cut(&text, plain.n);
    op_status(op, SANDBOX_RUNNING, runtime_code(rt, "CONTAINER_RUNNING"), text.p);
}

void op_status_of_runtime(struct op *op, const struct runtime_status *status)
{
    static const struct {
        enum sandbox_state state;
        const char *reason, *message;
    } rows[] = {
        [RUNTIME_PAUSED] = {SANDBOX_PAUSED,    "CONTAINER_PAUSED",   "the sandbox is paused"       },
        [RUNTIME_PENDING] = {SANDBOX_PENDING,   "CONTAINER_STARTING", "the sandbox is being created"},
        [RUNTIME_ALLOCATED] = {SANDBOX_ALLOCATED, "IP_ASSIGNED",        "the sandbox has an address"  },
        [RUNTIME_PAUSING] = {SANDBOX_PAUSING,   "PAUSING",            "the sandbox is being paused" },
        [RUNTIME_RESUMING] = {SANDBOX_RESUMING,  "RESUMING",           "the sandbox is being resumed"},
    };
    char message[128];

    switch (status->state) {
    case RUNTIME_RUNNING:
        op_status_running(op);
        if (status->reason)
            op->now.reason = status->reason;
        if (status->note[0])
            (void)err_set(&op->now.err, EIO, "%s", status->note);
        return;
    case RUNTIME_FAILED:
        op_status(op, SANDBOX_FAILED, status->reason ? status->reason : "CONTAINER_EXITED_ERROR",
                  status->err.msg);
        return;
    case RUNTIME_EXITED:
        if (!status->reason)
            break;
        op_status(op, SANDBOX_TERMINATED, status->reason, status->note);
        return;
    default:
        op_status(op, rows[status->state].state,
                  status->reason ? status->reason : rows[status->state].reason,
                  status->note[0] ? status->note : rows[status->state].message);
        return;
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
