/* ops_change.c - operations on sandboxes that are there.
 *
 *   pause    runtime -> row Paused;     resume the same
 *   delete   row Stopping -> runtime -> no row;     expire the same, if the expiry is still due */
#include <errno.h>

#include "api/copy.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/renew.h"
#include "server/core/sandboxes_internal.h"

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
    int r = rt->ops->pause(rt, str_of(op->sb->id), &e);

    if (r < 0) {
        freeze_failed(op, &e);
        return;
    }
    op_status_of_runtime(
        op, &(struct runtime_status){.state = r > 0 ? RUNTIME_PAUSING : RUNTIME_PAUSED});
    if (!op_write_status(op) && r == 0)
        (void)rt->ops->resume(rt, str_of(op->sb->id), NULL); /* a failed pause has no effect */
}

static void resume_work(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    struct err e = {0};
    int r = rt->ops->resume(rt, str_of(op->sb->id), &e);

    if (r < 0) {
        freeze_failed(op, &e);
        return;
    }
    op_status_of_runtime(
        op, &(struct runtime_status){.state = r > 0 ? RUNTIME_RESUMING : RUNTIME_RUNNING});
    if (!op_write_status(op) && r == 0)
        (void)rt->ops->pause(rt, str_of(op->sb->id), NULL);
}

static void freeze_apply(struct op *op)
{
    bool pauses = op->sb->state == SANDBOX_PAUSED || op->sb->state == SANDBOX_PAUSING;

    op_log(op, pauses ? "sandbox paused" : "sandbox resumed");
    if (op->sb->state == SANDBOX_PAUSING || op->sb->state == SANDBOX_RESUMING)
        sandbox_sync(op->sb); /* it may have gone on already */
}

static const struct op_kind op_pause = {
    "pause",
    STATE_BIT(SANDBOX_RUNNING),
    "DOCKER::SANDBOX_NOT_RUNNING",
    pause_work,
    freeze_apply,
    "DOCKER::SANDBOX_PAUSE_FAILED",
    RUNTIME_CAN_PAUSE,
};
static const struct op_kind op_resume = {
    "resume",
    STATE_BIT(SANDBOX_PAUSED),
    "DOCKER::SANDBOX_NOT_PAUSED",
    resume_work,
    freeze_apply,
    "DOCKER::SANDBOX_RESUME_FAILED",
    RUNTIME_CAN_PAUSE,
};

void sandbox_pause(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user)
{
    op_submit(op_new(&op_pause, by, done, user), sb);
}

void sandbox_resume(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user)
{
    if (sandbox_is_stopped(sb))
        sandbox_start(sb, by, done, user);
    else
        op_submit(op_new(&op_resume, by, done, user), sb);
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
    if (op_disk_is_full(r) && op->sb->expires_us == op->expires_us)
        r = 1; /* not renewed, and it may be what fills the disk: as in delete_work */
    if (r == 0 && store_expiry(store, str_of(op->sb->id), &op->found_us, &e) < 0)
        r = -e.code;
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
                  LOG_STR("by", op->by.key_id), LOG_STR("tenant", op->by.tenant),
                  LOG_STR("reason", op->sb->reason));
    else if (op->sb->expires_us == op->expires_us && op->found_us &&
             op->found_us != op->expires_us) {
        op->sb->expires_us = op->found_us; /* of a renewal whose answer was lost */
        sandbox_arm(op->sb);
    } else if (op->sb->expires_us == op->expires_us)
        sandbox_retry(op->sb); /* not renewed either: the row differs */
}

static const struct op_kind op_delete = {
    "delete", STATE_ANY, "", delete_work, delete_apply, "DOCKER::SANDBOX_DELETE_FAILED",
};
static const struct op_kind op_expire = {
    "expire", STATE_ANY, "", expire_work, delete_apply, "DOCKER::SANDBOX_DELETE_FAILED",
};

/* The create that it waits for may take minutes. Its client, if it has not heard of the sandbox
 * yet, sees it Failed. */
static void end_create(struct sandbox *sb, const char *why)
{
    sb->announced = true;
    sandbox_cancel_create(sb, why);
}

void sandbox_delete(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user)
{
    end_create(sb, "the sandbox was deleted while it was being created");
    op_submit(op_new(&op_delete, by, done, user), sb);
}

void sandbox_expire(struct sandbox *sb)
{
    bool has_files = sb->state != SANDBOX_PENDING && strcmp(sb->reason, "PROVISIONING_ERROR") != 0;
    struct op *op;

    if (sb->facts.stop_on_expiry && sb->expires_us && has_files) {
        sandbox_stop(sb, &principal_server, NULL, NULL);
        return;
    }
    if (!sb->expires_us) { /* it never ran, and failed_ttl is over */
        sandbox_delete(sb, &principal_server, NULL, NULL);
        return;
    }
    end_create(sb, "the sandbox expired while it was being created");
    op = op_new(&op_expire, &principal_server, NULL, NULL);
    op->expires_us = sb->expires_us;
    op_submit(op, sb);
}

/* --- renew --- */

static void renew_work(struct op *op)
{
    struct store *store = op->sb->table->conf.store;
    struct runtime *rt = op->sb->table->conf.runtime;
    struct err e = {0};
    int r = 0;

    if (rt->ops->renew)
        r = rt->ops->renew(rt, str_of(op->sb->id), op->expires_us, &e);
    if (r >= 0)
        r = store_renew(store, str_of(op->sb->id), op->kind->from, op->expected_us, op->expires_us,
                        &e);

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
    if (op->done)
        op_log(op, "sandbox renewed");
}

static const struct op_kind op_renew = {
    "renew",
    STATE_ANY & ~STATE_BIT(SANDBOX_STOPPING),
    "DOCKER::INVALID_EXPIRATION",
    renew_work,
    renew_apply,
    "SANDBOX::UNKNOWN_ERROR",
};

static struct op *renew_new(const struct principal *by, int64_t expected_us, int64_t expires_us,
                            op_done_fn *done, void *user)
{
    struct op *op = op_new(&op_renew, by, done, user);

    op->expires_us = expires_us;
    op->expected_us = expected_us;
    return op;
}

void sandbox_renew(struct sandbox *sb, const struct principal *by, int64_t expires_us,
                   op_done_fn *done, void *user)
{
    struct op *op = renew_new(by, 0, expires_us, done, user);

    if (expires_us <= time_wall_us())
        (void)api_fail_set(&op->fail, 400, "DOCKER::INVALID_EXPIRATION",
                           "expiresAt: must lie in the future");
    else if (!sb->expires_us)
        (void)api_fail_set(&op->fail, 409, "DOCKER::INVALID_EXPIRATION",
                           "the sandbox never expires, so there is nothing to renew");
    op_submit(op, sb);
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
    /* Only if the expiry is unchanged. */
    op_submit(renew_new(&principal_server, sb->expires_us, expires_us, NULL, NULL), sb);
}

/* --- metadata --- */

static void patch_work(struct op *op)
{
    struct store *store = op->sb->table->conf.store;
    struct runtime *rt = op->sb->table->conf.runtime;
    struct err e = {0};
    int r =
        api_patch_apply(&op->arena, str_of(op->sb->metadata), &op->patch, &op->metadata, &op->fail);

    if (r < 0)
        return;
    if (rt->ops->relabel)
        r = rt->ops->relabel(rt, str_of(op->sb->id), &op->patch, &e);
    if (r >= 0)
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
    sandbox_index_changed(op->sb);
    op_log(op, "sandbox patched");
}

static const struct op_kind op_patch = {
    "patch", STATE_ANY, "", patch_work, patch_apply, "SANDBOX::UNKNOWN_ERROR",
};

void sandbox_patch(struct sandbox *sb, const struct principal *by, const struct api_patch *patch,
                   op_done_fn *done, void *user)
{
    struct op *op = op_new(&op_patch, by, done, user);

    if (api_patch_copy(&op->arena, patch, &op->patch) < 0)
        (void)api_fail_memory(&op->fail);
    op_submit(op, sb);
}

/* --- sync --- */

static bool status_differs(const struct op *op)
{
    return strcmp(op->now.reason, op->sb->reason) != 0 ||
           strcmp(op->now.err.msg, op->sb->message) != 0;
}

/* What was changed beyond this server: its expiry and metadata. */
static void sync_news(struct op *op, struct runtime_status *status)
{
    struct store *store = op->sb->table->conf.store;
    struct str id = str_of(op->sb->id);

    if (status->expires_us && status->expires_us != op->sb->expires_us &&
        store_renew(store, id, STATE_ANY, 0, status->expires_us, NULL) > 0)
        op->expires_us = status->expires_us;
    if (status->metadata && strcmp(status->metadata, op->sb->metadata) != 0 &&
        store_set_metadata(store, id, str_of(status->metadata), NULL) > 0)
        op->metadata = arena_str(&op->arena, str_of(status->metadata));
    free(status->metadata);
}

/* Whether the runtime has all of a sandbox that stop() ended, or whose start was cut short. */
static bool rests(const struct sandbox *sb, int r, const struct runtime_status *status)
{
    if (!sb->facts.persistent)
        return false;
    if (!sb->table->conf.runtime->keeps_inside)
        return r == -ENOENT;
    return r == 0 && status->state == RUNTIME_EXITED &&
           (sandbox_is_stopped(sb) || sb->state == SANDBOX_RESUMING);
}

/* Asks the runtime for the real state. */
static void sync_work(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    struct runtime_status status = {0};
    bool shared = runtime_can(rt, RUNTIME_CAN_SHARE);
    struct err e = {0};
    int r;

    if (!shared && !(STATE_LIVE & STATE_BIT(op->sb->state)))
        return; /* it has ended */
    r = rt->ops->adopt(rt, str_of(op->sb->id), &op->watch, &status, &e);
    if (r == -ENOENT && shared) { /* it expired, or was deleted */
        op->removed = store_delete(op->sb->table->conf.store, str_of(op->sb->id), &e) >= 0;
        if (!op->removed)
            op_fail(op, &e);
        return;
    }
    if (r >= 0 && status.news)
        sync_news(op, &status);
    if (r == -ENOENT && op->sb->state == SANDBOX_PENDING) {
        if (rt->ops->remove(rt, str_of(op->sb->id), &e) < 0) /* leftover directories and volumes */
            op_fail(op, &e);
        else
            op_status(op, SANDBOX_FAILED, "PROVISIONING_ERROR",
                      "the server stopped while it created the sandbox");
    } else if (rests(op->sb, r, &status))
        op_status_stopped(op, "the sandbox is stopped, and its files are kept; start it");
    else if (r == -ENOENT)
        op_status_lost(op, op->sb->state == SANDBOX_RESUMING
                               ? "the server ended in the middle of a rollback; roll back again"
                               : "the sandbox vanished without a request to delete it");
    else if (r < 0)
        op_fail(op, &e);
    else
        op_status_of_runtime(op, &status);
    if (!op->fail.status &&
        (op->now.state != op->sb->state || (status.news && status_differs(op)) ||
         (r == -ENOENT && strcmp(op->now.reason, op->sb->reason) != 0)))
        (void)op_write_status(op);
}

static void sync_apply(struct op *op)
{
    bool shared = runtime_can(op->sb->table->conf.runtime, RUNTIME_CAN_SHARE);

    if (op->removed)
        log_event(LOG_INFO, "sandbox is gone", LOG_STR("sandbox", op->sb->id));
    else if (op->changed)
        log_event(LOG_INFO, "sandbox changed", LOG_STR("sandbox", op->sb->id),
                  LOG_STR("state", sandbox_state_name(op->sb->state)),
                  LOG_STR("message", op->sb->message));
    if (op->removed)
        return;
    if (op->expires_us) {
        op->sb->expires_us = op->expires_us;
        sandbox_arm(op->sb);
    }
    if (op->metadata.p) {
        free(op->sb->metadata);
        op->sb->metadata = sandbox_text(op->metadata);
        sandbox_index_changed(op->sb);
    }
    if (op->sb->state == SANDBOX_RUNNING || op->sb->state == SANDBOX_PAUSED ||
        (shared && op->sb->state != SANDBOX_STOPPING))
        sandbox_watch(op->sb, take_fd(&op->watch));
}

static const struct op_kind op_sync = {
    "sync",     STATE_ANY & ~STATE_BIT(SANDBOX_STOPPING), "", sync_work,
    sync_apply, "DOCKER::SANDBOX_QUERY_FAILED",
};

/* The watch that led here is used up: without another look nobody would hear of its end. */
static void on_synced(void *user UNUSED, struct sandbox *sb, const struct api_fail *fail)
{
    if (!sb)
        return;
    if (!fail) {
        if (sb->look_ms) {
            sb->look_ms = 0;
            sandbox_arm(sb);
        }
        return;
    }
    log_event(LOG_WARN, "cannot learn the state of a sandbox, asking again later",
              LOG_STR("sandbox", sb->id), LOG_STR("error", fail->message));
    if (STATE_LIVE & STATE_BIT(sb->state))
        sandbox_look_later(sb);
    else
        sandbox_retry(sb);
}

void sandbox_sync(struct sandbox *sb)
{
    op_submit(op_new(&op_sync, &principal_server, on_synced, NULL), sb);
}
