/* reconcile.c - makes store, table and runtime agree: fully at start-up, then periodically. */
#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/events.h"
#include "server/core/sandboxes_internal.h"

enum { RECONCILE_ARENA_MAX = 16 << 20 };

/* A sandbox that the runtime lists. */
struct known {
    struct known *next;
    struct str id;
    enum runtime_state state;
};

/* A sandbox that another server made. */
struct found {
    struct found *next;
    struct store_sandbox row;
};

struct reconcile {
    struct pool_job job;
    struct sandboxes *table;
    struct arena arena;
    struct known *known;
    struct found *found; /* RUNTIME_CAN_SHARE: its rows are stored */
    struct map by_id;    /* of struct known */
    struct known *doubts;
    bool asked; /* by a request that named the sandbox, as any key may and as often as it likes */
    int64_t begin_us;
    struct err err; /* code 0 = fine */
};

static void on_known(void *user, struct str id, enum runtime_state state)
{
    struct reconcile *rc = user;
    struct known *k = arena_new(&rc->arena, struct known);

    if (!k)
        return;
    *k = (struct known){rc->known, arena_str(&rc->arena, id), state};
    rc->known = k;
    if (map_add(&rc->by_id, k->id, k) < 0)
        rc->known = k->next;
}

/* Of creates whose answer the store lost: until their rows are deleted, they are in lists of other
 * servers, and count. */
static void take_doubts(struct reconcile *rc)
{
    struct str id;
    size_t at = 0;

    while (map_next(&rc->table->doubts, &at, &id, NULL)) {
        struct known *k = arena_new(&rc->arena, struct known);

        if (!k)
            return;
        *k = (struct known){.next = rc->doubts, .id = arena_str(&rc->arena, id)};
        if (k->id.p)
            rc->doubts = k;
    }
}

static void settle_doubts(struct reconcile *rc)
{
    for (struct known **at = &rc->doubts; *at;)
        if (store_delete(rc->table->conf.store, (*at)->id, NULL) < 0)
            *at = (*at)->next; /* again in the next round */
        else
            at = &(*at)->next;
}

static struct reconcile *reconcile_new(struct sandboxes *t)
{
    struct reconcile *rc = mem_new(struct reconcile);

    rc->table = t;
    rc->begin_us = time_wall_us();
    arena_init(&rc->arena, RECONCILE_ARENA_MAX);
    take_doubts(rc);
    map_init(&rc->by_id, t->conf.max * 2, NULL);
    return rc;
}

static void reconcile_free(struct reconcile *rc)
{
    map_done(&rc->by_id);
    arena_done(&rc->arena);
    free(rc);
}

static void list_work(struct pool_job *job)
{
    struct reconcile *rc = container_of(job, struct reconcile, job);
    struct runtime *rt = rc->table->conf.runtime;
    struct err e = {0};

    /* Once per round: a flush of the disk for each deletion would delay creates. */
    if (store_forget(rc->table->conf.store, &e) < 0 && e.code != EBUSY)
        log_event(LOG_WARN,
                  "cannot empty the store's log, which still has deleted rows; trying again later",
                  LOG_STR("error", e.msg));
    settle_doubts(rc);
    (void)rt->ops->list(rt, on_known, rc, &rc->err);
}

/* Stores the row of a sandbox that another server made. */
static void take_over(struct reconcile *rc, struct str id)
{
    struct runtime *rt = rc->table->conf.runtime;
    struct runtime_description d = {0};
    struct found *f = arena_new(&rc->arena, struct found);
    struct err e = {0};
    char *spec;
    int r;

    if (!f)
        return;
    r = rt->ops->describe(rt, &rc->arena, id, &d, &e);
    if (r == -ENOENT)
        return;
    spec = spec_json_new(&(struct api_create){.secure_access = d.secure}, NULL, id);
    f->row = (struct store_sandbox){
        .id = id,
        .state = SANDBOX_PENDING,
        .reason = STR("CONTAINER_STARTING"),
        .message = STR("the sandbox was made by another server"),
        .created_us = d.created_us,
        .since_us = d.created_us,
        .expires_us = d.expires_us,
        .image = d.image,
        .snapshot_id = d.snapshot_id,
        .os = d.os,
        .arch = d.arch,
        .entrypoint = d.entrypoint,
        .metadata = d.metadata,
        .token = d.token,
        .tenant = STR(TENANT_DEFAULT),
        .owner = d.owner,
        .spec = arena_str(&rc->arena, str_of(spec)),
        .renew_extend_s = d.renew_extend_s,
    };
    free(spec);
    if (r >= 0 && f->row.spec.p)
        r = store_insert(rc->table->conf.store, &f->row, &e);
    if (r == -EEXIST)
        return; /* a round and a request met */
    if (r < 0 && rc->asked)
        log_event(LOG_DEBUG, "cannot take over a sandbox that a request named",
                  LOG_STR("sandbox", id), LOG_STR("error", e.msg));
    else if (r < 0)
        log_event(LOG_WARN, "cannot take over a sandbox of another server, trying again later",
                  LOG_STR("sandbox", id), LOG_STR("error", e.msg));
    if (r < 0)
        return;
    f->next = rc->found;
    rc->found = f;
}

static void foreign_work(struct pool_job *job)
{
    struct reconcile *rc = container_of(job, struct reconcile, job);

    for (struct known *k = rc->known; k; k = k->next)
        take_over(rc, k->id);
}

/* Removes the sandboxes that are still in the list. */
static void orphans_work(struct pool_job *job)
{
    struct reconcile *rc = container_of(job, struct reconcile, job);
    struct runtime *rt = rc->table->conf.runtime;

    for (struct known *k = rc->known; k; k = k->next) {
        struct err e = {0};
        int r = rt->ops->remove(rt, k->id, &e);

        if (r < 0)
            log_event(LOG_WARN,
                      "cannot remove a sandbox without a row in the store, trying again later",
                      LOG_STR("sandbox", k->id), LOG_STR("error", e.msg));
        else if (r > 0) /* 0: it was removed meanwhile */
            log_event(LOG_WARN, "removed a sandbox without a row in the store",
                      LOG_STR("sandbox", k->id));
    }
}

/* Whether the sandbox must be removed: the table has none of this id, or it was Failed before this
 * round began and runs all the same (its broker was slower than our restart). */
static bool is_orphan(const struct reconcile *rc, const struct known *k)
{
    const struct sandbox *sb = map_get(&rc->table->by_id, k->id);

    if (!sb || runtime_can(rc->table->conf.runtime, RUNTIME_CAN_SHARE))
        return !sb;
    return sb->op_count == 0 && sb->since_us < rc->begin_us && sb->state == SANDBOX_FAILED &&
           (k->state == RUNTIME_RUNNING || k->state == RUNTIME_PAUSED);
}

/* Removes all others from the list. */
static void keep_orphans(struct reconcile *rc)
{
    struct known **at = &rc->known;

    while (*at) {
        if (is_orphan(rc, *at))
            at = &(*at)->next;
        else
            *at = (*at)->next;
    }
}

static bool agrees_shared(const struct sandbox *sb, const struct known *k)
{
    static const enum sandbox_state states[] = {
        [RUNTIME_RUNNING] = SANDBOX_RUNNING,   [RUNTIME_PAUSED] = SANDBOX_PAUSED,
        [RUNTIME_EXITED] = SANDBOX_TERMINATED, [RUNTIME_FAILED] = SANDBOX_FAILED,
        [RUNTIME_PENDING] = SANDBOX_PENDING,   [RUNTIME_ALLOCATED] = SANDBOX_ALLOCATED,
        [RUNTIME_PAUSING] = SANDBOX_PAUSING,   [RUNTIME_RESUMING] = SANDBOX_RESUMING,
    };

    /* One that could not be created has no object, and stays for a while. */
    return k ? sb->state == states[k->state] : strcmp(sb->reason, "PROVISIONING_ERROR") == 0;
}

static bool agrees(const struct sandbox *sb, const struct known *k)
{
    if (runtime_can(sb->table->conf.runtime, RUNTIME_CAN_SHARE))
        return agrees_shared(sb, k);
    switch (sb->state) {
    case SANDBOX_RUNNING:
        return k && k->state == RUNTIME_RUNNING;
    case SANDBOX_PAUSED:
        if (sandbox_is_stopped(sb))
            return sb->table->conf.runtime->keeps_inside ? k && k->state == RUNTIME_EXITED : !k;
        return k && k->state == RUNTIME_PAUSED;
    case SANDBOX_TERMINATED:
    case SANDBOX_FAILED:
        return true; /* kept for its logs, if it exists at all */
    default:
        return false;
    }
}

static void repair(struct reconcile *rc, struct sandbox *sb)
{
    /* A sandbox with an operation, or changed after the round began, may differ. */
    if (sb->op_count || sb->since_us >= rc->begin_us ||
        agrees(sb, map_get(&rc->by_id, str_of(sb->id))))
        return;
    log_event(runtime_can(sb->table->conf.runtime, RUNTIME_CAN_SHARE) ? LOG_DEBUG : LOG_WARN,
              "the runtime reports another state, checking again", LOG_STR("sandbox", sb->id),
              LOG_STR("state", sandbox_state_name(sb->state)));
    if (sb->state == SANDBOX_STOPPING)
        sandbox_delete(sb, &principal_server, NULL, NULL);
    else
        sandbox_sync(sb);
}

static void reconcile_begin(struct sandboxes *t);

static void on_timer(struct loop_timer *timer)
{
    reconcile_begin(container_of(timer, struct sandboxes, reconcile));
}

static void reconcile_end(struct reconcile *rc)
{
    struct sandboxes *t = rc->table;

    t->reconciling = NULL;
    reconcile_free(rc);
    loop_timer_set(t->conf.loop, &t->reconcile,
                   deadline_in_ms(t->look_again ? 0 : t->conf.reconcile_ms), on_timer);
    t->look_again = false;
    sandboxes_op_ended(t);
}

static void on_orphans_done(struct pool_job *job, int error UNUSED)
{
    reconcile_end(container_of(job, struct reconcile, job));
}

static int load_row(void *user, const struct store_sandbox *row);
static void resume_life(struct sandbox *sb);

static void on_foreign_done(struct pool_job *job, int error UNUSED)
{
    struct reconcile *rc = container_of(job, struct reconcile, job);

    for (struct found *f = rc->found; f; f = f->next) {
        if (load_row(rc->table, &f->row) < 0)
            continue; /* the table is full */
        log_event(LOG_INFO, "took over a sandbox of another server", LOG_STR("sandbox", f->row.id));
        resume_life(map_get(&rc->table->by_id, f->row.id));
    }
    reconcile_end(rc);
}

static void on_list_done(struct pool_job *job, int error)
{
    struct reconcile *rc = container_of(job, struct reconcile, job);
    struct sandboxes *t = rc->table;
    bool shared = runtime_can(t->conf.runtime, RUNTIME_CAN_SHARE);

    for (struct known *k = rc->doubts; k && !error; k = k->next)
        (void)map_remove(&t->doubts, k->id);
    if (error || rc->err.code) {
        log_event(LOG_WARN, "cannot list the sandboxes of the runtime, trying again later",
                  LOG_STR("error", rc->err.msg));
        reconcile_end(rc);
        return;
    }
    LIST_EACH(&t->order, at)
    repair(rc, container_of(at, struct sandbox, link));
    keep_orphans(rc);
    if (!rc->known ||
        pool_submit(t->conf.pool, &rc->job, t->conf.loop, shared ? foreign_work : orphans_work,
                    shared ? on_foreign_done : on_orphans_done, POOL_SLOW) < 0)
        reconcile_end(rc);
}

/* Compares store, table and runtime, and repairs differences. Repeats after a while. */
static void reconcile_begin(struct sandboxes *t)
{
    struct reconcile *rc;

    t->look_again = t->reconciling;
    if (t->reconciling)
        return;
    rc = t->reconciling = reconcile_new(t);
    t->busy++;
    if (pool_submit(t->conf.pool, &rc->job, t->conf.loop, list_work, on_list_done, POOL_SLOW) < 0)
        reconcile_end(rc);
}

void sandboxes_look(struct sandboxes *t)
{
    enum { LOOK_MS = 100 }; /* others may follow */

    loop_timer_set(t->conf.loop, &t->reconcile, deadline_in_ms(LOOK_MS), on_timer);
}

/* --- start-up --- */

static int load_row(void *user, const struct store_sandbox *row)
{
    struct sandboxes *t = user;
    struct sandbox *sb = sandbox_new(t, row->id);

    if (!sb || str_copy(sb->token, sizeof(sb->token), row->token) < 0 ||
        str_copy(sb->reason, sizeof(sb->reason), row->reason) < 0 ||
        str_copy(sb->owner.tenant, sizeof(sb->owner.tenant), row->tenant) < 0 ||
        str_copy(sb->owner.key_id, sizeof(sb->owner.key_id), row->owner) < 0)
        return -EBADMSG;
    sb->state = row->state;
    sb->message = sandbox_text(row->message);
    sb->created_us = row->created_us;
    sb->since_us = row->since_us;
    sb->expires_us = row->expires_us;
    sb->image = sandbox_text(row->image);
    sb->snapshot_id = sandbox_text(row->snapshot_id);
    sb->os = sandbox_text(row->os);
    sb->arch = sandbox_text(row->arch);
    sb->entrypoint = sandbox_text(row->entrypoint);
    sb->metadata = sandbox_text(row->metadata);
    sb->spec = sandbox_text(row->spec);
    sb->facts = spec_json_facts(row->spec);
    sb->secrets = spec_json_secrets(row->spec);
    sb->request = spec_json_unseal(row->spec, t->conf.seal, row->id);
    sb->renew_extend_s = row->renew_extend_s;
    sb->hidden = principal_is_of_pool(sb->owner.key_id);
    sandbox_count(sb);
    sandbox_show(sb);
    if (t->pools)
        pools_adopt(t->pools, sb);
    return 0;
}

/* Finishes half-done operations, adopts running sandboxes, ends expired ones. Queues all of these
 * as operations now, without timers, so that waiting for on_idle waits for all of them. */
static void resume_life(struct sandbox *sb)
{
    /* No client can claim it: not ready by now, or its pool is gone. */
    if (sb->hidden && (!sb->pool || strcmp(sb->owner.key_id, principal_pool.key_id) != 0)) {
        sandbox_delete(sb, &principal_server, NULL, NULL);
        return;
    }
    if (STATE_LIVE & STATE_BIT(sb->state))
        sandbox_sync(sb);
    sandbox_attend(sb);
}

void sandboxes_take(struct sandboxes *t, const struct store_sandbox *row)
{
    struct sandbox *sb;

    if (load_row(t, row) < 0)
        return; /* it is here, or the table is full: the next start loads it */
    sb = map_get(&t->by_id, row->id);
    events_publish(t->conf.events, sb, NULL);
    resume_life(sb);
}

/* --- one that a request names --- */

struct question {
    struct reconcile rc; /* of one sandbox; has the job */
    char id[ID_UUID_MAX];
    sandboxes_asked_fn *done;
    void *user;
};

static void question_work(struct pool_job *job)
{
    struct question *q = container_of(job, struct question, rc.job);

    take_over(&q->rc, str_of(q->id));
}

static void on_question_done(struct pool_job *job, int error)
{
    struct question *q = container_of(job, struct question, rc.job);
    struct sandboxes *t = q->rc.table;

    for (struct found *f = q->rc.found; f && !error; f = f->next) {
        log_event(LOG_INFO, "took over a sandbox of another server", LOG_STR("sandbox", f->row.id));
        sandboxes_take(t, &f->row);
    }
    t->questions--;
    q->done(q->user);
    arena_done(&q->rc.arena);
    free(q);
    sandboxes_op_ended(t);
}

void sandboxes_ask(struct sandboxes *t, struct str id, sandboxes_asked_fn *done, void *user)
{
    enum { QUESTIONS_MAX = 32 }; /* others are not asked: an id that nobody has costs a request */
    struct question *q;

    if (!runtime_can(t->conf.runtime, RUNTIME_CAN_SHARE) || t->questions >= QUESTIONS_MAX ||
        id.n >= ID_UUID_MAX) {
        done(user);
        return;
    }
    q = mem_new(struct question);
    q->rc.table = t;
    q->rc.asked = true;
    q->done = done;
    q->user = user;
    arena_init(&q->rc.arena, RECONCILE_ARENA_MAX);
    (void)snprintf(q->id, sizeof(q->id), "%.*s", STR_ARG(id));
    t->questions++;
    t->busy++;
    if (pool_submit(t->conf.pool, &q->rc.job, t->conf.loop, question_work, on_question_done, 0) < 0)
        on_question_done(&q->rc.job, EAGAIN);
}

int sandboxes_load(struct sandboxes *t, struct err *e)
{
    int r = store_each(t->conf.store, load_row, t, e);

    if (r < 0)
        return err_wrap(e, r, "load the sandboxes of the store");
    LIST_EACH(&t->order, at)
    resume_life(container_of(at, struct sandbox, link));
    log_event(LOG_INFO, "loaded sandboxes of the store", LOG_U64("count", t->by_id.n));
    reconcile_begin(t);
    return 0;
}
