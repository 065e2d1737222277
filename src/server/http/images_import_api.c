/* images_import_api.c - POST /images/import: the body goes into a file of the store, by way of
 * workers, and then into the store itself. */
#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "image/archive.h"
#include "image/problem.h"
#include "server/http/images_internal.h"

enum { PIECE_BYTES = 1 << 20, IMPORTS_MAX = 8 };
#define IMPORT_BYTES_MAX (UINT64_C(256) << 30)

/* Two buffers: one fills while the other is written. Freed when the request and the job are over.
 */
struct importing {
    struct http_req *req; /* NULL once it is over */
    struct server *server;
    struct images *images;
    struct pool_job job;
    bool working, complete; /* the body is complete */
    bool imports;           /* the job is the import itself */
    volatile bool cancelled;
    struct buf filling, writing;
    uint64_t bytes;
    int file;
    char *name; /* "" = as the archive says */
    struct buf image;
    struct err err;
};

static size_t imports; /* under way; loop thread */

static void importing_release(struct importing *p)
{
    if (p->req || p->working)
        return;
    imports--;
    buf_done(&p->filling);
    buf_done(&p->writing);
    buf_done(&p->image);
    fd_close(p->file);
    free(p->name);
    free(p);
}

static void import_fail(struct importing *p)
{
    static const int bad[] = {EBADMSG, EINVAL, EFBIG, ENOTSUP, ENOEXEC, EPROTO, ENOENT};
    struct api_fail f = {0};

    image_fail(&p->err, &f);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (p->err.code == bad[i])
            (void)api_fail_set(&f, 400, "IMAGE::BAD_ARCHIVE", "%s", p->err.msg);
    if (f.status == 500)
        f.code = "IMAGE::STORE_FAILED";
    reply_fail(p->req, &f);
}

/* --- workers --- */

static void write_work(struct pool_job *job)
{
    struct importing *p = container_of(job, struct importing, job);
    int r = p->file;

    if (r < 0)
        r = p->file = image_store_temp_open(images_store(p->images), &p->err);
    if (r >= 0) {
        r = io_write_full(p->file, buf_str(&p->writing), DEADLINE_NEVER);
        if (r < 0)
            (void)err_sys(&p->err, -r, "write the archive");
    }
    buf_clear(&p->writing);
}

static void import_work(struct pool_job *job)
{
    struct importing *p = container_of(job, struct importing, job);
    auto_free struct image_imported *done = mem_new(struct image_imported);
    struct image_import in = {
        .fd = take_fd(&p->file),
        .name = p->name[0] ? p->name : NULL,
        .cancel = &p->cancelled,
    };

    images_platform(p->images, &in.platform);
    if (image_import(images_store(p->images), &in, done, &p->err) == 0)
        (void)image_write_named(p->images, str_of(done->names[0]), &p->image, &p->err);
}

static void import_go_on(struct importing *p);

static void import_done(struct pool_job *job, int error)
{
    struct importing *p = container_of(job, struct importing, job);

    p->working = false;
    if (error)
        (void)err_set(&p->err, ECANCELED, "the server is stopping");
    if (p->imports && !p->err.code)
        images_grown(p->images);
    if (!p->req) {
        importing_release(p);
    } else if (p->err.code) {
        import_fail(p);
    } else if (p->req->status) {
        return; /* answered already */
    } else if (p->imports) {
        http_reply(p->req, 201, STR("application/json"), buf_str(&p->image));
    } else {
        import_go_on(p);
        if (!p->complete)
            http_req_resume(p->req); /* the last step: more of the body may come at once */
    }
}

/* --- the body --- */

static void import_submit(struct importing *p, void (*work)(struct pool_job *job))
{
    p->working =
        pool_submit(p->server->pool, &p->job, p->server->loop, work, import_done, POOL_SLOW) == 0;
    if (p->working)
        return;
    (void)err_set(&p->err, EBUSY, "the server is too busy, try again");
    import_fail(p);
}

/* No job is under way: writes what has come, or imports what is complete. */
static void import_go_on(struct importing *p)
{
    struct buf swap = p->writing;

    if (p->filling.n == 0 && !p->complete)
        return;
    if (p->filling.n == 0 && p->file < 0) {
        (void)err_set(&p->err, EBADMSG, "the body is empty; expected an archive");
        import_fail(p);
        return;
    }
    if (p->filling.n == 0) {
        p->imports = true;
        import_submit(p, import_work);
        return;
    }
    p->writing = p->filling;
    p->filling = swap;
    import_submit(p, write_work);
}

static ssize_t on_body(struct http_req *req, struct str piece)
{
    struct importing *p = req->user;
    size_t n = min_size(piece.n, PIECE_BYTES - p->filling.n);

    if (p->err.code || req->status)
        return (ssize_t)piece.n; /* answered already */
    if (buf_add(&p->filling, str_make(piece.p, n)) < 0)
        return -ENOMEM;
    p->bytes += n;
    if (p->bytes > IMPORT_BYTES_MAX) {
        http_reply_error(req, 413, "CONTENT_TOO_LARGE", "the archive is larger than %llu GiB",
                         (unsigned long long)(IMPORT_BYTES_MAX >> 30));
        return (ssize_t)piece.n;
    }
    if (!p->working)
        import_go_on(p);
    return (ssize_t)n;
}

static void on_body_end(struct http_req *req)
{
    struct importing *p = req->user;

    p->complete = true;
    if (!p->working && !p->err.code && !req->status)
        import_go_on(p);
}

static void on_close(struct http_req *req, int error UNUSED)
{
    struct importing *p = req->user;

    p->req = NULL;
    p->cancelled = true;
    importing_release(p);
}

void handle_images_import(struct http_req *req)
{
    static const struct http_req_ops ops = {
        .on_body = on_body, .on_body_end = on_body_end, .on_close = on_close};
    struct images *im = require_images(req);
    struct image_reference reference;
    struct str name = STR_NONE;
    struct err e = {0};
    struct importing *p;

    if (!im)
        return;
    if (url_query_get(req->head.query, STR("name"), &req->arena, &name) < 0 ||
        (name.n && image_reference_parse(name, &reference, &e) < 0)) {
        http_reply_error(req, 400, API_INVALID_PARAMETER, "name: %s",
                         e.code ? e.msg : "it is not well encoded");
        return;
    }
    if (req->framing.body != H1_BODY_CHUNKED && req->framing.body_bytes == 0) {
        http_reply_error(req, 400, "IMAGE::BAD_ARCHIVE",
                         "the body is empty; expected an archive of an image");
        return;
    }
    if (imports == IMPORTS_MAX) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "%d imports are under way, try again",
                         IMPORTS_MAX);
        return;
    }
    imports++;
    p = mem_new(struct importing);
    *p = (struct importing){.req = req, .server = server_of(req), .images = im, .file = -EBADF};
    buf_init(&p->filling, PIECE_BYTES);
    buf_init(&p->writing, PIECE_BYTES);
    buf_init(&p->image, IMAGE_JSON_MAX);
    p->name = mem_zalloc(name.n + 1);
    if (name.n)
        memcpy(p->name, name.p, name.n);
    req->ops = &ops;
    req->user = p;
}
