/* images_pull_api.c - POST /images/pull: waits for a pull, and tells its progress as events to
 * those who ask for them. */
#include <errno.h>

#include "base/mem.h"
#include "net/sse.h"
#include "server/http/images_internal.h"

enum { PING_MS = 15 * 1000, EVENT_BYTES_MAX = 64 << 10, PULL_ARENA_MAX = 1 << 20 };

/* Freed when the request, the pull and the job are over. */
struct pulling {
    struct http_req *req; /* NULL once it is over */
    struct sse sse;
    bool streams; /* events; else one answer */
    struct server *server;
    struct images *images;
    struct image_pull *pull;
    struct pool_job job;
    bool working;
    char name[IMAGE_REFERENCE_TEXT_MAX];
    struct buf image;
    struct err err;
};

static void pulling_release(struct pulling *p)
{
    if (p->req || p->pull || p->working)
        return;
    buf_done(&p->image);
    free(p);
}

/* A pull that nobody waits for any more ends, unless another waits for it, too. */
static void pulling_left(struct pulling *p)
{
    p->req = NULL;
    if (p->pull)
        image_pull_cancel(p->pull);
    p->pull = NULL;
    pulling_release(p);
}

static void on_close(struct http_req *req, int error UNUSED)
{
    pulling_left(req->user);
}

static void on_stream_close(struct sse *s, int error UNUSED)
{
    pulling_left(container_of(s, struct pulling, sse));
}

static void send_event(struct pulling *p, const struct buf *json)
{
    (void)sse_send(&p->sse, &(struct sse_event){.data = buf_str(json)});
}

/* The last event, which is sent however far the client lags. JSON has no line breaks. */
static void send_last(struct pulling *p, const struct buf *json)
{
    AUTO_BUF(event, IMAGE_JSON_MAX + 64);

    if (buf_addf(&event, "data: %.*s\n\n", STR_ARG(buf_str(json))) == 0)
        (void)sse_push_bytes(&p->sse, buf_str(&event));
    sse_end(&p->sse, 0);
}

static void on_progress(struct image_pull *pull, const char *text, uint64_t done, uint64_t total)
{
    struct pulling *p = image_pull_user(pull);
    AUTO_BUF(json, EVENT_BYTES_MAX);
    struct json_writer w;

    if (!p->streams || !p->req)
        return;
    json_write_begin(&w, &json);
    json_write_object(&w);
    json_member_string(&w, STR("type"), STR("progress"));
    json_member_string(&w, STR("message"), str_of(text));
    json_member_u64(&w, STR("bytesDone"), done);
    json_member_u64(&w, STR("bytesTotal"), total);
    json_write_object_end(&w);
    if (json_write_end(&w) == 0)
        send_event(p, &json);
}

static void tell_failure(struct pulling *p, const struct err *e)
{
    struct api_fail f = {0};
    AUTO_BUF(json, EVENT_BYTES_MAX);
    struct json_writer w;

    image_fail(e, &f);
    if (!p->streams) {
        reply_fail(p->req, &f);
        return;
    }
    json_write_begin(&w, &json);
    json_write_object(&w);
    json_member_string(&w, STR("type"), STR("error"));
    json_member_string(&w, STR("code"), str_of(f.code));
    json_member_string(&w, STR("message"), str_of(f.message));
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        buf_clear(&json);
    send_last(p, &json);
}

static void tell_image(struct pulling *p)
{
    AUTO_BUF(json, IMAGE_JSON_MAX);

    if (!p->streams) {
        http_reply(p->req, 200, STR("application/json"), buf_str(&p->image));
        return;
    }
    if (buf_addf(&json, "{\"type\":\"done\",\"image\":%.*s}", STR_ARG(buf_str(&p->image))) < 0)
        buf_clear(&json);
    send_last(p, &json);
}

static void look_work(struct pool_job *job)
{
    struct pulling *p = container_of(job, struct pulling, job);

    (void)image_write_named(p->images, str_of(p->name), &p->image, &p->err);
}

static void look_done(struct pool_job *job, int error)
{
    struct pulling *p = container_of(job, struct pulling, job);

    p->working = false;
    if (error)
        (void)err_set(&p->err, ECANCELED, "the server is stopping");
    if (p->req && p->err.code)
        tell_failure(p, &p->err);
    else if (p->req)
        tell_image(p);
    pulling_release(p);
}

static void on_done(struct image_pull *pull, int error, const struct err *e,
                    const struct image_pulled *image UNUSED)
{
    struct pulling *p = image_pull_user(pull);
    struct err busy = {0};

    p->pull = NULL;
    if (!error) {
        images_grown(p->images);
        p->working =
            pool_submit(p->server->pool, &p->job, p->server->loop, look_work, look_done, 0) == 0;
        if (p->working)
            return;
        (void)err_set(&busy, EBUSY, "the server is too busy, try again");
    }
    if (p->req)
        tell_failure(p, error ? e : &busy);
    pulling_release(p);
}

static int spec_of(struct images *im, const struct config *config, const struct api_image_pull *in,
                   struct image_pull_spec *ret, struct api_fail *f)
{
    struct err e = {0};

    *ret = (struct image_pull_spec){
        .auth = {.username = in->auth_user, .password = in->auth_password},
        .policy = in->policy ? (enum image_pull_policy)(in->policy - API_PULL_IF_NOT_PRESENT)
                             : (enum image_pull_policy)config->oci.pull_policy,
    };
    images_platform(im, &ret->platform);
    if (image_reference_parse(str_trim(in->image), &ret->reference, &e) < 0)
        return api_fail_invalid(f, "image.uri: %s", e.msg);
    if (image_auth_check(&ret->auth, &e) < 0)
        return api_fail_invalid(f, "image.auth: %s", e.msg);
    if (in->platform.n && image_platform_parse(in->platform, &ret->platform, &e) < 0)
        return api_fail_invalid(f, "platform: %s", e.msg);
    return 0;
}

static bool wants_events(const struct http_req *req)
{
    struct str accept = http_req_header(req, STR("Accept"));

    return str_find_str(accept, STR("text/event-stream")) < accept.n;
}

void handle_images_pull(struct http_req *req)
{
    static const struct image_pull_ops pull_ops = {on_progress, on_done};
    static const struct http_req_ops req_ops = {.on_close = on_close};
    static const struct sse_ops sse_ops = {.on_close = on_stream_close};
    struct images *im = require_images(req);
    struct server *s = server_of(req);
    struct api_image_pull in;
    struct image_pull_spec spec;
    struct api_fail f = {0};
    struct pulling *p;
    struct err e = {0};
    AUTO_ARENA(arena, PULL_ARENA_MAX);

    if (!im)
        return;
    if (api_image_pull_parse(&arena, http_req_header(req, STR("Content-Type")), req->body, &in,
                             &f) < 0 ||
        spec_of(im, s->config, &in, &spec, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    p = mem_new(struct pulling);
    *p = (struct pulling){.req = req, .server = s, .images = im, .streams = wants_events(req)};
    buf_init(&p->image, IMAGE_JSON_MAX);
    image_reference_format(&spec.reference, p->name);
    if (p->streams) {
        sse_begin(&p->sse, req, &sse_ops);
        sse_set_ping(&p->sse, PING_MS);
    } else {
        req->ops = &req_ops;
        req->user = p;
    }
    if (images_pull(im, &spec, &pull_ops, p, &p->pull, &e) < 0)
        tell_failure(p, &e);
}
