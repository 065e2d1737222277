/* directories_tar.c - directories as tar archives: GET /directories/download and POST
 * /directories/upload. Names in an archive are relative to the directory, so that uploading a
 * downloaded archive recreates the same content. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tar.h"
#include "execd/core/answer.h"
#include "execd/core/path.h"
#include "execd/core/users.h"
#include "execd/files/body_feed.h"
#include "execd/files/file_op.h"
#include "execd/files/file_routes.h"
#include "execd/tree/fs.h"
#include "execd/tree/untar.h"
#include "execd/tree/walk.h"

#define TAR_TYPE STR("application/x-tar")

enum {
    PIECE_BYTES = 64 << 10,
    OUT_BYTES_MAX = 2 * PIECE_BYTES + (16 << 10), /* a piece, and a header with long names */
    DISPOSITION_BYTES_MAX = 2048,
};

/* --- GET /directories/download --- */

struct pack_op {
    struct file_op op;
    const char *root;
    struct stat root_st;
    struct walk walk;
    struct user_cache users;
    struct buf out; /* not sent yet */
    struct tar_content file;
    bool head, packed;
};

static void pack_release(struct file_op *op)
{
    struct pack_op *o = container_of(op, struct pack_op, op);

    walk_done(&o->walk);
    buf_done(&o->out);
    fd_close(o->file.fd);
}

/* Whether it is on a kernel file system: endless, or meaningless elsewhere. */
static bool is_kernels(int dir, const char *name)
{
    static const long kinds[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,     CGROUP_SUPER_MAGIC,
                                 CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,   TRACEFS_MAGIC,
                                 DEVPTS_SUPER_MAGIC,  SECURITYFS_MAGIC};
    auto_fd fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct statfs st;

    if (fd < 0 || fstatfs(fd, &st) < 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if ((long)st.f_type == kinds[i])
            return true;
    return false;
}

static int pack_head(struct pack_op *o, struct str path, const struct stat *st, struct str target)
{
    struct tar_entry entry = tar_entry_of(st);

    entry.path = path;
    entry.target = target;
    entry.owner = user_cache_name(&o->users, st->st_uid);
    entry.group = group_cache_name(&o->users, st->st_gid);
    return tar_write_head(&o->out, &entry);
}

/* An entry's path relative to the directory. Directories get a trailing '/'. */
static int pack_name(const struct pack_op *o, const struct walk_entry *entry, struct buf *out)
{
    size_t root_n = strlen(o->root);
    struct str path = str_skip(entry->path, root_n > 1 ? root_n + 1 : root_n);

    return buf_addf(out, "%.*s%s", STR_ARG(path), S_ISDIR(entry->st.st_mode) ? "/" : "");
}

/* Writes the header; content follows in further steps. */
static int pack_file(struct pack_op *o, const struct walk_entry *entry, struct str name)
{
    struct stat st;
    int r = tar_content_open(&o->file, walk_dir(&o->walk), entry->name.p, &st);

    return r <= 0 ? r : pack_head(o, name, &st, STR_NONE);
}

static int pack_link(struct pack_op *o, const struct walk_entry *entry, struct str name)
{
    char target[TAR_TEXT_BYTES_MAX];
    ssize_t n = readlinkat(walk_dir(&o->walk), entry->name.p, target, sizeof(target));

    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : -errno;
    return pack_head(o, name, &entry->st, str_make(target, (size_t)n));
}

static int pack_dir(struct pack_op *o, const struct walk_entry *entry, struct str name,
                    struct err *e)
{
    int r = pack_head(o, name, &entry->st, STR_NONE);

    if (r < 0 ||
        (entry->st.st_dev != o->root_st.st_dev && is_kernels(walk_dir(&o->walk), entry->name.p)))
        return r;
    r = walk_enter(&o->walk, entry, e);
    return r == -ENOENT ? 0 : r;
}

static int pack_entry(struct pack_op *o, const struct walk_entry *entry, struct err *e)
{
    AUTO_BUF(name, WALK_PATH_BYTES_MAX + 1);
    int r = pack_name(o, entry, &name);

    if (r < 0)
        return r;
    switch (entry->st.st_mode & S_IFMT) {
    case S_IFREG:
        return pack_file(o, entry, buf_str(&name));
    case S_IFDIR:
        return pack_dir(o, entry, buf_str(&name), e);
    case S_IFLNK:
        return pack_link(o, entry, buf_str(&name));
    case S_IFSOCK:
        return 0; /* skipped: cannot be packed */
    default:
        return pack_head(o, buf_str(&name), &entry->st, STR_NONE);
    }
}

static int pack_next(struct pack_op *o, struct err *e)
{
    struct walk_entry entry;
    int r = walk_next(&o->walk, &entry, e);

    if (r == WALK_ENTRY)
        return pack_entry(o, &entry, e);
    if (r != WALK_END)
        return r < 0 ? r : 0;
    o->packed = true;
    return tar_write_end(&o->out);
}

static void pack_reply_head(struct pack_op *o)
{
    AUTO_BUF(b, DISPOSITION_BYTES_MAX);
    struct str name = path_base(str_of(o->root));

    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] <= ' ' || name.p[i] > '~' || strchr("\"\\/", name.p[i]))
            name = STR("directory");
    if (buf_addf(&b, "attachment; filename=\"%.*s.tar\"", STR_ARG(name)) == 0)
        (void)http_reply_header(o->op.req, STR("Content-Disposition"), buf_str(&b));
    http_reply_begin(o->op.req, 200, TAR_TYPE, HTTP_UNKNOWN_LENGTH);
    o->head = true;
}

/* Sends what is packed. False when it continues later or has ended. */
static bool pack_send(struct pack_op *o)
{
    int r;

    if (!o->head)
        pack_reply_head(o);
    r = http_reply_write_all(o->op.req, buf_str(&o->out));
    if (r == -EAGAIN)
        return false; /* on_drain continues */
    buf_clear(&o->out);
    if (r == 0 && !o->packed)
        return true;
    http_reply_end(o->op.req, -r);
    return false;
}

/* An archive that ends properly is complete: a failure half way breaks off the reply. */
static bool pack_step(struct file_op *op)
{
    struct pack_op *o = container_of(op, struct pack_op, op);
    struct err e = {0};
    int r;

    if (o->packed || o->out.n >= PIECE_BYTES)
        return pack_send(o);
    r = o->file.fd >= 0 ? tar_content_add(&o->file, &o->out, PIECE_BYTES) : pack_next(o, &e);
    if (r >= 0)
        return true;
    if (o->head)
        http_reply_end(op->req, -r);
    else
        answer_fs(op->req, r, "%s", e.code ? e.msg : fs_text(-r));
    return false;
}

static void pack_begin(struct pack_op *o)
{
    struct http_req *req = o->op.req;
    struct err e = {0};
    int r = fs_lstat(o->root, &o->root_st);

    if (r < 0) {
        answer_fs(req, r, "lstat %s: %s", o->root, fs_text(-r));
        return;
    }
    if (!S_ISDIR(o->root_st.st_mode)) {
        answer_error(req, 400, "INVALID_FILE", "path is not a directory: %s", o->root);
        return;
    }
    r = walk_open(&o->walk, o->root, &e);
    if (r < 0) {
        answer_fs(req, r, "%s", e.msg);
        return;
    }
    if (pack_head(o, STR("./"), &o->root_st, STR_NONE) == 0)
        file_op_start(&o->op);
    else
        answer_error(req, 500, "RUNTIME_ERROR", "no memory for an archive");
}

void directories_download(struct http_req *req)
{
    struct pack_op *o;
    struct str given;
    struct err e = {0};

    if (!answer_query_need(req, STR("path"), &given))
        return;
    o = file_op_new(req, sizeof(*o), pack_step, pack_release);
    if (!o)
        return;
    o->file.fd = -EBADF;
    buf_init(&o->out, OUT_BYTES_MAX);
    o->root = file_op_path(&o->op, given, true, &e);
    if (o->root)
        pack_begin(o);
    else
        answer_fs(req, -e.code, "%s", e.msg);
}

/* --- POST /directories/upload --- */

struct unpack {
    struct slice slice;
    struct body_feed feed;
    struct http_req *req;
    struct untar untar;
    struct err error; /* the first one; the rest of the body is read and dropped */
};

static void unpack_reply(struct unpack *o)
{
    bool archive = o->error.code == EBADMSG || o->error.code == EOPNOTSUPP;

    if (o->error.code == 0)
        answer_empty(o->req);
    else if (archive)
        answer_error(o->req, 400, "INVALID_FILE", "invalid archive. %s", o->error.msg);
    else
        answer_error(o->req, 500, "RUNTIME_ERROR", "error unpacking archive. %s", o->error.msg);
}

static bool unpack_finish(struct slice *s)
{
    struct unpack *o = container_of(s, struct unpack, slice);

    if (untar_finish_step(&o->untar))
        return true;
    unpack_reply(o);
    return false;
}

static void unpack_take(struct http_req *req, struct str part)
{
    struct unpack *o = req->user;

    if (o->error.code == 0)
        (void)!untar_feed(&o->untar, part, &o->error);
}

static ssize_t unpack_on_body(struct http_req *req, struct str piece)
{
    struct unpack *o = req->user;

    return body_feed(&o->feed, req, piece, unpack_take);
}

/* Sets the modes of the created directories, also after an error. */
static void unpack_on_body_end(struct http_req *req)
{
    struct unpack *o = req->user;

    if (o->error.code == 0)
        (void)!untar_end(&o->untar, &o->error);
    slice_start(&o->slice, http_req_loop(req), unpack_finish);
}

static void unpack_on_close(struct http_req *req, int error UNUSED)
{
    struct unpack *o = req->user;

    slice_stop(&o->slice);
    body_feed_stop(&o->feed);
    untar_done(&o->untar);
}

static const struct http_req_ops unpack_ops = {
    .on_body = unpack_on_body,
    .on_body_end = unpack_on_body_end,
    .on_close = unpack_on_close,
};

static void unpack_open(struct unpack *o, struct str given, bool owners)
{
    AUTO_BUF(path, EXECD_PATH_BYTES_MAX);

    if (path_resolve(given, (const char *const *)environ, &path, &o->error) == 0)
        (void)!untar_open(&o->untar, path.p, owners, &o->error);
}

void directories_upload(struct http_req *req)
{
    struct str given, owners;
    struct unpack *o;

    if (!answer_query_need(req, STR("path"), &given))
        return;
    o = arena_new(&req->arena, struct unpack);
    if (!o) {
        answer_error(req, 503, "RUNTIME_ERROR", "no memory for this request");
        return;
    }
    o->req = req;
    req->ops = &unpack_ops;
    req->user = o;
    unpack_open(o, given,
                answer_query(req, STR("owners"), &owners) == 0 && str_eq(owners, STR("true")));
    if (req->body_state == HTTP_BODY_DONE) /* no body: on_body_end is not called */
        unpack_on_body_end(req);
}
