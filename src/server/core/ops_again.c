/* ops_again.c - sandboxes that are stopped and started again.
 *
 *   stop       runtime, halt -> row Paused, reason STOPPED
 *   start      row Resuming -> runtime, halt and create -> the entrypoint runs -> row Running
 *   rollback   the same, with the files of a snapshot
 *
 * A start that was cut short leaves a persistent sandbox stopped; or lost, Failed for SANDBOX_LOST,
 * when the runtime keeps its files inside and it is gone. */
#include <errno.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/sandboxes_internal.h"
#include "server/core/snapshots.h"
#include "server/core/spec_request.h"

#define REASON_STOPPED "STOPPED"
#define REASON_LOST    "SANDBOX_LOST"

bool sandbox_is_stopped(const struct sandbox *sb)
{
    return sb->state == SANDBOX_PAUSED && strcmp(sb->reason, REASON_STOPPED) == 0;
}

bool sandbox_is_left(const struct sandbox *sb)
{
    return sandbox_is_stopped(sb) || (sb->facts.stop_on_expiry && sb->state == SANDBOX_FAILED &&
                                      strcmp(sb->reason, REASON_LOST) == 0);
}

/* The answer of halt(): whether files that are kept inside a sandbox are gone with it. */
static bool is_lost(const struct op *op, int halted)
{
    return halted == 0 && op->sb->table->conf.runtime->keeps_inside;
}

void op_status_lost(struct op *op, const char *message)
{
    op_status(op, SANDBOX_FAILED, REASON_LOST, message);
}

void op_status_stopped(struct op *op, const char *message)
{
    op_status(op, SANDBOX_PAUSED, REASON_STOPPED, message);
}

/* --- stop --- */

/* One that has failed already stays as it is, unless it is due. */
static void stop_lost(struct op *op)
{
    if (!op->done || op->sb->state != SANDBOX_FAILED) {
        op_status_lost(op, "the sandbox vanished, and its files with it: delete it");
        op->unsure = !op_write_status(op);
    }
    if (op->done && !op->fail.status)
        (void)api_fail_set(&op->fail, 409, op->kind->refuse_code,
                           "sandbox %s vanished, and its files with it: delete it", op->sb->id);
}

static void stop_work(struct op *op)
{
    struct sandbox *sb = op->sb;
    struct runtime *rt = sb->table->conf.runtime;
    struct err e = {0};
    int r;

    if (!op->done && sb->expires_us > time_wall_us())
        return; /* renewed since */
    if (sandbox_is_stopped(sb)) {
        (void)api_fail_set(&op->fail, 409, op->kind->refuse_code, "sandbox %s is stopped already",
                           sb->id);
        return;
    }
    r = rt->ops->halt(rt, str_of(sb->id), &e);
    if (r < 0) {
        op_fail(op, &e);
        op->unsure = true;
        return;
    }
    op->halted = true;
    if (is_lost(op, r)) {
        stop_lost(op);
        return;
    }
    op_status_stopped(op, op->done ? "the sandbox is stopped, and its files are kept; start it"
                                   : "the sandbox expired, and its files are kept; start it");
    op->unsure = !op_write_status(op);
}

static void stop_apply(struct op *op)
{
    if (!op->changed) {
        sandbox_arm(op->sb);
        return;
    }
    sandbox_watch(op->sb, -EBADF);
    if (sandbox_is_stopped(op->sb))
        op_log(op, "sandbox stopped");
    else
        log_event(LOG_WARN, "a sandbox to be stopped is gone, and its files with it",
                  LOG_STR("sandbox", op->sb->id));
}

static const struct op_kind op_stop = {
    "stop",
    STATE_BIT(SANDBOX_RUNNING) | STATE_BIT(SANDBOX_PAUSED) | STATE_BIT(SANDBOX_TERMINATED) |
        STATE_BIT(SANDBOX_FAILED),
    "DOCKER::SANDBOX_NOT_RUNNING",
    stop_work,
    stop_apply,
    "DOCKER::SANDBOX_PAUSE_FAILED",
    RUNTIME_CAN_KEEP,
};

static void check_persistent(const struct sandbox *sb, struct op *op)
{
    if (!sb->facts.persistent)
        (void)api_fail_set(&op->fail, 409, "SANDBOX::NOT_PERSISTENT",
                           "sandbox %s was not created with \"persistent\": true, and would lose "
                           "its files",
                           sb->id);
}

void sandbox_stop(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user)
{
    struct op *op = op_new(&op_stop, by, done, user);

    check_persistent(sb, op);
    op_submit(op, sb);
}

/* --- start and rollback --- */

/* Writes the new end of a sandbox that was started; a rollback has none. */
static void again_renew(struct op *op)
{
    struct err e = {0};

    if (op->expires_us && store_renew(op->sb->table->conf.store, str_of(op->sb->id), STATE_ANY, 0,
                                      op->expires_us, &e) < 0)
        op_fail(op, &e);
}

static void again_work(struct op *op)
{
    struct sandbox *sb = op->sb;
    struct runtime *rt = sb->table->conf.runtime;
    struct err e = {0};
    int r;

    op->settled = true; /* until the runtime was asked */
    if (op->create.again == RUNTIME_START && sb->state == SANDBOX_PAUSED &&
        !sandbox_is_stopped(sb)) {
        (void)api_fail_set(&op->fail, 409, op->kind->refuse_code, "sandbox %s is paused, resume it",
                           sb->id);
        return;
    }
    if (runtime_check(rt, &op->create, &op->fail) < 0)
        return;
    again_renew(op);
    if (op->fail.status)
        return;
    op_status(op, SANDBOX_RESUMING, "CONTAINER_STARTING", "the sandbox is being started");
    if (!op_write_status(op))
        return;
    op->settled = op->changed = false;
    op->now.reason = NULL;
    r = rt->ops->halt(rt, str_of(sb->id), &e);
    op->halted = r >= 0;
    if (r >= 0)
        r = rt->ops->create(rt, &op->create, &e);
    if (r < 0)
        op->why = e;
    else if (r == 0)
        op->under_way = true;
}

void again_fail(struct op *op)
{
    struct sandbox *sb = op->sb;
    struct runtime *rt = sb->table->conf.runtime;
    struct err e = {0};
    int r = rt->ops->halt(rt, str_of(sb->id), &e);

    if (r < 0)
        log_event(LOG_WARN, "cannot end a sandbox that failed to start, trying again later",
                  LOG_STR("sandbox", sb->id), LOG_STR("error", e.msg));
    if (sb->facts.persistent && is_lost(op, r))
        op_status_lost(op, op->why.msg);
    else if (sb->facts.persistent)
        op_status_stopped(op, op->why.msg);
    else
        op_status(op, SANDBOX_FAILED, "CONTAINER_EXITED_ERROR", op->why.msg);
    (void)op_write_status(op);
    op_fail(op, &op->why);
}

static void again_apply(struct op *op)
{
    if (op->expires_us)
        op->sb->expires_us = op->expires_us;
    sandbox_watch(op->sb, take_fd(&op->create.birth.watch));
    sandbox_arm(op->sb);
    op_log(op, op->create.again == RUNTIME_START ? "sandbox started" : "sandbox rolled back");
}

static const struct op_kind op_start = {
    "start",
    STATE_BIT(SANDBOX_PAUSED) | STATE_BIT(SANDBOX_TERMINATED) | STATE_BIT(SANDBOX_FAILED),
    "SANDBOX::NOT_STOPPED",
    again_work,
    again_apply,
    "DOCKER::SANDBOX_START_FAILED",
    RUNTIME_CAN_KEEP,
};
static const struct op_kind op_rollback = {
    "roll back",
    STATE_BIT(SANDBOX_RUNNING) | STATE_BIT(SANDBOX_PAUSED) | STATE_BIT(SANDBOX_TERMINATED) |
        STATE_BIT(SANDBOX_FAILED),
    "DOCKER::SANDBOX_NOT_RUNNING",
    again_work,
    again_apply,
    "DOCKER::SANDBOX_START_FAILED",
    RUNTIME_CAN_KEEP | RUNTIME_CAN_SNAPSHOT,
};

static struct op *again_new(struct sandbox *sb, const struct op_kind *kind,
                            enum runtime_again again, const struct principal *by, op_done_fn *done,
                            void *user)
{
    struct op *op = op_new(kind, by, done, user);

    op->go_on = create_go_on;
    op->create.again = again;
    op->create.id = str_of(sb->id);
    op->create.spec = &op->spec;
    op->create.token = str_of(sb->token);
    op->create.task.loop = sb->table->conf.loop;
    op->create.task.on_progress = create_on_progress;
    op->create.task.on_end = create_on_end;
    (void)spec_request_read(&op->arena, sb->request ? str_of(sb->request) : STR_NONE,
                            str_of(sb->spec), NULL, 0, &op->spec, &op->fail);
    return op;
}

void sandbox_start(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user)
{
    struct op *op = again_new(sb, &op_start, RUNTIME_START, by, done, user);

    if (!op->fail.status)
        check_persistent(sb, op);
    if (op->spec.timeout_s)
        op->expires_us = time_wall_us() + op->spec.timeout_s * TIME_US_PER_S;
    op_submit(op, sb);
}

void sandbox_rollback(struct sandbox *sb, const struct principal *by, struct str snapshot_id,
                      op_done_fn *done, void *user)
{
    struct op *op = again_new(sb, &op_rollback, RUNTIME_ROLLBACK, by, done, user);
    struct principal owner = {0}; /* files of one tenant stay its own */

    memcpy(owner.tenant, sb->owner.tenant, sizeof(owner.tenant));
    if (!op->fail.status && sb->table->conf.snapshots)
        (void)!snapshots_check(sb->table->conf.snapshots, &owner, snapshot_id, &op->fail);
    op->spec.snapshot_id = arena_str(&op->arena, snapshot_id);
    if (!op->fail.status && !op->spec.snapshot_id.p)
        (void)api_fail_memory(&op->fail);
    if (sandbox_is_left(sb) && op->spec.timeout_s) /* its expiry may have passed meanwhile */
        op->expires_us = time_wall_us() + op->spec.timeout_s * TIME_US_PER_S;
    op_submit(op, sb);
}
