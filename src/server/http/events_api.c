/* events_api.c - GET /events: a stream of what happens to sandboxes. */
#include <errno.h>

#include "base/mem.h"
#include "base/url.h"
#include "net/sse.h"
#include "server/core/events.h"
#include "server/http/server_internal.h"

enum { PING_MS = 15 * 1000, WATCHERS_MAX = 1000, EVENT_BYTES_MAX = EVENT_JSON_MAX + 256 };

struct watch {
    struct sse sse;
    struct event_watcher watcher;
    struct server *server;
    struct principal by;
    char sandbox[ID_UUID_MAX]; /* "" = all */
    bool own; /* another server watches: what was told to this one is not told back */
};

static bool is_wanted(const struct watch *w, const struct event *event)
{
    if (event->foreign && (w->own || strcmp(event->type, EVENT_RESET) == 0))
        return !w->own;
    return principal_sees_sandbox(&w->by, event->tenant, event->sandbox) &&
           (!w->sandbox[0] || strcmp(w->sandbox, event->sandbox) == 0);
}

/* A client that lags is cut off: it comes back with the id of the last event it has. */
static void send_event(struct watch *w, const struct event *event)
{
    struct sse_event out = {str_of(event->type), str_of(event->id), str_of(event->json)};
    AUTO_BUF(text, EVENT_BYTES_MAX);

    if (!is_wanted(w, event) || sse_format(&text, &out) < 0)
        return;
    if (sse_is_full(&w->sse))
        sse_end(&w->sse, EIO);
    else
        (void)sse_push_bytes(&w->sse, buf_str(&text));
}

static void on_event(struct event_watcher *watcher, const struct event *event,
                     const struct sandbox *sb UNUSED)
{
    send_event(container_of(watcher, struct watch, watcher), event);
}

static void on_stop(struct event_watcher *watcher)
{
    sse_end(&container_of(watcher, struct watch, watcher)->sse, 0);
}

static bool on_kept(void *user, const struct event *event)
{
    struct watch *w = user;
    struct sse_event out = {str_of(event->type), str_of(event->id), str_of(event->json)};
    AUTO_BUF(text, EVENT_BYTES_MAX);

    if (is_wanted(w, event) && sse_format(&text, &out) == 0)
        (void)sse_push_bytes(&w->sse, buf_str(&text)); /* bounded by what is kept */
    return true;
}

static void on_close(struct sse *sse, int error UNUSED)
{
    struct watch *w = container_of(sse, struct watch, sse);

    event_watcher_stop(&w->watcher);
    w->server->watchers--;
    free(w);
}

void handle_events_get(struct http_req *req)
{
    static const struct sse_ops ops = {.on_close = on_close};
    struct server *s = server_of(req);
    struct str last = http_req_header(req, STR("Last-Event-ID")), sandbox = STR_NONE;
    char id[EVENT_ID_MAX];
    struct watch *w;

    if (url_query_get(req->head.query, STR("sandboxId"), &req->arena, &sandbox) < 0 ||
        sandbox.n >= sizeof(w->sandbox)) {
        http_reply_error(req, 400, API_INVALID_PARAMETER, "sandboxId: expected an id");
        return;
    }
    if (s->watchers >= WATCHERS_MAX && !req->forwarded) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "%d clients watch events, try again",
                         WATCHERS_MAX);
        return;
    }
    if (s->stopping) { /* events_stop() was before */
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "the server stops, try again");
        return;
    }
    w = mem_new(struct watch);
    w->server = s;
    w->by = *guard_principal(req);
    w->own = req->forwarded;
    w->watcher = (struct event_watcher){.on_event = on_event, .on_stop = on_stop};
    (void)!str_copy(w->sandbox, sizeof(w->sandbox), sandbox);
    s->watchers++;
    http_req_be_patient(req);
    sse_begin(&w->sse, req, &ops);
    events_watch(s->events, &w->watcher);
    if (!events_after(s->events, last, on_kept, w))
        (void)sse_send(&w->sse, &(struct sse_event){.name = STR(EVENT_RESET), .data = STR("{}")});
    events_last_id(s->events, id);
    (void)sse_send_comment(&w->sse, str_of(id)); /* so that the answer begins at once */
    sse_set_ping(&w->sse, PING_MS);
}
