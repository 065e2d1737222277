/* pools_claim.c - how a sandbox of a pool gets to the client that claims it.
 *
 *   taken -> owner "pool:warming" -> the claim's variables and entrypoint -> owner: the client
 *
 * Without variables and entrypoint of its own, a claim is the last step alone: one write. The
 * second step makes sure that a sandbox that has anything of a claim is never claimed again, also
 * by a server that starts after this one was killed. */
#include <errno.h>
#include <stdio.h>

#include "api/answer.h"
#include "api/copy.h"
#include "api/execd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/spec_request.h"
#include "server/pools/pools_internal.h"

enum {
    CLAIM_WAIT_MS = 20 * 1000, /* for a sandbox to be made; clients give up after 30 s */
    CLAIMS_MAX = 1024,         /* waiting, of one pool */
    CLAIM_TRIES_MAX = 3,       /* each with a sandbox that turns out to have ended */
    ERRAND_MS = 10 * 1000,
    CLAIM_ARENA_MAX = 4 << 20,
    ENV_FILE_MAX = 1 << 20, /* as much as execd reads */
    FORM_MAX = ENV_FILE_MAX + 8192,
};

#define ENV_FILE "/opt/opensandbox/.env.claim" /* snapshots leave it out */

struct claim {
    struct pools *all;
    struct list link; /* while it waits */
    struct warm_pool *waits_in;
    struct loop_timer timer;
    struct principal by;
    struct arena arena;
    struct api_create spec;
    struct buf env; /* the file with its variables; empty = none */
    bool runs;      /* its entrypoint is not the template's */
    bool dirty;     /* the sandbox has something of this claim */
    bool as_root;   /* its variables are written by root: the image's user could not */
    struct err refused;
    unsigned tries;
    struct sandbox_grant grant, mark;
    op_done_fn *done;
    void *user;
};

static void claim_free(struct claim *c)
{
    loop_timer_stop(c->all->conf.loop, &c->timer);
    sandbox_grant_done(&c->grant);
    sandbox_grant_done(&c->mark);
    buf_done(&c->env);
    arena_done(&c->arena);
    free(c);
}

static void claim_end(struct claim *c, struct sandbox *sb, const struct api_fail *fail)
{
    c->done(c->user, fail ? NULL : sb, fail);
    claim_free(c);
}

static void claim_next(struct claim *c);

/* --- the steps --- */

/* A sandbox that ended before it could be claimed is not the client's problem. */
static void claim_failed(struct claim *c, struct sandbox *sb, const struct api_fail *fail)
{
    struct api_fail copy = *fail;
    bool ended = !sb || fail->status == 409;

    if (sb && (ended || c->dirty || !sb->pool))
        pool_member_remove(sb);
    else if (sb)
        pool_member_set(sb, POOL_READY);
    if (ended && !c->dirty && !c->all->stopped && ++c->tries < CLAIM_TRIES_MAX)
        claim_next(c);
    else
        claim_end(c, NULL, &copy);
}

static void claim_errand_failed(struct claim *c, struct sandbox *sb, const char *what,
                                const struct err *e)
{
    struct api_fail fail = {0};
    bool stopped = c->all->stopped;

    c->dirty = true;
    (void)api_fail_set(&fail, stopped ? 503 : 500,
                       stopped ? "SERVICE_UNAVAILABLE" : "DOCKER::SANDBOX_START_FAILED", "%s: %s",
                       what, e->msg);
    claim_failed(c, sb, &fail);
}

static void on_given(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct claim *c = user;
    struct warm_pool *w = sb ? sb->pool : NULL;

    if (fail) {
        claim_failed(c, sb, fail);
        return;
    }
    if (w) {
        pool_member_set(sb, POOL_IN_USE);
        pool_wake(w);
    }
    claim_end(c, sb, NULL);
}

static void claim_give(struct claim *c, struct sandbox *sb)
{
    c->grant.created_us = time_wall_us();
    if (c->spec.timeout_s)
        c->grant.expires_us = c->grant.created_us + c->spec.timeout_s * TIME_US_PER_S;
    sandbox_give(sb, &c->by, &c->grant, on_given, c);
}

static void on_run(void *user, struct sandbox *sb, const struct err *e)
{
    struct claim *c = user;

    if (e->code)
        claim_errand_failed(c, sb, "entrypoint", e);
    else
        claim_give(c, sb);
}

/* The template's entrypoint runs already; the claim's is a command beside it. */
static void claim_run(struct claim *c, struct sandbox *sb)
{
    struct api_run run = {
        .argv = c->spec.entrypoint,
        .argv_count = c->spec.entrypoint_count,
        .background = true,
    };
    AUTO_BUF(body, CLAIM_ARENA_MAX);
    struct err e = {0};

    if (!c->runs) {
        claim_give(c, sb);
        return;
    }
    if (api_run_write(&body, &run) < 0) {
        (void)err_set(&e, EMSGSIZE, "too long");
        on_run(c, sb, &e);
        return;
    }
    pool_errand_start(c->all, sb,
                      &(struct execd_request){
                          .sandbox_id = str_of(sb->id),
                          .target = STR("/command"),
                          .content_type = STR("application/json"),
                          .body = buf_str(&body),
                          .is_stream = true,
                          .limit_ms = ERRAND_MS,
                      },
                      on_run, c);
}

static void claim_env(struct claim *c, struct sandbox *sb);

/* Files are written by the image's user, which may lack access to that directory. Where execd is
 * not root itself, the second try fails, too, and the first tells why. */
static void on_env(void *user, struct sandbox *sb, const struct err *e)
{
    struct claim *c = user;

    if (e->code && !c->as_root && !c->all->stopped) {
        c->refused = *e;
        c->as_root = true;
        claim_env(c, sb);
    } else if (e->code)
        claim_errand_failed(c, sb, "env", c->as_root ? &c->refused : e);
    else
        claim_run(c, sb);
}

/* The boundary is random, so that no value can hold it. */
static int form_write(const struct claim *c, const char *boundary, struct buf *out)
{
    struct api_permission file = {.path = STR(ENV_FILE), .mode = 0600};
    int r = buf_addf(out,
                     "--%s\r\nContent-Disposition: form-data; name=\"metadata\"; "
                     "filename=\"metadata\"\r\nContent-Type: application/json\r\n\r\n",
                     boundary);

    if (r == 0)
        r = api_upload_meta_write(out, &file);
    if (r == 0)
        r = buf_addf(out,
                     "\r\n--%s\r\nContent-Disposition: form-data; name=\"file\"; "
                     "filename=\"env\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                     boundary);
    if (r == 0)
        r = buf_add(out, buf_str(&c->env));
    return r < 0 ? r : buf_addf(out, "\r\n--%s--\r\n", boundary);
}

static void claim_env(struct claim *c, struct sandbox *sb)
{
    AUTO_BUF(body, FORM_MAX);
    char boundary[ID_REQUEST_MAX], type[64 + ID_REQUEST_MAX];
    struct str target = c->as_root ? STR("/v1/filesystem/0/0/files/upload") : STR("/files/upload");
    struct err e = {0};

    if (c->env.n == 0) {
        claim_run(c, sb);
        return;
    }
    id_request(boundary);
    (void)snprintf(type, sizeof(type), "multipart/form-data; boundary=%s", boundary);
    if (form_write(c, boundary, &body) < 0) {
        (void)err_set(&e, EMSGSIZE, "too long");
        claim_errand_failed(c, sb, "env", &e);
        return;
    }
    pool_errand_start(c->all, sb,
                      &(struct execd_request){
                          .sandbox_id = str_of(sb->id),
                          .target = target,
                          .content_type = str_of(type),
                          .body = buf_str(&body),
                          .limit_ms = ERRAND_MS,
                      },
                      on_env, c);
}

static void on_marked(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct claim *c = user;

    if (fail) {
        claim_failed(c, sb, fail);
        return;
    }
    c->dirty = true;
    c->as_root = false;
    claim_env(c, sb);
}

/* --- the beginning --- */

static char *pairs_text(const struct json_pair *pairs, size_t count)
{
    AUTO_BUF(out, OP_ARENA_MAX);

    if (count == 0)
        return mem_strdup("");
    return api_pairs_write(&out, pairs, count) < 0 ? NULL : buf_take(&out);
}

static char *strs_text(const struct str *strs, size_t count)
{
    AUTO_BUF(out, OP_ARENA_MAX);

    return api_strs_write(&out, strs, count) < 0 ? NULL : buf_take(&out);
}

static bool is_same(const struct str *a, size_t a_count, const struct str *b, size_t b_count)
{
    for (size_t i = 0; a_count == b_count && i < a_count; i++)
        if (!str_eq(a[i], b[i]))
            return false;
    return a_count == b_count;
}

/* Some clients send this one whenever the user named none. */
static bool is_idle(const struct str *words, size_t count)
{
    static const struct str idle[] = {STR_INIT("tail"), STR_INIT("-f"), STR_INIT("/dev/null")};

    return is_same(words, count, idle, ARRAY_LEN(idle));
}

/* The template's variables, and the claim's behind them. */
static int merge_env(struct claim *c, const struct warm_pool *w, struct api_create *merged)
{
    size_t n = w->spec.env_count + c->spec.env_count;
    struct json_pair *env = arena_new_array(&c->arena, struct json_pair, n + 1);
    size_t count = 0;

    if (!env)
        return -ENOMEM;
    for (size_t i = 0; i < w->spec.env_count; i++)
        env[count++] = w->spec.env[i];
    for (size_t i = 0; i < c->spec.env_count; i++) {
        size_t at = 0;

        while (at < count && !str_eq(env[at].key, c->spec.env[i].key))
            at++;
        env[at] = c->spec.env[i];
        count = at == count ? count + 1 : count;
    }
    merged->env = env;
    merged->env_count = count;
    return 0;
}

/* What the row gets, as far as it does not depend on the sandbox. */
/* `id` is that of the sandbox that is claimed. */
static int claim_prepare(struct claim *c, const struct warm_pool *w, struct str id)
{
    const struct api_create *spec = &c->spec;
    struct api_create merged = w->spec;
    struct str *words = spec->entrypoint_count ? spec->entrypoint : w->spec.entrypoint;
    size_t word_count = spec->entrypoint_count ? spec->entrypoint_count : w->spec.entrypoint_count;

    sandbox_grant_done(&c->grant);
    merged.secure_access = w->spec.secure_access || spec->secure_access;
    merged.timeout_s = spec->timeout_s;
    merged.entrypoint = words;
    merged.entrypoint_count = word_count;
    merged.metadata = spec->metadata;
    merged.metadata_count = spec->metadata_count;
    merged.idempotency = spec->idempotency;
    merged.renew_extend_s = spec->renew_extend_s;
    if (merge_env(c, w, &merged) < 0)
        return -ENOMEM;
    c->runs = spec->entrypoint_count && !is_idle(words, word_count) &&
              !is_same(words, word_count, w->spec.entrypoint, w->spec.entrypoint_count);
    c->grant = (struct sandbox_grant){
        .to = c->by,
        .entrypoint = strs_text(words, word_count),
        .metadata = pairs_text(spec->metadata, spec->metadata_count),
        .spec = spec_json_new(&merged, c->all->conf.seal, id),
        .request = spec_request_new(&merged, true),
        .renew_extend_s = spec->renew_extend_s,
    };
    id_token(c->grant.token);
    return c->grant.entrypoint && c->grant.metadata && c->grant.spec ? 0 : -ENOMEM;
}

static void claim_take(struct claim *c, struct sandbox *sb)
{
    struct api_fail fail = {0};

    c->waits_in = NULL;
    loop_timer_stop(c->all->conf.loop, &c->timer);
    if (claim_prepare(c, sb->pool, str_of(sb->id)) < 0)
        (void)api_fail_memory(&fail);
    if (fail.status) {
        claim_end(c, NULL, &fail);
        return;
    }
    pool_member_set(sb, POOL_TAKEN);
    if (c->env.n == 0 && !c->runs) {
        claim_give(c, sb);
        return;
    }
    sandbox_grant_done(&c->mark);
    c->mark = sandbox_grant_keep(sb, &principal_warming);
    sandbox_give(sb, &principal_server, &c->mark, on_marked, c);
}

static void claim_leave(struct claim *c)
{
    list_remove(&c->link);
    c->waits_in->claim_count--;
    c->waits_in = NULL;
}

static void on_claim_late(struct loop_timer *timer)
{
    struct claim *c = container_of(timer, struct claim, timer);
    struct api_fail fail = {0};

    (void)api_fail_set(&fail, 503, "SERVICE_UNAVAILABLE",
                       "pool '%.100s' had no sandbox ready within %d s, try again",
                       c->waits_in->name, CLAIM_WAIT_MS / 1000);
    claim_leave(c);
    claim_end(c, NULL, &fail);
}

bool pool_is_used_up(const struct warm_pool *w, struct api_fail *f)
{
    size_t used = w->counts[POOL_TAKEN] + w->counts[POOL_IN_USE];

    if ((int64_t)used < w->capacity.pool_max)
        return false;
    (void)api_fail_set(f, 503, "SERVICE_UNAVAILABLE",
                       "all %zu sandboxes that pool '%.100s' may have are in use; delete one, or "
                       "raise poolMax",
                       used, w->name);
    return true;
}

static void claim_wait(struct claim *c, struct warm_pool *w)
{
    struct api_fail fail = {0};

    if (pool_is_used_up(w, &fail)) {
        claim_end(c, NULL, &fail);
        return;
    }
    if (w->claim_count >= CLAIMS_MAX)
        (void)api_fail_set(&fail, 503, "SERVICE_UNAVAILABLE",
                           "too many requests wait for pool '%.100s', try again", w->name);
    else if (w->backoff_ms && w->making + w->counts[POOL_WARMING] + w->counts[POOL_STARTING] == 0)
        (void)api_fail_set(&fail, 503, "SERVICE_UNAVAILABLE", "pool '%.100s' has no sandbox: %s",
                           w->name, w->why.msg);
    if (fail.status) {
        claim_end(c, NULL, &fail);
        return;
    }
    c->waits_in = w;
    w->claim_count++;
    list_push(&w->claims, &c->link);
    loop_timer_set(c->all->conf.loop, &c->timer, deadline_in_ms(CLAIM_WAIT_MS), on_claim_late);
    pool_wake(w);
}

static void claim_next(struct claim *c)
{
    struct warm_pool *w = pools_find(c->all, c->spec.pool_ref);
    struct api_fail fail = {0};

    if (!w || c->all->stopped) {
        (void)api_fail_set(&fail, w ? 503 : 404,
                           w ? "SERVICE_UNAVAILABLE" : "KUBERNETES::POOL_NOT_FOUND",
                           w ? "the server is stopping" : "extensions.poolRef: the pool is gone");
        claim_end(c, NULL, &fail);
    } else if (list_empty(&w->members[POOL_READY]))
        claim_wait(c, w);
    else
        claim_take(c, container_of(w->members[POOL_READY].next, struct sandbox, pool_link));
}

void pool_claims_serve(struct warm_pool *w)
{
    LIST_EACH(&w->claims, at)
    {
        struct claim *c = container_of(at, struct claim, link);

        if (list_empty(&w->members[POOL_READY]))
            return;
        claim_leave(c);
        claim_take(c, container_of(w->members[POOL_READY].next, struct sandbox, pool_link));
    }
}

void pool_claims_fail(struct warm_pool *w, const struct api_fail *fail)
{
    LIST_EACH(&w->claims, at)
    {
        struct claim *c = container_of(at, struct claim, link);

        claim_leave(c);
        claim_end(c, NULL, fail);
    }
}

/* What the template decides, and a client may not expect to choose. */
static int check_claim(const struct api_create *spec, struct api_fail *f)
{
    if (spec->volumes_count)
        return api_fail_invalid(f, "volumes: a sandbox of a pool has those of the pool's "
                                   "template; leave them out");
    if (spec->network_policy)
        return api_fail_invalid(f, "networkPolicy: a sandbox of a pool has that of the pool's "
                                   "template; leave it out");
    if (spec->persistent)
        return api_fail_invalid(f, "persistent: a sandbox of a pool is so if the pool's template "
                                   "says it; leave it out");
    return 0;
}

void pools_claim(struct pools *p, const struct principal *by, const struct api_create *spec,
                 op_done_fn *done, void *user)
{
    struct claim *c = mem_new(struct claim);
    struct api_fail fail = {0};

    c->all = p;
    c->by = *by;
    c->done = done;
    c->user = user;
    list_init(&c->link);
    arena_init(&c->arena, CLAIM_ARENA_MAX);
    buf_init(&c->env, ENV_FILE_MAX);
    if (check_claim(spec, &fail) < 0 ||
        pool_env_write(spec->env, spec->env_count, &c->env, &fail) < 0) {
        claim_end(c, NULL, &fail);
        return;
    }
    if (api_create_copy(&c->arena, spec, &c->spec) < 0) {
        (void)api_fail_memory(&fail);
        claim_end(c, NULL, &fail);
        return;
    }
    claim_next(c);
}
