#include "execd/files/file_op.h"

#include <errno.h>
#include <unistd.h>

#include "base/url.h"
#include "execd/core/answer.h"
#include "execd/core/path.h"
#include "execd/core/routes.h"
#include "execd/files/file_view.h"
#include "execd/tree/fs.h"

static bool op_step(struct slice *s)
{
    struct file_op *op = container_of(s, struct file_op, slice);

    return op->step(op);
}

static void op_on_drain(struct http_req *req)
{
    file_op_start(req->user);
}

static void op_on_close(struct http_req *req, int error UNUSED)
{
    struct file_op *op = req->user;

    slice_stop(&op->slice);
    if (op->release)
        op->release(op);
    arena_done(&op->arena);
}

static const struct http_req_ops op_ops = {
    .on_drain = op_on_drain,
    .on_close = op_on_close,
};

void *file_op_new(struct http_req *req, size_t size, bool (*step)(struct file_op *op),
                  void (*release)(struct file_op *op))
{
    struct file_op *op = arena_zalloc(&req->arena, size);

    if (!op) {
        answer_error(req, 503, "RUNTIME_ERROR", "no memory for this request");
        return NULL;
    }
    op->req = req;
    op->step = step;
    op->release = release;
    arena_init(&op->arena, FILE_OP_ARENA_MAX);
    req->ops = &op_ops;
    req->user = op;
    return op;
}

void file_op_start(struct file_op *op)
{
    slice_start(&op->slice, http_req_loop(op->req), op_step);
}

const char *file_op_path(struct file_op *op, struct str given, bool clean, struct err *e)
{
    const char *const *env = (const char *const *)environ;
    AUTO_BUF(b, EXECD_PATH_BYTES_MAX);
    int r = clean || fs_is_confined() ? path_resolve(given, env, &b, e)
                                      : path_expand(given, env, &b, e);
    char *path = NULL;

    if (r == 0) {
        path = arena_strdup(&op->arena, buf_str(&b));
        if (!path)
            (void)err_set(e, ENOMEM, "no memory for so many paths");
    }
    return path;
}

int file_op_query_paths(struct file_op *op, struct str **ret_paths, size_t *ret_count)
{
    struct str query = op->req->head.query;
    struct url_query_iter it;
    struct str *paths;
    size_t n = 0;
    int r;

    /* Each has at least "path=". */
    paths = arena_new_array(&op->arena, struct str, query.n / 5 + 1);
    url_query_init(&it, query, &op->arena);
    while (paths && (r = url_query_next(&it)) > 0)
        if (str_eq(it.key, STR("path")) && it.raw_value.p)
            paths[n++] = it.value;
    if (!paths || r < 0) {
        answer_error(op->req, 400, "INVALID_REQUEST_BODY", "the query does not decode");
        return -EINVAL;
    }
    *ret_paths = paths;
    *ret_count = n;
    return 0;
}

/* --- paths within the workspace of a view --- */

bool file_view_allows(const struct http_req *req, struct str path)
{
    const struct execd_api *api = req->server_user;
    struct str view = str_of(api->view);
    AUTO_BUF(clean, EXECD_PATH_BYTES_MAX);

    if (view.n == 0)
        return true;
    return path_resolve(path, (const char *const *)environ, &clean, NULL) < 0 /* fails later */ ||
           (str_starts(buf_str(&clean), view) && (clean.n == view.n || clean.p[view.n] == '/'));
}

bool file_view_admits(struct http_req *req, struct str path)
{
    if (file_view_allows(req, path))
        return true;
    answer_error(req, 400, "INVALID_REQUEST_BODY", "path is outside of the workspace: %.*s",
                 STR_ARG(path));
    return false;
}

static bool admits_member(struct http_req *req, const struct json *object, struct str name)
{
    const struct json *path = file_member(object, name);

    return !path || path->type != JSON_STRING || file_view_admits(req, path->string);
}

/* Checks the paths in a body: its member names, or src and dest of the items of an array. */
static bool admits_body(struct http_req *req, const struct json *body)
{
    json_each(item, body)
    {
        bool ok = body->type == JSON_OBJECT ? file_view_admits(req, item->key)
                                            : admits_member(req, item, STR("src")) &&
                                                  admits_member(req, item, STR("dest"));

        if (!ok)
            return false;
    }
    return true;
}

/* --- bodies --- */

const struct json *file_op_body(struct file_op *op, enum json_type type)
{
    static const struct json_limits limits = {
        .duplicates = JSON_DUPLICATES_LAST,
        .first_only = true,
        .replace_invalid = true,
    };
    struct json *v = NULL;
    struct err e = {0};

    if (json_parse(&op->arena, op->req->body, &limits, &v, &e) == 0 && v->type != type &&
        v->type != JSON_NULL)
        (void)err_set(&e, EBADMSG, "expected %s, got %s",
                      type == JSON_OBJECT ? "an object" : "an array", json_type_name(v));
    if (e.code == 0)
        return admits_body(op->req, v) && http_req_hold(op->req, op->arena.used) == 0 ? v : NULL;
    if (e.code == ENOMEM || e.code == EMSGSIZE)
        answer_error(
            op->req, 413, "CONTENT_TOO_LARGE",
            "the parsed body takes more than %d MiB of memory: send it in several requests",
            FILE_OP_ARENA_MAX >> 20);
    else
        answer_bad_body(op->req, e.msg);
    return NULL;
}

const struct json *file_member(const struct json *object, struct str name)
{
    const struct json *found = NULL;

    json_each(item, object) if (str_eq_nocase(item->key, name)) found = item;
    return found && found->type != JSON_NULL ? found : NULL;
}
