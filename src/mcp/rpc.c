/* rpc.c - reads and writes JSON-RPC messages. */
#include "mcp/rpc.h"

#include <errno.h>

#include "base/mem.h"

/* A tree needs several times its text. */
enum { ARENA_BYTES_MAX = 8 * RPC_MESSAGE_BYTES_MAX };

static bool is_id(const struct json *v)
{
    return v && (v->type == JSON_STRING || (v->type == JSON_NUMBER && v->number != JSON_REAL));
}

static int refuse(enum rpc_code *ret_code, struct err *e, const char *why)
{
    *ret_code = RPC_INVALID_REQUEST;
    return err_set(e, EBADMSG, "Invalid Request: %s", why);
}

static int classify(struct rpc_message *m, const struct json *v, enum rpc_code *ret_code,
                    struct err *e)
{
    const struct json *id = json_get(v, STR("id")), *params = json_get(v, STR("params"));
    struct str version;

    if (v->type == JSON_ARRAY)
        return refuse(ret_code, e, "batches are not supported; send one object for each message");
    if (v->type != JSON_OBJECT)
        return refuse(ret_code, e, "expected a JSON object");
    if (is_id(id))
        m->id = id;
    if (json_to_str(json_get(v, STR("jsonrpc")), &version) < 0 || !str_eq(version, STR("2.0")))
        return refuse(ret_code, e, "\"jsonrpc\" must be \"2.0\"");
    if (!json_get(v, STR("method")) && (json_get(v, STR("result")) || json_get(v, STR("error")))) {
        m->kind = RPC_RESPONSE;
        return 0;
    }
    if (json_to_str(json_get(v, STR("method")), &m->method) < 0)
        return refuse(ret_code, e, "\"method\" must be a string");
    if (id && !m->id)
        return refuse(ret_code, e, "\"id\" must be a string or an integer");
    if (params && params->type != JSON_OBJECT) {
        *ret_code = RPC_INVALID_PARAMS;
        return err_set(e, EBADMSG, "Invalid params: expected an object, got %s",
                       json_type_name(params));
    }
    m->params = params;
    m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    return 0;
}

int rpc_read(struct str text, struct rpc_message **ret, enum rpc_code *ret_code, struct err *e)
{
    const struct json_limits limits = {
        .text_bytes_max = RPC_MESSAGE_BYTES_MAX,
        .depth_max = RPC_DEPTH_MAX,
    };
    struct rpc_message *m = mem_new(struct rpc_message);
    struct json *v = NULL;
    int r;

    arena_init(&m->arena, ARENA_BYTES_MAX);
    *ret = m;
    r = json_parse(&m->arena, text, &limits, &v, e);
    if (r < 0) {
        *ret_code = RPC_PARSE_ERROR;
        return err_wrap(e, r, "Parse error");
    }
    return classify(m, v, ret_code, e);
}

void rpc_free(struct rpc_message *m)
{
    if (!m)
        return;
    arena_done(&m->arena);
    free(m);
}

bool rpc_same_id(const struct json *a, const struct json *b)
{
    if (!a || !b || a->type != b->type)
        return false;
    return a->type == JSON_STRING ? str_eq(a->string, b->string) : str_eq(a->text, b->text);
}

static void begin(struct json_writer *w, struct buf *out)
{
    json_write_begin(w, out);
    json_write_object(w);
    json_member_string(w, STR("jsonrpc"), STR("2.0"));
}

static void write_id(struct json_writer *w, const struct json *id)
{
    json_write_key(w, STR("id"));
    if (id)
        json_write_value(w, id);
    else
        json_write_null(w);
}

void rpc_begin_result(struct json_writer *w, struct buf *out, const struct json *id)
{
    begin(w, out);
    write_id(w, id);
    json_write_key(w, STR("result"));
}

void rpc_begin_notification(struct json_writer *w, struct buf *out, struct str method)
{
    begin(w, out);
    json_member_string(w, STR("method"), method);
    json_write_key(w, STR("params"));
}

int rpc_end(struct json_writer *w)
{
    json_write_object_end(w);
    return json_write_end(w);
}

int rpc_error(struct buf *out, const struct json *id, enum rpc_code code, const char *message,
              struct str data)
{
    struct json_writer w;

    begin(&w, out);
    write_id(&w, id);
    json_write_key(&w, STR("error"));
    json_write_object(&w);
    json_member_i64(&w, STR("code"), code);
    json_member_string(&w, STR("message"), str_of(message));
    if (data.n) {
        json_write_key(&w, STR("data"));
        json_write_raw(&w, data);
    }
    json_write_object_end(&w);
    return rpc_end(&w);
}
