/* snapshot_share.c - snapshots of other servers, on a runtime that all of them share.
 *
 * A look asks the runtime and enters what it says into the table: what others made, what became of
 * it, what they deleted. Snapshots of others have no record in the store: the next start asks
 * again. One of our own that a start found unfinished is settled by looks, too, and keeps its
 * record, which knows the tenant. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/snapshots_internal.h"

enum {
    LOOKS_MAX = 4,      /* at a time: each holds a worker for as long as the runtime takes */
    LOOKERS_MAX = 4096, /* that wait; no look is made for others */
    SEEN_BYTES_MAX = 128 << 20,
    GIVEN_UP_US = 600 * 1000 * 1000, /* how long one stays that its server did not complete */
};

struct seen {
    struct runtime_shared_snapshot is;
    struct seen *next;
};

/* Who waits for a look. */
struct looker {
    struct looker *next;
    snapshots_looked_fn *done;
    void *user;
};

struct look {
    struct pool_job job;
    struct snapshots *table;
    struct list link; /* of those that wait */
    struct looker *lookers;
    struct arena arena;
    char id[ID_UUID_MAX]; /* "" = all */
    struct seen *seen;
    int64_t begin_us;
    struct err err;
    size_t left; /* what must end before it is done */
};

/* --- on a worker --- */

static void on_seen(void *user, const struct runtime_shared_snapshot *is)
{
    struct look *k = user;
    struct seen *one = arena_new(&k->arena, struct seen);

    if (is->id.n >= ID_UUID_MAX || is->sandbox_id.n >= ID_UUID_MAX)
        return; /* longer ones are none of ours, nor of our kind */
    if (one) {
        one->is = *is;
        one->is.id = arena_str(&k->arena, is->id);
        one->is.sandbox_id = arena_str(&k->arena, is->sandbox_id);
        one->is.name = arena_str(&k->arena, is->name);
        one->is.message = arena_str(&k->arena, is->message);
    }
    if (!one || !one->is.id.p || !one->is.sandbox_id.p || !one->is.name.p || !one->is.message.p) {
        (void)err_set(&k->err, ENOMEM, "too many snapshots to look at");
        return;
    }
    one->next = k->seen;
    k->seen = one;
}

static void look_work(struct pool_job *job)
{
    struct look *k = container_of(job, struct look, job);
    struct runtime *rt = k->table->conf.runtime;
    struct err e = {0};

    if (rt->ops->snapshot_shared(rt, str_of(k->id), on_seen, k, &e) < 0)
        k->err = e;
}

/* --- on the loop --- */

static char *text_of(struct str s)
{
    char *p = mem_alloc(s.n + 1);

    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

static struct snapshot *foreign_new(struct snapshots *t, const struct runtime_shared_snapshot *is)
{
    struct snapshot *s = snapshot_new(t, is->id);

    s->foreign = true;
    s->created_us = is->created_us;
    (void)snprintf(s->tenant, sizeof(s->tenant), "%s", TENANT_DEFAULT);
    (void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%.*s", STR_ARG(is->sandbox_id));
    free(s->name);
    s->name = text_of(is->name);
    snapshot_set_status(s, SNAPSHOT_CREATING, "snapshot_accepted", "another server is making it",
                        is->created_us);
    if (snapshot_add(s) == 0)
        return s;
    snapshot_free(s);
    return NULL;
}

static void enter(struct look *k, const struct runtime_shared_snapshot *is)
{
    struct snapshot *s = snapshots_find(k->table, is->id);
    int64_t now_us = time_wall_us();
    char *message;

    if (!s)
        s = foreign_new(k->table, is);
    if (!s)
        return; /* the table is full */
    if (s->seen_us < k->begin_us)
        s->seen_us = k->begin_us;
    if (!s->foreign || s->job || s->state == is->state)
        return;
    message = text_of(is->message);
    if (is->state == SNAPSHOT_READY)
        snapshot_set_status(s, is->state, "snapshot_runtime_ready", "the snapshot is complete",
                            now_us);
    else if (is->state == SNAPSHOT_FAILED)
        snapshot_set_status(s, is->state, "snapshot_runtime_failed", message, now_us);
    free(message);
}

static void release(struct look *k)
{
    struct snapshots *t = k->table;
    struct looker *one;

    if (--k->left)
        return;
    while ((one = k->lookers)) {
        k->lookers = one->next;
        t->lookers--;
        one->done(one->user);
        free(one);
    }
    arena_done(&k->arena);
    free(k);
    if (--t->busy == 0 && t->conf.on_idle)
        t->conf.on_idle(t->conf.user);
}

/* The record of one that others deleted is gone. */
static void on_gone(void *user, struct snapshot *s, const struct api_fail *fail)
{
    if (fail)
        log_event(LOG_WARN, "cannot forget a snapshot that another server deleted",
                  LOG_STR("snapshot", s->id), LOG_STR("error", fail->message));
    release(user);
}

static void forget(struct look *k, struct snapshot *s)
{
    k->left++;
    snapshot_delete(s, &principal_server, on_gone, k);
}

/* Others deleted it, or did not complete it. */
static void miss(struct look *k, struct snapshot *s)
{
    bool settled = s->since_us < k->begin_us && s->seen_us < k->begin_us;

    if (s->job || s->hidden || !settled)
        return;
    if (!s->foreign) { /* a Failed one of our own has no files */
        if (s->state != SNAPSHOT_READY)
            return;
        forget(k, s);
    } else if (s->state == SNAPSHOT_CREATING)
        snapshot_set_status(s, SNAPSHOT_FAILED, "snapshot_runtime_failed",
                            "its server did not complete it", k->begin_us);
    else if (s->state == SNAPSHOT_FAILED && k->begin_us - s->since_us <= GIVEN_UP_US)
        return;
    else if (s->recorded)
        forget(k, s);
    else
        snapshot_free(s);
}

static void apply(struct look *k)
{
    struct snapshots *t = k->table;
    struct snapshot *s;

    for (struct seen *one = k->seen; one; one = one->next)
        enter(k, &one->is);
    if (k->err.code && !t->unanswered) /* requests lead to looks: not a line for each */
        log_event(LOG_WARN, "cannot ask the runtime for its snapshots",
                  LOG_STR("error", k->err.msg));
    t->unanswered = k->err.code;
    if (k->err.code)
        return;
    if (k->id[0]) {
        s = snapshots_find(t, str_of(k->id));
        if (s)
            miss(k, s);
    } else {
        LIST_EACH(&t->order, at)
        miss(k, container_of(at, struct snapshot, link));
    }
}

/* The runtime has answered; release() follows. */
static void look_end(struct look *k, int error)
{
    struct snapshots *t = k->table;

    t->looking--;
    if (!k->id[0])
        t->looking_at_all = false;
    if (!error)
        apply(k);
}

static void look_next(struct snapshots *t);

static void on_looked(struct pool_job *job, int error)
{
    struct look *k = container_of(job, struct look, job);

    look_end(k, error);
    look_next(k->table);
    release(k);
}

/* The first that waits and may begin; NULL = none. */
static struct look *look_take(struct snapshots *t)
{
    LIST_EACH(&t->looks, at)
    {
        struct look *k = container_of(at, struct look, link);

        if (!k->id[0] && t->looking_at_all)
            continue;
        list_remove(&k->link);
        return k;
    }
    return NULL;
}

static void look_next(struct snapshots *t)
{
    struct look *k;

    while (t->looking < LOOKS_MAX && (k = look_take(t))) {
        t->looking++;
        if (!k->id[0])
            t->looking_at_all = true;
        k->begin_us = time_wall_us();
        if (pool_submit(t->conf.pool, &k->job, t->conf.loop, look_work, on_looked, 0) < 0) {
            look_end(k, EAGAIN);
            release(k);
        }
    }
}

void snapshots_stop_looks(struct snapshots *t)
{
    struct list *at;

    while ((at = list_take(&t->looks)))
        release(container_of(at, struct look, link));
}

/* The look of all that waits; NULL = none. */
static struct look *look_of_all(struct snapshots *t)
{
    LIST_EACH(&t->looks, at)
    {
        struct look *k = container_of(at, struct look, link);

        if (!k->id[0])
            return k;
    }
    return NULL;
}

static struct look *look_new(struct snapshots *t, struct str id)
{
    struct look *k = mem_new(struct look);

    k->table = t;
    k->left = 1;
    arena_init(&k->arena, SEEN_BYTES_MAX);
    (void)snprintf(k->id, sizeof(k->id), "%.*s", STR_ARG(id));
    list_push(&t->looks, &k->link);
    t->busy++;
    return k;
}

void snapshots_look(struct snapshots *t, struct str id, snapshots_looked_fn *done, void *user)
{
    struct look *k = NULL;
    struct looker *one;

    if (t->stopping || !snapshots_shared(t) || id.n >= ID_UUID_MAX || t->lookers >= LOOKERS_MAX) {
        done(user);
        return;
    }
    /* Never one that has begun: it may miss what was made since. */
    if (!id.n)
        k = look_of_all(t);
    if (!k)
        k = look_new(t, id);
    one = mem_new(struct looker);
    *one = (struct looker){k->lookers, done, user};
    k->lookers = one;
    t->lookers++;
    look_next(t);
}
