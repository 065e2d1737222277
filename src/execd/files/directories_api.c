/* directories_api.c - lists, creates and removes directories. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "execd/core/answer.h"
#include "execd/files/file_op.h"
#include "execd/files/file_routes.h"
#include "execd/files/listing.h"
#include "execd/files/permission.h"
#include "execd/tree/fs.h"
#include "execd/tree/remove.h"
#include "execd/tree/walk.h"

/* --- GET /directories/list --- */

struct list_op {
    struct file_op op;
    const char *root;
    uint64_t depth;
    struct walk walk;
    struct listing found;
    bool walked;
};

static void list_release(struct file_op *op)
{
    struct list_op *o = container_of(op, struct list_op, op);

    walk_done(&o->walk);
    listing_done(&o->found);
}

static bool list_walk(struct list_op *o)
{
    struct walk_entry entry;
    struct err e = {0};
    int r = walk_next(&o->walk, &entry, &e);

    if (r == WALK_ENTRY) {
        bool down = S_ISDIR(entry.st.st_mode) && entry.level < o->depth;

        r = listing_add(&o->found, entry.path, &entry.st, &e);
        if (r == 0 && down)
            r = walk_enter(&o->walk, &entry, &e);
        if (r == -ENOENT)
            r = 0; /* removed meanwhile */
    } else if (r == WALK_END) {
        o->walked = true;
    }
    if (r >= 0)
        return true;
    answer_error(o->op.req, 500, "RUNTIME_ERROR", "error listing directory %s. %s", o->root, e.msg);
    return false;
}

static bool list_step(struct file_op *op)
{
    struct list_op *o = container_of(op, struct list_op, op);

    return o->walked ? listing_reply(&o->found, op->req) : list_walk(o);
}

static void list_begin(struct list_op *o)
{
    struct http_req *req = o->op.req;
    struct err e = {0};
    struct stat st;
    int r = fs_lstat(o->root, &st);

    if (r < 0)
        answer_fs(req, r, "lstat %s: %s", o->root, fs_text(-r));
    else if (S_ISLNK(st.st_mode))
        answer_error(req, 400, "INVALID_REQUEST_BODY",
                     "path is a symbolic link, refusing to traverse: %s", o->root);
    else if (!S_ISDIR(st.st_mode))
        answer_error(req, 400, "INVALID_REQUEST_BODY", "path is not a directory: %s", o->root);
    else if (o->depth > 0 && walk_open(&o->walk, o->root, &e) < 0)
        answer_error(req, 500, "RUNTIME_ERROR", "error listing directory %s. %s", o->root, e.msg);
    else {
        o->walked = o->depth == 0;
        file_op_start(&o->op);
    }
}

void directories_list(struct http_req *req)
{
    struct str given, depth;
    struct list_op *o;
    struct err e = {0};

    if (!answer_query_need(req, STR("path"), &given))
        return;
    o = file_op_new(req, sizeof(*o), list_step, list_release);
    if (!o)
        return;
    listing_init(&o->found);
    o->depth = 1;
    if (answer_query(req, STR("depth"), &depth) < 0 ||
        (depth.n > 0 && str_to_u64_range(depth, 0, INT64_MAX, &o->depth) < 0)) {
        answer_error(req, 400, "INVALID_REQUEST_BODY", "invalid query parameter 'depth': %.*s",
                     STR_ARG(depth));
        return;
    }
    o->root = file_op_path(&o->op, given, true, &e);
    if (o->root)
        list_begin(o);
    else
        answer_fs(req, -e.code, "%s", e.msg);
}

/* --- POST /directories --- */

enum { DIRECTORY_MODE = 0777 }; /* minus the umask */

struct make_op {
    struct file_op op;
    const struct json *next; /* members of the body */
};

static int make_one(const char *path, const struct json *item, struct err *e)
{
    struct permission_ids ids;
    struct permission p;
    bool made = false;
    int r = permission_read(item, &p, e);

    if (r == 0)
        r = permission_resolve(&p, &ids, e);
    if (r < 0)
        return r == -ENOENT ? -EINVAL : r; /* the user is missing, not the file */
    r = fs_make_dirs(path, DIRECTORY_MODE, &made);
    if (r < 0)
        return err_set(e, -r, "mkdir %s: %s", path, fs_text(-r));
    return made ? permission_apply(&ids, path, e) : 0;
}

static bool make_step(struct file_op *op)
{
    struct make_op *o = container_of(op, struct make_op, op);
    const struct json *at = o->next;
    struct err e = {0};
    const char *path;
    int r;

    if (!at) {
        answer_empty(op->req);
        return false;
    }
    o->next = at->next;
    path = file_op_path(op, at->key, true, &e);
    r = path ? make_one(path, at, &e) : -e.code;
    if (r < 0)
        answer_fs(op->req, r, "%s", e.msg);
    return r == 0;
}

void directories_make(struct http_req *req)
{
    struct make_op *o = file_op_new(req, sizeof(*o), make_step, NULL);
    const struct json *body = o ? file_op_body(&o->op, JSON_OBJECT) : NULL;
    struct permission p;
    struct err e = {0};

    json_each(item, body)
    {
        if (permission_read(item, &p, &e) < 0) {
            answer_bad_body(req, e.msg);
            return;
        }
    }
    if (!body)
        return;
    o->next = json_first(body);
    file_op_start(&o->op);
}

/* --- DELETE /directories --- */

struct clear_op {
    struct file_op op;
    struct str *paths;
    size_t count, at;
    bool open; /* `rm` is open */
    struct remove rm;
};

static void clear_release(struct file_op *op)
{
    remove_done(&container_of(op, struct clear_op, op)->rm);
}

static bool clear_fail(struct clear_op *o, const char *what, const struct err *e)
{
    answer_error(o->op.req, 500, "RUNTIME_ERROR", "error %s directory %.*s. %s", what,
                 STR_ARG(o->paths[o->at]), e->msg);
    return false;
}

static bool clear_step(struct file_op *op)
{
    struct clear_op *o = container_of(op, struct clear_op, op);
    struct err e = {0};
    const char *path;
    int r;

    if (o->at == o->count) {
        answer_empty(op->req);
        return false;
    }
    if (!o->open) {
        path = file_op_path(op, o->paths[o->at], false, &e);
        if (!path)
            return clear_fail(o, "resolving", &e);
        if (path[0] != '\0' && remove_open(&o->rm, path, &e) < 0)
            return clear_fail(o, "removing", &e);
        o->open = true;
    }
    r = remove_step(&o->rm, &e);
    if (r < 0)
        return clear_fail(o, "removing", &e);
    if (r == 0) {
        remove_done(&o->rm);
        o->open = false;
        o->at++;
    }
    return true;
}

void directories_delete(struct http_req *req)
{
    struct clear_op *o = file_op_new(req, sizeof(*o), clear_step, clear_release);

    if (o && file_op_query_paths(&o->op, &o->paths, &o->count) == 0)
        file_op_start(&o->op);
}
