#include "execd/file_reply.h"

#include <errno.h>

#include "base/buf.h"
#include "base/json_write.h"
#include "base/url.h"

enum { MESSAGE_BYTES_MAX = 64 << 10, BODY_BYTES_MAX = 8 * MESSAGE_BYTES_MAX };

const struct str file_json_type = STR_INIT("application/json; charset=utf-8");

static void reply_message(struct http_req *req, int status, const char *code, struct str message)
{
    AUTO_BUF(body, BODY_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_write_key(&w, STR("code"));
    json_write_string(&w, str_of(code));
    json_write_key(&w, STR("message"));
    json_write_string(&w, message);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        buf_clear(&body); /* no memory for more than the status */
    http_reply(req, status, file_json_type, buf_str(&body));
}

void file_reply_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
{
    AUTO_BUF(message, MESSAGE_BYTES_MAX);
    va_list ap;

    va_start(ap, fmt);
    if (buf_vaddf(&message, fmt, ap) < 0)
        (void)buf_add(&message, STR("failed, and the story is too long to tell"));
    va_end(ap);
    reply_message(req, status, code, buf_str(&message));
}

void file_reply_fs(struct http_req *req, int r, const char *fmt, ...)
{
    AUTO_BUF(message, MESSAGE_BYTES_MAX);
    bool absent = r == -ENOENT;
    va_list ap;

    (void)buf_add(&message, absent ? STR("file not found. ") : STR("error accessing file: "));
    va_start(ap, fmt);
    (void)buf_vaddf(&message, fmt, ap);
    va_end(ap);
    reply_message(req, absent ? 404 : 500, absent ? "FILE_NOT_FOUND" : "RUNTIME_ERROR",
                  buf_str(&message));
}

void file_reply_ok(struct http_req *req)
{
    http_reply(req, 200, STR_NONE, STR_NONE);
}

int file_query(struct http_req *req, struct str name, struct str *ret)
{
    struct str value = STR("");
    int r = url_query_get(req->head.query, name, &req->arena, &value);

    if (r < 0)
        return r;
    *ret = value;
    return 0;
}

bool file_query_need(struct http_req *req, struct str name, struct str *ret)
{
    struct str value;

    if (file_query(req, name, &value) < 0 || value.n == 0) {
        file_reply_error(req, 400, "MISSING_QUERY", "missing query parameter '%.*s'",
                         STR_ARG(name));
        return false;
    }
    *ret = value;
    return true;
}

void file_reply_bad_body(struct http_req *req, const char *detail)
{
    file_reply_error(req, 400, "INVALID_REQUEST_BODY",
                     "error parsing request, MAYBE invalid body format. %s", detail);
}
