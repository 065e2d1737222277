/* docker_images.c - images: their names, and pulls with their progress. */
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "server/config/config.h"
#include "server/runtime/docker/docker_internal.h"
#include "server/runtime/docker/pull_report.h"

enum { AUTH_MAX = 16 << 10, SAY_MS = 200 };

int docker_image_name(const struct api_create *spec, struct buf *out)
{
    return spec->snapshot_id.n ? buf_addf(out, DOCKER_SNAPSHOTS ":%.*s", STR_ARG(spec->snapshot_id))
                               : buf_add(out, spec->image);
}

/* Splits off a tag or a digest: of "host:5000/name" there is none. */
static void split_name(struct str image, struct str *ret_name, struct str *ret_tag)
{
    size_t at = str_find(image, '@'), slash = 0, colon = image.n;

    for (size_t i = 0; i < image.n && at == image.n; i++) {
        if (image.p[i] == '/')
            slash = i;
        if (image.p[i] == ':')
            colon = i;
    }
    if (at == image.n && colon < image.n && colon > slash)
        at = colon;
    *ret_name = str_make(image.p, at);
    *ret_tag = at < image.n ? str_skip(image, at + 1) : STR("latest");
}

/* X-Registry-Auth: URL-safe base64 of JSON. */
static int add_auth(const struct api_create *spec, struct buf *out)
{
    AUTO_BUF(json, AUTH_MAX / 2);
    struct json_writer w;
    int r;

    if (!spec->auth_user.n && !spec->auth_password.n)
        return 0;
    buf_keep_secret(&json);
    json_write_begin(&w, &json);
    json_write_object(&w);
    json_member_string(&w, STR("username"), spec->auth_user);
    json_member_string(&w, STR("password"), spec->auth_password);
    json_write_object_end(&w);
    r = json_write_end(&w);
    if (r == 0)
        r = buf_reserve(out, BASE64_TEXT_MAX(json.n));
    if (r == 0)
        buf_claim(out, base64_encode(buf_str(&json), BASE64_URL, out->p + out->n));
    return r;
}

struct pulling {
    struct runtime_task *task;
    struct str image;
    struct pull_report report;
    uint64_t say_again; /* a deadline */
};

static int on_piece(void *user, struct str piece, struct err *e UNUSED)
{
    struct pulling *p = user;
    char message[RUNTIME_MESSAGE_MAX];

    pull_report_feed(&p->report, piece);
    if (!deadline_passed(p->say_again))
        return 0;
    p->say_again = deadline_in_ms(SAY_MS);
    pull_report_message(&p->report, p->image, message, sizeof(message));
    runtime_task_say(p->task, "%s", message);
    return 0;
}

static int add_target(const struct docker *d, struct str image, struct buf *out)
{
    struct str name, tag;
    int r;

    split_name(image, &name, &tag);
    r = buf_add(out, STR("/images/create?fromImage="));
    if (r == 0)
        r = url_encode(name, URL_SET_QUERY_VALUE, out);
    if (r == 0)
        r = buf_add(out, STR("&tag="));
    if (r == 0)
        r = url_encode(tag, URL_SET_QUERY_VALUE, out);
    if (r == 0 && engine_api_minor(d->engine) >= 32)
        r = buf_addf(out, "&platform=linux%%2F%s", d->arch);
    return r;
}

int docker_pull(struct docker *d, struct runtime_create *c, struct str image,
                atomic_bool *cancelled, struct err *e)
{
    struct pulling p = {.task = &c->task, .image = image};
    bool is_requested = image.p == c->spec->image.p;
    auto_answer answer = ENGINE_ANSWER_NONE;
    AUTO_BUF(target, ENGINE_TARGET_MAX);
    AUTO_BUF(auth, AUTH_MAX);
    int r;

    buf_keep_secret(&auth);
    if (add_target(d, image, &target) < 0 || (is_requested && add_auth(c->spec, &auth) < 0))
        return err_set(e, EINVAL, "image.uri or image.auth is too long");
    runtime_task_say(&c->task, "pulling image %.*s", STR_ARG(image));
    pull_report_init(&p.report);
    r = engine_call(d->engine,
                    &(struct engine_request){
                        .method = HTTP_POST,
                        .target = target.p,
                        .auth = buf_str(&auth),
                        .timeout_ms = (uint32_t)d->config->oci.pull_seconds * 1000,
                        .cancelled = cancelled,
                        .on_piece = on_piece,
                        .user = &p,
                    },
                    &answer, e);
    if (r == 0 && p.report.error[0])
        r = err_set(e, EIO, "%s", p.report.error);
    pull_report_done(&p.report);
    return r < 0 ? err_wrap(e, r, "cannot pull image %s", api_show(image).text) : 0;
}
