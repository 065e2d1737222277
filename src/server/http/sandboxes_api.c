/* sandboxes_api.c - the routes below /sandboxes that change or show sandboxes. */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/http/server_internal.h"

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

static void reply_sandbox(struct http_req *req, const struct sandbox *sb)
{
    AUTO_BUF(body, SANDBOX_JSON_MAX);
    struct api_sandbox view;

    sandbox_view(sb, &view);
    reply_json(req, 200, &body, api_sandbox_write(&body, &view));
}

/* --- create --- */

struct creation {
    struct pending pending;
    struct sandbox *sb; /* valid while it is being made */
    struct loop_timer timer;
    uint64_t begin_ns;
};

static void reply_created(struct http_req *req, const struct sandbox *sb)
{
    AUTO_BUF(body, SANDBOX_JSON_MAX);
    AUTO_BUF(location, 128);
    struct api_sandbox view;

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

void handle_sandboxes_post(struct http_req *req)
{
    struct server *s = server_of(req);
    struct api_create_host host =
        sandboxes_create_host(s->sandboxes, s->config->server.max_sandbox_timeout_seconds);
    struct api_fail f = {0};
    struct api_create spec = {0};
    struct creation *c;
    AUTO_ARENA(arena, PARSE_ARENA_MAX);

    if (api_create_parse(&arena, content_type(req), req->body, &host, &spec, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    c = mem_new(struct creation);
    pending_init(&c->pending, req, creation_free);
    c->begin_ns = time_mono_ns();
    if (spec.pool_ref.n) {
        pools_claim(s->pools, guard_principal(req), &spec, on_created, c);
        return;
    }
    loop_timer_set(s->loop, &c->timer, deadline_in_ms(CREATE_WAIT_MS), on_wait_over);
    if (sandboxes_create(s->sandboxes, guard_principal(req), &spec, on_created, c, &c->sb, &f) <
        0) {
        loop_timer_stop(s->loop, &c->timer);
        reply_fail(req, &f);
        pending_end(&c->pending);
    }
}

/* --- list and get --- */

static bool metadata_has(const struct json *object, const struct json_pair *pair)
{
    const struct json *v = json_get(object, pair->key);

    return v && v->type == JSON_STRING && str_eq(v->string, pair->value);
}

static bool matches(struct arena *a, const struct sandbox *sb, const struct api_list_query *q)
{
    struct json *object;

    if ((q->states || q->unknown_state) && !(q->states & STATE_BIT(sb->state)))
        return false;
    if (q->metadata_count == 0)
        return true;
    arena_reset(a);
    if (sb->metadata[0] == '\0' || json_parse(a, str_of(sb->metadata), NULL, &object, NULL) < 0)
        return false;
    for (size_t i = 0; i < q->metadata_count; i++)
        if (!metadata_has(object, &q->metadata[i]))
            return false;
    return true;
}

void handle_sandboxes_get(struct http_req *req)
{
    struct server *s = server_of(req);
    struct api_list_query q = {0};
    struct api_fail f = {0};
    struct api_page page;
    uint64_t total = 0, first, behind;
    bool all;
    AUTO_ARENA(scratch, SANDBOX_JSON_MAX);
    AUTO_BUF(body, LIST_JSON_MAX);

    if (api_list_query_parse(&req->arena, req->head.query, &q, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    first = (uint64_t)(q.page - 1) * q.page_size;
    behind = first + q.page_size;
    all = !q.states && !q.unknown_state && q.metadata_count == 0;
    api_page_begin(&page, &body, q.page, q.page_size);
    for (struct sandbox *sb = sandboxes_newest(s->sandboxes); sb && !(all && total == behind);
         sb = sandboxes_older(s->sandboxes, sb)) {
        struct api_sandbox view;

        if (!matches(&scratch, sb, &q))
            continue;
        if (total >= first && total < behind) {
            sandbox_view(sb, &view);
            api_page_add(&page, &view);
        }
        total++;
    }
    if (all)
        total = sandboxes_total(s->sandboxes); /* without a walk to the oldest */
    reply_json(req, 200, &body, api_page_end(&page, total));
}

void handle_sandbox_get(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb)
        reply_sandbox(req, sb);
}

/* --- other routes: run an operation, answer when it is done --- */

struct change {
    struct pending pending;
    int status; /* of a success without body; 0: the body is the sandbox */
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
    } else if (req && c->status)
        http_reply(req, c->status, STR_NONE, STR_NONE);
    else if (req && sb)
        reply_sandbox(req, sb);
    else if (req)
        http_reply_error(req, 404, "DOCKER::SANDBOX_NOT_FOUND", "the sandbox is gone");
    pending_end(&c->pending);
}

static struct change *change_new(struct http_req *req, int status)
{
    struct change *c = mem_new(struct change);

    pending_init(&c->pending, req, NULL);
    c->status = status;
    return c;
}

void handle_sandbox_delete(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb)
        sandbox_delete(sb, guard_principal(req), on_changed, change_new(req, 204));
}

void handle_sandbox_pause(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb)
        sandbox_pause(sb, guard_principal(req), on_changed, change_new(req, 202));
}

void handle_sandbox_resume(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb)
        sandbox_resume(sb, guard_principal(req), on_changed, change_new(req, 202));
}

void handle_sandbox_stop(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb)
        sandbox_stop(sb, guard_principal(req), on_changed, change_new(req, 202));
}

void handle_sandbox_start(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);

    if (sb)
        sandbox_start(sb, guard_principal(req), on_changed, change_new(req, 202));
}

void handle_sandbox_rollback(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);
    struct api_fail f = {0};
    struct str snapshot;

    if (!sb)
        return;
    if (api_rollback_parse(&req->arena, content_type(req), req->body, &snapshot, &f) < 0)
        reply_fail(req, &f);
    else
        sandbox_rollback(sb, guard_principal(req), snapshot, on_changed, change_new(req, 202));
}

void handle_sandbox_patch(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);
    struct api_patch patch = {0};
    struct api_fail f = {0};
    AUTO_ARENA(arena, PARSE_ARENA_MAX);

    if (!sb)
        return;
    if (api_patch_parse(&arena, content_type(req), req->body, &patch, &f) < 0)
        reply_fail(req, &f);
    else
        sandbox_patch(sb, guard_principal(req), &patch, on_changed, change_new(req, 0));
}

void handle_sandbox_renew(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);
    struct api_fail f = {0};
    int64_t expires_us;
    struct change *c;

    if (!sb)
        return;
    if (api_renew_parse(&req->arena, content_type(req), req->body, &expires_us, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    c = change_new(req, 0);
    c->expires_us = expires_us;
    sandbox_renew(sb, guard_principal(req), expires_us, on_changed, c);
}
