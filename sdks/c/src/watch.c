/* watch.c - streams without an end of their own: figures, and changes of files. */
#include <errno.h>

#include "api/execd.h"
#include "sdk.h"

/* Opens a GET of the daemon as a stream. */
static int open_stream(struct osb_sandbox *sb, struct target *t, struct exchange *x)
{
    struct exchange_spec spec = {.method = HTTP_GET,
                                 .target = buf_str(&t->text),
                                 .streams = true,
                                 .idle_ms = sb->client->idle_ms};
    int r = t->error < 0 ? fail(sb->client, -t->error, "the path is too long")
                         : sandbox_site(sb, OSB_PORT_EXECD, &spec.site);

    if (r == 0)
        r = exchange_start(x, sb->client, &spec);
    if (r == 0)
        r = exchange_head(x);
    target_done(t);
    return r;
}

/* --- figures --- */

static int read_metrics(struct osb_client *c, struct arena *a, const struct json *v,
                        struct osb_metrics *ret)
{
    struct api_metrics m;
    struct err e;

    if (api_metrics_read(a, v, &m, &e) < 0)
        return fail(c, EBADMSG, "the sandbox: figures that do not fit: %s", e.msg);
    *ret = (struct osb_metrics){m.cpu_count, m.cpu_used_pct, m.mem_total_mib, m.mem_used_mib,
                                m.timestamp_ms};
    return 0;
}

int osb_metrics_get(struct osb_sandbox *sandbox, struct osb_metrics *ret_metrics)
{
    struct osb_request req = {OSB_REQUEST, .path = "/metrics", .sandbox = sandbox};
    struct osb_answer *a = NULL;
    int r = osb_request(sandbox->client, &req, &a);

    if (r < 0)
        return r;
    r = a->json ? read_metrics(sandbox->client, &a->arena, a->json, ret_metrics)
                : fail(sandbox->client, EBADMSG, "the sandbox: figures without JSON");
    osb_answer_free(a);
    return r;
}

int osb_metrics_watch(struct osb_sandbox *sandbox, osb_metrics_fn *on_metrics, void *user)
{
    struct osb_metrics metrics;
    struct exchange x = {0};
    struct events ev;
    struct target t;
    struct json *doc;
    struct str line;
    bool over = false;
    int r;

    target_init(&t, "/metrics/watch");
    r = open_stream(sandbox, &t, &x);
    if (r == 0) {
        events_init(&ev, &x);
        while (!over && (r = events_next(&ev, &doc, &line)) == 1) {
            r = read_metrics(sandbox->client, &ev.arena, doc, &metrics);
            if (r < 0)
                break;
            over = on_metrics(user, &metrics) != 0;
        }
        if (r == 0 && !over)
            r = fail(sandbox->client, EPROTO, "the stream of figures ended");
        events_done(&ev);
    }
    exchange_close(&x);
    return r < 0 ? r : 0;
}

/* --- changes --- */

static const struct {
    enum api_event_type type;
    enum osb_change change;
} changes[] = {
    {API_EVENT_INIT,     OSB_CHANGE_READY   },
    {API_EVENT_CREATE,   OSB_CHANGE_CREATE  },
    {API_EVENT_MODIFY,   OSB_CHANGE_MODIFY  },
    {API_EVENT_DELETE,   OSB_CHANGE_DELETE  },
    {API_EVENT_MOVE,     OSB_CHANGE_MOVE    },
    {API_EVENT_OVERFLOW, OSB_CHANGE_OVERFLOW},
};

/* 1 when the caller has enough. */
static int tell_change(struct events *ev, const struct json *doc, osb_change_fn *on_change,
                       void *user)
{
    struct api_event e;
    struct err err;

    if (api_event_read(&ev->arena, doc, &e, &err) < 0)
        return fail(ev->client, EBADMSG, "%s: an event that does not fit: %s",
                    ev->x->site->authority, err.msg);
    if (e.type == API_EVENT_ERROR)
        return fail(ev->client, ENOENT, "the watch ended: %.*s", STR_ARG(e.error_value));
    for (size_t i = 0; i < ARRAY_LEN(changes); i++)
        if (changes[i].type == e.type) {
            struct str path = e.type == API_EVENT_INIT ? e.text : e.path;

            return on_change(user, changes[i].change, path.n ? path.p : "",
                             e.from.n ? e.from.p : NULL, e.directory) != 0;
        }
    return 0;
}

int osb_files_watch(struct osb_sandbox *sandbox, const char *path, bool recursive,
                    osb_change_fn *on_change, void *user)
{
    struct exchange x = {0};
    struct events ev;
    struct target t;
    struct json *doc;
    struct str line;
    bool over = false;
    int r;

    target_init(&t, "/directories/watch");
    target_query(&t, "path", path);
    if (recursive)
        target_query(&t, "recursive", "true");
    r = open_stream(sandbox, &t, &x);
    if (r == 0) {
        events_init(&ev, &x);
        while (!over && (r = events_next(&ev, &doc, &line)) == 1) {
            r = tell_change(&ev, doc, on_change, user);
            if (r < 0)
                break;
            over = r == 1;
        }
        if (r == 0 && !over)
            r = fail(sandbox->client, EPROTO, "the watch ended without saying why");
        events_done(&ev);
    }
    exchange_close(&x);
    return r < 0 ? r : 0;
}
