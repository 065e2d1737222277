/* sandboxes_api.c - the routes below /sandboxes that change or show sandboxes. */
#include <errno.h>

#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/volume_names.h"
#include "server/http/server_internal.h"
#include "server/http/tracing.h"

enum {
    CREATE_WAIT_MS = 2000,     /* a create that takes longer is answered with Pending */
    CREATE_LOOK_MS = 10,       /* interval of checks while the row is not stored by then */
    PARSE_ARENA_MAX = 4 << 20, /* for a body as large as it may be */
    SANDBOX_JSON_MAX = 1 << 20,
    LIST_JSON_MAX = 64 << 20,
};

static struct str content_type(const struct http_req *req)
{
    return http_req_header(req, STR("Content-Type"));
}

/* --- create --- */

struct creation {
    struct pending pending;
    struct sandbox *sb; /* valid while it is being made */
    struct loop_timer timer;
    uint64_t begin_ns;
    struct { /* of a claim: what counts towards the quota until the sandbox itself does */
        char tenant[PRINCIPAL_TENANT_MAX];
        struct api_limits needs;
    } reserved;
    char mark[IDEMPOTENCY_MARK_MAX]; /* idempotency.h; "" = none */
};

static void reply_created(struct http_req *req, const struct sandbox *sb)
{
    AUTO_BUF(body, SANDBOX_JSON_MAX);
    AUTO_BUF(location, 128);
    struct api_sandbox view;

    tracing_note_sandbox(req, sb->id);
    sandbox_view(sb, &view);
    (void)buf_addf(&location, "/v1/sandboxes/%s", sb->id);
    (void)http_reply_header(req, STR("Location"), buf_str(&location));
    reply_json(req, 202, &body, api_created_write(&body, &view));
}

static void creation_free(struct pending *p)
{
    struct creation *c = container_of(p, struct creation, pending);

    loop_timer_stop(p->server->loop, &c->timer);
    free(c);
}

static void on_created(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct creation *c = user;
    struct http_req *req = c->pending.req;

    c->sb = NULL;
    loop_timer_stop(c->pending.server->loop, &c->timer);
    if (c->mark[0] && sb)
        idempotency_made(c->pending.server->idempotency, str_of(c->mark), sb->id);
    else if (c->mark[0])
        idempotency_failed(c->pending.server->idempotency, str_of(c->mark));
    if (c->reserved.tenant[0])
        tenants_count(c->pending.server->tenants, c->reserved.tenant, &c->reserved.needs, -1);
    if (fail)
        log_event(fail->status < 500 ? LOG_INFO : LOG_WARN, "sandbox not created",
                  LOG_STR("error", fail->message));
    if (sb && sb->state == SANDBOX_RUNNING)
        metrics_create(c->pending.server->metrics, time_mono_ns() - c->begin_ns);
    if (req && req->status == 0) {
        if (sb)
            reply_created(req, sb); /* even if it failed, as long as it exists */
        else
            reply_fail(req, fail);
    }
    pending_end(&c->pending);
}

static void on_wait_over(struct loop_timer *timer)
{
    struct creation *c = container_of(timer, struct creation, timer);

    if (!c->pending.req || !c->sb || c->sb->failing)
        return;
    if (sandboxes_find(c->pending.server->sandboxes, str_of(c->sb->id))) {
        c->sb->announced = true;
        reply_created(c->pending.req, c->sb);
    } else
        loop_timer_set(c->pending.server->loop, timer, deadline_in_ms(CREATE_LOOK_MS),
                       on_wait_over);
}

static void refuse_creation(struct creation *c, const struct api_fail *f)
{
    if (c->mark[0])
        idempotency_failed(c->pending.server->idempotency, str_of(c->mark));
    reply_fail(c->pending.req, f);
    pending_end(&c->pending);
}

/* True when the request goes on; its mark is under way, if it has one. */
static bool begin_once(struct http_req *req, const struct principal *by,
                       char mark[IDEMPOTENCY_MARK_MAX])
{
    struct server *s = server_of(req);
    struct str key = http_req_header(req, STR("Idempotency-Key"));
    struct sandbox *sb;
    char id[ID_UUID_MAX];
    int r;

    mark[0] = '\0';
    if (!key.n)
        return true;
    if (key.n > IDEMPOTENCY_KEY_MAX) {
        http_reply_error(req, 400, API_INVALID_PARAMETER, "Idempotency-Key: at most %d bytes",
                         IDEMPOTENCY_KEY_MAX);
        return false;
    }
    idempotency_mark(by, key, req->body, mark);
    r = idempotency_begin(s->idempotency, str_of(mark), id);
    sb = r == 1 ? sandboxes_find(s->sandboxes, str_of(id)) : NULL;
    if (sb) {
        (void)http_reply_header(req, STR("Idempotent-Replayed"), STR("true"));
        reply_created(req, sb);
    } else if (r == 1)
        http_reply_error(req, 409, "IDEMPOTENCY::GONE",
                         "Idempotency-Key: it made sandbox %s, which is gone", id);
    else if (r == -EALREADY)
        http_reply_error(req, 409, "IDEMPOTENCY::IN_PROGRESS",
                         "Idempotency-Key: a request with it is under way");
    else if (r == -EINVAL)
        http_reply_error(req, 422, "IDEMPOTENCY::KEY_REUSED",
                         "Idempotency-Key: it came with another body before");
    else if (r < 0)
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE",
                         "too many requests with an Idempotency-Key are under way");
    return r == 0;
}

/* Where a proxy names users, metadata tells whose a sandbox is. Out of memory it does not. */
static void add_user(struct arena *a, const struct principal *by, struct api_create *spec)
{
    struct json_pair *pairs;
    size_t n = 0;

    if (!by->user[0])
        return;
    pairs = arena_new_array(a, struct json_pair, spec->metadata_count + 2);
    if (!pairs)
        return;
    for (size_t i = 0; i < spec->metadata_count; i++)
        if (!str_eq(spec->metadata[i].key, STR("access.owner")) &&
            !str_eq(spec->metadata[i].key, STR("access.team")))
            pairs[n++] = spec->metadata[i];
    pairs[n++] = (struct json_pair){STR("access.owner"), str_of(by->user)};
    pairs[n++] = (struct json_pair){STR("access.team"), str_of(by->tenant)};
    spec->metadata = pairs;
    spec->metadata_count = n;
}

static void claim(struct creation *c, const struct principal *by, const struct api_create *spec)
{
    struct server *s = c->pending.server;
    struct api_fail f = {0};
    struct pool_view view;

    c->reserved.needs = spec->limits;
    if (pools_view(s->pools, spec->pool_ref, &view))
        c->reserved.needs = view.limits;
    if (tenants_admit(s->tenants, by->tenant, &c->reserved.needs, &f) < 0) {
        refuse_creation(c, &f);
        return;
    }
    memcpy(c->reserved.tenant, by->tenant, sizeof(c->reserved.tenant));
    tenants_count(s->tenants, by->tenant, &c->reserved.needs, 1);
    pools_claim(s->pools, by, spec, on_created, c);
}

void handle_sandboxes_post(struct http_req *req)
{
    struct server *s = server_of(req);
    const struct principal *by = guard_principal(req);
    struct sandbox_checks checks;
    struct api_create_host host = sandboxes_create_host(
        s->sandboxes, by, s->config->server.max_sandbox_timeout_seconds, &checks);
    struct api_fail f = {0};
    struct api_create spec = {0};
    struct creation *c;
    uint32_t wait_ms;
    char mark[IDEMPOTENCY_MARK_MAX];
    AUTO_ARENA(arena, PARSE_ARENA_MAX);

    if (api_create_parse(&arena, content_type(req), req->body, &host, &spec, &f) < 0 ||
        volume_names_set(&arena, by, &spec, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    req->secret = spec.secrets.count > 0;
    add_user(&arena, by, &spec);
    if (!begin_once(req, by, mark))
        return;
    spec.idempotency = str_of(mark);
    c = mem_new(struct creation);
    pending_init(&c->pending, req, creation_free);
    memcpy(c->mark, mark, sizeof(c->mark));
    c->begin_ns = time_mono_ns();
    if (spec.pool_ref.n && s->pools) {
        claim(c, by, &spec);
        return;
    }
    wait_ms = s->runtime->create_wait_ms ? s->runtime->create_wait_ms : CREATE_WAIT_MS;
    loop_timer_set(s->loop, &c->timer, deadline_in_ms(wait_ms), on_wait_over);
    if (sandboxes_create(s->sandboxes, by, &spec, on_created, c, &c->sb, &f) < 0) {
        loop_timer_stop(s->loop, &c->timer);
        refuse_creation(c, &f);
    }
}

/* --- list and get --- */

static bool metadata_has(const struct json *object, const struct json_pair *pair)
{
    const struct json *v = json_get(object, pair->key);

    return v && v->type == JSON_STRING && str_eq(v->string, pair->value);
}

/* Whether the text has "key":"value" at its place. Metadata is written without spaces, and what
 * needs no escape is found as it is: lists are filtered without parsing each sandbox's. */
static bool text_has(struct str text, const struct json_pair *pair)
{
    const struct str key = pair->key, value = pair->value, colon = STR("\":\"");

    while (text.n) {
        size_t at = str_find_str(text, key);
        struct str rest;

        if (at == text.n)
            return false;
        rest = str_skip(text, at + key.n);
        if (at > 0 && text.p[at - 1] == '"' && str_starts(rest, colon)) {
            rest = str_skip(rest, colon.n);
            if (str_starts(rest, value) && str_starts(str_skip(rest, value.n), STR("\"")))
                return true;
        }
        text = str_skip(text, at + 1);
    }
    return false;
}

static bool is_plain(const struct json_pair *pair)
{
    return pair->key.n && json_plain_bytes(pair->key) == pair->key.n &&
           json_plain_bytes(pair->value) == pair->value.n;
}

bool metadata_matches(struct arena *a, struct str metadata, const struct api_list_query *q)
{
    struct json *object;

    if (q->metadata_count == 0)
        return true;
    for (size_t i = 0; i < q->metadata_count; i++)
        if (is_plain(&q->metadata[i]) && !text_has(metadata, &q->metadata[i]))
            return false;
    if (q->metadata_count == 1 && is_plain(&q->metadata[0]))
        return true;
    arena_reset(a);
    if (!metadata.n || json_parse(a, metadata, NULL, &object, NULL) < 0)
        return false;
    for (size_t i = 0; i < q->metadata_count; i++)
        if (!metadata_has(object, &q->metadata[i]))
            return false;
    return true;
}

bool sandbox_matches(struct arena *a, const struct sandbox *sb, const struct api_list_query *q,
                     const struct principal *by)
{
    return principal_sees(by, sb->owner.tenant) &&
           !((q->states || q->unknown_state) && !(q->states & STATE_BIT(sb->state))) &&
           metadata_matches(a, str_of(sb->metadata), q);
}

static uint64_t count_states(const struct sandboxes_walk *w, const struct api_list_query *q)
{
    bool any = !q->states && !q->unknown_state;
    uint64_t n = 0;

    for (size_t i = 0; i < SANDBOX_STATE_COUNT; i++)
        n += any || q->states & STATE_BIT(i) ? w->by_state[i] : 0;
    return n;
}

void handle_sandboxes_get(struct http_req *req)
{
    struct server *s = server_of(req);
    const struct principal *by = guard_principal(req);
    struct api_list_query q = {0};
    struct api_fail f = {0};
    struct sandboxes_walk walk;
    struct sandbox *sb;
    struct api_page page;
    uint64_t count = 0, total = 0, first, behind;
    AUTO_ARENA(scratch, SANDBOX_JSON_MAX);
    AUTO_BUF(body, LIST_JSON_MAX);

    if (api_list_query_parse(&req->arena, req->head.query, &q, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    if (s->cluster) {
        others_list(req, &q);
        return;
    }
    first = (uint64_t)(q.page - 1) * q.page_size;
    behind = first + q.page_size;
    sandboxes_walk(s->sandboxes, by->everywhere ? STR_NONE : str_of(by->tenant), q.metadata,
                   q.metadata_count, &walk);
    total = count_states(&walk, &q);
    api_page_begin(&page, &body, q.page, q.page_size);
    while (!(walk.is_exact && (count == total || count == behind)) &&
           (sb = sandboxes_walk_next(&walk))) {
        struct api_sandbox view;

        if (!sandbox_matches(&scratch, sb, &q, by))
            continue;
        if (count >= first && count < behind) {
            sandbox_view(sb, &view);
            api_page_add(&page, &view);
        }
        count++;
    }
    reply_json(req, 200, &body, api_page_end(&page, walk.is_exact ? total : count));
}

void handle_sandbox_get(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb)
        reply_sandbox_waiting(req, sb);
}

/* --- other routes: run an operation, answer when it is done --- */

struct change {
    struct pending pending;
    int status;        /* of a success */
    bool with_sandbox; /* as its body */
    int64_t expires_us;
};

static void on_changed(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct change *c = user;
    struct http_req *req = c->pending.req;

    if (req && fail)
        reply_fail(req, fail);
    else if (req && c->expires_us) {
        AUTO_BUF(body, SANDBOX_JSON_MAX);

        reply_json(req, 200, &body, api_expires_write(&body, c->expires_us));
    } else if (req && !c->with_sandbox)
        http_reply(req, c->status, STR_NONE, STR_NONE);
    else if (req && sb)
        reply_sandbox(req, c->status, sb);
    else if (req)
        http_reply_error(req, 404,
                         runtime_code(c->pending.server->runtime, "DOCKER::SANDBOX_NOT_FOUND"),
                         "the sandbox is gone");
    pending_end(&c->pending);
}

static struct change *change_new(struct http_req *req, int status)
{
    struct change *c = mem_new(struct change);

    pending_init(&c->pending, req, NULL);
    c->status = status;
    return c;
}

static struct change *change_with_sandbox(struct http_req *req, int status)
{
    struct change *c = change_new(req, status);

    c->with_sandbox = true;
    return c;
}

void handle_sandbox_delete(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb && check_match(req, sb))
        sandbox_delete(sb, guard_principal(req), on_changed, change_new(req, 204));
}

void handle_sandbox_pause(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb && check_match(req, sb))
        sandbox_pause(sb, guard_principal(req), on_changed, change_new(req, 202));
}

void handle_sandbox_resume(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb && check_match(req, sb))
        sandbox_resume(sb, guard_principal(req), on_changed, change_new(req, 202));
}

void handle_sandbox_stop(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb && check_match(req, sb))
        sandbox_stop(sb, guard_principal(req), on_changed, change_new(req, 202));
}

void handle_sandbox_start(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb && check_match(req, sb))
        sandbox_start(sb, guard_principal(req), on_changed, change_new(req, 202));
}

void handle_sandbox_rollback(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);
    struct api_fail f = {0};
    struct str snapshot;

    if (!sb || !check_match(req, sb))
        return;
    if (api_rollback_parse(&req->arena, content_type(req), req->body, &snapshot, &f) < 0)
        reply_fail(req, &f);
    else
        sandbox_rollback(sb, guard_principal(req), snapshot, on_changed,
                         change_with_sandbox(req, 202));
}

void handle_sandbox_patch(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);
    struct api_patch patch = {0};
    struct api_fail f = {0};
    AUTO_ARENA(arena, PARSE_ARENA_MAX);

    if (!sb || !check_match(req, sb))
        return;
    if (api_patch_parse(&arena, content_type(req), req->body, &patch, &f) < 0)
        reply_fail(req, &f);
    else
        sandbox_patch(sb, guard_principal(req), &patch, on_changed, change_with_sandbox(req, 200));
}

void handle_sandbox_renew(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);
    struct api_fail f = {0};
    int64_t expires_us;
    struct change *c;

    if (!sb || !check_match(req, sb))
        return;
    if (api_renew_parse(&req->arena, content_type(req), req->body, &expires_us, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    c = change_new(req, 200);
    c->expires_us = expires_us;
    sandbox_renew(sb, guard_principal(req), expires_us, on_changed, c);
}
