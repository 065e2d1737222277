/* images_api.c - routes of /images that one worker answers: list, get, delete, prune, export. */
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "image/archive.h"
#include "server/http/images_internal.h"

enum { PRUNED_MAX = 1000, PAGE_ARENA_MAX = 1 << 20, EXPORTS_MAX = 4 };

struct query {
    struct pending pending;
    struct pool_job job;
    struct images *images;
    void (*work)(struct query *q);
    char *image; /* as the path has it, decoded */
    uint32_t page, page_size;
    uint64_t bytes_max;
    struct buf out;
    int file;         /* the answer instead of `out`, if >= 0 */
    bool exports;     /* it counts in `exports` */
    atomic_bool left; /* of an export: the client is gone */
    int status;
    struct api_fail fail;
};

/* Archives that are being made or sent; loop thread. Each is a file as large as its image. */
static size_t exports;

static void query_free(struct pending *p)
{
    struct query *q = container_of(p, struct query, pending);

    exports -= q->exports;
    buf_done(&q->out);
    fd_close(q->file);
    free(q->image);
    free(q);
}

static void query_work(struct pool_job *job)
{
    struct query *q = container_of(job, struct query, job);

    q->work(q);
}

static void query_done(struct pool_job *job, int error)
{
    struct query *q = container_of(job, struct query, job);
    struct http_req *req = q->pending.req;

    if (error)
        (void)api_fail_set(&q->fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    if (req && q->fail.status)
        reply_fail(req, &q->fail);
    else if (req && q->file >= 0)
        http_reply_file(req, take_fd(&q->file), STR("application/x-tar"));
    else if (req)
        http_reply(req, q->status, q->out.n ? STR("application/json") : STR_NONE, buf_str(&q->out));
    pending_end(&q->pending);
}

static struct query *query_new(struct http_req *req, void (*work)(struct query *q), int status)
{
    struct images *im = require_images(req);
    struct str raw = http_req_param(req, "image"), image = STR_NONE;
    struct query *q;

    if (!im)
        return NULL;
    if (raw.n && url_decode_in(&req->arena, raw, 0, &image) < 0) {
        http_reply_error(req, 400, API_INVALID_PARAMETER, "image: the path is not well encoded");
        return NULL;
    }
    q = mem_new(struct query);
    *q = (struct query){.images = im, .work = work, .status = status, .file = -EBADF};
    buf_init(&q->out, IMAGE_JSON_MAX);
    q->image = mem_zalloc(image.n + 1);
    if (image.n)
        memcpy(q->image, image.p, image.n);
    pending_init(&q->pending, req, query_free);
    return q;
}

static void query_start(struct query *q)
{
    struct server *s = q->pending.server;

    if (pool_submit(s->pool, &q->job, s->loop, query_work, query_done, POOL_SLOW) == 0)
        return;
    http_reply_error(q->pending.req, 503, "SERVICE_UNAVAILABLE",
                     "the server is too busy, try again");
    pending_end(&q->pending);
}

static void query_fail(struct query *q, const struct err *e)
{
    image_fail(e, &q->fail);
}

/* --- list and get --- */

static void list_work(struct query *q)
{
    uint64_t skip = (uint64_t)(q->page - 1) * q->page_size, total = 0;
    struct image_list list = {0};
    struct api_page page;
    struct err e = {0};

    if (image_list_load(q->images, &list, &e) < 0) {
        query_fail(q, &e);
        return;
    }
    api_page_begin(&page, &q->out, q->page, q->page_size);
    for (size_t i = 0; i < list.count; i = image_list_next(&list, i), total++)
        if (total >= skip && total < skip + q->page_size)
            image_write(q->images, &list, i, &page.w);
    if (api_page_end(&page, total) < 0)
        (void)api_fail_set(&q->fail, 500, "GENERAL::UNKNOWN_ERROR", "the answer is too large");
    image_list_done(&list);
}

void handle_images_get(struct http_req *req)
{
    struct api_list_query page = {0};
    struct api_fail f = {0};
    struct query *q;

    if (api_list_query_parse(&req->arena, req->head.query, &page, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    q = query_new(req, list_work, 200);
    if (!q)
        return;
    q->page = page.page;
    q->page_size = page.page_size;
    query_start(q);
}

static void get_work(struct query *q)
{
    struct err e = {0};

    if (image_write_named(q->images, str_of(q->image), &q->out, &e) < 0)
        query_fail(q, &e);
}

void handle_image_get(struct http_req *req)
{
    struct query *q = query_new(req, get_work, 200);

    if (q)
        query_start(q);
}

/* --- delete and prune --- */

/* Removes the name, or all names when the request has an id. */
static int remove_names(struct query *q, const struct image_list *l, size_t first, const char *name,
                        struct err *e)
{
    size_t end = image_list_next(l, first);
    size_t users = images_users(q->images, &l->at[first]->config);
    int r = 0;

    if (users && (!name || end - first == 1)) {
        (void)api_fail_set(&q->fail, 409, "IMAGE::IN_USE",
                           "the image is in use by %zu sandboxes or snapshots; delete them first",
                           users);
        return 0;
    }
    for (size_t i = first; r == 0 && i < end; i++)
        if (!name || l->at[i]->name == name)
            r = image_store_image_remove(images_store(q->images), l->at[i]->name, e);
    return r < 0 ? r : image_store_gc(images_store(q->images), UINT64_MAX, NULL, e);
}

static void delete_work(struct query *q)
{
    struct image_list list = {0};
    struct err e = {0};
    const char *name;
    size_t first;
    int r = image_list_load(q->images, &list, &e);

    if (r == 0)
        r = image_list_find(&list, str_of(q->image), &first, &name, &e);
    if (r == 0)
        r = remove_names(q, &list, first, name, &e);
    if (r < 0)
        query_fail(q, &e);
    image_list_done(&list);
}

void handle_image_delete(struct http_req *req)
{
    struct query *q = query_new(req, delete_work, 204);

    if (q)
        query_start(q);
}

static bool has_name(const struct image_list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->at[i]->name, name) == 0)
            return true;
    return false;
}

static void prune_write(struct query *q, const struct image_list *before,
                        const struct image_list *after, uint64_t freed)
{
    struct json_writer w;

    json_write_begin(&w, &q->out);
    json_write_object(&w);
    json_write_key(&w, STR("removed"));
    json_write_array(&w);
    for (size_t i = 0; i < before->count; i++)
        if (!has_name(after, before->at[i]->name))
            json_write_string(&w, str_of(before->at[i]->name));
    json_write_array_end(&w);
    json_member_u64(&w, STR("freedBytes"), freed);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        (void)api_fail_set(&q->fail, 500, "GENERAL::UNKNOWN_ERROR", "the answer is too large");
}

static void prune_work(struct query *q)
{
    struct image_list before = {0}, after = {0};
    struct image_store_freed freed = {0};
    struct err e = {0};
    int r = image_list_load(q->images, &before, &e);

    if (r == 0)
        r = image_store_gc(images_store(q->images), q->bytes_max, &freed, &e);
    if (r == 0)
        r = image_list_load(q->images, &after, &e);
    if (r == 0)
        prune_write(q, &before, &after, freed.bytes);
    else
        query_fail(q, &e);
    image_list_done(&before);
    image_list_done(&after);
}

void handle_images_prune(struct http_req *req)
{
    struct api_fail f = {0};
    uint64_t bytes_max;
    struct query *q;
    AUTO_ARENA(arena, PAGE_ARENA_MAX);

    if (api_image_prune_parse(&arena, http_req_header(req, STR("Content-Type")), req->body,
                              &bytes_max, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    q = query_new(req, prune_work, 200);
    if (!q)
        return;
    q->bytes_max = bytes_max;
    query_start(q);
}

/* --- export --- */

static int export_write(void *ctx, struct str piece, struct err *e)
{
    struct query *q = ctx;
    int r;

    if (atomic_load(&q->left))
        return err_set(e, ECANCELED, "the client is gone");
    r = io_write_full(q->file, piece, DEADLINE_NEVER);

    return r < 0 ? err_sys(e, -r, "write the archive") : 0;
}

/* Into a file without a name, so that a slow client holds no worker. */
static void export_work(struct query *q)
{
    struct image_list list = {0};
    struct err e = {0};
    const char *name;
    size_t first;
    int r = image_list_load(q->images, &list, &e);

    if (r == 0)
        r = image_list_find(&list, str_of(q->image), &first, &name, &e);
    if (r == 0)
        r = q->file = image_store_temp_open(images_store(q->images), &e);
    if (r >= 0)
        r = image_export(images_store(q->images), name ? name : list.at[first]->name, export_write,
                         q, &e);
    if (r < 0)
        query_fail(q, &e);
    image_list_done(&list);
}

static void export_on_close(struct http_req *req, int error)
{
    struct query *q = container_of((struct pending *)req->user, struct query, pending);

    atomic_store(&q->left, true);
    pending_on_close(req, error);
}

static const struct http_req_ops export_ops = {.on_close = export_on_close};

void handle_image_export(struct http_req *req)
{
    struct query *q;

    if (exports == EXPORTS_MAX) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE",
                         "%d exports of images are under way, try again", EXPORTS_MAX);
        return;
    }
    q = query_new(req, export_work, 200);
    if (!q)
        return;
    exports++;
    q->exports = true;
    req->ops = &export_ops;
    query_start(q);
}
