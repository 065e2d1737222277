/* files_download.c - GET /files/download: a file, a byte range of it, or some of its lines. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "base/url.h"
#include "execd/core/answer.h"
#include "execd/core/path.h"
#include "execd/files/file_op.h"
#include "execd/files/file_routes.h"
#include "execd/files/lines_read.h"
#include "execd/tree/fs.h"

enum { READ_BYTES = 32 << 10, HEADER_BYTES_MAX = 4 << 10 };

static const struct str bytes_type = STR_INIT("application/octet-stream");
static const struct str lines_type = STR_INIT("text/plain; charset=utf-8");

struct download_op {
    struct file_op op;
    int fd;
    bool by_lines, head, eof;
    struct lines_reader lines;
    struct buf out; /* read, not sent yet */
};

static void download_release(struct file_op *op)
{
    struct download_op *o = container_of(op, struct download_op, op);

    fd_close(o->fd);
    buf_done(&o->out);
}

/* --- pieces: lines, and files of unknown size --- */

/* Reads until there is something to send. A file that would block, such as /proc/kmsg, is an error.
 */
static int download_read(struct download_op *o)
{
    char piece[READ_BYTES];
    size_t n;
    int r = io_read_full(o->fd, piece, sizeof(piece), deadline_in_ms(0), &n);

    if (r < 0)
        return r;
    o->eof = n < sizeof(piece);
    if (!o->by_lines)
        return buf_add(&o->out, str_make(piece, n));
    r = lines_reader_feed(&o->lines, str_make(piece, n), &o->out);
    o->eof |= r > 0;
    return r < 0 ? r : 0;
}

static bool says_it_is_empty(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_size == 0;
}

static bool download_step(struct file_op *op)
{
    struct download_op *o = container_of(op, struct download_op, op);
    int r = o->eof || o->out.n > 0 ? 0 : download_read(o);

    if (r == 0 && o->out.n == 0 && !o->eof)
        return true;
    if (r == 0 && o->eof && !o->head && !o->by_lines && o->out.n == 0 && says_it_is_empty(o->fd)) {
        http_reply_file(op->req, take_fd(&o->fd), bytes_type);
        return false;
    }
    if (r == 0 && o->eof && !o->head) { /* the whole reply at once */
        http_reply(op->req, 200, o->by_lines ? lines_type : bytes_type, buf_str(&o->out));
        return false;
    }
    if (r < 0 && !o->head) {
        answer_fs(op->req, r, "read: %s", fs_text(-r));
        return false;
    }
    if (!o->head)
        http_reply_begin(op->req, 200, o->by_lines ? lines_type : bytes_type, HTTP_UNKNOWN_LENGTH);
    o->head = true;
    if (r == 0 && o->out.n > 0)
        r = http_reply_write_all(op->req, buf_str(&o->out));
    if (r == -EAGAIN)
        return false; /* on_drain continues */
    buf_clear(&o->out);
    if (r == 0 && !o->eof)
        return true;
    http_reply_end(op->req, -r);
    return false;
}

/* --- bytes --- */

/* Whether the name needs no escaping within quotes. */
static bool is_simple(struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] < ' ' || name.p[i] > '~' || name.p[i] == '"' || name.p[i] == '\\')
            return false;
    return true;
}

static void reply_disposition(struct http_req *req, struct str name)
{
    AUTO_BUF(b, HEADER_BYTES_MAX);
    AUTO_BUF(encoded, HEADER_BYTES_MAX);
    int r;

    if (is_simple(name))
        r = buf_addf(&b, "attachment; filename=\"%.*s\"", STR_ARG(name));
    else if (url_encode(name, URL_SET_QUERY_VALUE, &encoded) == 0)
        r = buf_addf(&b, "attachment; filename=\"%s\"; filename*=UTF-8''%s", encoded.p, encoded.p);
    else
        r = -EMSGSIZE;
    (void)http_reply_header(req, STR("Content-Disposition"),
                            r == 0 ? buf_str(&b) : STR("attachment"));
}

/* Replies when the range is invalid or outside the file. */
static bool range_is_refused(struct http_req *req, struct str wanted, uint64_t size)
{
    char value[64];
    struct http_range range;
    int r = http_range_parse(wanted, size, &range);

    if (r == -EINVAL) {
        http_reply(req, 416, ANSWER_JSON, STR("{\"code\":\"UNKNOWN\"}"));
        return true;
    }
    if (r == -ERANGE) {
        (void)snprintf(value, sizeof(value), "bytes */%llu", (unsigned long long)size);
        (void)http_reply_header(req, STR("Content-Range"), str_of(value));
        http_reply(req, 416, STR("text/plain; charset=utf-8"),
                   STR("invalid range: failed to overlap\n"));
        return true;
    }
    return false;
}

/* Files of /proc report size 0 but have content; those of /sys report 4096, whatever they have. */
static bool knows_its_size(int fd, const struct stat *st)
{
    char last;

    return st->st_size > 0 && (st->st_blocks > 0 || pread(fd, &last, 1, st->st_size - 1) == 1);
}

static void download_bytes(struct download_op *o, struct str path, const struct stat *st)
{
    struct http_req *req = o->op.req;
    struct str wanted = http_req_header(req, STR("Range"));
    bool sized = knows_its_size(o->fd, st);

    if (wanted.p && sized && range_is_refused(req, wanted, (uint64_t)st->st_size))
        return;
    reply_disposition(req, path_base(path));
    if (sized)
        http_reply_file(req, take_fd(&o->fd), bytes_type);
    else
        file_op_start(&o->op);
}

/* --- lines --- */

static bool line_number(struct http_req *req, struct str name, uint64_t fallback, uint64_t *ret)
{
    struct str text;

    *ret = fallback;
    if (answer_query(req, name, &text) == 0 &&
        (text.n == 0 || str_to_u64_range(text, 1, INT64_MAX, ret) == 0))
        return true;
    answer_error(req, 400, "INVALID_REQUEST_BODY", "invalid query parameter '%.*s': %.*s",
                 STR_ARG(name), STR_ARG(text));
    return false;
}

static void download_lines(struct download_op *o)
{
    struct http_req *req = o->op.req;
    uint64_t offset, limit;

    if (http_req_header(req, STR("Range")).p)
        answer_error(req, 400, "INVALID_REQUEST_BODY",
                     "line-based reading (offset/limit) and byte range (Range header) are "
                     "mutually exclusive");
    else if (line_number(req, STR("offset"), 1, &offset) &&
             line_number(req, STR("limit"), UINT64_MAX, &limit)) {
        lines_reader_init(&o->lines, offset, limit);
        file_op_start(&o->op);
    }
}

/* --- the request --- */

static bool query_has(struct http_req *req, struct str name)
{
    struct str value;

    return answer_query(req, name, &value) == 0 && value.n > 0;
}

static void download_open(struct download_op *o, const char *path)
{
    struct http_req *req = o->op.req;
    struct stat st;
    int r;

    o->fd = r = fs_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (r >= 0 && fstat(o->fd, &st) < 0)
        r = -errno;
    if (r < 0)
        answer_fs(req, r, "open %s: %s", path, fs_text(-r));
    else if (S_ISDIR(st.st_mode))
        answer_error(req, 400, "INVALID_FILE", "path is a directory: %s", path);
    else if (!S_ISREG(st.st_mode))
        answer_error(req, 400, "INVALID_FILE", "path is not a regular file: %s", path);
    else if (o->by_lines)
        download_lines(o);
    else
        download_bytes(o, str_of(path), &st);
}

void files_download(struct http_req *req)
{
    struct download_op *o;
    struct str given;
    struct err e = {0};
    const char *path;

    if (!answer_query_need(req, STR("path"), &given))
        return;
    o = file_op_new(req, sizeof(*o), download_step, download_release);
    if (!o)
        return;
    o->fd = -EBADF;
    buf_init(&o->out, 2 * READ_BYTES + 16);
    o->by_lines = query_has(req, STR("offset")) || query_has(req, STR("limit"));
    path = file_op_path(&o->op, given, false, &e);
    if (path)
        download_open(o, path);
    else
        answer_fs(req, -e.code, "%s", e.msg);
}
