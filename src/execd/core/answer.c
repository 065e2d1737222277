#include "execd/core/answer.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/json_write.h"
#include "base/url.h"

enum { NESTED_MAX = 16 }; /* objects of a body whose members are still to be named */

void answer_empty(struct http_req *req)
{
    http_reply(req, 200, STR_NONE, STR_NONE);
}

void answer_json(struct http_req *req, int status, struct str json)
{
    http_reply(req, status, ANSWER_JSON, json);
}

/* Formats the message, cut to the ceiling; leaves it empty when out of memory. */
static PRINTF_LIKE(2, 0) void format_message(struct buf *out, const char *fmt, va_list ap)
{
    if (buf_reserve(out, ANSWER_MESSAGE_BYTES_MAX) < 0)
        return;
    buf_claim(out, min_size((size_t)vsnprintf(out->p, ANSWER_MESSAGE_BYTES_MAX, fmt, ap),
                            ANSWER_MESSAGE_BYTES_MAX - 1));
}

static void answer_message(struct http_req *req, int status, const char *code, struct str message)
{
    AUTO_BUF(body, 8 * ANSWER_MESSAGE_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("code"), str_of(code));
    json_member_string(&w, STR("message"), message);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        buf_clear(&body); /* no memory: send only the status */
    answer_json(req, status, buf_str(&body));
}

void answer_written(struct http_req *req, int status, struct json_writer *w)
{
    struct buf *body = w->out;

    if (json_write_end(w) < 0)
        answer_error(req, 500, "RUNTIME_ERROR", "no memory for the answer");
    else
        answer_json(req, status, buf_str(body));
}

void answer_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
{
    AUTO_BUF(message, ANSWER_MESSAGE_BYTES_MAX);
    va_list ap;

    va_start(ap, fmt);
    format_message(&message, fmt, ap);
    va_end(ap);
    answer_message(req, status, code, buf_str(&message));
}

void answer_fs(struct http_req *req, int r, const char *fmt, ...)
{
    AUTO_BUF(detail, ANSWER_MESSAGE_BYTES_MAX);
    va_list ap;

    va_start(ap, fmt);
    format_message(&detail, fmt, ap);
    va_end(ap);
    if (r == -ENOENT)
        answer_error(req, 404, "FILE_NOT_FOUND", "file not found. %s", detail.p);
    else
        answer_error(req, 500, "RUNTIME_ERROR", "error accessing file: %s", detail.p);
}

void answer_bad_body(struct http_req *req, const char *detail)
{
    answer_error(req, 400, "INVALID_REQUEST_BODY",
                 "error parsing request, MAYBE invalid body format. %s", detail);
}

void answer_invalid_body(struct http_req *req, const char *detail)
{
    answer_error(req, 400, "INVALID_REQUEST_BODY", "invalid request, validation error %s", detail);
}

struct str answer_id(struct http_req *req)
{
    struct str raw = http_req_param(req, "id"), id;

    return url_decode_in(&req->arena, raw, 0, &id) < 0 ? raw : id;
}

int answer_query(struct http_req *req, struct str name, struct str *ret)
{
    struct str value = STR("");
    int r = url_query_get(req->head.query, name, &req->arena, &value);

    if (r < 0)
        return r;
    *ret = value;
    return 0;
}

bool answer_query_need(struct http_req *req, struct str name, struct str *ret)
{
    struct str value;

    if (answer_query(req, name, &value) < 0 || value.n == 0) {
        answer_error(req, 400, "MISSING_QUERY", "missing query parameter '%.*s'", STR_ARG(name));
        return false;
    }
    *ret = value;
    return true;
}

/* Gives a member the spelling of its table row, ignoring case, and unnames earlier duplicates. */
static void name_member(struct json *object, struct json *member, const struct json_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        struct str name = str_of(table->fields[i].name);

        if (!str_eq_nocase(member->key, name))
            continue;
        for (struct json *m = object->first; m != member; m = m->next)
            if (str_eq(m->key, name))
                m->key = STR("");
        member->key = name;
    }
}

/* Turns null values of a map into empty strings. */
static void fill_map(struct json *map)
{
    if (map->type != JSON_OBJECT)
        return;
    for (struct json *m = map->first; m; m = m->next) {
        if (m->type != JSON_NULL)
            continue;
        m->type = JSON_STRING;
        m->string = STR("");
    }
}

/* A JSON object and the table that describes its struct. */
struct binding {
    struct json *object;
    const struct json_table *table;
};

static struct json *member_of(const struct binding *b, const struct json_field *f)
{
    for (struct json *m = b->object->first; m; m = m->next)
        if (str_eq(m->key, str_of(f->name)))
            return m;
    return NULL;
}

static void name_members(const struct binding *b)
{
    for (struct json *m = b->object->first; m; m = m->next)
        name_member(b->object, m, b->table);
}

/* Names the members of all objects that become structs, at any depth. Keys of maps stay as sent. */
static void name_all(struct json *body, const struct json_table *table)
{
    struct binding open[NESTED_MAX] = {
        {body, table}
    };
    size_t n = 1;

    while (n > 0) {
        struct binding b = open[--n];

        if (b.object->type != JSON_OBJECT)
            continue;
        name_members(&b);
        for (size_t i = 0; i < b.table->count; i++) {
            const struct json_field *f = &b.table->fields[i];
            struct json *m =
                f->as == JSON_AS_OBJECT || f->as == JSON_AS_MAP ? member_of(&b, f) : NULL;

            if (m && f->as == JSON_AS_MAP)
                fill_map(m);
            else if (m) {
                assert(n < NESTED_MAX); /* our tables nest less deeply */
                open[n++] = (struct binding){m, f->table};
            }
        }
    }
}

static bool is_blank(struct str text)
{
    static const char white[] = " \t\r\n";
    size_t i = 0;

    while (i < text.n && text.p[i] && strchr(white, text.p[i]))
        i++;
    return i == text.n;
}

int answer_read_json(struct str text, struct arena *a, const struct json_table *table, void *ret,
                     struct err *e)
{
    static const struct json_limits limits = {
        .duplicates = JSON_DUPLICATES_LAST,
        .first_only = true,
        .replace_invalid = true,
    };
    struct json *body;
    int r;

    if (is_blank(text))
        return err_set(e, EBADMSG, "EOF");
    r = json_parse(a, text, &limits, &body, e);
    if (r < 0)
        return r;
    if (body->type == JSON_NULL)
        *body = (struct json){.type = JSON_OBJECT};
    name_all(body, table);
    return json_bind(a, body, table, ret, e);
}

int answer_read_body(const struct http_req *req, struct arena *a, const struct json_table *table,
                     void *ret, struct err *e)
{
    return answer_read_json(req->body, a, table, ret, e);
}

int answer_read_optional(const struct http_req *req, struct arena *a,
                         const struct json_table *table, void *ret, struct err *e)
{
    return is_blank(req->body) ? 0 : answer_read_body(req, a, table, ret, e);
}
