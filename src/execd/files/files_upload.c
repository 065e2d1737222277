/* files_upload.c - POST /files/upload: a form of "metadata" and "file" parts, where the i-th of one
 * kind belongs to the i-th of the other.
 *
 * - a metadata part is read into `meta` and queued
 * - a file part whose metadata is here is written, and appears when it is complete (target.h)
 * - a file part whose metadata is missing goes to the spool, and is written once the form is
 *   complete and its parts are paired
 *
 * Memory use does not depend on file size: pieces go from the connection to disk. Each file appears
 * complete or not at all; only targets that cannot be replaced (a device, a FIFO) are written as
 * data arrives. After an error no further file is written, the files before it stay, and the rest
 * of the form is read and dropped, so that the client, still sending, gets the reply. Errors of the
 * form take precedence over those of files, as the client gets one message. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/core/answer.h"
#include "execd/core/path.h"
#include "execd/files/body_feed.h"
#include "execd/files/file_op.h"
#include "execd/files/file_routes.h"
#include "execd/files/file_view.h"
#include "execd/files/upload_form.h"
#include "execd/tree/fs.h"
#include "execd/tree/sparse.h"
#include "execd/tree/target.h"
#include "net/multipart.h"

enum {
    PARTS_MAX = 100000,
    META_BYTES_MAX = 64 << 10, /* of one metadata part */
    PARENT_MODE = 0777,        /* minus the umask */
    COPY_BYTES = 128 << 10,
};

struct upload_meta_row { /* metadata whose file has not come yet */
    struct upload_meta_row *next;
    struct upload_meta meta;
};

struct upload_spooled { /* a file whose metadata has not come yet */
    struct upload_spooled *next;
    int64_t at, bytes; /* in the spool */
};

enum upload_part { PART_OTHER, PART_META, PART_FILE, PART_SPOOL };

struct upload {
    struct slice slice; /* after the end of the form */
    struct body_feed feed;
    struct http_req *req;
    struct arena arena; /* queues and paths */
    struct multipart form;
    bool form_open, form_bad;
    enum upload_part part; /* the current one */
    struct buf meta_text;

    struct upload_meta_row *metas, **metas_tail;
    struct upload_spooled *spooled, **spooled_tail;
    uint64_t meta_count, file_count;
    int spool;
    int64_t spool_bytes;

    /* The file being written. */
    struct target target;
    struct sparse sparse;
    struct permission_ids ids;
    struct str path; /* as the client wrote it */

    /* The first error about a file; nothing is written after it. */
    int fail_status;
    const char *fail_code;
    struct buf fail_message;
};

/* --- errors --- */

static void upload_fail(struct upload *u, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

static void upload_fail(struct upload *u, int status, const char *code, const char *fmt, ...)
{
    va_list ap;

    if (u->fail_status)
        return;
    u->fail_status = status;
    u->fail_code = code;
    va_start(ap, fmt);
    (void)buf_vaddf(&u->fail_message, fmt, ap);
    va_end(ap);
    target_drop(&u->target);
}

static void upload_fail_step(struct upload *u, const char *step, struct str what, const char *why)
{
    upload_fail(u, 500, "RUNTIME_ERROR", "error %s %.*s. %s", step, STR_ARG(what), why);
}

/* EFBIG: the file exceeds the size limit of a session's layer. */
static void upload_fail_write(struct upload *u, int r)
{
    if (r == -EFBIG)
        upload_fail(u, 413, "CONTENT_TOO_LARGE", "error copying file %.*s. %s", STR_ARG(u->path),
                    fs_text(-r));
    else
        upload_fail_step(u, "copying file", u->path, fs_text(-r));
}

/* --- one file --- */

static const char *upload_path(struct upload *u, struct str given, struct err *e)
{
    AUTO_BUF(b, EXECD_PATH_BYTES_MAX);
    const char *const *env = (const char *const *)environ;
    char *path = NULL;
    int r = fs_is_confined() ? path_resolve(given, env, &b, e) : path_expand(given, env, &b, e);

    if (r == 0) {
        path = arena_strdup(&u->arena, buf_str(&b));
        if (!path)
            (void)err_set(e, ENOMEM, "no memory for so many paths");
    }
    return path;
}

static int make_parent(const char *path)
{
    AUTO_BUF(parent, PATH_MAX);
    int r = buf_add(&parent, path_parent(str_of(path)));

    if (r < 0)
        return -ENAMETOOLONG;
    return parent.n == 0 ? 0 : fs_make_dirs(parent.p, PARENT_MODE, NULL);
}

static void upload_open(struct upload *u, const char *path)
{
    struct err e = {0};
    int r = make_parent(path);

    if (r < 0)
        upload_fail_step(u, "creating target directory", path_parent(str_of(path)), fs_text(-r));
    else if (target_open(&u->target, path, &e) < 0)
        upload_fail_step(u, "opening destination file", u->path, e.msg);
}

/* Opens the target for the first queued metadata. */
static void file_begin(struct upload *u)
{
    struct upload_meta_row *row = u->metas;
    struct err e = {0};
    const char *path;

    u->metas = row->next;
    if (!u->metas)
        u->metas_tail = &u->metas;
    if (u->fail_status)
        return;
    u->path = row->meta.path;
    u->sparse = (struct sparse){0};
    path = upload_path(u, u->path, &e);
    if (!path)
        upload_fail_step(u, "resolving target path", u->path, e.msg);
    else if (!file_view_allows(u->req, u->path))
        upload_fail(u, 400, "INVALID_REQUEST_BODY", "path is outside of the workspace: %.*s",
                    STR_ARG(u->path));
    else if (permission_resolve(&row->meta.permission, &u->ids, &e) < 0)
        upload_fail_step(u, "chmoding file", u->path, e.msg);
    else
        upload_open(u, path);
}

static void file_write(struct upload *u, struct str piece)
{
    int r = 0;

    if (u->target.fd < 0)
        return;
    if (u->target.in_place) /* a FIFO without a reader must not block */
        r = io_write_full(u->target.fd, piece, deadline_in_ms(0));
    else
        r = sparse_write(&u->sparse, u->target.fd, piece);
    if (r < 0)
        upload_fail_write(u, r);
}

static void file_end(struct upload *u)
{
    struct err e = {0};
    int r;

    if (u->target.fd < 0)
        return;
    r = u->target.in_place ? 0 : sparse_end(&u->sparse, u->target.fd);
    if (r < 0)
        upload_fail_write(u, r);
    else if (permission_apply_fd(&u->ids, u->target.fd, &e) < 0)
        upload_fail_step(u, "chmoding file", u->path, e.msg);
    else if (target_commit(&u->target, &e) < 0)
        upload_fail_step(u, "copying file", u->path, e.msg);
}

/* --- the spool --- */

static void spool_begin(struct upload *u)
{
    struct upload_spooled *row = arena_new(&u->arena, struct upload_spooled);

    if (row && u->spool < 0)
        u->spool = fd_nameless(getenv("TMPDIR"));
    if (!row || u->spool < 0) {
        upload_fail(u, 500, "RUNTIME_ERROR", "error copying file. no room to keep it");
        return;
    }
    row->at = u->spool_bytes;
    *u->spooled_tail = row;
    u->spooled_tail = &row->next;
}

static void spool_write(struct upload *u, struct str piece)
{
    struct upload_spooled *row;
    int r;

    if (u->fail_status)
        return;
    r = io_write_full(u->spool, piece, DEADLINE_NEVER);
    if (r < 0) {
        upload_fail(u, 500, "RUNTIME_ERROR", "error copying file. keep it: %s", fs_text(-r));
        return;
    }
    row = container_of(u->spooled_tail, struct upload_spooled, next);
    row->bytes += (int64_t)piece.n;
    u->spool_bytes += (int64_t)piece.n;
}

/* --- the form --- */

static void meta_end(struct upload *u)
{
    struct upload_meta_row *row = arena_new(&u->arena, struct upload_meta_row);
    struct err e = {0};
    int r = row ? upload_meta_read(&u->arena, buf_str(&u->meta_text), &row->meta, &e) : -ENOMEM;

    buf_clear(&u->meta_text);
    if (r == -ENOKEY)
        upload_fail(u, 400, "INVALID_FILE_METADATA", "%s", e.msg);
    else if (r == -ENOMEM)
        upload_fail(u, 400, "INVALID_FILE", "no memory for so many files");
    else if (r < 0)
        upload_fail(u, 400, "INVALID_FILE_METADATA", "invalid metadata format. %s", e.msg);
    if (r < 0)
        return;
    *u->metas_tail = row;
    u->metas_tail = &row->next;
}

static int form_part_begin(void *ctx, const struct multipart_part *part)
{
    struct upload *u = ctx;

    u->part = PART_OTHER;
    if (!part->filename.p || !part->name.p)
        return 0;
    if (str_eq(part->name, STR("metadata"))) {
        u->part = PART_META;
        u->meta_count++;
    } else if (str_eq(part->name, STR("file"))) {
        bool next = u->metas && !u->spooled; /* else other files come first */

        u->part = next ? PART_FILE : PART_SPOOL;
        u->file_count++;
        if (next)
            file_begin(u);
        else if (!u->fail_status)
            spool_begin(u);
    }
    return 0;
}

static ssize_t form_part_data(void *ctx, struct str piece)
{
    struct upload *u = ctx;

    if (u->part == PART_FILE)
        file_write(u, piece);
    else if (u->part == PART_SPOOL)
        spool_write(u, piece);
    else if (u->part == PART_META && buf_add(&u->meta_text, piece) < 0)
        upload_fail(u, 400, "INVALID_FILE_METADATA", "invalid metadata format. more than %d bytes",
                    META_BYTES_MAX);
    return (ssize_t)piece.n;
}

static int form_part_end(void *ctx)
{
    struct upload *u = ctx;

    if (u->part == PART_FILE)
        file_end(u);
    else if (u->part == PART_META)
        meta_end(u);
    return 0;
}

static int form_end(void *ctx UNUSED)
{
    return 0;
}

static const struct multipart_ops form_ops = {
    .part_begin = form_part_begin,
    .part_data = form_part_data,
    .part_end = form_part_end,
    .form_end = form_end,
};

/* --- the end --- */

static void upload_reply(struct upload *u)
{
    struct http_req *req = u->req;

    if (u->form_bad)
        answer_error(req, 400, "INVALID_FILE", "multipart form is empty");
    else if (u->meta_count == 0)
        answer_error(req, 400, "INVALID_FILE_METADATA", "metadata file is missing");
    else if (u->file_count == 0)
        answer_error(req, 400, "INVALID_FILE_CONTENT", "file is missing");
    else if (u->meta_count != u->file_count)
        answer_error(req, 400, "INVALID_FILE", "metadata and file count mismatch: %llu vs %llu",
                     (unsigned long long)u->meta_count, (unsigned long long)u->file_count);
    else if (u->fail_status)
        answer_error(req, u->fail_status, u->fail_code, "%s", u->fail_message.p);
    else
        answer_empty(req);
}

/* Writes a piece of the first spooled file, whose metadata has come. */
static void spool_step(struct upload *u)
{
    struct upload_spooled *row = u->spooled;
    char *piece = loop_scratch(u->slice.loop);
    size_t n = (size_t)(row->bytes < COPY_BYTES ? row->bytes : COPY_BYTES);
    int r;

    if (u->target.fd < 0)
        file_begin(u);
    if (u->fail_status)
        return;
    r = io_pread_full(u->spool, piece, n, row->at, &n);
    if (r < 0)
        upload_fail_write(u, r);
    else
        file_write(u, str_make(piece, n));
    row->at += (int64_t)n;
    row->bytes -= (int64_t)n;
    if (row->bytes == 0 || n == 0) {
        file_end(u);
        u->spooled = row->next;
    }
}

/* Whether there was no error so far, and every file has its metadata. */
static bool upload_is_paired(const struct upload *u)
{
    return !u->form_bad && !u->fail_status && u->meta_count == u->file_count;
}

/* One step of the work after the end of the form. */
static bool upload_step(struct slice *s)
{
    struct upload *u = container_of(s, struct upload, slice);

    if (u->spooled && upload_is_paired(u)) {
        spool_step(u);
        return true;
    }
    upload_reply(u);
    return false;
}

/* --- the request --- */

static void upload_take(struct http_req *req, struct str part)
{
    struct upload *u = req->user;

    if (!u->form_bad && multipart_feed(&u->form, part, NULL) < 0) {
        u->form_bad = true;
        target_drop(&u->target);
    }
}

static ssize_t upload_on_body(struct http_req *req, struct str piece)
{
    struct upload *u = req->user;

    return body_feed(&u->feed, req, piece, upload_take);
}

static void upload_on_body_end(struct http_req *req)
{
    struct upload *u = req->user;

    u->form_bad = u->form_bad || multipart_end(&u->form, NULL) < 0;
    if (u->form_bad)
        target_drop(&u->target);
    slice_start(&u->slice, http_req_loop(req), upload_step);
}

static void upload_on_close(struct http_req *req, int error UNUSED)
{
    struct upload *u = req->user;

    slice_stop(&u->slice);
    body_feed_stop(&u->feed);
    if (u->form_open)
        multipart_done(&u->form);
    target_drop(&u->target);
    fd_close(u->spool);
    buf_done(&u->meta_text);
    buf_done(&u->fail_message);
    arena_done(&u->arena);
}

static const struct http_req_ops upload_ops = {
    .on_body = upload_on_body,
    .on_body_end = upload_on_body_end,
    .on_close = upload_on_close,
};

void files_upload(struct http_req *req)
{
    static const struct multipart_limits limits = {.parts_max = PARTS_MAX};
    struct upload *u = arena_new(&req->arena, struct upload);

    if (!u) {
        answer_error(req, 503, "RUNTIME_ERROR", "no memory for this request");
        return;
    }
    u->req = req;
    u->spool = -EBADF;
    u->target = TARGET_NONE;
    u->metas_tail = &u->metas;
    u->spooled_tail = &u->spooled;
    arena_init(&u->arena, FILE_OP_ARENA_MAX);
    buf_init(&u->meta_text, META_BYTES_MAX);
    buf_init(&u->fail_message, META_BYTES_MAX);
    req->ops = &upload_ops;
    req->user = u;
    u->form_open = multipart_init(&u->form, http_req_header(req, STR("Content-Type")), &form_ops, u,
                                  &limits, NULL) == 0;
    u->form_bad = !u->form_open;
    if (req->body_state == HTTP_BODY_DONE) { /* no body: on_body_end is not called */
        u->form_bad = true;
        upload_reply(u);
    }
}
