#include "execd/code/code_api.h"

#include <errno.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/url.h"
#include "execd/code/cell.h"
#include "execd/command/command_api.h"
#include "execd/command/workdir.h"
#include "execd/core/answer.h"
#include "execd/core/envs.h"
#include "execd/core/routes.h"

enum {
    ARENA_BYTES_MAX = 24 << 20,
    LIST_BYTES_MAX = 4 << 20,
};

static struct contexts *contexts_of(const struct http_req *req)
{
    return ((struct execd_api *)req->server_user)->contexts;
}

/* --- languages without contexts --- */

enum engine { ENGINE_CONTEXT, ENGINE_COMMAND, ENGINE_BACKGROUND, ENGINE_SQL };

static enum engine engine_of(struct str language)
{
    static const struct {
        const char *language;
        enum engine engine;
    } rows[] = {
        {"",                   ENGINE_COMMAND   },
        {"command",            ENGINE_COMMAND   },
        {"background-command", ENGINE_BACKGROUND},
        {"sql",                ENGINE_SQL       },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(language, str_of(rows[i].language)))
            return rows[i].engine;
    return ENGINE_CONTEXT;
}

/* --- contexts --- */

struct context_body {
    struct str id, language, cwd, kernel;
    struct json_pair *envs;
    size_t envs_count;
};

static const struct json_field context_fields[] = {
    JSON_FIELD("id", JSON_AS_STR, JSON_NULLABLE, struct context_body, id, .min = 0),
    JSON_FIELD("language", JSON_AS_STR, JSON_NULLABLE, struct context_body, language, .min = 0),
    JSON_FIELD("cwd", JSON_AS_STR, JSON_NULLABLE, struct context_body, cwd, .min = 0),
    JSON_FIELD("kernel", JSON_AS_STR, JSON_NULLABLE, struct context_body, kernel, .min = 0),
    JSON_LIST("envs", JSON_AS_MAP, JSON_NULLABLE, struct context_body, envs, .min = 0),
};
static const struct json_table context_table = JSON_TABLE(struct context_body, context_fields, 0);

static int check_context(const struct context_body *b, struct err *e)
{
    if (str_has_nul(b->language) || str_has_nul(b->kernel))
        return err_set(e, EINVAL, "language and kernel must not contain a NUL byte");
    return envs_check(b->envs, b->envs_count, e);
}

static int make_context(struct http_req *req, struct arena *a, const struct context_body *b,
                        bool is_default, struct context **ret, struct err *e)
{
    AUTO_BUF(file, ENVS_FILES_BYTES_MAX);
    const char *const *ours = (const char *const *)environ;
    struct context_spec spec = {.language = b->language, .kernel = b->kernel};
    int r = check_context(b, e);

    if (r < 0)
        return r;
    envs_read_file(ours, &file);
    r = envs_make(a, ours, buf_str(&file), b->envs, b->envs_count, &spec.env);
    if (r < 0)
        return err_sys(e, -r, "environment");
    r = workdir_make(a, b->cwd, spec.env, usual_user(req), &spec.cwd, e);
    if (r < 0)
        return r;
    spec.is_default = is_default;
    return context_new(contexts_of(req), &spec, ret, e);
}

static const char *state_of(const struct context *c)
{
    return c->dead ? "dead" : c->busy ? "busy" : "idle";
}

static void write_context(struct json_writer *w, const struct context *c)
{
    json_write_object(w);
    json_member_string(w, STR("id"), str_of(c->id));
    json_member_string(w, STR("language"), str_of(c->language));
    if (c->cwd)
        json_member_string(w, STR("cwd"), str_of(c->cwd));
    json_member_string(w, STR("kernel"), str_of(c->kernel));
    json_member_string(w, STR("state"), str_of(state_of(c)));
    json_write_object_end(w);
}

static void answer_context(struct http_req *req, const struct context *c)
{
    AUTO_BUF(body, LIST_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    write_context(&w, c);
    answer_written(req, 200, &w);
}

/* A request for a new context that waits until it is known whether the context can run. */
struct opening {
    struct http_req *req;
    struct context *context; /* NULL once that is known */
};

static void opening_on_settled(void *user, const char *why)
{
    struct opening *o = user;
    struct context *c = o->context;

    o->context = NULL;
    if (why)
        answer_error(o->req, 500, "RUNTIME_ERROR", "error creating code context. %s", why);
    else
        answer_context(o->req, c);
}

/* The client never gets its id, so the context is freed. */
static void opening_on_close(struct http_req *req, int error UNUSED)
{
    struct opening *o = req->user;
    struct context *c = o->context;

    if (!c)
        return;
    (void)context_await(c, NULL, NULL);
    context_free(c);
}

static void answer_new_context(struct http_req *req, struct context *c)
{
    static const struct http_req_ops ops = {.on_close = opening_on_close};
    struct opening *o = arena_new(&req->arena, struct opening);

    if (!o || !context_await(c, opening_on_settled, o)) {
        answer_context(req, c);
        return;
    }
    *o = (struct opening){req, c};
    req->ops = &ops;
    req->user = o;
}

void post_code_context(struct http_req *req)
{
    AUTO_ARENA(arena, ARENA_BYTES_MAX);
    struct context_body b = {0};
    struct context *c;
    struct err e = {0};

    if (answer_read_body(req, &arena, &context_table, &b, &e) < 0) {
        answer_bad_body(req, e.msg);
        return;
    }
    if (engine_of(b.language) == ENGINE_SQL)
        answer_error(req, 501, "NOT_SUPPORTED",
                     "error creating code context. sql is not offered: run a client as a command");
    else if (engine_of(b.language) != ENGINE_CONTEXT)
        answer_error(req, 500, "RUNTIME_ERROR",
                     "error creating code context. unsupported language context operation: %.*s",
                     STR_ARG(b.language));
    else if (make_context(req, &arena, &b, false, &c, &e) < 0)
        answer_error(req, 500, "RUNTIME_ERROR", "error creating code context. %s", e.msg);
    else
        answer_new_context(req, c);
}

/* False after an error reply: the language has no contexts. */
static bool has_contexts(struct http_req *req, struct str language)
{
    if (language.n == 0 || engine_of(language) == ENGINE_CONTEXT)
        return true;
    answer_error(req, 500, "RUNTIME_ERROR", "unsupported language context operation: %.*s",
                 STR_ARG(language));
    return false;
}

void get_code_contexts(struct http_req *req)
{
    AUTO_BUF(body, LIST_BYTES_MAX);
    struct str language = STR("");
    struct json_writer w;
    const struct context *c;
    size_t at = 0;

    if (url_query_get(req->head.query, STR("language"), &req->arena, &language) < 0)
        language = STR("");
    if (!has_contexts(req, language))
        return;
    json_write_begin(&w, &body);
    json_write_array(&w);
    while ((c = contexts_next(contexts_of(req), &at)))
        if (language.n == 0 || str_eq(str_of(c->language), language))
            write_context(&w, c);
    json_write_array_end(&w);
    answer_written(req, 200, &w);
}

void delete_code_contexts(struct http_req *req)
{
    struct str language;
    struct context *c;
    size_t at = 0;

    if (!answer_query_need(req, STR("language"), &language) || !has_contexts(req, language))
        return;
    while ((c = contexts_next(contexts_of(req), &at)))
        if (str_eq(str_of(c->language), language))
            context_free(c);
    answer_empty(req);
}

/* The context named in the path. If NULL, the error reply was sent. */
static struct context *context_of(struct http_req *req)
{
    struct str id = answer_id(req);
    struct context *c = contexts_find(contexts_of(req), id);

    if (!c)
        answer_error(req, 404, "CONTEXT_NOT_FOUND", "context %.*s not found", STR_ARG(id));
    return c;
}

void get_code_context(struct http_req *req)
{
    const struct context *c = context_of(req);

    if (c)
        answer_context(req, c);
}

void delete_code_context(struct http_req *req)
{
    struct context *c = context_of(req);

    if (!c)
        return;
    context_free(c);
    answer_empty(req);
}

/* --- cells --- */

struct code_body {
    struct str code;
    struct context_body context;
    int64_t timeout;
};

static const struct json_field code_fields[] = {
    JSON_FIELD("code", JSON_AS_STR, JSON_NULLABLE, struct code_body, code, .min = 0),
    JSON_FIELD("context", JSON_AS_OBJECT, JSON_NULLABLE, struct code_body, context,
               .table = &context_table),
    JSON_FIELD("timeout", JSON_AS_I64, JSON_NULLABLE, struct code_body, timeout, .min = 0),
};
static const struct json_table code_table = JSON_TABLE(struct code_body, code_fields, 0);

/* Sends the error reply itself on failure. */
static int read_code(struct http_req *req, struct arena *a, struct code_body *b)
{
    struct err e = {0};
    int r = answer_read_body(req, a, &code_table, b, &e);

    if (r < 0) {
        answer_bad_body(req, e.msg);
        return r;
    }
    if (b->code.n == 0)
        r = err_set(&e, EINVAL,
                    "Key: 'RunCodeRequest.Code' Error:Field validation for 'Code' failed on the "
                    "'required' tag");
    else if (b->timeout < 0)
        r = err_set(&e, EINVAL,
                    "Key: 'RunCodeRequest.TimeoutMs' Error:Field validation for 'TimeoutMs' failed "
                    "on the 'gte' tag");
    if (r < 0)
        answer_invalid_body(req, e.msg);
    return r;
}

/* Finds the context by id, or the default one of the language. */
static int find_context(struct http_req *req, struct arena *a, const struct context_body *b,
                        struct context **ret, struct err *e)
{
    struct context *c;

    if (b->id.n > 0) {
        c = contexts_find(contexts_of(req), b->id);
        if (!c)
            return err_set(e, ENOENT, "context not found");
    } else {
        c = contexts_default(contexts_of(req), b->language, b->kernel);
        if (!c)
            return make_context(req, a, b, true, ret, e);
    }
    *ret = c;
    return 0;
}

static void run_in_context(struct http_req *req, struct arena *a, const struct code_body *b)
{
    struct cell_run run = {.code = b->code, .timeout_ms = (uint64_t)b->timeout};
    struct context *c = NULL;
    struct err e = {0};
    int r;

    if (http_req_hold(req, b->code.n) < 0)
        return;
    r = find_context(req, a, &b->context, &c, &e);
    if (r >= 0)
        r = context_revive(c, &e);
    if (r < 0) {
        answer_error(req, 500, "RUNTIME_ERROR", "error running codes %s", e.msg);
        return;
    }
    run.context = c;
    run.revived = r > 0;
    cell_start(req, &run);
}

void post_code(struct http_req *req)
{
    AUTO_ARENA(arena, ARENA_BYTES_MAX);
    struct code_body b = {0};
    enum engine engine;

    if (read_code(req, &arena, &b) < 0)
        return;
    engine = engine_of(b.context.language);
    if (engine == ENGINE_SQL)
        answer_error(req, 501, "NOT_SUPPORTED",
                     "error running codes sql is not offered: run a client as a command");
    else if (engine == ENGINE_CONTEXT || (b.context.language.n == 0 && b.context.id.n > 0))
        run_in_context(req, &arena, &b);
    else
        command_run_text(req, b.code, engine == ENGINE_BACKGROUND);
}

bool code_interrupt_answer(struct http_req *req, struct str id)
{
    struct context *c = contexts_find(contexts_of(req), id);

    if (!c)
        return false;
    context_interrupt(c);
    answer_empty(req);
    return true;
}
