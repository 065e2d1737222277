/* ops_create.c - the creation of a sandbox.
 *
 *   row Pending -> runtime -> the entrypoint runs -> row Running
 *   on failure: runtime, remove -> no row; row Failed if a client got the id */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "api/answer.h"
#include "api/copy.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/events.h"
#include "server/core/sandboxes_internal.h"
#include "server/core/snapshots.h"
#include "server/core/spec_json.h"
#include "server/core/spec_request.h"
#include "server/tenants/tenants.h"

enum {
    CREATE_WAIT_MS = 60 * 60 * 1000, /* limit for the runtime to make a sandbox; then cancel it */
    START_WAIT_MS = 10 * 1000, /* limit for execd to start the entrypoint; then assume it runs */
};

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
    if (!op_write_status(op) && op->create.again)
        op->unsure = true;
    else if (op->fail.status) {
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

    if (op->create.again) {
        again_fail(op);
        return;
    }
    if (!remove_half_made(op, why))
        return;
    if (op->sb->failing && store_delete(op->sb->table->conf.store, str_of(op->sb->id), &e) >= 0) {
        if (op->create.fail_status)
            (void)api_fail_set(&op->fail, op->create.fail_status, op->create.fail_code, "%s",
                               why->msg);
        else if (op->create.image_failed)
            (void)api_fail_set(&op->fail, 500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", "%s", why->msg);
        else if (op->create.objects_failed)
            (void)api_fail_set(&op->fail, 500, "VOLUME::OSSFS_MOUNT_FAILED", "%s", why->msg);
        else if (op->start_ended && is_bad_entrypoint(why->code))
            (void)api_fail_set(&op->fail, 400, "DOCKER::INVALID_ENTRYPOINT", "%s", why->msg);
        else
            op_fail(op, why);
        op->removed = true;
        return;
    }
    op_status(op, SANDBOX_FAILED, "PROVISIONING_ERROR", why->msg);
    (void)op_write_status(op);
}

/* The end of a step of a creation. */
static void step_end(const struct trace_span *step, const char *name, bool failed)
{
    trace_end(step,
              &(struct trace_note){.name = str_of(name), .kind = TRACE_INTERNAL, .failed = failed});
}

/* Has the runtime make the sandbox, as a step of its own: what the runtime does is below it. */
static int create_make(struct op *op, struct err *e)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    struct trace_span span = trace_begin(&op->span.context);
    struct trace_context before;
    int r;

    if (!trace_is_recorded(&span))
        return rt->ops->create(rt, &op->create, e);
    before = trace_enter(&span.context);
    r = rt->ops->create(rt, &op->create, e);
    (void)trace_enter(&before);
    step_end(&span, "runtime create", r < 0);
    return r;
}

/* Whether the store may have carried out what it failed with: its answer was lost. */
static bool store_may_have_changed(int r)
{
    return r != -EEXIST && r != -E2BIG && r != -EALREADY && r != -ENOSPC && r != -EMSGSIZE;
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
        .tenant = str_of(sb->owner.tenant),
        .owner = str_of(sb->owner.key_id),
        .spec = str_of(sb->spec),
        .renew_extend_s = sb->renew_extend_s,
        .share = op->share.tenant.p ? &op->share : NULL,
    };
    struct trace_span step = trace_begin(&op->span.context);
    struct err e = {0};
    int r;

    op->removed = true; /* true until its row is stored */
    r = runtime_check(conf->runtime, &op->create, &op->fail);
    step_end(&step, "plan", r < 0);
    if (r < 0)
        return;
    step = trace_begin(&op->span.context);
    r = store_insert(conf->store, &row, &e);
    step_end(&step, "store insert", r < 0);
    if (r < 0) {
        op->doubtful = conf->shared_store && store_may_have_changed(r);
        op_fail(op, &e);
        return;
    }
    op->removed = false;
    sandbox_show(sb);
    r = create_make(op, &e);
    if (r < 0)
        op->why = e; /* only now: after a failed try and a success e still has the first error */
    else if (r == 0)
        op->under_way = true;
    else if (op->create.birth.started < 0)
        create_succeed(op);
}

/* Runs once it is known whether the entrypoint was started. */
static void settle_work(struct op *op)
{
    struct runtime *rt = op->sb->table->conf.runtime;
    int r = 0;

    if (op->start_ended)
        r = rt->ops->start_error(rt, str_of(op->sb->id), &op->create.birth, &op->why);
    if (r < 0)
        (void)err_wrap(&op->why, r, "entrypoint");
    if (op->why.code)
        create_fail(op);
    else
        create_succeed(op);
}

/* Starts the second half of a create. When the pool refuses it the row stays Pending, and the
 * reconciler settles the sandbox later. */
static void create_settle(struct op *op)
{
    op->settled = true;
    op_work_more(op, settle_work);
}

static void create_stop_waiting(struct op *op)
{
    struct loop *loop = op->sb->table->conf.loop;

    if (op->started_io.fd >= 0)
        loop_io_stop(loop, &op->started_io);
    step_end(&op->wait_span, "execd answers", op->start_ended);
    op->wait_span = (struct trace_span){0};
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
    op->sb->failing = !op->sb->announced && !op->create.again;
}

static void create_on_started(struct loop_io *io, uint32_t events UNUSED)
{
    struct op *op = container_of(io, struct op, started_io);
    char byte;
    ssize_t n = recv(io->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    op->start_ended = n <= 0;
    create_stop_waiting(op);
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

/* The runtime has made the sandbox, or failed. */
static void create_await_start(struct op *op)
{
    struct loop *loop = op->sb->table->conf.loop;
    int started = op->create.birth.started;

    if (op->why.code)
        create_note_failure(op);
    else if (started >= 0 &&
             loop_io_start(loop, &op->started_io, started, EPOLLIN, create_on_started, NULL) == 0) {
        op->wait_span = trace_begin(&op->span.context);
        loop_timer_set(loop, &op->started_timer, deadline_in_ms(START_WAIT_MS), create_on_late);
        return;
    }
    create_settle(op);
}

void create_on_progress(struct runtime_task *task, const char *message)
{
    struct sandbox *sb = container_of(task, struct op, create.task)->sb;

    free(sb->message);
    sb->message = mem_strdup(message);
}

void create_on_end(struct runtime_task *task, int r, const struct err *e)
{
    struct op *op = container_of(task, struct op, create.task);

    op->ended = true;
    if (r < 0)
        op->why = *e;
    if (r < 0 && op->cancelled)
        (void)err_set(&op->why, ECANCELED, "%s", op->cancelled);
    if (!op->waiting)
        return; /* create_go_on comes later */
    op->waiting = false;
    loop_timer_stop(op->sb->table->conf.loop, &op->started_timer);
    create_await_start(op);
}

static void create_cancel(struct op *op, const char *why)
{
    struct runtime *rt = op->sb->table->conf.runtime;

    if (!op->cancelled)
        op->cancelled = why;
    if (op->waiting)
        rt->ops->cancel(rt, &op->create.task);
}

static void create_on_slow(struct loop_timer *timer)
{
    create_cancel(container_of(timer, struct op, started_timer),
                  "the runtime took too long to make the sandbox");
}

bool create_go_on(struct op *op)
{
    if (op->doubtful)
        (void)!map_set(&op->sb->table->doubts, str_of(op->sb->id), op->sb->table);
    if (!op->settled && !op->removed && !op->create.again)
        events_publish(op->sb->table->conf.events, op->sb, "sandbox.created");
    if (op->settled || op->removed || op->now.reason)
        return false;
    if (!op->under_way || op->ended) {
        create_await_start(op);
        return true;
    }
    op->waiting = true;
    loop_timer_set(op->sb->table->conf.loop, &op->started_timer, deadline_in_ms(CREATE_WAIT_MS),
                   create_on_slow);
    if (op->cancelled)
        create_cancel(op, op->cancelled);
    return true;
}

static void create_apply(struct op *op)
{
    if (op->sb->state != SANDBOX_FAILED)
        sandbox_watch(op->sb, take_fd(&op->create.birth.watch));
    log_event(LOG_INFO, "sandbox created", LOG_STR("sandbox", op->sb->id),
              LOG_STR("by", op->by.key_id), LOG_STR("tenant", op->by.tenant),
              LOG_STR("state", sandbox_state_name(op->sb->state)), LOG_STR("image", op->sb->image),
              LOG_STR("message", op->sb->message));
}

static const struct op_kind op_create = {
    "create", STATE_ANY, "", create_work, create_apply, "DOCKER::SANDBOX_START_FAILED",
};

void sandbox_cancel_create(struct sandbox *sb, const char *why)
{
    if (sb->active && sb->active->kind == &op_create)
        create_cancel(sb->active, why);
}

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

static void sandbox_set_owner(struct sandbox *sb, const struct principal *by)
{
    (void)snprintf(sb->owner.tenant, sizeof(sb->owner.tenant), "%s", by->tenant);
    (void)snprintf(sb->owner.key_id, sizeof(sb->owner.key_id), "%s", by->key_id);
    sb->hidden = principal_is_of_pool(by->key_id);
    sandbox_count(sb);
}

static int sandbox_fill(struct sandbox *sb, const struct api_create *spec)
{
    sb->state = SANDBOX_PENDING;
    (void)snprintf(sb->reason, sizeof(sb->reason), "%s",
                   runtime_code(sb->table->conf.runtime, "CONTAINER_STARTING"));
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
    sb->spec = spec_json_new(spec, sb->table->conf.seal, str_of(sb->id));
    sb->facts = spec_json_facts(str_of(sb->spec));
    sb->secrets = spec_json_secrets(str_of(sb->spec));
    sb->request = spec_request_new(spec, true);
    sb->renew_extend_s = spec->renew_extend_s;
    id_token(sb->token);
    return sb->entrypoint && sb->metadata && sb->spec ? 0 : -ENOMEM;
}

static int check_source(void *user, const struct api_create *spec, struct api_fail *f)
{
    const struct sandbox_checks *checks = user;
    struct sandboxes *t = checks->table;
    int r = runtime_check_source(t->conf.runtime, spec, f);

    if (r >= 0 && spec->snapshot_id.n && t->conf.snapshots)
        return snapshots_check(t->conf.snapshots, checks->by, spec->snapshot_id, f);
    if (r < 0 || !spec->pool_ref.n || runtime_can(t->conf.runtime, RUNTIME_CAN_OWN_POOLS) ||
        (t->pools && pools_have(t->pools, checks->by, spec->pool_ref)))
        return r;
    return api_fail_set(f, 404, "KUBERNETES::POOL_NOT_FOUND",
                        "extensions.poolRef: there is no pool '%s'", api_show(spec->pool_ref).text);
}

static int check_abilities(void *user, const struct api_create *spec, struct api_fail *f)
{
    const struct sandbox_checks *checks = user;

    return runtime_check_abilities(checks->table->conf.runtime, spec, f);
}

struct api_create_host sandboxes_create_host(struct sandboxes *t, const struct principal *by,
                                             int64_t timeout_s_max, struct sandbox_checks *checks)
{
    *checks = (struct sandbox_checks){t, by};
    return (struct api_create_host){timeout_s_max, check_source, check_abilities, checks, false};
}

int sandboxes_create(struct sandboxes *t, const struct principal *by, const struct api_create *spec,
                     op_done_fn *done, void *user, struct sandbox **ret_sandbox, struct api_fail *f)
{
    return sandboxes_create_like(t, by, spec, spec, done, user, ret_sandbox, f);
}

int sandboxes_create_like(struct sandboxes *t, const struct principal *by,
                          const struct api_create *spec, const struct api_create *shown,
                          op_done_fn *done, void *user, struct sandbox **ret_sandbox,
                          struct api_fail *f)
{
    struct op *op;
    char id[ID_UUID_MAX];
    struct sandbox *sb;

    if (t->conf.tenants && !principal_is_of_pool(by->key_id) &&
        tenants_admit(t->conf.tenants, by->tenant, &shown->limits, f) < 0)
        return -EBADMSG;
    op = op_new(&op_create, by, done, user);
    if (api_create_copy(&op->arena, spec, &op->spec) < 0) {
        op_free(op);
        return api_fail_memory(f);
    }
    id_uuid(id);
    sb = sandbox_new(t, str_of(id));
    if (!sb || sandbox_fill(sb, shown) < 0) {
        if (sb) {
            sandbox_drop(sb);
            sandbox_release(sb);
        }
        op_free(op);
        return api_fail_set(f, 503, "SERVICE_UNAVAILABLE",
                            "this server has reached its limit of sandboxes");
    }
    sandbox_set_owner(sb, by);
    op_share(op, t, sb->owner.tenant, sb->owner.key_id, &sb->facts.limits);
    (void)!str_copy(op->mark, sizeof(op->mark),
                    str_make(spec->idempotency.p, str_find(spec->idempotency, ':')));
    op->share.mark = str_of(op->mark);
    op->go_on = create_go_on;
    op->create.id = str_of(sb->id);
    op->create.spec = &op->spec;
    op->create.token = str_of(sb->token);
    op->create.owner = str_of(sb->owner.key_id);
    op->create.expires_us = sb->expires_us;
    op->create.task.loop = t->conf.loop;
    op->create.task.on_progress = create_on_progress;
    op->create.task.on_end = create_on_end;
    *ret_sandbox = sb;
    op_submit(op, sb);
    return 0;
}
