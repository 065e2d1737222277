/* isolated_commit.c - POST .../commit: copies a session's layer into the workspace below it.
 *
 * Walks the layer from the top. Each entry replaces the one of the same name below. Files are
 * replaced atomically, by rename. No process runs in the session meanwhile. A commit that failed
 * half way can be repeated with the same result. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json_write.h"
#include "execd/core/answer.h"
#include "execd/files/file_op.h"
#include "execd/isolated/isolated_api.h"
#include "execd/isolated/isolated_api_internal.h"
#include "execd/isolated/isolated_layer.h"
#include "execd/isolated/isolated_request.h"
#include "execd/tree/copy.h"
#include "execd/tree/fs.h"
#include "execd/tree/remove.h"

enum { DIR_MODE = 0700, REPLY_BYTES_MAX = 1024 };

struct commit_op {
    struct file_op op;
    struct isolated *session; /* NULL once this request no longer owns it */
    bool reset;
    char root[LAYER_PATH_MAX];
    struct walk walk;
    uint64_t written, removed;

    /* The current entry. */
    enum commit_stage { COMMIT_NEXT, COMMIT_CLEAR, COMMIT_COPY } stage;
    struct walk_entry entry; /* valid until the next walk_next() */
    int parent;              /* its parent directory in the workspace; O_PATH */
    struct remove rm;
    struct copy copy;
    char temp[FS_TEMP_NAME_MAX];
};

static void commit_entry_done(struct commit_op *o)
{
    remove_done(&o->rm);
    copy_done(&o->copy);
    o->rm = (struct remove){0};
    o->copy = (struct copy){0};
    fd_close(take_fd(&o->parent));
    o->stage = COMMIT_NEXT;
}

static void commit_release(struct file_op *op)
{
    struct commit_op *o = container_of(op, struct commit_op, op);

    if (o->stage == COMMIT_COPY)
        (void)unlinkat(o->parent, o->temp, 0);
    commit_entry_done(o);
    walk_done(&o->walk);
    if (!o->session)
        return;
    isolated_ignore(o->session);
    o->session->alone = false;
    isolated_release(o->session);
}

static bool commit_fail(struct commit_op *o, const struct err *e)
{
    answer_error(o->op.req, 500, "RUNTIME_ERROR", "error committing %s. %s",
                 o->session->spec.workspace, e->msg);
    return false;
}

static bool commit_fail_at(struct commit_op *o, int code, const char *doing)
{
    struct str below = layer_below(o->entry.path, o->root);
    struct err e = {0};

    (void)err_set(&e, code, "%s %.*s: %s", doing, STR_ARG(below), fs_text(code));
    return commit_fail(o, &e);
}

/* --- one entry --- */

/* Builds a path for functions that take no descriptor. */
static int commit_path(int dir, const char *name, struct buf *out)
{
    return buf_addf(out, "/proc/self/fd/%d/%s", dir, name);
}

/* Opens the entry's parent directory in the workspace. Does not follow symlinks: where the session
 * has a directory, the workspace has one by now. */
static int commit_open_parent(struct commit_op *o)
{
    struct str below = layer_below(o->entry.path, o->root);
    size_t n = below.n - o->entry.name.n;
    AUTO_BUF(path, WALK_PATH_BYTES_MAX);

    if (buf_add(&path, n > 0 ? str_make(below.p, n - 1) : STR(".")) < 0)
        return -ENAMETOOLONG;
    return fd_open_at(o->session->workspace, path.p, O_PATH | O_DIRECTORY, 0, PATH_STRICT, NULL);
}

static int commit_set_facts(struct commit_op *o, const char *name)
{
    const struct stat *st = &o->entry.st;
    auto_fd dir = openat(o->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir < 0 || fchown(dir, st->st_uid, st->st_gid) < 0 || fchmod(dir, st->st_mode & 07777) < 0)
        return -errno;
    return 0;
}

static bool commit_directory(struct commit_op *o)
{
    const char *name = o->entry.name.p;
    int r = mkdirat(o->parent, name, DIR_MODE) < 0 && errno != EEXIST ? -errno : 0;

    if (r >= 0)
        r = commit_set_facts(o, name);
    if (r >= 0)
        r = walk_enter(&o->walk, &o->entry, NULL);
    if (r < 0)
        return commit_fail_at(o, -r, "write");
    commit_entry_done(o);
    return true;
}

/* Its place is now free, or holds only what a rename can replace. */
static bool commit_place(struct commit_op *o)
{
    AUTO_BUF(from, PATH_MAX);
    struct err e = {0};

    if (layer_is_gone(&o->entry.st)) {
        o->removed++;
        commit_entry_done(o);
        return true;
    }
    if (S_ISDIR(o->entry.st.st_mode))
        return commit_directory(o);
    fs_temp_name(o->temp);
    if (commit_path(walk_dir(&o->walk), o->entry.name.p, &from) < 0 ||
        copy_open(&o->copy, from.p, o->parent, o->temp, &e) < 0)
        return commit_fail(o, &e);
    o->stage = COMMIT_COPY;
    return true;
}

static bool commit_step_copy(struct commit_op *o)
{
    struct err e = {0};
    int r = copy_step(&o->copy, &e);

    if (r > 0)
        return true;
    if (r < 0)
        return commit_fail(o, &e);
    if (renameat(o->parent, o->temp, o->parent, o->entry.name.p) < 0)
        return commit_fail_at(o, errno, "replace");
    o->written++;
    commit_entry_done(o);
    return true;
}

static bool commit_step_clear(struct commit_op *o)
{
    struct err e = {0};
    int r = remove_step(&o->rm, &e);

    if (r < 0)
        return commit_fail(o, &e);
    return r > 0 || commit_place(o);
}

/* True if the lower entry must be removed first: one deleted in the layer, or replaced by another
 * type or by an opaque directory. */
static bool commit_must_clear(const struct commit_op *o)
{
    const char *name = o->entry.name.p;
    bool is_dir = S_ISDIR(o->entry.st.st_mode);
    struct stat below;

    if (fstatat(o->parent, name, &below, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (layer_is_gone(&o->entry.st))
        return true;
    if (!S_ISDIR(below.st_mode))
        return is_dir;
    return !is_dir || layer_is_opaque(walk_dir(&o->walk), name);
}

static bool commit_entry(struct commit_op *o)
{
    AUTO_BUF(path, PATH_MAX);
    struct err e = {0};

    o->parent = commit_open_parent(o);
    if (o->parent < 0)
        return commit_fail_at(o, -o->parent, "open the place of");
    if (!commit_must_clear(o))
        return commit_place(o);
    if (commit_path(o->parent, o->entry.name.p, &path) < 0 || remove_open(&o->rm, path.p, &e) < 0)
        return commit_fail(o, &e);
    o->stage = COMMIT_CLEAR;
    return true;
}

/* --- ending --- */

static void commit_reply(struct http_req *req, const struct commit_op *o)
{
    AUTO_BUF(body, REPLY_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_u64(&w, STR("files_written"), o->written);
    json_member_u64(&w, STR("paths_removed"), o->removed);
    json_member_bool(&w, STR("upper_reset"), o->reset);
    json_write_object_end(&w);
    answer_written(req, 200, &w);
}

static void commit_on_restarted(void *user, struct isolated *s, const struct err *why)
{
    struct commit_op *o = user;

    o->session = s;
    if (s)
        commit_reply(o->op.req, o);
    else
        answer_error(o->op.req, 500, "RUNTIME_ERROR",
                     "committed, but the session did not come back: %s", why->msg);
}

/* An overlay does not tolerate changes of its lower directory, so a reset layer needs a new box. */
static void commit_restart(struct commit_op *o)
{
    struct isolated *s = o->session;
    struct err e = {0};

    walk_done(&o->walk);
    o->walk = (struct walk){0};
    if (isolated_restart(s, commit_on_restarted, o, &e) >= 0)
        return;
    o->session = NULL;
    answer_error(o->op.req, 500, "RUNTIME_ERROR",
                 "committed, but the session did not come back: %s", e.msg);
}

static bool commit_step_next(struct commit_op *o)
{
    struct err e = {0};
    int r = walk_next(&o->walk, &o->entry, &e);

    if (r < 0)
        return commit_fail(o, &e);
    if (r == WALK_ENTRY)
        return commit_entry(o);
    if (r != WALK_END)
        return true;
    if (o->reset && o->session->state == ISOLATED_READY)
        commit_restart(o);
    else
        commit_reply(o->op.req, o);
    return false;
}

static bool commit_step(struct file_op *op)
{
    struct commit_op *o = container_of(op, struct commit_op, op);

    switch (o->stage) {
    case COMMIT_CLEAR:
        return commit_step_clear(o);
    case COMMIT_COPY:
        return commit_step_copy(o);
    default:
        return commit_step_next(o);
    }
}

static bool commit_may_begin(struct http_req *req, const struct isolated *s)
{
    if (s->spec.mode != BOX_OVERLAY)
        answer_error(req, 503, "NOT_SUPPORTED", "only an overlay workspace can be committed");
    else if (isolated_is_busy(s))
        answer_error(req, 409, "SESSION_BUSY", "isolated session %s is in use", s->id);
    else
        return true;
    return false;
}

static void commit_begin(struct http_req *req, struct isolated *s, bool reset)
{
    struct commit_op *o = file_op_new(req, sizeof(*o), commit_step, commit_release);
    struct err e = {0};

    if (!o)
        return;
    o->parent = -EBADF;
    o->session = s;
    o->reset = reset && s->state == ISOLATED_READY;
    s->alone = true;
    isolated_hold(s);
    layer_path(s, o->root);
    if (walk_open(&o->walk, o->root, &e) < 0)
        (void)commit_fail(o, &e);
    else
        file_op_start(&o->op);
}

void post_isolated_commit(struct http_req *req)
{
    struct isolated *s = isolated_need(req) ? isolated_need_session(req) : NULL;
    struct isolated_commit want;

    if (s && isolated_request_commit(req, &want) >= 0 && commit_may_begin(req, s))
        commit_begin(req, s, want.reset_upper_after);
}
