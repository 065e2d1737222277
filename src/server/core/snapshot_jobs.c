/* snapshot_jobs.c - makes and deletes snapshots.
 *
 *   create   record Creating -> runtime -> record Ready, or Failed and the runtime's rest removed
 *   delete   record Deleting -> runtime -> no record */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/sandboxes.h"
#include "server/core/snapshots_internal.h"

enum { RECORD_BYTES_MAX = 64 << 10 };

struct snapshot_job {
    struct pool_job job;
    struct snapshot *s;
    struct principal by;
    snapshot_done_fn *accepted, *done; /* done: of a create, `made` */
    void *user;
    struct runtime_snapshot run; /* of a create */
    bool waiting, ended;         /* for the runtime's end of it, and whether that came */
    bool early;                  /* `accepted` is called once the runtime has begun */

    /* Written by the worker. */
    struct api_fail fail; /* status 0 = success */
    struct err err;       /* of the runtime; code 0 = it succeeded */
    bool under_way, changed, removed;
    enum snapshot_state state; /* the new one, if changed */
    const char *reason;
    char message[sizeof(((struct err *)NULL)->msg)];
    int64_t now_us;
};

/* --- on a worker --- */

static void fail_with(struct snapshot_job *j, const char *code, const struct err *e)
{
    if (sandboxes_failure_passes(e->code))
        (void)api_fail_set(&j->fail, 503, "SERVICE_UNAVAILABLE", "%s", e->msg);
    else
        (void)api_fail_set(&j->fail, 500, code, "%s", e->msg);
}

static void insert_work(struct pool_job *job)
{
    struct snapshot_job *j = container_of(job, struct snapshot_job, job);
    struct snapshot *s = j->s;
    AUTO_BUF(json, RECORD_BYTES_MAX);
    struct err e = {0};
    struct store_record record = {
        .kind = STR(SNAPSHOT_KIND),
        .id = str_of(s->id),
        .state = str_of(snapshot_state_name(s->state)),
        .tenant = str_of(s->tenant),
        .owner = str_of(j->by.key_id),
        .created_us = s->created_us,
    };

    if (snapshot_print(s, &json) < 0) {
        (void)api_fail_memory(&j->fail);
        return;
    }
    record.json = buf_str(&json);
    if (store_record_insert(s->table->conf.store, &record, &e) < 0)
        fail_with(j, "SANDBOX::UNKNOWN_ERROR", &e);
}

static void set_state(struct snapshot_job *j, enum snapshot_state state, const char *reason,
                      const char *message)
{
    j->state = state;
    j->reason = reason;
    (void)snprintf(j->message, sizeof(j->message), "%s", message);
    j->now_us = time_wall_us();
}

/* Stores the new state if the record is in that of before: 1, 0 or -errno. */
static int write_state(struct snapshot_job *j, enum snapshot_state before, struct err *e)
{
    struct snapshot view = *j->s;
    AUTO_BUF(json, RECORD_BYTES_MAX);
    int r;

    view.state = j->state;
    view.message = j->message;
    view.since_us = j->now_us;
    (void)snprintf(view.reason, sizeof(view.reason), "%s", j->reason);
    view.size_bytes = j->state == SNAPSHOT_READY ? j->run.size_bytes : view.size_bytes;
    view.frozen_us = j->state == SNAPSHOT_READY ? j->run.frozen_us : view.frozen_us;
    if (snapshot_print(&view, &json) < 0)
        return err_set(e, EMSGSIZE, "the record is too large");
    r = store_record_update(j->s->table->conf.store, STR(SNAPSHOT_KIND), str_of(j->s->id),
                            str_of(snapshot_state_name(before)),
                            str_of(snapshot_state_name(j->state)), buf_str(&json), e);
    j->changed = r > 0;
    return r;
}

static void remove_rest(const struct snapshot_job *j)
{
    struct runtime *rt = j->s->table->conf.runtime;
    struct err e = {0};

    if (rt->ops->snapshot_remove(rt, str_of(j->s->id), &e) < 0)
        log_event(LOG_WARN, "cannot remove what is left of a snapshot",
                  LOG_STR("snapshot", j->s->id), LOG_STR("error", e.msg));
}

/* The runtime has ended: stores the result. What is left of one that failed goes first: it may be
 * what fills the disk. */
static void commit_work(struct pool_job *job)
{
    struct snapshot_job *j = container_of(job, struct snapshot_job, job);
    struct err e = {0};
    int r;

    if (j->err.code)
        remove_rest(j);
    if (!j->err.code)
        set_state(j, SNAPSHOT_READY, "snapshot_runtime_ready", "the snapshot is complete");
    else
        set_state(j, SNAPSHOT_FAILED,
                  j->err.code == ETIMEDOUT ? "snapshot_runtime_timeout" : "snapshot_runtime_failed",
                  j->err.msg);
    r = write_state(j, SNAPSHOT_CREATING, &e);
    if (r < 0) { /* show it as the next start will find it, or it stays Creating until then */
        if (!j->err.code)
            set_state(j, SNAPSHOT_FAILED, "snapshot_runtime_failed", e.msg);
        j->changed = true;
    }
    if (!j->err.code && r <= 0)
        remove_rest(j);
}

static void make_work(struct pool_job *job)
{
    struct snapshot_job *j = container_of(job, struct snapshot_job, job);
    struct runtime *rt = j->s->table->conf.runtime;
    struct err e = {0};
    int r = rt->ops->snapshot(rt, &j->run, &e);

    if (r == 0) {
        j->under_way = true;
        return;
    }
    if (r < 0)
        j->err = e;
    commit_work(job);
}

static void delete_work(struct pool_job *job)
{
    struct snapshot_job *j = container_of(job, struct snapshot_job, job);
    const struct snapshots_conf *conf = &j->s->table->conf;
    struct str id = str_of(j->s->id);
    struct err e = {0};
    int r;

    set_state(j, SNAPSHOT_DELETING, "snapshot_delete_requested", "the snapshot is being deleted");
    r = j->s->foreign ? 1 : write_state(j, j->s->state, &e);
    if (r == 0 && j->s->state == SNAPSHOT_FAILED) /* which could not be stored */
        r = write_state(j, SNAPSHOT_CREATING, &e);
    if (r == -ENOSPC || r == -EDQUOT) /* it may be what fills the disk */
        r = 1;
    if (r == 0) {
        (void)api_fail_set(&j->fail, 409, "SNAPSHOT::INVALID_STATE",
                           "snapshot %s changed meanwhile, look again", j->s->id);
        return;
    }
    if (r > 0 && conf->runtime->ops->snapshot_remove)
        r = conf->runtime->ops->snapshot_remove(conf->runtime, id, &e);
    if (r == -EBUSY) {
        (void)api_fail_set(&j->fail, 409, "SNAPSHOT::DELETE_CONFLICT", "%s", e.msg);
        return;
    }
    if (r >= 0 && (!j->s->foreign || j->s->recorded))
        r = store_record_delete(conf->store, STR(SNAPSHOT_KIND), id, STR_NONE, &e);
    if (r < 0)
        fail_with(j, "DOCKER::SNAPSHOT_IMAGE_REMOVE_FAILED", &e);
    else
        j->removed = true;
}

/* --- on the loop --- */

static void job_end(struct snapshot_job *j, struct snapshots *t)
{
    runtime_task_done(&j->run.task);
    free(j);
    if (--t->busy == 0 && t->conf.on_idle)
        t->conf.on_idle(t->conf.user);
}

static void log_snapshot(const struct snapshot_job *j, const char *event)
{
    log_event(LOG_INFO, event, LOG_STR("snapshot", j->s->id), LOG_STR("sandbox", j->s->sandbox_id),
              LOG_STR("by", j->by.key_id), LOG_STR("tenant", j->by.tenant),
              LOG_STR("state", snapshot_state_name(j->s->state)),
              LOG_STR("message", j->s->message));
}

static void apply(struct snapshot_job *j)
{
    if (j->changed)
        snapshot_set_status(j->s, j->state, j->reason, j->message, j->now_us);
    if (j->changed && j->state == SNAPSHOT_READY) {
        j->s->size_bytes = j->run.size_bytes;
        j->s->frozen_us = j->run.frozen_us;
    }
}

static void run_next(struct snapshots *t);
static void set_copied(struct snapshots *t, const struct snapshot *from, struct snapshot *to);

/* The snapshot is Ready or Failed. */
static void made_settle(struct snapshot_job *j, int error)
{
    struct snapshots *t = j->s->table;

    apply(j);
    if (error)
        (void)api_fail_set(&j->fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    else if (j->s->state != SNAPSHOT_READY)
        (void)api_fail_set(&j->fail, 500, "SANDBOX::UNKNOWN_ERROR", "the snapshot failed: %s",
                           j->s->message);
    if (!error)
        log_snapshot(j, "snapshot made");
    t->running--;
    set_copied(t, j->s, NULL);
    j->s->job = NULL;
    if (j->done)
        j->done(j->user, j->s, j->fail.status ? &j->fail : NULL);
}

static void made_end(struct snapshot_job *j, int error)
{
    struct snapshots *t = j->s->table;

    made_settle(j, error);
    run_next(t);
    job_end(j, t);
}

static void on_committed(struct pool_job *job, int error)
{
    made_end(container_of(job, struct snapshot_job, job), error);
}

static void commit(struct snapshot_job *j)
{
    const struct snapshots_conf *conf = &j->s->table->conf;

    if (pool_submit(conf->pool, &j->job, conf->loop, commit_work, on_committed, 0) < 0)
        made_end(j, ECANCELED); /* the record stays Creating, for the next start */
}

static void on_runtime_end(struct runtime_task *task, int r, const struct err *e)
{
    struct snapshot_job *j = container_of(task, struct snapshot_job, run.task);

    j->ended = true;
    if (r < 0)
        j->err = *e;
    if (j->waiting)
        commit(j);
}

static void on_made(struct pool_job *job, int error)
{
    struct snapshot_job *j = container_of(job, struct snapshot_job, job);

    if (j->early)
        j->accepted(j->user, j->s, NULL);
    if (error || !j->under_way)
        made_end(j, error);
    else if (j->ended)
        commit(j);
    else
        j->waiting = true;
}

/* The first that waits and whose sandbox is not being copied; NULL = none. */
static struct snapshot *next_of(struct snapshots *t)
{
    LIST_EACH(&t->queue, at)
    {
        struct snapshot *s = container_of(at, struct snapshot, queue);
        bool copied = false;

        for (size_t i = 0; i < SNAPSHOT_JOBS; i++)
            copied |= t->copied[i] && strcmp(t->copied[i]->sandbox_id, s->sandbox_id) == 0;
        if (!copied)
            return s;
    }
    return NULL;
}

/* Replaces `from` among those that are being made; NULL = a free place. */
static void set_copied(struct snapshots *t, const struct snapshot *from, struct snapshot *to)
{
    for (size_t i = 0; i < SNAPSHOT_JOBS; i++)
        if (t->copied[i] == from) {
            t->copied[i] = to;
            return;
        }
}

static void run_next(struct snapshots *t)
{
    struct snapshot *s;

    while (!t->stopping && t->running < SNAPSHOT_JOBS && (s = next_of(t))) {
        struct snapshot_job *j = s->job;

        list_remove(&s->queue);
        set_copied(t, NULL, s);
        t->queued--;
        t->running++;
        if (pool_submit(t->conf.pool, &j->job, t->conf.loop, make_work, on_made, POOL_SLOW) < 0) {
            made_settle(j, ECANCELED);
            job_end(j, t);
        }
    }
}

static void on_inserted(struct pool_job *job, int error)
{
    struct snapshot_job *j = container_of(job, struct snapshot_job, job);
    struct snapshot *s = j->s;
    struct snapshots *t = s->table;

    if (!error && !j->fail.status && snapshot_add(s) < 0)
        error = ENOSPC;
    if (error && !j->fail.status)
        (void)api_fail_set(&j->fail, 503, "SERVICE_UNAVAILABLE",
                           "the server is too busy, or stopping");
    if (j->fail.status) {
        t->queued--;
        j->accepted(j->user, NULL, &j->fail);
        snapshot_free(s);
        job_end(j, t);
        return;
    }
    j->early = snapshots_shared(t) && !t->stopping;
    if (j->early) { /* a client that was answered may ask another server */
        t->queued--;
        t->running++;
        if (pool_submit(t->conf.pool, &j->job, t->conf.loop, make_work, on_made, POOL_SLOW) < 0)
            on_made(&j->job, ECANCELED);
        return;
    }
    j->accepted(j->user, s, NULL);
    if (t->stopping) {
        t->queued--;
        t->running++;
        made_end(j, ECANCELED);
        return;
    }
    list_push(&t->queue, &s->queue);
    run_next(t);
}

static struct snapshot_job *job_new(struct snapshot *s, const struct principal *by,
                                    snapshot_done_fn *done, void *user)
{
    struct snapshot_job *j = mem_new(struct snapshot_job);

    j->s = s;
    j->by = *by;
    j->done = done;
    j->user = user;
    runtime_task_init(&j->run.task, s->table->conf.loop);
    j->run.task.on_end = on_runtime_end;
    s->job = j;
    s->table->busy++;
    return j;
}

/* Whether another one may be asked for now. */
static int check_room(const struct snapshots *t, const struct snapshot_request *request,
                      struct api_fail *f)
{
    if (request->memory && !runtime_can(t->conf.runtime, RUNTIME_CAN_MEMORY))
        return api_fail_set(f, 501, "SNAPSHOT::NOT_IMPLEMENTED",
                            "memory: no runtime of this server can save it; configure gvisor");
    if (!runtime_can(t->conf.runtime, RUNTIME_CAN_SNAPSHOT))
        return api_fail_set(f, 501, "SNAPSHOT::NOT_IMPLEMENTED", "the %s runtime has no snapshots",
                            t->conf.runtime->name);
    if (t->stopping)
        return api_fail_set(f, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    if (t->queued + (snapshots_shared(t) ? t->running : 0) >= SNAPSHOT_QUEUE_MAX)
        return api_fail_set(f, 503, "SERVICE_UNAVAILABLE",
                            "%d snapshots wait to be made, try again", SNAPSHOT_QUEUE_MAX);
    if (t->by_id.n + t->queued >= SNAPSHOTS_MAX)
        return api_fail_set(f, 503, "SERVICE_UNAVAILABLE",
                            "this server has as many snapshots as it may have, delete some");
    return 0;
}

void snapshots_create(struct snapshots *t, const struct principal *by,
                      const struct snapshot_request *request, snapshot_done_fn *accepted,
                      snapshot_done_fn *made, void *user)
{
    struct api_fail f = {0};
    char id[ID_UUID_MAX];
    struct snapshot_job *j;
    struct snapshot *s;

    if (check_room(t, request, &f) < 0) {
        accepted(user, NULL, &f);
        return;
    }
    id_uuid(id);
    s = snapshot_new(t, str_of(id));
    s->hidden = request->hidden;
    (void)snprintf(s->tenant, sizeof(s->tenant), "%.*s",
                   STR_ARG(request->tenant.n ? request->tenant : str_of(by->tenant)));
    (void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%.*s", STR_ARG(request->sandbox_id));
    free(s->name);
    s->name = mem_alloc(request->name.n + 1);
    memcpy(s->name, request->name.n ? request->name.p : "", request->name.n);
    s->name[request->name.n] = '\0';
    s->created_us = time_wall_us();
    snapshot_set_status(s, SNAPSHOT_CREATING, "snapshot_accepted", "the snapshot is being made",
                        s->created_us);
    j = job_new(s, by, made, user);
    j->accepted = accepted;
    j->run.id = str_of(s->sandbox_id);
    j->run.snapshot_id = str_of(s->id);
    j->run.memory = request->memory;
    j->run.name = str_of(s->name);
    j->run.hidden = s->hidden;
    t->queued++;
    if (pool_submit(t->conf.pool, &j->job, t->conf.loop, insert_work, on_inserted, 0) < 0)
        on_inserted(&j->job, EAGAIN);
}

static void on_deleted(struct pool_job *job, int error)
{
    struct snapshot_job *j = container_of(job, struct snapshot_job, job);
    struct snapshot *s = j->s;
    struct snapshots *t = s->table;

    if (error)
        (void)api_fail_set(&j->fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    apply(j);
    s->job = NULL;
    if (j->removed)
        log_snapshot(j, "snapshot deleted");
    else if (!j->done)
        log_event(LOG_WARN, "cannot delete a snapshot, the next start tries again",
                  LOG_STR("snapshot", s->id), LOG_STR("error", j->fail.message));
    if (j->removed) {
        snapshot_free(s); /* before `done`, which may look for it */
        s = NULL;
    }
    if (j->done)
        j->done(j->user, s, j->fail.status ? &j->fail : NULL);
    job_end(j, t);
}

void snapshot_delete(struct snapshot *s, const struct principal *by, snapshot_done_fn *done,
                     void *user)
{
    struct snapshots *t = s->table;
    struct api_fail f = {0};
    struct snapshot_job *j;

    if (s->job || s->state == SNAPSHOT_CREATING) {
        (void)api_fail_set(&f, 409, "SNAPSHOT::INVALID_STATE",
                           "snapshot %s is %s, try again when that has ended", s->id,
                           s->state == SNAPSHOT_CREATING ? "being made" : "being deleted");
        if (done)
            done(user, s, &f);
        return;
    }
    j = job_new(s, by, done, user);
    if (pool_submit(t->conf.pool, &j->job, t->conf.loop, delete_work, on_deleted, 0) < 0)
        on_deleted(&j->job, ECANCELED);
}

void snapshots_stop(struct snapshots *t)
{
    struct runtime *rt = t->conf.runtime;

    t->stopping = true;
    snapshots_stop_looks(t);
    LIST_EACH(&t->queue, at)
    {
        struct snapshot *s = container_of(at, struct snapshot, queue);

        list_remove(&s->queue);
        t->queued--;
        t->running++;
        made_end(s->job, ECANCELED); /* the record stays Creating, for the next start */
    }
    LIST_EACH(&t->order, at)
    {
        struct snapshot *s = container_of(at, struct snapshot, link);

        if (s->job && s->state == SNAPSHOT_CREATING && rt->ops->cancel)
            rt->ops->cancel(rt, &s->job->run.task);
    }
}

size_t snapshots_busy(const struct snapshots *t)
{
    return t->busy;
}
