/* scripted.h - a runtime that fails, stalls, lies and dies on cue, and what tests need around it.
 *
 * A program that includes it has the runtime in its table of runtimes, by one row. The sandboxes
 * live in a cloud, which several runtimes may share, each with its owner id. */
#pragma once

#include <sys/socket.h>

#include "base/time.h"
#include "server/core/sandboxes.h"
#include "store_fixture.h"

enum { SCRIPTED_BOXES_MAX = 16, SCRIPTED_LATE_MS = 30 * 1000, SCRIPTED_LOOK_MS = 1 };

enum scripted_call {
    SCRIPTED_CHECK,
    SCRIPTED_CREATE,
    SCRIPTED_ADOPT,
    SCRIPTED_PAUSE,
    SCRIPTED_REMOVE,
    SCRIPTED_LIST,
    SCRIPTED_CALLS,
};

/* What the next calls of a kind do. */
struct scripted_cue {
    int fails; /* an errno */
    int times; /* this often; -1 = always */
};

struct scripted_box {
    char id[ID_UUID_MAX];
    const char *owner;
    struct runtime_status status;
    int end; /* closed when the sandbox ends: its watch becomes readable */
    bool there;
};

struct scripted_cloud {
    pthread_mutex_t lock; /* protects all; workers call */
    struct scripted_box boxes[SCRIPTED_BOXES_MAX];
    struct scripted_cue cues[SCRIPTED_CALLS];
    size_t calls[SCRIPTED_CALLS];
    bool stalls;                    /* a create goes on until scripted_finish() or cancel() */
    bool ignores_cancel;            /* and until scripted_finish() only */
    bool forgets;                   /* lies: a create makes nothing, and says that it did */
    bool dead;                      /* every call fails */
    struct runtime_create *stalled; /* the create that goes on */
    size_t cancels;
};

struct scripted {
    struct runtime base;
    struct scripted_cloud *cloud;
    const char *owner;
};

static struct scripted_cloud *cloud_of(struct runtime *r)
{
    return container_of(r, struct scripted, base)->cloud;
}

/* Takes the lock. -errno when this call fails; the lock is released then. */
static int scripted_begin(struct runtime *r, enum scripted_call call, struct err *e)
{
    struct scripted_cloud *c = cloud_of(r);
    struct scripted_cue *cue = &c->cues[call];
    int fails;

    (void)pthread_mutex_lock(&c->lock);
    c->calls[call]++;
    fails = c->dead ? ECONNREFUSED : cue->times ? cue->fails : 0;
    if (!c->dead && cue->times > 0)
        cue->times--;
    if (!fails)
        return 0;
    (void)pthread_mutex_unlock(&c->lock);
    return err_set(e, fails, "as the script says");
}

static int scripted_return(struct runtime *r, int result)
{
    (void)pthread_mutex_unlock(&cloud_of(r)->lock);
    return result;
}

/* With the lock held. NULL = this owner has none. */
static struct scripted_box *scripted_find(struct runtime *r, struct str id)
{
    const struct scripted *s = container_of(r, struct scripted, base);

    for (size_t i = 0; i < SCRIPTED_BOXES_MAX; i++) {
        struct scripted_box *box = &s->cloud->boxes[i];

        if (box->there && strcmp(box->owner, s->owner) == 0 && str_eq(str_of(box->id), id))
            return box;
    }
    return NULL;
}

static int scripted_watch(struct scripted_box *box)
{
    int ends[2];

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    if (box->end >= 0)
        CHECK_EQ(close(box->end), 0);
    box->end = ends[1];
    return ends[0];
}

/* With the lock held. */
static void scripted_make(struct runtime *r, struct runtime_create *create)
{
    struct scripted *s = container_of(r, struct scripted, base);
    struct scripted_box *box = s->cloud->boxes;

    if (s->cloud->forgets)
        return;
    while (box->there)
        box++;
    CHECK(box < s->cloud->boxes + SCRIPTED_BOXES_MAX);
    *box = (struct scripted_box){.owner = s->owner, .end = -EBADF, .there = true};
    CHECK_EQ(str_copy(box->id, sizeof(box->id), create->id), 0);
    create->birth.watch = scripted_watch(box);
}

static int scripted_check(struct runtime *r, struct runtime_create *c UNUSED, struct api_fail *f)
{
    struct err e = {0};

    if (scripted_begin(r, SCRIPTED_CHECK, &e) < 0)
        return api_fail_invalid(f, "%s", e.msg);
    return scripted_return(r, 0);
}

static int scripted_create(struct runtime *r, struct runtime_create *create, struct err *e)
{
    struct scripted_cloud *c = cloud_of(r);
    int result = scripted_begin(r, SCRIPTED_CREATE, e);

    if (result < 0)
        return result;
    if (c->stalls) {
        c->stalled = create;
        create->task.of_runtime = r;
        return scripted_return(r, 0);
    }
    scripted_make(r, create);
    return scripted_return(r, 1);
}

/* Ends the create that stalls: makes its sandbox, or fails by an errno. */
static UNUSED void scripted_finish(struct scripted_cloud *c, int fails)
{
    struct runtime_create *create;
    struct err e = {0};

    (void)pthread_mutex_lock(&c->lock);
    create = c->stalled;
    c->stalled = NULL;
    if (create && !fails)
        scripted_make(create->task.of_runtime, create);
    (void)pthread_mutex_unlock(&c->lock);
    CHECK(create);
    if (fails)
        (void)err_set(&e, fails, "as the script says");
    runtime_task_end(&create->task, fails ? -fails : 1, &e);
}

static void scripted_cancel(struct runtime *r, struct runtime_task *task)
{
    struct scripted_cloud *c = cloud_of(r);
    bool mine;

    (void)pthread_mutex_lock(&c->lock);
    c->cancels++;
    mine = !c->ignores_cancel && c->stalled && &c->stalled->task == task;
    if (mine)
        c->stalled = NULL;
    (void)pthread_mutex_unlock(&c->lock);
    if (mine)
        runtime_task_end(task, -ECANCELED, NULL);
}

static void scripted_image_note(struct runtime *r UNUSED, struct str image UNUSED,
                                struct buf *out UNUSED)
{
}

static int scripted_adopt(struct runtime *r, struct str id, int *ret_watch,
                          struct runtime_status *ret, struct err *e)
{
    int result = scripted_begin(r, SCRIPTED_ADOPT, e);
    struct scripted_box *box = result < 0 ? NULL : scripted_find(r, id);

    if (result < 0)
        return result;
    if (!box)
        return scripted_return(r, err_set(e, ENOENT, "there is no such sandbox"));
    *ret = box->status;
    if (ret->state == RUNTIME_RUNNING || ret->state == RUNTIME_PAUSED)
        *ret_watch = scripted_watch(box);
    return scripted_return(r, 0);
}

static int scripted_freeze(struct runtime *r, struct str id, enum runtime_state state,
                           struct err *e)
{
    int result = scripted_begin(r, SCRIPTED_PAUSE, e);
    struct scripted_box *box = result < 0 ? NULL : scripted_find(r, id);

    if (result < 0)
        return result;
    if (!box)
        return scripted_return(r, err_set(e, ESRCH, "it has ended"));
    box->status.state = state;
    return scripted_return(r, 0);
}

static int scripted_pause(struct runtime *r, struct str id, struct err *e)
{
    return scripted_freeze(r, id, RUNTIME_PAUSED, e);
}

static int scripted_resume(struct runtime *r, struct str id, struct err *e)
{
    return scripted_freeze(r, id, RUNTIME_RUNNING, e);
}

static void scripted_drop(struct scripted_box *box)
{
    if (box->end >= 0)
        CHECK_EQ(close(box->end), 0);
    *box = (struct scripted_box){.end = -EBADF};
}

static int scripted_remove(struct runtime *r, struct str id, struct err *e)
{
    int result = scripted_begin(r, SCRIPTED_REMOVE, e);
    struct scripted_box *box = result < 0 ? NULL : scripted_find(r, id);

    if (result < 0)
        return result;
    if (box)
        scripted_drop(box);
    return scripted_return(r, box != NULL);
}

static int scripted_list(struct runtime *r, runtime_visit_fn *visit, void *user, struct err *e)
{
    const struct scripted *s = container_of(r, struct scripted, base);
    int result = scripted_begin(r, SCRIPTED_LIST, e);

    if (result < 0)
        return result;
    for (size_t i = 0; i < SCRIPTED_BOXES_MAX; i++) {
        const struct scripted_box *box = &s->cloud->boxes[i];

        if (box->there && strcmp(box->owner, s->owner) == 0)
            visit(user, str_of(box->id), box->status.state);
    }
    return scripted_return(r, 0);
}

static void scripted_free(struct runtime *r)
{
    free(container_of(r, struct scripted, base));
}

static const struct runtime_ops scripted_ops = {
    .check = scripted_check,
    .create = scripted_create,
    .cancel = scripted_cancel,
    .image_note = scripted_image_note,
    .adopt = scripted_adopt,
    .pause = scripted_pause,
    .resume = scripted_resume,
    .remove = scripted_remove,
    .list = scripted_list,
    .free = scripted_free,
};

static int scripted_prepare(const struct config *config UNUSED, void **ret_prepared,
                            struct err *e UNUSED)
{
    struct scripted_cloud *c = mem_new(struct scripted_cloud);

    (void)pthread_mutex_init(&c->lock, NULL);
    for (size_t i = 0; i < SCRIPTED_BOXES_MAX; i++)
        c->boxes[i].end = -EBADF;
    *ret_prepared = c;
    return 0;
}

static void scripted_discard(void *prepared)
{
    struct scripted_cloud *c = prepared;

    for (size_t i = 0; i < SCRIPTED_BOXES_MAX; i++)
        scripted_drop(&c->boxes[i]);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Leaves the cloud to the test, which may start another runtime on it. */
static int scripted_start(const struct runtime_conf *conf, struct runtime **ret,
                          struct err *e UNUSED)
{
    struct scripted *s = mem_new(struct scripted);

    s->base = (struct runtime){&scripted_ops, "scripted", RUNTIME_CAN_PAUSE};
    s->cloud = conf->prepared;
    s->owner = conf->owner;
    *ret = &s->base;
    return 0;
}

static const struct runtime_kind scripted_runtime = {
    .name = "scripted",
    .prepare_as_root = scripted_prepare,
    .discard = scripted_discard,
    .start = scripted_start,
};

const struct runtime_kind *const runtime_kinds[] = {
    &scripted_runtime,
};
const size_t runtime_kind_count = ARRAY_LEN(runtime_kinds);

/* --- a server's sandboxes on a cloud --- */

struct house {
    const struct runtime_kind *kind;
    struct scripted_cloud *cloud;
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct runtime *runtime;
    struct sandboxes *table;
    struct loop_timer late, look;
    bool (*over)(struct house *h);
    struct sandbox *sb; /* of the last operation; NULL = none is left */
    struct api_fail fail;
    size_t done;
};

static const struct principal ann = {"key:aaaaaaaaaaaa", "default", ROLE_ADMIN};

/* Starts on a cloud and a store, both of which may have sandboxes already. */
static void house_open(struct house *h, const char *owner)
{
    struct pool_conf pool = {"worker", 2, 16};
    struct runtime_conf conf = {.owner = owner, .prepared = h->cloud};
    struct sandboxes_conf table;

    CHECK_EQ(loop_new(&h->loop, NULL), 0);
    CHECK_EQ(pool_new(&pool, &h->pool, NULL), 0);
    CHECK_EQ(h->kind->start(&conf, &h->runtime, NULL), 0);
    table = (struct sandboxes_conf){
        .loop = h->loop,
        .pool = h->pool,
        .store = h->store,
        .runtime = h->runtime,
        .reconcile_ms = 5,
        .failed_ttl_us = 3600 * TIME_US_PER_S,
        .max = SCRIPTED_BOXES_MAX,
    };
    CHECK_EQ(sandboxes_new(&table, &h->table, NULL), 0);
}

static void house_init(struct house *h)
{
    void *cloud = NULL;

    *h = (struct house){.kind = runtime_kind_find(STR("scripted"))};
    CHECK(h->kind);
    CHECK_EQ(h->kind->prepare_as_root(NULL, &cloud, NULL), 0);
    h->cloud = cloud;
    h->store = open_store();
    house_open(h, "me");
}

/* Ends the server; store and cloud stay. */
/* Frees all but the loop, which other parts of a test may need to end. */
static void house_empty(struct house *h)
{
    (void)pool_stop(h->pool, UINT32_MAX);
    loop_settle(h->loop);
    h->runtime->ops->free(h->runtime);
    pool_free(h->pool);
    loop_settle(h->loop);
    loop_timer_stop(h->loop, &h->late);
    loop_timer_stop(h->loop, &h->look);
    sandboxes_free(h->table);
}

static void house_close(struct house *h)
{
    house_empty(h);
    loop_free(h->loop);
}

static UNUSED void house_done(struct house *h)
{
    house_close(h);
    store_close(h->store);
    h->kind->discard(h->cloud);
}

static UNUSED void house_reopen(struct house *h)
{
    house_close(h);
    house_open(h, "me");
    CHECK_EQ(sandboxes_load(h->table, NULL), 0);
}

static void house_on_late(struct loop_timer *timer UNUSED)
{
    test_fail(__FILE__, __LINE__, "what was waited for did not come");
}

static void house_on_look(struct loop_timer *timer)
{
    struct house *h = container_of(timer, struct house, look);

    if (h->over(h))
        loop_stop(h->loop);
    else
        loop_timer_after(h->loop, timer, SCRIPTED_LOOK_MS, house_on_look);
}

/* Runs the loop until the condition holds. */
static void house_await(struct house *h, bool (*over)(struct house *h))
{
    h->over = over;
    loop_timer_set(h->loop, &h->late, deadline_in_ms(SCRIPTED_LATE_MS), house_on_late);
    loop_timer_after(h->loop, &h->look, 0, house_on_look);
    CHECK_EQ(loop_run(h->loop, NULL), 0);
    loop_timer_stop(h->loop, &h->late);
}

static void house_on_done(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct house *h = user;

    h->sb = sb;
    h->fail = fail ? *fail : (struct api_fail){0};
    h->done++;
}

static UNUSED bool is_done(struct house *h)
{
    return h->done > 0;
}

static UNUSED bool is_idle(struct house *h)
{
    return sandboxes_busy(h->table) == 0;
}

/* The sandbox, once its creation began. */
static struct sandbox *house_start_create(struct house *h, int64_t timeout_s)
{
    struct str entrypoint[] = {STR("sleep")};
    struct api_create spec = {
        .image = STR("python:3.12"),
        .timeout_s = timeout_s,
        .entrypoint = entrypoint,
        .entrypoint_count = 1,
    };
    struct sandbox *sb = NULL;
    struct api_fail f = {0};

    h->done = 0;
    if (sandboxes_create(h->table, &ann, &spec, house_on_done, h, &sb, &f) < 0)
        test_fail(__FILE__, __LINE__, "%s", f.message);
    return sb;
}

static UNUSED struct sandbox *house_create(struct house *h, int64_t timeout_s)
{
    (void)house_start_create(h, timeout_s);
    house_await(h, is_done);
    return h->sb;
}

static UNUSED size_t house_boxes(struct house *h)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&h->cloud->lock);
    for (size_t i = 0; i < SCRIPTED_BOXES_MAX; i++)
        n += h->cloud->boxes[i].there;
    (void)pthread_mutex_unlock(&h->cloud->lock);
    return n;
}

static UNUSED void house_cue(struct house *h, enum scripted_call call, int fails, int times)
{
    (void)pthread_mutex_lock(&h->cloud->lock);
    h->cloud->cues[call] = (struct scripted_cue){fails, times};
    (void)pthread_mutex_unlock(&h->cloud->lock);
}

/* Its entrypoint ends; the sandbox stays until it is removed. */
static UNUSED void house_end_box(struct house *h, const char *id, int exit_code)
{
    (void)pthread_mutex_lock(&h->cloud->lock);
    for (size_t i = 0; i < SCRIPTED_BOXES_MAX; i++) {
        struct scripted_box *box = &h->cloud->boxes[i];

        if (!box->there || strcmp(box->id, id) != 0)
            continue;
        box->status = (struct runtime_status){.state = RUNTIME_EXITED, .exit_code = exit_code};
        CHECK_EQ(close(box->end), 0);
        box->end = -EBADF;
    }
    (void)pthread_mutex_unlock(&h->cloud->lock);
}
