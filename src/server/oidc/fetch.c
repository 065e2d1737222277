#include "server/oidc/fetch.h"

#include <errno.h>

static void end(struct fetch *f, int error, const struct err *e)
{
    loop_timer_stop(f->loop, &f->deadline);
    f->call = NULL;
    f->done(f, error, e);
}

static ssize_t on_body(struct image_web_call *c, struct str piece)
{
    struct fetch *f = image_web_user(c);

    return buf_add(&f->body, piece) < 0 ? -EMSGSIZE : (ssize_t)piece.n;
}

static void on_head(struct image_web_call *c)
{
    ((struct fetch *)image_web_user(c))->status = image_web_head(c)->status;
}

static void on_end(struct image_web_call *c, int error, const struct err *e)
{
    struct fetch *f = image_web_user(c);
    struct err why = {0};

    if (error)
        end(f, error, e);
    else if (f->status == 200)
        end(f, 0, NULL);
    else
        end(f, EPROTO,
            (err_set(&why, EPROTO, "%s answered %d", image_web_host(c), f->status), &why));
}

static void on_late(struct loop_timer *timer)
{
    struct fetch *f = container_of(timer, struct fetch, deadline);
    struct err why = {0};

    image_web_cancel(f->call);
    (void)err_set(&why, ETIMEDOUT, "the provider did not answer within %d s", FETCH_MS / 1000);
    end(f, ETIMEDOUT, &why);
}

void fetch_start(struct fetch *f, const struct fetch_spec *spec, fetch_done_fn *done, void *user)
{
    static const struct image_web_ops ops = {on_head, on_body, on_end};
    struct image_web_spec request = {
        .url = spec->url,
        .tls = spec->tls,
        .method = spec->form.p ? HTTP_POST : HTTP_GET,
        .headers = spec->headers,
        .header_count = spec->header_count,
        .body = spec->form.p ? spec->form : STR(""),
        .ops = &ops,
        .user = f,
    };
    struct err e = {0};
    int r;

    if (!f->body.max)
        buf_init(&f->body, FETCH_BYTES_MAX);
    buf_keep_secret(&f->body);
    buf_clear(&f->body);
    f->loop = spec->loop;
    f->done = done;
    f->user = user;
    f->status = 0;
    r = image_web_start(spec->web, &request, &f->call, &e);
    if (r < 0)
        end(f, -r, &e);
    else
        loop_timer_after(f->loop, &f->deadline, FETCH_MS, on_late);
}

void fetch_cancel(struct fetch *f)
{
    if (!f->call)
        return;
    loop_timer_stop(f->loop, &f->deadline);
    image_web_cancel(f->call);
    f->call = NULL;
}

void fetch_done(struct fetch *f)
{
    fetch_cancel(f);
    if (f->body.max)
        buf_done(&f->body);
}
