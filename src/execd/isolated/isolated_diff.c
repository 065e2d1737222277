/* isolated_diff.c - GET .../diff: the layer of a session as a tar.gz archive.
 *
 * The layer is walked twice: first to measure it, while an error can still be a status, then to
 * send it at the client's pace. A whiteout is archived as overlay stores it, a character device
 * 0, 0. An opaque directory has its attribute in the form of GNU tar --xattrs. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tar.h"
#include "execd/core/answer.h"
#include "execd/files/file_op.h"
#include "execd/isolated/isolated_api.h"
#include "execd/isolated/isolated_api_internal.h"
#include "execd/isolated/isolated_layer.h"
#include "execd/tree/gzip_store.h"
#include "execd/tree/walk.h"

enum {
    PIECE_BYTES = 60 << 10, /* read at a time: one block of the gzip output */
    TAR_BYTES_MAX = PIECE_BYTES + (32 << 10),
    OUT_BYTES_MAX = TAR_BYTES_MAX + 4 * GZIP_STORE_EXTRA_BYTES,
    PAX_HEAD = 'x',
};

struct diff_op {
    struct file_op op;
    struct isolated *session;
    char root[LAYER_PATH_MAX];
    struct walk walk;
    uint64_t bytes; /* size of the archive */
    bool measured, packed;

    struct gzip_store gzip;
    struct buf tar, out; /* not yet packed; not yet sent */
    struct tar_content file;
};

static void diff_release(struct file_op *op)
{
    struct diff_op *o = container_of(op, struct diff_op, op);

    walk_done(&o->walk);
    buf_done(&o->tar);
    buf_done(&o->out);
    fd_close(o->file.fd);
    isolated_release(o->session);
}

/* --- measuring --- */

static bool diff_begin(struct diff_op *o)
{
    struct http_req *req = o->op.req;
    char name[96];
    struct err e = {0};

    walk_done(&o->walk);
    o->walk = (struct walk){0};
    if (walk_open(&o->walk, o->root, &e) < 0 || gzip_store_begin(&o->gzip, &o->out) < 0) {
        answer_error(req, 500, "RUNTIME_ERROR", "error reading the layer. %s", e.msg);
        return false;
    }
    (void)snprintf(name, sizeof(name), "attachment; filename=\"%s.tar.gz\"", o->session->id);
    (void)http_reply_header(req, STR("Content-Disposition"), str_of(name));
    http_reply_begin(req, 200, STR("application/gzip"), HTTP_UNKNOWN_LENGTH);
    o->measured = true;
    return true;
}

static bool diff_measure(struct diff_op *o)
{
    uint64_t most = isolated_conf(o->session->all)->diff_bytes_max;
    struct walk_entry entry;
    struct err e = {0};
    int r = walk_next(&o->walk, &entry, &e);

    if (r == WALK_ENTRY) {
        o->bytes += TAR_BLOCK_BYTES + (S_ISREG(entry.st.st_mode) ? (uint64_t)entry.st.st_size : 0);
        if (S_ISDIR(entry.st.st_mode))
            (void)!walk_enter(&o->walk, &entry, NULL); /* an error means it was removed meanwhile */
    }
    if (r < 0) {
        answer_error(o->op.req, 500, "RUNTIME_ERROR", "error reading the layer. %s", e.msg);
        return false;
    }
    if (o->bytes > most) {
        answer_error(o->op.req, 413, "CONTENT_TOO_LARGE", "the layer is larger than %llu bytes",
                     (unsigned long long)most);
        return false;
    }
    return r != WALK_END || diff_begin(o);
}

/* --- entries --- */

static int diff_mark_opaque(struct diff_op *o)
{
    static const struct str record = STR_INIT("38 SCHILY.xattr.user.overlay.opaque=y\n");
    static const char zeros[TAR_BLOCK_BYTES];
    struct tar_entry head = {.type = (enum tar_type)PAX_HEAD,
                             .path = STR("PaxHeaders/opaque"),
                             .size = record.n,
                             .mode = 0644};
    int r = tar_write_head(&o->tar, &head);

    if (r >= 0)
        r = buf_add(&o->tar, record);
    return r < 0 ? r : buf_add(&o->tar, str_make(zeros, tar_padding(record.n)));
}

static int diff_head(struct diff_op *o, const struct walk_entry *entry, const struct stat *st)
{
    char target[TAR_TEXT_BYTES_MAX];
    AUTO_BUF(name, WALK_PATH_BYTES_MAX + 1);
    struct tar_entry head = tar_entry_of(st);
    ssize_t n;

    if (buf_addf(&name, "%.*s%s", STR_ARG(layer_below(entry->path, o->root)),
                 S_ISDIR(st->st_mode) ? "/" : "") < 0)
        return -ENAMETOOLONG;
    head.path = buf_str(&name);
    if (S_ISLNK(st->st_mode)) {
        n = readlinkat(walk_dir(&o->walk), entry->name.p, target, sizeof(target));
        if (n < 0)
            return errno == ENOENT ? 0 : -errno;
        head.target = str_make(target, (size_t)n);
    }
    return tar_write_head(&o->tar, &head);
}

/* Writes the header; the content follows in further steps. */
static int diff_file(struct diff_op *o, const struct walk_entry *entry)
{
    struct stat st;
    int r = tar_content_open(&o->file, walk_dir(&o->walk), entry->name.p, &st);

    return r <= 0 ? r : diff_head(o, entry, &st);
}

static int diff_entry(struct diff_op *o, const struct walk_entry *entry)
{
    int r = 0;

    if (S_ISSOCK(entry->st.st_mode))
        return 0; /* tar cannot represent sockets */
    if (S_ISREG(entry->st.st_mode))
        return diff_file(o, entry);
    if (S_ISDIR(entry->st.st_mode) && layer_is_opaque(walk_dir(&o->walk), entry->name.p))
        r = diff_mark_opaque(o);
    if (r >= 0)
        r = diff_head(o, entry, &entry->st);
    if (r >= 0 && S_ISDIR(entry->st.st_mode))
        (void)!walk_enter(&o->walk, entry, NULL); /* an error means it was removed meanwhile */
    return r;
}

/* --- sending --- */

static int diff_pack(struct diff_op *o)
{
    struct walk_entry entry;
    int r;

    if (o->file.fd >= 0)
        return tar_content_add(&o->file, &o->tar, PIECE_BYTES);
    r = walk_next(&o->walk, &entry, NULL);
    if (r == WALK_ENTRY)
        return diff_entry(o, &entry);
    if (r != WALK_END)
        return r < 0 ? r : 0;
    o->packed = true;
    r = tar_write_end(&o->tar);
    return r;
}

static int diff_fill(struct diff_op *o)
{
    int r = diff_pack(o);

    if (r >= 0)
        r = gzip_store_add(&o->gzip, buf_str(&o->tar), &o->out);
    buf_clear(&o->tar);
    return r < 0 || !o->packed ? r : gzip_store_end(&o->gzip, &o->out);
}

static bool diff_send(struct diff_op *o)
{
    struct http_req *req = o->op.req;
    int r = o->out.n > 0 || o->packed ? 0 : diff_fill(o);

    if (r >= 0 && o->out.n > 0)
        r = http_reply_write_all(req, buf_str(&o->out));
    if (r == -EAGAIN)
        return false; /* on_drain() continues */
    buf_clear(&o->out);
    if (r >= 0 && !o->packed)
        return true;
    http_reply_end(req, r < 0 ? -r : 0);
    return false;
}

static bool diff_step(struct file_op *op)
{
    struct diff_op *o = container_of(op, struct diff_op, op);

    return o->measured ? diff_send(o) : diff_measure(o);
}

void get_isolated_diff(struct http_req *req)
{
    struct isolated *s = isolated_need_session(req);
    struct diff_op *o;
    struct err e = {0};

    if (!s)
        return;
    if (s->alone) { /* a commit may replace the layer or free the session */
        answer_error(req, 409, "SESSION_BUSY", "isolated session %s is being committed", s->id);
        return;
    }
    if (s->box.fds[BOX_FD_UPPER] < 0) {
        answer_error(req, 404, "FILE_NOT_FOUND", "isolated session %s keeps no layer", s->id);
        return;
    }
    o = file_op_new(req, sizeof(*o), diff_step, diff_release);
    if (!o)
        return;
    o->session = s;
    o->file.fd = -EBADF;
    isolated_hold(s);
    buf_init(&o->tar, TAR_BYTES_MAX);
    buf_init(&o->out, OUT_BYTES_MAX);
    layer_path(s, o->root);
    if (walk_open(&o->walk, o->root, &e) < 0)
        answer_error(req, 500, "RUNTIME_ERROR", "error reading the layer. %s", e.msg);
    else
        file_op_start(&o->op);
}
