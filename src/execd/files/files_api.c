/* files_api.c - metadata, removal and permissions of single files, and the search for files. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "execd/core/answer.h"
#include "execd/core/path.h"
#include "execd/files/file_info.h"
#include "execd/files/file_op.h"
#include "execd/files/file_routes.h"
#include "execd/files/listing.h"
#include "execd/files/permission.h"
#include "execd/tree/fs.h"
#include "execd/tree/glob.h"
#include "execd/tree/walk.h"

enum { INFO_BYTES_MAX = 8 << 20 }; /* the limit of the request's head keeps it far smaller */

/* --- GET /files/info --- */

struct info_op {
    struct file_op op;
    struct str *paths;
    size_t count;
    struct user_cache users;
};

struct info_row {
    struct str given, path;
    struct stat st;
};

static int info_compare(const void *a, const void *b)
{
    return str_cmp(((const struct info_row *)a)->given, ((const struct info_row *)b)->given);
}

static void info_reply(struct info_op *o, struct info_row *rows)
{
    AUTO_BUF(body, INFO_BYTES_MAX);
    struct json_writer w;

    qsort(rows, o->count, sizeof(*rows), info_compare);
    json_write_begin(&w, &body);
    json_write_object(&w);
    for (size_t i = 0; i < o->count; i++) {
        struct file_facts facts = file_facts_of(&rows[i].st);

        if (i > 0 && str_eq(rows[i].given, rows[i - 1].given))
            continue;
        json_write_key(&w, rows[i].given);
        file_info_write(&w, rows[i].path, &facts, &o->users);
    }
    json_write_object_end(&w);
    answer_written(o->op.req, 200, &w);
}

static bool info_step(struct file_op *op)
{
    struct info_op *o = container_of(op, struct info_op, op);
    struct info_row *rows = arena_new_array(&op->arena, struct info_row, o->count + 1);

    if (!rows) {
        answer_error(op->req, 500, "RUNTIME_ERROR", "no memory for so many paths");
        return false;
    }
    for (size_t i = 0; i < o->count; i++) {
        struct err e = {0};
        const char *path = file_op_path(op, o->paths[i], true, &e);
        int why = path ? -fs_lstat(path, &rows[i].st) : e.code;

        if (why) {
            if (path && why == ENOENT)
                answer_fs(op->req, -why, "file not found: %s: lstat %s: %s", path, path,
                          fs_text(why));
            else
                answer_fs(op->req, -why, "%s%s%s", path ? path : e.msg, path ? ": " : "",
                          path ? fs_text(why) : "");
            return false;
        }
        rows[i].given = o->paths[i];
        rows[i].path = str_of(path);
    }
    info_reply(o, rows);
    return false;
}

void files_info(struct http_req *req)
{
    struct info_op *o = file_op_new(req, sizeof(*o), info_step, NULL);

    if (o && file_op_query_paths(&o->op, &o->paths, &o->count) == 0)
        file_op_start(&o->op);
}

/* --- DELETE /files --- */

struct delete_op {
    struct file_op op;
    struct str *paths;
    size_t count, at;
};

/* Removes a link itself; a directory, or a link to one, is left alone. -ENOENT is not a failure. */
static int delete_file(const char *path)
{
    struct stat st;

    int r;

    if (fs_stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return -EISDIR;
    r = fs_unlink(path);
    return r == -ENOENT ? 0 : r;
}

static bool delete_step(struct file_op *op)
{
    struct delete_op *o = container_of(op, struct delete_op, op);
    struct str given;
    struct err e = {0};
    const char *path;
    int r;

    if (o->at == o->count) {
        answer_empty(op->req);
        return false;
    }
    given = o->paths[o->at++];
    path = file_op_path(op, given, true, &e);
    r = path ? delete_file(path) : -e.code;
    if (r == 0)
        return true;
    if (r == -EISDIR)
        answer_error(op->req, 500, "RUNTIME_ERROR",
                     "error removing file %.*s. path is a directory: %s", STR_ARG(given), path);
    else
        answer_error(op->req, 500, "RUNTIME_ERROR", "error removing file %.*s. %s%s%s",
                     STR_ARG(given), path ? path : "", path ? ": " : "",
                     path ? fs_text(-r) : e.msg);
    return false;
}

void files_delete(struct http_req *req)
{
    struct delete_op *o = file_op_new(req, sizeof(*o), delete_step, NULL);

    if (o && file_op_query_paths(&o->op, &o->paths, &o->count) == 0)
        file_op_start(&o->op);
}

/* --- POST /files/permissions --- */

struct permissions_op {
    struct file_op op;
    const struct json *next; /* members of the body */
};

static bool permissions_step(struct file_op *op)
{
    struct permissions_op *o = container_of(op, struct permissions_op, op);
    const struct json *at = o->next;
    struct permission_ids ids;
    struct permission p;
    struct err e = {0};
    const char *path;

    if (!at) {
        answer_empty(op->req);
        return false;
    }
    o->next = at->next;
    path = file_op_path(op, at->key, true, &e);
    if (path && permission_read(at, &p, &e) == 0 && permission_resolve(&p, &ids, &e) == 0 &&
        permission_apply(&ids, path, &e) == 0)
        return true;
    answer_error(op->req, 500, "RUNTIME_ERROR", "error changing permissions for %.*s. %s",
                 STR_ARG(at->key), e.msg);
    return false;
}

/* Checks the whole body first: an error anywhere changes nothing. */
static bool permissions_check(struct file_op *op, const struct json *body)
{
    struct permission p;
    struct err e = {0};

    json_each(item, body)
    {
        if (permission_read(item, &p, &e) == 0)
            continue;
        (void)err_wrap(&e, -e.code, "%.*s", (int)min_size(item->key.n, 80), item->key.p);
        answer_bad_body(op->req, e.msg);
        return false;
    }
    return true;
}

void files_permissions(struct http_req *req)
{
    struct permissions_op *o = file_op_new(req, sizeof(*o), permissions_step, NULL);
    const struct json *body = o ? file_op_body(&o->op, JSON_OBJECT) : NULL;

    if (!body || !permissions_check(&o->op, body))
        return;
    o->next = json_first(body);
    file_op_start(&o->op);
}

/* --- GET /files/search --- */

struct search_op {
    struct file_op op;
    const char *root;
    struct str pattern;
    struct glob *glob;
    struct walk walk;
    struct listing found;
    bool walked;
};

static void search_release(struct file_op *op)
{
    struct search_op *o = container_of(op, struct search_op, op);

    glob_free(o->glob);
    walk_done(&o->walk);
    listing_done(&o->found);
}

static bool search_fail(struct search_op *o, const struct err *e)
{
    answer_error(o->op.req, 500, "RUNTIME_ERROR", "error searching files. %s", e->msg);
    return false;
}

/* Keeps a file whose name matches or, if the pattern contains a '/', whose path below the root
 * does. */
static int search_look(struct search_op *o, struct str path, struct str name, const struct stat *st,
                       struct err *e)
{
    struct str below = str_skip(path, min_size(path.n, strlen(o->root)));
    int r;

    while (below.n > 0 && below.p[0] == '/')
        below = str_skip(below, 1);
    r = glob_match(o->glob, glob_has_slash(o->glob) && below.n > 0 ? below : name);
    if (r < 0)
        return err_set(e, -r, "pattern %.*s: too much work to match", STR_ARG(o->pattern));
    return r ? listing_add(&o->found, path, st, e) : 0;
}

static bool search_walk(struct search_op *o)
{
    struct walk_entry entry;
    struct err e = {0};
    int event = walk_next(&o->walk, &entry, &e), r = event;

    if (event == WALK_ENTRY && !S_ISDIR(entry.st.st_mode))
        r = search_look(o, entry.path, entry.name, &entry.st, &e);
    else if (event == WALK_ENTRY && walk_enter(&o->walk, &entry, NULL) < 0)
        return true; /* not readable: continue with the others */
    if (r < 0)
        return search_fail(o, &e);
    o->walked = event == WALK_END;
    return true;
}

static bool search_step(struct file_op *op)
{
    struct search_op *o = container_of(op, struct search_op, op);

    return o->walked ? listing_reply(&o->found, op->req) : search_walk(o);
}

/* A root that is no directory is matched itself. */
static void search_begin(struct search_op *o)
{
    struct err e = {0};
    struct stat st;
    int r = fs_lstat(o->root, &st);

    if (r < 0) {
        answer_fs(o->op.req, r, "lstat %s: %s", o->root, fs_text(-r));
        return;
    }
    if (glob_new(o->pattern, &o->glob, &e) < 0) {
        (void)err_wrap(&e, -e.code, "invalid pattern %.*s", STR_ARG(o->pattern));
        (void)search_fail(o, &e);
        return;
    }
    o->walked = !S_ISDIR(st.st_mode);
    if (o->walked)
        r = search_look(o, str_of(o->root), path_base(str_of(o->root)), &st, &e);
    else
        r = walk_open(&o->walk, o->root, &e);
    o->walk.lenient = true;
    if (r < 0)
        (void)search_fail(o, &e);
    else
        file_op_start(&o->op);
}

void files_search(struct http_req *req)
{
    struct search_op *o;
    struct str given;
    struct err e = {0};

    if (!answer_query_need(req, STR("path"), &given))
        return;
    o = file_op_new(req, sizeof(*o), search_step, search_release);
    if (!o)
        return;
    listing_init(&o->found);
    if (answer_query(req, STR("pattern"), &o->pattern) < 0 || o->pattern.n == 0)
        o->pattern = STR("**");
    o->root = file_op_path(&o->op, given, true, &e);
    if (o->root)
        search_begin(o);
    else
        answer_fs(req, -e.code, "%s", e.msg);
}
