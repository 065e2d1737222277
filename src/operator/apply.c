/* apply.c - carries out a plan: the writes of a step side by side, then the next step.
 *
 * An answer is put into the world at once, before the watch tells of it. A write that allocates
 * pods
 * reserves them before it is sent. If its outcome stays unknown, they stay reserved until it
 * cannot
 * happen any more: the write names a version of the sandbox and fails once that has another. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "kube/exec.h"
#include "operator/operator.h"

enum {
    DOUBT_MS = 65 * 1000, /* the API server gives up on a request after 60 s */
    WRITE_MS = 30 * 1000,
    EXEC_MS = 10 * 1000,
    EXEC_ARGS_MAX = 32,
};

struct run {
    struct operator* op;
    struct work *work;
    struct plan plan;
    struct kube_object *about;
    struct write *next; /* not sent yet */
    unsigned inflight, created;
    bool failed, sending;
};

struct flight {
    struct run *run;
    struct write *write;
};

static const struct kube_kind *kind_of(enum object_kind kind)
{
    static const struct kube_kind *const kinds[] = {
        [OBJECT_SANDBOX] = &kube_batch_sandboxes,
        [OBJECT_POOL] = &kube_pools,
        [OBJECT_SNAPSHOT] = &kube_snapshots,
        [OBJECT_POD] = &kube_pods,
        [OBJECT_JOB] = &kube_jobs,
    };

    return kinds[kind];
}

static void run_on(struct run *r);

/* Whether an object is known by this uid: the answer to a change of one that has gone meanwhile
 * must
 * not bring it back. */
static bool is_known(const struct world *w, enum object_kind kind, const struct kube_object *o)
{
    const struct kube_object *known = NULL;

    if (kind == OBJECT_SANDBOX) {
        const struct sandbox_entry *s = world_sandbox(w, o->ns, o->name);

        known = s ? s->object : NULL;
    } else if (kind == OBJECT_POOL) {
        const struct pool_entry *p = world_pool(w, o->ns, o->name);

        known = p ? p->object : NULL;
    } else if (kind == OBJECT_SNAPSHOT) {
        const struct snapshot_entry *s = world_snapshot(w, o->ns, o->name);

        known = s ? s->object : NULL;
    } else if (kind == OBJECT_POD) {
        const struct pod_entry *p = world_pod(w, o->ns, o->name);

        known = p ? p->object : NULL;
    } else {
        const struct job_entry *j = world_job(w, o->ns, o->name);

        known = j ? j->object : NULL;
    }
    return known && str_eq(known->uid, o->uid);
}

void operator_see(struct operator* op, enum object_kind kind, bool is_new, struct kube_object *o)
{
    static void (*const see[])(struct world *, struct kube_object *) = {
        [OBJECT_SANDBOX] = world_see_sandbox,   [OBJECT_POOL] = world_see_pool,
        [OBJECT_SNAPSHOT] = world_see_snapshot, [OBJECT_POD] = world_see_pod,
        [OBJECT_JOB] = world_see_job,
    };

    /* The answer to a DELETE may be a Status. */
    if (o && str_eq(kube_str(o->root, "kind"), str_of(kind_of(kind)->kind)) &&
        (is_new ? !world_has_lost(&op->world, o->uid) : is_known(&op->world, kind, o)))
        see[kind](&op->world, o);
}

static void flight_end(struct flight *f, bool failed)
{
    struct run *r = f->run;

    free(f);
    r->failed |= failed;
    r->inflight--;
    run_on(r);
}

/* --- what is remembered while a write is under way --- */

static struct sandbox_entry *target_of(struct operator* op, const struct write *w)
{
    struct sandbox_entry *s =
        w->kind == OBJECT_SANDBOX ? world_sandbox(&op->world, w->ns, w->name) : NULL;

    return s && (!w->uid.p || str_eq(s->facts->meta.uid, w->uid)) ? s : NULL;
}

static struct pool_entry *creator_of(struct run *r, const struct write *w)
{
    bool creates = w->verb == WRITE_CREATE && w->kind == OBJECT_POD;

    return creates && r->work->kind == OBJECT_POOL ? container_of(r->work, struct pool_entry, work)
                                                   : NULL;
}

static void write_begins(struct run *r, struct write *w)
{
    struct sandbox_entry *s = target_of(r->op, w);
    struct pool_entry *pool = creator_of(r, w);

    if (pool)
        pool->pods_expected++;
    if (!s)
        return;
    s->writes++;
    if (!w->uid.p)
        w->uid = arena_str(&r->plan.arena, s->facts->meta.uid);
    for (size_t i = 0; i < w->granted_count; i++) {
        struct pod_entry *p = world_pod(&r->op->world, w->ns, w->granted[i]);

        if (p)
            p->receiver = s;
    }
    if (w->granted_count &&
        str_copy(s->doubt_version, sizeof(s->doubt_version), s->facts->meta.version) < 0)
        s->doubt_version[0] = '\0';
}

static bool is_in_doubt(int code)
{
    return code == ETIMEDOUT || code == EIO || code == ECANCELED;
}

static void write_ended(struct run *r, struct write *w, int code)
{
    struct operator* op = r->op;
    struct sandbox_entry *s = target_of(op, w);
    struct pool_entry *pool = creator_of(r, w);
    bool doubt = s && w->granted_count && is_in_doubt(code) &&
                 str_eq(str_of(s->doubt_version), s->facts->meta.version);

    if (pool)
        pool->pods_expected--;
    if (s)
        s->writes--;
    for (size_t i = 0; i < w->granted_count && !doubt; i++) {
        struct pod_entry *p = world_pod(&op->world, w->ns, w->granted[i]);

        if (p)
            p->receiver = NULL;
    }
    if (doubt) {
        s->doubt_until_ns = deadline_in_ms(DOUBT_MS);
        work_wake_after(&s->work, DOUBT_MS + 1);
    }
    if (code == 0)
        op->stats.grants += w->granted_count;
    if (s && !s->writes) { /* passes that left it alone meanwhile */
        work_wake(&s->work);
        if (sandbox_is_pooled(s->facts)) {
            struct pool_entry *p = world_pool(&op->world, s->facts->meta.ns, s->facts->pool_ref);

            if (p)
                work_wake(&p->work);
        }
    }
}

/* --- writes of the API server --- */

/* Whether the code means that there is nothing left to do. */
static bool is_done(const struct write *w, int code)
{
    return code == 0 || (code == ENOENT && w->verb != WRITE_CREATE);
}

static void write_failed(struct run *r, const struct write *w, const struct kube_error *error)
{
    struct operator* op = r->op;

    if (error->err.code == ESTALE) {
        op->stats.conflicts++;
        return;
    }
    op->stats.write_failures++;
    log_event(LOG_WARN, "a write failed and is tried again",
              LOG_STR("kind", kind_of(w->kind)->kind), LOG_STR("namespace", w->ns),
              LOG_STR("name", w->name), LOG_STR("about", r->about->name),
              LOG_STR("why", error->err.msg));
    if (w->verb == WRITE_CREATE)
        kube_record(op->recorders[r->work->kind], kind_of(r->work->kind), r->about,
                    KUBE_EVENT_WARNING, w->kind == OBJECT_JOB ? "FailedCreateJob" : "FailedCreate",
                    "%s %.*s: %s", kind_of(w->kind)->kind, STR_ARG(w->name), error->err.msg);
}

static void written(void *user, const struct kube_answer *answer)
{
    struct flight *f = user;
    struct run *r = f->run;
    struct write *w = f->write;
    int code = answer->error.err.code;

    if (code == 0)
        operator_see(r->op, w->kind, w->verb == WRITE_CREATE, answer->object);
    write_ended(r, w, code);
    if (!is_done(w, code))
        write_failed(r, w, &answer->error);
    else if (w->verb == WRITE_CREATE && w->kind == OBJECT_POD)
        r->created++;
    if (code == 0 && w->verb == WRITE_PATCH_STATUS && w->kind == OBJECT_POOL)
        container_of(r->work, struct pool_entry, work)->status_us = time_wall_us();
    flight_end(f, !is_done(w, code));
}

static int write_send(struct flight *f, struct err *e)
{
    struct write *w = f->write;
    struct operator* op = f->run->op;
    AUTO_BUF(options, 4096);
    struct kube_request rq = {.kind = kind_of(w->kind),
                              .ns = w->ns,
                              .name = w->name,
                              .body = w->body,
                              .timeout_ms = WRITE_MS};
    int r = 0;

    switch (w->verb) {
    case WRITE_CREATE:
        rq.verb = KUBE_CREATE;
        rq.name = STR("");
        break;
    case WRITE_PATCH_STATUS:
        rq.subresource = STR("status");
        rq.verb = KUBE_PATCH;
        break;
    case WRITE_DELETE:
        rq.verb = KUBE_DELETE;
        r = kube_delete_options(&options, "Background", -1, w->uid, STR(""));
        rq.body = buf_str(&options);
        break;
    default:
        rq.verb = KUBE_PATCH;
    }
    if (r < 0)
        return err_set(e, -r, "options of a deletion");
    op->stats.writes++;
    return kube_send(op->client, &rq, written, f, NULL, e);
}

/* --- commands and tasks --- */

static void exec_ended(void *user, int exit_code, const struct kube_error *error)
{
    struct flight *f = user;

    /* A container that dies by the command takes the connection along: that is success. */
    if (error)
        log_event(LOG_INFO, "a command in a pod ended with its connection",
                  LOG_STR("pod", f->write->name), LOG_STR("why", error->err.msg));
    else if (exit_code)
        log_event(LOG_INFO, "a command in a pod failed", LOG_STR("pod", f->write->name),
                  LOG_I64("exit_code", exit_code));
    flight_end(f, false);
}

static int exec_send(struct flight *f, struct err *e)
{
    struct write *w = f->write;
    struct arena *a = &f->run->plan.arena;
    const char *argv[EXEC_ARGS_MAX + 1] = {NULL};
    struct kube_exec_spec spec = {.ns = w->ns,
                                  .pod = w->name,
                                  .container = w->container,
                                  .argv = argv,
                                  .timeout_ms = EXEC_MS,
                                  .on_end = exec_ended,
                                  .user = f};
    struct kube_exec *x;
    struct json *list;
    size_t n = 0;

    if (json_parse(a, w->body, NULL, &list, e) < 0)
        return -EINVAL;
    json_each(one, list)
    {
        if (one->type == JSON_STRING && n < EXEC_ARGS_MAX)
            argv[n++] = one->string.p;
    }
    f->run->op->stats.execs++;
    return kube_exec_start(f->run->op->client, &spec, &x, e);
}

static struct task_view *view_at(struct sandbox_entry *s, size_t index)
{
    size_t count = s->task_count;

    if (index >= count) {
        s->tasks = mem_realloc(s->tasks, (index + 1) * sizeof(s->tasks[0]));
        for (; count <= index; count++)
            s->tasks[count] = (struct task_view){.state = TASK_UNASKED};
        s->task_count = index + 1;
    }
    return &s->tasks[index];
}

static void tasks_answered(void *user, enum task_state state, bool reached)
{
    struct flight *f = user;
    struct run *r = f->run;
    struct sandbox_entry *s = container_of(r->work, struct sandbox_entry, work);
    struct task_view *view = view_at(s, (size_t)f->write->index);

    if (view->state != state || view->unreachable == reached || view->state == TASK_GONE)
        r->work->dirty = true;
    view->state = reached ? state : TASK_UNKNOWN;
    view->unreachable = !reached;
    view->asked_us = time_wall_us();
    if (!str_eq(view->pod_uid, f->write->uid)) {
        char *uid = mem_alloc(f->write->uid.n + 1);

        memcpy(uid, f->write->uid.p, f->write->uid.n);
        free((void *)view->pod_uid.p);
        view->pod_uid = str_make(uid, f->write->uid.n);
    }
    flight_end(f, false);
}

static int tasks_send(struct flight *f, struct err *e)
{
    struct run *r = f->run;
    char *name = arena_printf(&r->plan.arena, "%.*s-%lld", STR_ARG(r->about->name),
                              (long long)f->write->index);

    r->op->stats.task_calls++;
    if (operator_set_tasks(r->op, f->write, str_of(name), tasks_answered, f) < 0)
        return err_set(e, EIO, "the task executor at %.*s cannot be asked",
                       STR_ARG(f->write->address));
    return 0;
}

/* --- steps --- */

static void send_one(struct run *r, struct write *w)
{
    struct flight *f = mem_new(struct flight);
    struct err e = {0};
    int code;

    f->run = r;
    f->write = w;
    r->inflight++;
    if (w->verb == WRITE_TASKS) {
        code = tasks_send(f, &e);
    } else if (w->verb == WRITE_EXEC) {
        code = exec_send(f, &e);
    } else {
        write_begins(r, w);
        code = write_send(f, &e);
        if (code < 0)
            write_ended(r, w, -code == ETIMEDOUT ? EAGAIN : -code); /* it was not sent */
    }
    if (code >= 0)
        return;
    log_event(LOG_WARN, "a write could not be sent", LOG_STR("name", w->name),
              LOG_STR("why", e.msg));
    free(f);
    r->inflight--;
    r->failed = true;
}

static void run_end(struct run *r)
{
    struct operator* op = r->op;
    struct work *w = r->work;
    int64_t left_us = r->plan.again_us - time_wall_us();

    if (r->created)
        kube_record(op->recorders[w->kind], kind_of(w->kind), r->about, KUBE_EVENT_NORMAL,
                    "SuccessfulCreate", "created %u pods", r->created);
    if (r->plan.again_us && !w->dead)
        work_wake_after(w, left_us > 0 ? (uint64_t)(left_us / TIME_US_PER_MS) + 1 : 1);
    kube_object_unref(r->about);
    plan_done(&r->plan);
    work_end(w, r->failed);
    free(r);
}

static void run_on(struct run *r)
{
    if (r->sending)
        return;
    r->sending = true;
    while (r->inflight == 0 && r->next && !r->failed) {
        unsigned step = r->next->step;

        for (; r->next && r->next->step == step; r->next = r->next->next)
            send_one(r, r->next);
    }
    r->sending = false;
    if (r->inflight == 0)
        run_end(r);
}

/* Strings of a write are borrowed from facts, which a watch may replace while it is under way. */
static bool keep_strings(struct arena *a, struct write *w)
{
    struct str *const rows[] = {&w->ns, &w->name, &w->uid, &w->address, &w->container};
    struct str *granted = arena_new_array(a, struct str, w->granted_count + 1);
    bool ok = granted != NULL;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i]->p) {
            *rows[i] = arena_str(a, *rows[i]);
            ok = ok && rows[i]->p;
        }
    for (size_t i = 0; ok && i < w->granted_count; i++) {
        granted[i] = arena_str(a, w->granted[i]);
        ok = granted[i].p != NULL;
    }
    w->granted = granted;
    return ok;
}

void operator_apply(struct operator* op, struct work *w, struct plan *p, struct kube_object *about)
{
    struct run *r = mem_new(struct run);

    r->op = op;
    r->work = w;
    r->plan = *p;
    r->about = kube_object_ref(about);
    r->failed = p->failed;
    for (struct write *one = p->writes; one && !r->failed; one = one->next)
        r->failed = !keep_strings(&r->plan.arena, one);
    r->next = r->failed ? NULL : p->writes;
    log_event(LOG_DEBUG, "a pass", LOG_STR("kind", kind_of(w->kind)->kind),
              LOG_STR("name", about->name), LOG_STR("version", about->version),
              LOG_U64("writes", p->write_count), LOG_I64("again_us", p->again_us));
    for (const struct event *e = p->events; e; e = e->next)
        kube_record(op->recorders[w->kind], kind_of(w->kind), about,
                    e->warning ? KUBE_EVENT_WARNING : KUBE_EVENT_NORMAL, e->reason, "%.*s",
                    STR_ARG(e->message));
    run_on(r);
}
