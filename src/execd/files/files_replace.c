/* files_replace.c - POST /files/replace: replaces every occurrence of a text in files, bytewise.
 *
 * A file is read through a window of bounded size: up to the first occurrence, and if there is one,
 * again from the start. So a file without an occurrence is not written. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/time.h"
#include "execd/core/answer.h"
#include "execd/core/routes.h"
#include "execd/files/file_op.h"
#include "execd/files/file_routes.h"
#include "execd/tree/fs.h"
#include "execd/tree/target.h"

enum {
    READ_BYTES = 64 << 10,
    WRITE_BYTES = 1 << 20 /* per step, or one text */,
    REPORT_BYTES_MAX = 64 << 20
};

struct replace_row { /* for the report */
    struct str path;
    uint64_t count;
};

struct replace_op {
    struct file_op op;
    const struct json *next; /* members of the body */
    struct replace_row *rows;
    size_t row_count;
    bool verbose;

    /* The file at work. */
    const char *path;
    struct str old, new;
    int in; /* -EBADF between files */
    struct target out;
    bool eof, pending;           /* end of input; the window was not fully searched yet */
    struct buf window, gathered; /* input; output collected for one write */
    uint64_t count;
};

static void replace_close(struct replace_op *o)
{
    fd_close(take_fd(&o->in));
    target_drop(&o->out);
    buf_clear(&o->window);
    buf_clear(&o->gathered);
    o->eof = o->pending = false;
}

static void replace_release(struct file_op *op)
{
    struct replace_op *o = container_of(op, struct replace_op, op);

    replace_close(o);
    buf_done(&o->window);
    buf_done(&o->gathered);
}

static bool replace_fail(struct replace_op *o, int r, const char *doing)
{
    answer_fs(o->op.req, r, "%s %s: %s", doing, o->path, fs_text(-r));
    return false;
}

/* --- one file --- */

/* Fills the window up. */
static int replace_read(struct replace_op *o)
{
    size_t n;
    int r = buf_reserve(&o->window, READ_BYTES);

    if (r == 0)
        r = io_read_full(o->in, o->window.p + o->window.n, READ_BYTES, deadline_in_ms(0), &n);
    if (r < 0)
        return r;
    buf_claim(&o->window, n);
    o->eof = n < READ_BYTES;
    return 0;
}

/* Bytes of the window that cannot belong to an occurrence that continues after it. */
static size_t replace_settled(const struct replace_op *o)
{
    size_t tail = o->old.n - 1;

    return o->eof ? o->window.n : o->window.n - min_size(tail, o->window.n);
}

/* Searches for the first occurrence. 1 when it was found, 0 when not so far. */
static int replace_find(struct replace_op *o)
{
    int r = replace_read(o);

    if (r < 0)
        return r;
    if (str_find_str(buf_str(&o->window), o->old) < o->window.n)
        return 1;
    buf_drop_front(&o->window, replace_settled(o));
    return 0;
}

static int replace_flush(struct replace_op *o)
{
    int r = io_write_full(o->out.fd, buf_str(&o->gathered), DEADLINE_NEVER);

    buf_clear(&o->gathered);
    return r;
}

/* Occurrences may be dense: short texts are collected for one write. */
static int replace_put(struct replace_op *o, struct str text)
{
    int r = o->gathered.n + text.n > READ_BYTES ? replace_flush(o) : 0;

    if (r < 0)
        return r;
    return text.n > READ_BYTES ? io_write_full(o->out.fd, text, DEADLINE_NEVER)
                               : buf_add(&o->gathered, text);
}

/* Writes from the window, with occurrences replaced. */
static int replace_write(struct replace_op *o)
{
    int r = o->pending ? 0 : replace_read(o);
    struct str rest = buf_str(&o->window);
    size_t at, written = 0;

    while (r == 0 && written < WRITE_BYTES && (at = str_find_str(rest, o->old)) < rest.n) {
        r = replace_put(o, str_make(rest.p, at));
        if (r == 0)
            r = replace_put(o, o->new);
        rest = str_skip(rest, at + o->old.n);
        written += at + o->new.n;
        o->count++;
    }
    buf_drop_front(&o->window, o->window.n - rest.n);
    o->pending = written >= WRITE_BYTES;
    if (r < 0 || o->pending)
        return r;
    at = replace_settled(o);
    r = replace_put(o, str_make(o->window.p, at));
    buf_drop_front(&o->window, at);
    return r == 0 && o->eof ? replace_flush(o) : r;
}

/* After the first occurrence: reads again from the start and writes. The path may name a FIFO by
 * now, which could block. */
static bool replace_begin_writing(struct replace_op *o)
{
    struct err e = {0};
    struct stat st;

    if (target_open(&o->out, o->path, &e) < 0) {
        answer_fs(o->op.req, -e.code, "%s", e.msg);
        return false;
    }
    if (fstat(o->out.fd, &st) < 0)
        return replace_fail(o, -errno, "write");
    if (!S_ISREG(st.st_mode))
        return replace_fail(o, -EINVAL, "write");
    buf_clear(&o->window);
    o->eof = false;
    return lseek(o->in, 0, SEEK_SET) == 0 || replace_fail(o, -errno, "read");
}

static bool replace_end(struct replace_op *o)
{
    struct err e = {0};

    if (o->out.dir >= 0 && target_commit(&o->out, &e) < 0) {
        answer_fs(o->op.req, -e.code, "write %s: %s", o->path, e.msg);
        return false;
    }
    o->rows[o->row_count - 1].count = o->count;
    replace_close(o);
    return true;
}

static bool replace_work(struct replace_op *o)
{
    bool writing = o->out.dir >= 0;
    int r = writing ? replace_write(o) : replace_find(o);

    if (r < 0)
        return replace_fail(o, r, writing ? "write" : "read");
    if (r > 0)
        return replace_begin_writing(o);
    return o->eof && !o->pending ? replace_end(o) : true;
}

/* --- the next file --- */

static bool replace_open(struct replace_op *o)
{
    struct stat st;

    o->in = fs_open(o->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (o->in < 0)
        return replace_fail(o, o->in, "open");
    if (fstat(o->in, &st) < 0)
        return replace_fail(o, -errno, "open");
    if (!S_ISREG(st.st_mode))
        return replace_fail(o, S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL, "read");
    if (o->old.n == 0) {
        answer_error(o->op.req, 400, "INVALID_REQUEST_BODY", "old content must not be empty");
        return false;
    }
    o->window.max = max_size(o->window.max, READ_BYTES + o->old.n);
    o->count = 0;
    return true;
}

static int row_compare(const void *a, const void *b)
{
    return str_cmp(((const struct replace_row *)a)->path, ((const struct replace_row *)b)->path);
}

static void replace_report(struct replace_op *o)
{
    AUTO_BUF(body, REPORT_BYTES_MAX);
    struct json_writer w;

    qsort(o->rows, o->row_count, sizeof(*o->rows), row_compare);
    json_write_begin(&w, &body);
    json_write_object(&w);
    for (size_t i = 0; i < o->row_count; i++) {
        json_write_key(&w, o->rows[i].path);
        json_write_object(&w);
        json_member_u64(&w, STR("replacedCount"), o->rows[i].count);
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    answer_written(o->op.req, 200, &w);
}

static bool replace_next(struct replace_op *o)
{
    const struct json *at = o->next;
    struct err e = {0};

    if (!at) {
        if (o->verbose)
            replace_report(o);
        else
            answer_empty(o->op.req);
        return false;
    }
    o->next = at->next;
    o->rows[o->row_count++].path = at->key;
    o->old = o->new = STR("");
    (void)json_to_str(file_member(at, STR("old")), &o->old);
    (void)json_to_str(file_member(at, STR("new")), &o->new);
    o->path = file_op_path(&o->op, at->key, true, &e);
    if (o->path)
        return replace_open(o);
    answer_fs(o->op.req, -e.code, "%s", e.msg);
    return false;
}

static bool replace_step(struct file_op *op)
{
    struct replace_op *o = container_of(op, struct replace_op, op);

    return o->in >= 0 ? replace_work(o) : replace_next(o);
}

static bool replace_check(struct http_req *req, const struct json *body)
{
    json_each(item, body)
    {
        const struct json *old = file_member(item, STR("old"));
        const struct json *new = file_member(item, STR("new"));

        if ((item->type == JSON_OBJECT || item->type == JSON_NULL) &&
            (!old || old->type == JSON_STRING) && (!new || new->type == JSON_STRING))
            continue;
        answer_bad_body(req, "expected objects with old and new, both text");
        return false;
    }
    return true;
}

void files_replace(struct http_req *req)
{
    struct replace_op *o = file_op_new(req, sizeof(*o), replace_step, replace_release);
    const struct json *body;
    struct str verbose;

    if (!o)
        return;
    o->in = -EBADF;
    o->out = TARGET_NONE;
    buf_init(&o->window, READ_BYTES);
    buf_init(&o->gathered, READ_BYTES);
    /* Clients of isolated sessions have no such parameter and read the counts if present. */
    o->verbose = ((struct execd_api *)req->server_user)->view ||
                 (answer_query(req, STR("verbose"), &verbose) == 0 && str_eq(verbose, STR("true")));
    body = file_op_body(&o->op, JSON_OBJECT);
    if (!body || !replace_check(req, body))
        return;
    o->rows = arena_new_array(&o->op.arena, struct replace_row, json_count(body) + 1);
    if (!o->rows) {
        answer_error(req, 500, "RUNTIME_ERROR", "no memory for so many files");
        return;
    }
    o->next = json_first(body);
    file_op_start(&o->op);
}
