/* pools.c - the table of pools, and how they are filled. */
#include "server/pools/pools.h"

#include <errno.h>
#include <stdio.h>

#include "api/execd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha.h"
#include "base/time.h"
#include "server/core/volume_names.h"
#include "server/pools/pools_internal.h"

enum {
    MAKING_MAX = 8, /* creations of one pool at a time */
    BACKOFF_MS_MIN = 1000,
    BACKOFF_MS_MAX = 60 * 1000,
    WARM_UP_MS = 10 * 60 * 1000, /* limit of the warm-up command */
    COMMAND_BODY_MAX = 1 << 20,
};

/* --- the table --- */

int pools_new(const struct pools_conf *conf, struct pools **ret, struct err *e)
{
    struct pools *p = mem_new(struct pools);
    int r = http_client_new(conf->loop, &(struct http_client_conf){0}, &p->client, e);

    if (r < 0) {
        free(p);
        return r;
    }
    p->conf = *conf;
    map_init(&p->by_name, POOLS_MAX, NULL);
    list_init(&p->changes);
    list_init(&p->gone);
    list_init(&p->errands);
    conf->sandboxes->pools = p;
    *ret = p;
    return 0;
}

struct warm_pool *pools_find(struct pools *p, struct str name)
{
    return map_get(&p->by_name, name);
}

struct warm_pool *warm_pool_new(struct pools *p, struct str name)
{
    struct warm_pool *w = mem_new(struct warm_pool);

    w->all = p;
    list_init(&w->link);
    list_init(&w->claims);
    for (size_t i = 0; i < POOL_MEMBER_KINDS; i++)
        list_init(&w->members[i]);
    arena_init(&w->arena, POOL_ARENA_MAX);
    if (str_copy(w->name, sizeof(w->name), name) < 0) {
        warm_pool_free(w);
        return NULL;
    }
    return w;
}

void warm_pool_free(struct warm_pool *w)
{
    loop_timer_stop(w->all->conf.loop, &w->fill);
    list_remove(&w->link);
    arena_done(&w->arena);
    free(w->create);
    free(w->warm_up);
    free(w);
}

static void set_revision(struct warm_pool *w)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 sha;

    sha256_init(&sha);
    sha256_add(&sha, str_of(w->create));
    sha256_add(&sha, str_of(w->warm_up));
    sha256_end(&sha, digest);
    for (size_t i = 0; i + 1 < sizeof(w->revision); i += 2)
        (void)snprintf(w->revision + i, sizeof(w->revision) - i, "%02x", digest[i / 2]);
}

int warm_pool_set_template(struct warm_pool *w, struct str create, struct str warm_up,
                           struct api_fail *f)
{
    struct principal owner = {0};
    int r = pool_template_parse(&w->arena, create, NULL, &w->spec, f);

    memcpy(owner.tenant, w->tenant, sizeof(owner.tenant));
    if (r >= 0)
        r = volume_names_set(&w->arena, &owner, &w->spec, f);
    if (r < 0)
        return r;
    w->spec.pool_ref = str_of(w->name);
    w->create = sandbox_text(create);
    w->warm_up = sandbox_text(warm_up);
    set_revision(w);
    return 0;
}

static size_t idle_count(const struct warm_pool *w)
{
    return w->making + w->counts[POOL_STARTING] + w->counts[POOL_WARMING] + w->counts[POOL_READY];
}

static size_t used_count(const struct warm_pool *w)
{
    return w->counts[POOL_TAKEN] + w->counts[POOL_IN_USE];
}

void warm_pool_view(const struct warm_pool *w, struct pool_view *ret)
{
    *ret = (struct pool_view){
        .name = str_of(w->name),
        .tenant = str_of(w->tenant),
        .limits = w->spec.limits,
        .capacity = w->capacity,
        .total = idle_count(w) + used_count(w),
        .allocated = used_count(w),
        .available = w->counts[POOL_READY],
        .revision = str_of(w->revision),
        .message = w->backoff_ms ? str_of(w->why.msg) : STR(""),
        .created_us = w->created_us,
    };
}

bool pools_have(struct pools *p, const struct principal *by, struct str name)
{
    const struct warm_pool *w = pools_find(p, name);

    return w && principal_sees(by, w->tenant);
}

bool pools_view(struct pools *p, struct str name, struct pool_view *ret)
{
    const struct warm_pool *w = pools_find(p, name);

    if (w)
        warm_pool_view(w, ret);
    return w != NULL;
}

void pools_each(struct pools *p, void (*visit)(void *user, const struct pool_view *view),
                void *user)
{
    struct pool_view view;
    size_t at = 0;
    void *w;

    while (map_next(&p->by_name, &at, NULL, &w)) {
        warm_pool_view(w, &view);
        visit(user, &view);
    }
}

/* --- members --- */

static void pool_failed(struct warm_pool *w, const char *why);

/* done is called with no sandbox. */
static void errand_cancel(struct pool_errand *errand)
{
    struct err e = {0};

    errand->sb->errand = NULL;
    list_remove(&errand->link);
    execd_call_cancel(&errand->call);
    (void)err_set(&e, ECANCELED, "the sandbox is gone");
    errand->done(errand->user, NULL, &e);
    free(errand);
}

static void member_detach(struct sandbox *sb)
{
    sb->pool->counts[sb->member]--;
    list_remove(&sb->pool_link);
    sb->pool = NULL;
    if (sb->errand)
        errand_cancel(sb->errand);
}

static void member_attach(struct warm_pool *w, struct sandbox *sb, enum pool_member kind)
{
    sb->pool = w;
    sb->member = kind;
    w->counts[kind]++;
    list_push(&w->members[kind], &sb->pool_link);
}

void pool_member_set(struct sandbox *sb, enum pool_member kind)
{
    struct warm_pool *w = sb->pool;

    w->counts[sb->member]--;
    list_remove(&sb->pool_link);
    member_attach(w, sb, kind);
}

void pool_member_remove(struct sandbox *sb)
{
    if (sb->pool)
        member_detach(sb);
    else if (sb->errand)
        errand_cancel(sb->errand);
    sandbox_delete(sb, &principal_server, NULL, NULL);
}

void pool_on_drop(struct sandbox *sb)
{
    struct warm_pool *w = sb->pool;

    if (w)
        member_detach(sb);
    else if (sb->errand) /* of a claim whose pool was deleted */
        errand_cancel(sb->errand);
    if (w)
        pool_wake(w);
}

void pool_on_change(struct sandbox *sb)
{
    struct warm_pool *w = sb->pool;

    if (!sb->hidden || sb->state == SANDBOX_STOPPING)
        return;
    if (sb->state == SANDBOX_RUNNING && sb->member == POOL_STARTING) {
        pool_member_set(sb, POOL_READY);
        pool_claims_serve(w);
    } else if (sb->state != SANDBOX_RUNNING && sb->state != SANDBOX_PENDING &&
               sb->member != POOL_TAKEN) { /* the claim notices it */
        struct err e = {0};

        (void)err_set(&e, EIO, "a waiting sandbox ended: %s", sb->message);
        pool_member_remove(sb);
        pool_failed(w, e.msg);
    }
}

void pools_adopt(struct pools *p, struct sandbox *sb)
{
    auto_free char *name = spec_json_pool(str_of(sb->spec));
    struct warm_pool *w = name ? pools_find(p, str_of(name)) : NULL;

    if (!w)
        return;
    if (!sb->hidden)
        member_attach(w, sb, POOL_IN_USE);
    else if (sb->state == SANDBOX_RUNNING)
        member_attach(w, sb, POOL_READY);
    else if (sb->state == SANDBOX_PENDING)
        member_attach(w, sb, POOL_STARTING);
}

/* --- errands --- */

static void errand_on_done(struct execd_call *call, const struct err *e)
{
    struct pool_errand *errand = container_of(call, struct pool_errand, call);

    errand->sb->errand = NULL;
    list_remove(&errand->link);
    errand->done(errand->user, errand->sb, e);
    free(errand);
}

void pool_errand_start(struct pools *p, struct sandbox *sb, const struct execd_request *request,
                       void (*done)(void *user, struct sandbox *sb, const struct err *e),
                       void *user)
{
    struct pool_errand *errand = mem_new(struct pool_errand);
    struct err e = {0};

    errand->sb = sb;
    errand->done = done;
    errand->user = user;
    sb->errand = errand;
    list_push(&p->errands, &errand->link);
    if (p->stopped) { /* none may outlive pools_stop() */
        (void)err_set(&e, ECANCELED, "the server is stopping");
        errand_on_done(&errand->call, &e);
        return;
    }
    if (execd_call_start(&errand->call, p->client, p->conf.runtime, request, errand_on_done, &e) <
        0)
        errand_on_done(&errand->call, &e);
}

/* --- filling --- */

static void pool_release(struct warm_pool *w)
{
    if (w->is_gone && w->making == 0)
        warm_pool_free(w);
}

static void pool_succeeded(struct warm_pool *w)
{
    if (w->backoff_ms)
        log_event(LOG_INFO, "the pool is filled again", LOG_STR("pool", w->name));
    w->backoff_ms = 0;
    w->fill_not_before_ns = 0;
    pool_claims_serve(w);
    pool_wake(w);
}

/* No sandbox comes for some time, so those that wait for one hear why. */
static void pool_failed(struct warm_pool *w, const char *why)
{
    struct api_fail fail = {0};

    w->backoff_ms = w->backoff_ms ? w->backoff_ms * 2 : BACKOFF_MS_MIN;
    if (w->backoff_ms > BACKOFF_MS_MAX)
        w->backoff_ms = BACKOFF_MS_MAX;
    w->fill_not_before_ns = deadline_in_ms(w->backoff_ms);
    w->why = (struct err){0};
    (void)err_set(&w->why, EIO, "%s", why);
    log_event(LOG_WARN, "cannot make a sandbox for the pool, trying again later",
              LOG_STR("pool", w->name), LOG_STR("error", w->why.msg),
              LOG_U64("wait_ms", w->backoff_ms));
    (void)api_fail_set(&fail, 503, "SERVICE_UNAVAILABLE", "pool '%.100s' has no sandbox: %s",
                       w->name, w->why.msg);
    pool_claims_fail(w, &fail);
    pool_wake(w);
}

static void on_ready(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct sandbox_grant *grant = user;
    struct warm_pool *w = sb ? sb->pool : NULL;

    sandbox_grant_done(grant);
    free(grant);
    if (!w)
        return; /* the sandbox or its pool is gone */
    if (!fail) {
        pool_member_set(sb, POOL_READY);
        pool_succeeded(w);
        return;
    }
    pool_member_remove(sb);
    pool_failed(w, fail->message);
}

static void on_warm(void *user, struct sandbox *sb, const struct err *e)
{
    struct warm_pool *w = user;
    char why[sizeof(e->msg) + 32];
    struct sandbox_grant *grant;

    if (!sb && (w->is_gone || w->all->stopped))
        return;
    if (e->code) {
        (void)snprintf(why, sizeof(why), "template.warmUp: %s", e->msg);
        if (sb)
            pool_member_remove(sb);
        pool_failed(w, why);
        return;
    }
    grant = mem_new(struct sandbox_grant);
    *grant = sandbox_grant_keep(sb, &principal_pool);
    sandbox_give(sb, &principal_server, grant, on_ready, grant);
}

static void warm_up(struct warm_pool *w, struct sandbox *sb)
{
    struct api_run run = {.command = str_of(w->warm_up), .timeout_ms = WARM_UP_MS};
    AUTO_BUF(body, COMMAND_BODY_MAX);
    struct err e = {0};

    if (api_run_write(&body, &run) < 0) {
        (void)err_set(&e, EMSGSIZE, "the command is too long");
        on_warm(w, sb, &e);
        return;
    }
    pool_errand_start(w->all, sb,
                      &(struct execd_request){
                          .sandbox_id = str_of(sb->id),
                          .target = STR("/command"),
                          .content_type = STR("application/json"),
                          .body = buf_str(&body),
                          .is_stream = true,
                          .limit_ms = WARM_UP_MS + 5000,
                      },
                      on_warm, w);
}

static void on_made(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct warm_pool *w = user;

    w->making--;
    if (w->all->stopped)
        return;
    if (w->is_gone) {
        if (sb)
            pool_member_remove(sb);
        pool_release(w);
        return;
    }
    if (!sb || fail || sb->state != SANDBOX_RUNNING) {
        struct err e = {0};

        (void)err_set(&e, EIO, "%s", fail ? fail->message : sb ? sb->message : "it is gone");
        if (sb)
            pool_member_remove(sb);
        pool_failed(w, e.msg);
        return;
    }
    member_attach(w, sb, w->warm_up[0] ? POOL_WARMING : POOL_READY);
    if (w->warm_up[0])
        warm_up(w, sb);
    else
        pool_succeeded(w);
}

/* False when it failed at once. */
static bool make_one(struct warm_pool *w)
{
    const struct principal *owner = w->warm_up[0] ? &principal_warming : &principal_pool;
    struct api_fail f = {0};
    struct sandbox *sb;

    w->making++;
    if (sandboxes_create(w->all->conf.sandboxes, owner, &w->spec, on_made, w, &sb, &f) >= 0)
        return true;
    w->making--;
    pool_failed(w, f.message);
    return false;
}

/* How many sandboxes should wait. Between the limits of the buffer nothing changes, so that a pool
 * in use is not filled and drained in turns; outside of them the aim is their middle. */
static size_t idle_wanted(struct warm_pool *w)
{
    const struct api_capacity *c = &w->capacity;
    int64_t low = c->buffer_min, high = c->buffer_max > low ? c->buffer_max : low;
    int64_t middle = low + (high - low + 1) / 2, idle = (int64_t)idle_count(w);
    int64_t used = (int64_t)used_count(w), wanted = idle;

    if (idle < low)
        w->filling = true;
    else if (idle >= middle)
        w->filling = false;
    if (w->filling || idle > high)
        wanted = middle;
    if (wanted < c->pool_min - used)
        wanted = c->pool_min - used;
    if (wanted < (int64_t)w->claim_count)
        wanted = (int64_t)w->claim_count;
    if (wanted > c->pool_max - used)
        wanted = c->pool_max - used;
    return wanted < 0 ? 0 : (size_t)wanted;
}

static void on_fill(struct loop_timer *timer)
{
    struct warm_pool *w = container_of(timer, struct warm_pool, fill);
    size_t wanted = idle_wanted(w);
    struct api_fail fail = {0};

    if (w->claim_count && pool_is_used_up(w, &fail))
        pool_claims_fail(w, &fail);
    while (idle_count(w) < wanted && w->making < MAKING_MAX)
        if (!make_one(w))
            return;
    while (idle_count(w) > wanted && w->counts[POOL_READY] > 0)
        pool_member_remove(container_of(w->members[POOL_READY].prev, struct sandbox, pool_link));
}

void pool_wake(struct warm_pool *w)
{
    if (w->all->started && !w->all->stopped && !w->is_gone)
        loop_timer_set(w->all->conf.loop, &w->fill, w->fill_not_before_ns, on_fill);
}

/* --- begin and end --- */

static int load_record(void *user, const struct store_record *record)
{
    return pool_record_load(user, record);
}

int pools_load(struct pools *p, struct err *e)
{
    int r = store_record_each(p->conf.store, STR("pool"), load_record, p, e);
    size_t at = 0;
    void *pool;

    if (r < 0)
        return err_wrap(e, r, "read the pools of before");
    while (map_next(&p->by_name, &at, NULL, &pool)) {
        struct warm_pool *w = pool;
        struct err why = {0};

        if (w->is_clear && pool_record_seal(w, &why) < 0)
            log_event(LOG_WARN, "cannot seal the template of a pool, the next start tries again",
                      LOG_STR("pool", w->name), LOG_STR("error", why.msg));
    }
    return 0;
}

void pools_start(struct pools *p)
{
    size_t at = 0;
    void *w;

    p->started = true;
    while (map_next(&p->by_name, &at, NULL, &w))
        pool_wake(w);
}

void pools_stop(struct pools *p)
{
    struct api_fail fail = {0};
    struct list *errand;
    size_t at = 0;
    void *pool;

    if (!p || p->stopped)
        return;
    p->stopped = true;
    (void)api_fail_set(&fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    while (map_next(&p->by_name, &at, NULL, &pool)) {
        struct warm_pool *w = pool;

        loop_timer_stop(p->conf.loop, &w->fill);
        pool_claims_fail(w, &fail);
        LIST_EACH(&w->members[POOL_WARMING], member)
        member_detach(container_of(member, struct sandbox, pool_link));
        LIST_EACH(&w->members[POOL_TAKEN], member)
        member_detach(container_of(member, struct sandbox, pool_link));
    }
    while ((errand = list_take(&p->errands))) /* of claims whose pool was deleted */
        errand_cancel(container_of(errand, struct pool_errand, link));
}

void warm_pool_drain(struct warm_pool *w)
{
    static const enum pool_member idle[] = {POOL_STARTING, POOL_WARMING, POOL_READY};
    struct api_fail fail = {0};

    w->is_gone = true;
    (void)map_take(&w->all->by_name, str_of(w->name));
    list_push(&w->all->gone, &w->link);
    loop_timer_stop(w->all->conf.loop, &w->fill);
    (void)api_fail_set(&fail, 404, "KUBERNETES::POOL_NOT_FOUND", "pool '%.200s' was deleted",
                       w->name);
    pool_claims_fail(w, &fail);
    for (size_t i = 0; i < ARRAY_LEN(idle); i++)
        while (!list_empty(&w->members[idle[i]]))
            pool_member_remove(container_of(w->members[idle[i]].next, struct sandbox, pool_link));
    for (size_t i = 0; i < POOL_MEMBER_KINDS; i++)
        LIST_EACH(&w->members[i], member)
        {
            struct sandbox *sb = container_of(member, struct sandbox, pool_link);

            w->counts[sb->member]--;
            list_remove(&sb->pool_link);
            sb->pool = NULL; /* its claim, if one is under way, goes on */
        }
    pool_release(w);
}

void pools_free(struct pools *p)
{
    size_t at = 0;
    void *w;

    if (!p)
        return;
    while (map_next(&p->by_name, &at, NULL, &w))
        warm_pool_free(w);
    LIST_EACH(&p->gone, link)
    warm_pool_free(container_of(link, struct warm_pool, link));
    map_done(&p->by_name);
    http_client_free(p->client);
    free(p);
}
