/* files_move.c - POST /files/mv: by rename, or across file systems by copy and removal. The copy is
 * made under a temporary name, so that it appears complete. */
#include <errno.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "execd/core/answer.h"
#include "execd/core/path.h"
#include "execd/files/file_op.h"
#include "execd/files/file_routes.h"
#include "execd/tree/copy.h"
#include "execd/tree/fs.h"
#include "execd/tree/remove.h"

enum { PARENT_MODE = 0755 };

struct move_op {
    struct file_op op;
    const struct json *next; /* elements of the body */
    const char *src, *dest;
    enum move_stage {
        MOVE_NEXT,
        MOVE_COPY,  /* to `temp` beside dest */
        MOVE_CLEAR, /* removes the copied source */
        MOVE_UNDO,  /* removes the copy, which failed with `error` */
    } stage;
    struct copy copy;
    struct remove rm;
    int dest_dir;
    char temp[FS_TEMP_NAME_MAX];
    struct err error;
};

static void move_close(struct move_op *o)
{
    copy_done(&o->copy);
    remove_done(&o->rm);
    fd_close(take_fd(&o->dest_dir));
}

static int move_temp_path(const struct move_op *o, struct buf *out)
{
    return buf_addf(out, "%.*s/%s", STR_ARG(path_parent(str_of(o->dest))), o->temp);
}

/* If the client disconnects, no half-done move is left: an incomplete copy is removed; after a
 * complete one the source is. */
static void move_release(struct file_op *op)
{
    struct move_op *o = container_of(op, struct move_op, op);
    AUTO_BUF(temp, PATH_MAX);
    enum move_stage stage = o->stage;

    move_close(o);
    if (stage == MOVE_CLEAR)
        remove_in_background(http_req_loop(op->req), o->src);
    else if (stage != MOVE_NEXT && move_temp_path(o, &temp) == 0)
        remove_in_background(http_req_loop(op->req), temp.p);
}

static bool move_fail(struct move_op *o, const struct err *e)
{
    answer_fs(o->op.req, -e->code, "%s", e->msg);
    return false;
}

static bool move_fail_exists(struct move_op *o)
{
    answer_fs(o->op.req, -EEXIST, "destination path already exists: %s", o->dest);
    return false;
}

static bool move_fail_rename(struct move_op *o, int r)
{
    answer_fs(o->op.req, r == -ENOENT ? -ESTALE : r, "failed to rename file: %s to %s: %s", o->src,
              o->dest, fs_text(-r));
    return false;
}

/* --- across file systems --- */

static bool move_undo(struct move_op *o, const struct err *why)
{
    AUTO_BUF(temp, PATH_MAX);

    o->error = *why;
    copy_done(&o->copy);
    if (move_temp_path(o, &temp) < 0 || remove_open(&o->rm, temp.p, NULL) < 0)
        return move_fail(o, &o->error);
    o->stage = MOVE_UNDO;
    return true;
}

static bool move_begin_copy(struct move_op *o)
{
    struct err e = {0};
    struct str name;

    o->dest_dir = fs_open_parent(o->dest, &name);
    if (o->dest_dir < 0)
        return move_fail_rename(o, o->dest_dir);
    fs_temp_name(o->temp);
    if (copy_open(&o->copy, o->src, o->dest_dir, o->temp, &e) < 0)
        return move_fail(o, &e);
    o->stage = MOVE_COPY;
    return true;
}

/* The copy is complete: renames it to its place, then the source can be removed. */
static bool move_end_copy(struct move_op *o)
{
    struct err e = {0};
    struct str name = path_base(str_of(o->dest));
    int r = fs_rename_new(o->dest_dir, o->temp, o->dest_dir, name.p);

    if (r < 0) {
        (void)err_set(&e, -r, r == -EEXIST ? "destination path already exists: %s" : "rename %s",
                      o->dest);
        return move_undo(o, &e);
    }
    copy_done(&o->copy);
    if (remove_open(&o->rm, o->src, &e) < 0)
        return move_fail(o, &e);
    o->stage = MOVE_CLEAR;
    return true;
}

static bool move_step_copy(struct move_op *o)
{
    struct err e = {0};
    int r = copy_step(&o->copy, &e);

    if (r < 0)
        return move_undo(o, &e);
    return r > 0 || move_end_copy(o);
}

static bool move_step_remove(struct move_op *o)
{
    struct err e = {0};
    int r = remove_step(&o->rm, &e);

    if (r > 0)
        return true;
    if (o->stage == MOVE_UNDO) {
        o->stage = MOVE_NEXT;
        return move_fail(o, &o->error);
    }
    o->stage = MOVE_NEXT;
    if (r < 0) {
        (void)err_wrap(&e, r, "copied to %s, but the source stays", o->dest);
        return move_fail(o, &e);
    }
    move_close(o);
    return true;
}

/* --- the next file --- */

static bool move_within(const char *outer, const char *inner)
{
    size_t n = strlen(outer);

    return strncmp(outer, inner, n) == 0 && inner[n] == '/';
}

static bool move_begin(struct move_op *o)
{
    struct stat st;
    AUTO_BUF(parent, PATH_MAX);
    int r = fs_lstat(o->src, &st);

    if (r < 0) {
        answer_fs(o->op.req, r, "source path not found: %s: stat %s: %s", o->src, o->src,
                  fs_text(-r));
        return false;
    }
    if (fs_lstat(o->dest, &st) == 0)
        return move_fail_exists(o);
    if (move_within(o->src, o->dest))
        return move_fail_rename(o, -EINVAL);
    r = buf_add(&parent, path_parent(str_of(o->dest)));
    if (r == 0)
        r = fs_make_dirs(parent.p, PARENT_MODE, NULL);
    if (r < 0)
        return move_fail_rename(o, r);
    r = fs_rename_path_new(o->src, o->dest);
    if (r == -EEXIST)
        return move_fail_exists(o);
    if (r == -EXDEV)
        return move_begin_copy(o);
    return r == 0 || move_fail_rename(o, r);
}

static bool move_step_next(struct move_op *o)
{
    const struct json *at = o->next;
    struct str src = STR(""), dest = STR("");
    struct err e = {0};

    if (!at) {
        answer_empty(o->op.req);
        return false;
    }
    o->next = at->next;
    (void)json_to_str(file_member(at, STR("src")), &src);
    (void)json_to_str(file_member(at, STR("dest")), &dest);
    o->src = file_op_path(&o->op, src, true, &e);
    o->dest = o->src ? file_op_path(&o->op, dest, true, &e) : NULL;
    return o->dest ? move_begin(o) : move_fail(o, &e);
}

static bool move_step(struct file_op *op)
{
    struct move_op *o = container_of(op, struct move_op, op);

    switch (o->stage) {
    case MOVE_COPY:
        return move_step_copy(o);
    case MOVE_CLEAR:
    case MOVE_UNDO:
        return move_step_remove(o);
    default:
        return move_step_next(o);
    }
}

static bool move_is_text(const struct json *v)
{
    return !v || v->type == JSON_STRING;
}

void files_move(struct http_req *req)
{
    struct move_op *o = file_op_new(req, sizeof(*o), move_step, move_release);
    const struct json *body;

    if (!o)
        return;
    o->dest_dir = -EBADF;
    body = file_op_body(&o->op, JSON_ARRAY);
    json_each(item, body)
    {
        if ((item->type != JSON_OBJECT && item->type != JSON_NULL) ||
            !move_is_text(file_member(item, STR("src"))) ||
            !move_is_text(file_member(item, STR("dest")))) {
            answer_bad_body(req, "expected objects with src and dest, both text");
            return;
        }
    }
    if (!body)
        return;
    o->next = json_first(body);
    file_op_start(&o->op);
}
