/* watch_api.c - versions of sandboxes, waiting for their state, deleting several. */
#include <errno.h>

#include "base/codec.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/sha.h"
#include "base/time.h"
#include "base/url.h"
#include "server/core/events.h"
#include "server/http/server_internal.h"

enum {
    SANDBOX_JSON_MAX = 1 << 20,
    TAG_BYTES = 8,
    TAG_MAX = 2 * TAG_BYTES + 3, /* with quotes */
    WAIT_S_DEFAULT = 30,
    WAIT_S_MAX = 300,
    WAITERS_MAX = 10 * 1000,
    BATCH_MAX = 1000,
    BATCH_JSON_MAX = 4 << 20,
};

/* --- versions --- */

static void tag_of(struct str body, char ret[TAG_MAX])
{
    uint8_t digest[SHA256_BYTES];
    size_t n;

    sha256_of(body, digest);
    ret[0] = '"';
    n = 1 + hex_encode(str_make((const char *)digest, TAG_BYTES), ret + 1);
    ret[n++] = '"';
    ret[n] = '\0';
}

void reply_sandbox(struct http_req *req, int status, const struct sandbox *sb)
{
    AUTO_BUF(body, SANDBOX_JSON_MAX);
    struct api_sandbox view;
    char tag[TAG_MAX];
    int r;

    sandbox_view(sb, &view);
    r = api_sandbox_write(&body, &view);
    tag_of(buf_str(&body), tag);
    (void)http_reply_header(req, STR("ETag"), str_of(tag));
    reply_json(req, status, &body, r);
}

/* A change that is under way has not changed the version yet, but will: that is no match. */
bool check_match(struct http_req *req, const struct sandbox *sb)
{
    struct str wanted = http_req_header(req, STR("If-Match")), one;
    AUTO_BUF(body, SANDBOX_JSON_MAX);
    struct api_sandbox view;
    char tag[TAG_MAX];

    if (!wanted.n || str_eq(str_trim(wanted), STR("*")))
        return true;
    sandbox_view(sb, &view);
    if (api_sandbox_write(&body, &view) == 0 && sb->op_count == 0) {
        tag_of(buf_str(&body), tag);
        while (str_cut(&wanted, ',', &one))
            if (str_eq(str_trim(one), str_of(tag)))
                return true;
    }
    http_reply_error(req, 412, "PRECONDITION_FAILED",
                     "sandbox %s is of another version than If-Match names, or is being changed",
                     sb->id);
    return false;
}

/* --- waiting --- */

struct waiter {
    struct http_req *req;
    struct server *server;
    struct event_watcher watcher;
    struct loop_timer timer;
    char id[ID_UUID_MAX];
    unsigned states;
};

static void waiter_on_close(struct http_req *req, int error UNUSED)
{
    struct waiter *w = req->user;

    event_watcher_stop(&w->watcher);
    loop_timer_stop(w->server->loop, &w->timer);
    w->server->waiters--;
    free(w);
}

static void waiter_answer(struct waiter *w, const struct sandbox *sb)
{
    event_watcher_stop(&w->watcher);
    loop_timer_stop(w->server->loop, &w->timer);
    if (sb)
        reply_sandbox(w->req, 200, sb);
    else
        http_reply_error(w->req, 404, "DOCKER::SANDBOX_NOT_FOUND", "sandbox %s is gone", w->id);
}

static void waiter_on_event(struct event_watcher *watcher, const struct event *event,
                            const struct sandbox *sb)
{
    struct waiter *w = container_of(watcher, struct waiter, watcher);

    if (!event->foreign && strcmp(event->sandbox, w->id) == 0 &&
        (!sb || w->states & STATE_BIT(sb->state)))
        waiter_answer(w, sb);
}

static void waiter_on_due(struct loop_timer *timer)
{
    struct waiter *w = container_of(timer, struct waiter, timer);

    waiter_answer(w, sandboxes_find(w->server->sandboxes, str_of(w->id)));
}

static void waiter_on_stop(struct event_watcher *watcher)
{
    waiter_on_due(&container_of(watcher, struct waiter, watcher)->timer);
}

/* "30": until it is in a state that stays. "Running,Failed": until it is in one of these. */
static int parse_wait(struct str wait, struct str timeout, unsigned *ret_states, uint64_t *ret_s,
                      struct api_fail *f)
{
    const unsigned passing = STATE_BIT(SANDBOX_PENDING) | STATE_BIT(SANDBOX_PAUSING) |
                             STATE_BIT(SANDBOX_RESUMING) | STATE_BIT(SANDBOX_STOPPING);
    enum sandbox_state state;
    struct str word;

    *ret_s = WAIT_S_DEFAULT;
    *ret_states = 0;
    if (str_to_u64(wait, ret_s) == 0)
        *ret_states = (STATE_BIT(SANDBOX_STATE_COUNT) - 1) & ~passing;
    else
        while (str_cut(&wait, ',', &word)) {
            if (sandbox_state_parse(str_trim(word), &state) < 0)
                return api_fail_invalid(f,
                                        "wait: expected seconds or states like Running, got "
                                        "'%s'",
                                        api_show(word).text);
            *ret_states |= STATE_BIT(state);
        }
    if ((timeout.n && str_to_u64(timeout, ret_s) < 0) || *ret_s > WAIT_S_MAX)
        return api_fail_invalid(f, "%s: expected 0 to %d seconds", timeout.n ? "timeout" : "wait",
                                WAIT_S_MAX);
    return 0;
}

void reply_sandbox_waiting(struct http_req *req, const struct sandbox *sb)
{
    static const struct http_req_ops ops = {.on_close = waiter_on_close};
    struct server *s = server_of(req);
    struct str wait = STR_NONE, timeout = STR_NONE;
    struct api_fail f = {0};
    struct waiter *w;
    unsigned states;
    uint64_t seconds;

    if (url_query_get(req->head.query, STR("wait"), &req->arena, &wait) <= 0 || !wait.n) {
        reply_sandbox(req, 200, sb);
        return;
    }
    (void)!url_query_get(req->head.query, STR("timeout"), &req->arena, &timeout);
    if (parse_wait(wait, timeout, &states, &seconds, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    if (states & STATE_BIT(sb->state) || seconds == 0 || s->waiters >= WAITERS_MAX || s->stopping) {
        reply_sandbox(req, 200, sb);
        return;
    }
    w = mem_new(struct waiter);
    w->req = req;
    w->server = s;
    w->states = states;
    w->watcher = (struct event_watcher){.on_event = waiter_on_event, .on_stop = waiter_on_stop};
    memcpy(w->id, sb->id, sizeof(w->id));
    s->waiters++;
    req->ops = &ops;
    req->user = w;
    http_req_be_patient(req);
    events_watch(s->events, &w->watcher);
    loop_timer_set(s->loop, &w->timer, deadline_in_ms(seconds * 1000), waiter_on_due);
}

/* --- deleting several --- */

struct batch {
    struct pending pending;
    struct buf deleted, failed; /* elements of JSON arrays */
    size_t left;
};

struct batch_item {
    struct batch *batch;
    char id[ID_UUID_MAX];
};

static void batch_free(struct pending *p)
{
    struct batch *b = container_of(p, struct batch, pending);

    buf_done(&b->deleted);
    buf_done(&b->failed);
    free(b);
}

static int batch_write(const struct batch *b, struct buf *out)
{
    int r = buf_add(out, STR("{\"deleted\":["));

    if (r == 0)
        r = buf_add(out, buf_str(&b->deleted));
    if (r == 0)
        r = buf_add(out, STR("],\"failed\":["));
    if (r == 0)
        r = buf_add(out, buf_str(&b->failed));
    return r < 0 ? r : buf_add(out, STR("]}"));
}

static void batch_end_one(struct batch *b)
{
    struct http_req *req = b->pending.req;
    AUTO_BUF(body, 2 * BATCH_JSON_MAX + 64);

    if (--b->left > 0)
        return;
    if (req)
        reply_json(req, 200, &body, batch_write(b, &body));
    pending_end(&b->pending);
}

static void add_failed(struct batch *b, const char *id, const struct api_fail *fail)
{
    struct json_writer w;

    if (b->failed.n)
        (void)buf_add_char(&b->failed, ',');
    json_write_begin(&w, &b->failed);
    json_write_object(&w);
    json_member_string(&w, STR("id"), str_of(id));
    json_member_string(&w, STR("code"), str_of(fail->code));
    json_member_string(&w, STR("message"), str_of(fail->message));
    json_write_object_end(&w);
    (void)!json_write_end(&w);
}

static void on_one_deleted(void *user, struct sandbox *sb UNUSED, const struct api_fail *fail)
{
    struct batch_item *item = user;

    if (fail && fail->status != 404)
        add_failed(item->batch, item->id, fail);
    else
        (void)buf_addf(&item->batch->deleted, "%s\"%s\"", item->batch->deleted.n ? "," : "",
                       item->id);
    batch_end_one(item->batch);
    free(item);
}

/* --- those of other servers --- */

static void on_other_deleted(void *user, const char *id, const struct api_fail *fail)
{
    struct batch *b = user;

    if (fail && fail->status != 404)
        add_failed(b, id, fail);
    else
        (void)buf_addf(&b->deleted, "%s\"%s\"", b->deleted.n ? "," : "", id);
}

/* Which there are could not be found out: they are not deleted, and the answer says so. */
static void on_others_done(void *user, const struct api_fail *fail)
{
    struct batch *b = user;

    if (fail)
        add_failed(b, "*", fail);
    batch_end_one(b);
}

static bool wants_all(struct http_req *req)
{
    struct str all = STR_NONE;

    return url_query_get(req->head.query, STR("all"), &req->arena, &all) > 0 &&
           str_eq(all, STR("true"));
}

void handle_sandboxes_delete(struct http_req *req)
{
    struct server *s = server_of(req);
    const struct principal *by = guard_principal(req);
    struct api_list_query q = {0};
    struct api_fail f = {0};
    struct sandbox **found;
    struct batch *b;
    size_t n = 0;
    AUTO_ARENA(scratch, SANDBOX_JSON_MAX);

    if (api_list_query_parse(&req->arena, req->head.query, &q, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    if (!q.states && !q.unknown_state && !q.metadata_count && !wants_all(req)) {
        http_reply_error(req, 400, API_INVALID_PARAMETER,
                         "say which: by metadata, state, or all=true");
        return;
    }
    found = mem_new_array(struct sandbox *, BATCH_MAX);
    for (struct sandbox *sb = sandboxes_newest(s->sandboxes); sb && n < BATCH_MAX;
         sb = sandboxes_older(s->sandboxes, sb))
        if (sandbox_matches(&scratch, sb, &q, by))
            found[n++] = sb;
    b = mem_new(struct batch);
    buf_init(&b->deleted, BATCH_JSON_MAX);
    buf_init(&b->failed, BATCH_JSON_MAX);
    pending_init(&b->pending, req, batch_free);
    b->left = n + 1; /* one for this function */
    for (size_t i = 0; i < n; i++) {
        struct batch_item *item = mem_new(struct batch_item);

        item->batch = b;
        memcpy(item->id, found[i]->id, sizeof(item->id));
        sandbox_delete(found[i], by, on_one_deleted, item);
    }
    free(found);
    if (s->cluster && !req->forwarded && n < BATCH_MAX) {
        b->left++;
        others_delete(req, BATCH_MAX - n,
                      &(struct others_delete){on_other_deleted, on_others_done, b});
    }
    batch_end_one(b);
}
