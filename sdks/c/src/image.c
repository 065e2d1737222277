/* image.c - the images that a server keeps. */
#include <errno.h>

#include "api/image.h"
#include "sdk.h"

enum { IMPORT_MS = 60 * 60 * 1000 };

struct osb_image {
    struct view v;
};

size_t osb_image_count(const struct osb_answer *answer)
{
    return answer->view_count;
}

const struct osb_image *osb_image_at(const struct osb_answer *answer, size_t index)
{
    return (const struct osb_image *)view_at(answer, index);
}

const char *osb_image_id(const struct osb_image *image)
{
    return view_text(&image->v, "id");
}

size_t osb_image_name_count(const struct osb_image *image)
{
    return json_count(json_get(image->v.json, STR("names")));
}

const char *osb_image_name(const struct osb_image *image, size_t index)
{
    return view_element(&image->v, "names", index);
}

int64_t osb_image_size(const struct osb_image *image)
{
    return view_int(&image->v, "size", 0);
}

int64_t osb_image_layers(const struct osb_image *image)
{
    return view_int(&image->v, "layers", 0);
}

bool osb_image_in_use(const struct osb_image *image)
{
    bool value;

    return json_to_bool(json_get(image->v.json, STR("inUse")), &value) == 0 && value;
}

const char *osb_image_json(const struct osb_image *image)
{
    return view_json(&image->v);
}

/* --- by name --- */

static void target_image(struct target *t, const char *name, const char *rest)
{
    target_init(t, "/images/");
    target_segment(t, name);
    target_add(t, rest);
}

int osb_image_list(struct osb_client *client, const struct osb_filter *filter,
                   struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_filter, f, filter);
    struct target t;
    struct simple s = {&client->server, HTTP_GET, &t, NULL, 0};

    target_init(&t, "/images");
    target_page(&t, &f);
    return view_call(client, &s, ret_answer);
}

int osb_image_get(struct osb_client *client, const char *name, struct osb_answer **ret_answer)
{
    struct target t;
    struct simple s = {&client->server, HTTP_GET, &t, NULL, 0};

    target_image(&t, name, "");
    return view_call(client, &s, ret_answer);
}

int osb_image_delete(struct osb_client *client, const char *name)
{
    struct target t;
    struct simple s = {&client->server, HTTP_DELETE, &t, NULL, 0};

    target_image(&t, name, "");
    return simple_call(client, &s, NULL);
}

int osb_image_prune(struct osb_client *client, int64_t bytes_max, struct osb_answer **ret_answer)
{
    AUTO_BUF(body, 256);
    struct target t;
    struct simple s = {&client->server, HTTP_POST, &t, &body, 0};

    s.body_error = api_image_prune_write(&body, bytes_max < 0 ? UINT64_MAX : (uint64_t)bytes_max);
    target_init(&t, "/images/prune");
    return simple_call(client, &s, ret_answer);
}

/* --- archives --- */

int osb_image_import(struct osb_client *client, const char *name, osb_source_fn *source, void *user,
                     int64_t bytes, struct osb_answer **ret_answer)
{
    struct osb_pair query = {"name", name};
    struct osb_request req = {
        OSB_REQUEST,      .method = "POST",      .path = "/images/import",
        .query = &query,  .query_count = 1,      .content_type = "application/x-tar",
        .source = source, .source_bytes = bytes, .user = user};
    struct osb_task *task = client->current;
    int64_t timeout_ms = task->timeout_ms;
    struct osb_answer *a = NULL;
    int r;

    if (timeout_ms == 0) /* the server unpacks before it answers */
        task->timeout_ms = IMPORT_MS;
    r = osb_request(client, &req, &a);
    task->timeout_ms = timeout_ms;
    return with_views(client, r, a, ret_answer);
}

int osb_image_export(struct osb_client *client, const char *name, osb_sink_fn *sink, void *user)
{
    struct osb_request req = {OSB_REQUEST, .sink = sink, .user = user};
    struct target t;
    int r;

    target_image(&t, name, "/export");
    req.path = t.text.p;
    r = t.error < 0 ? fail_target(client, t.error) : osb_request(client, &req, NULL);
    target_done(&t);
    return r;
}

/* --- pull --- */

/* The stream failed after its head: its last event carries what a refusal would have. */
static int fail_event(struct osb_client *c, const struct api_pull_event *event, struct str text,
                      const struct exchange *x)
{
    int status = str_ends(event->code, STR("NOT_FOUND")) ? 404 : 500;

    return fail_http(c, status, text, exchange_header(x, STR("X-Request-ID")), STR_NONE);
}

/* Until its last event: 0 and the image. */
static int read_pull(struct exchange *x, const struct osb_pull *o, struct osb_answer **ret)
{
    struct osb_client *c = x->client;
    struct api_pull_event event;
    struct events ev;
    struct json *doc;
    struct str text;
    struct err e;
    int r;

    events_init(&ev, x);
    while ((r = events_next(&ev, &doc, &text)) == 1) {
        r = api_pull_event_read(&ev.arena, doc, &event, &e);
        if (r < 0)
            r = fail(c, EBADMSG, "%s: an event that does not fit: %s", c->server.authority, e.msg);
        else if (event.type == API_PULL_ERROR)
            r = fail_event(c, &event, text, x);
        else if (event.type == API_PULL_DONE)
            r = answer_of_json(x, event.image, ret);
        else if (event.type != API_PULL_PROGRESS || !o->on_progress ||
                 o->on_progress(o->progress_user, event.message.n ? event.message.p : "",
                                (int64_t)event.bytes_done, (int64_t)event.bytes_total) == 0)
            continue;
        else
            r = fail(c, ECANCELED, "the receiver of the progress ended the call");
        break;
    }
    if (r == 0 && !*ret)
        r = fail(c, EPROTO, "%s: the pull ended without saying how", c->server.authority);
    events_done(&ev);
    return r < 0 ? r : 0;
}

int osb_image_pull(struct osb_client *client, const struct osb_pull *pull,
                   struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_pull, o, pull);
    static const struct http_header accept[] = {
        {STR("Accept"), STR("text/event-stream")}
    };
    struct api_image_pull in = {.image = str_or_empty(o.image),
                                .auth_user = str_or_empty(o.user),
                                .auth_password = str_or_empty(o.password),
                                .platform = str_or_empty(o.platform)};
    struct exchange_spec spec = {.site = &client->server,
                                 .method = HTTP_POST,
                                 .target = STR("/images/pull"),
                                 .headers = accept,
                                 .header_count = ARRAY_LEN(accept),
                                 .content_type = STR("application/json"),
                                 .streams = true,
                                 .idle_ms = client->idle_ms};
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct osb_answer *a = NULL;
    struct exchange x = {0};
    int r = pull_policy_of(client, o.policy, &in.policy);

    if (r == 0 && api_image_pull_write(&body, &in) < 0)
        r = fail(client, EMSGSIZE, "the request is too large");
    if (r < 0)
        return r;
    spec.body = buf_str(&body);
    r = exchange_start(&x, client, &spec);
    if (r == 0)
        r = exchange_head(&x);
    if (r == 0)
        r = read_pull(&x, &o, &a);
    exchange_close(&x);
    return with_views(client, r, a, ret_answer);
}
