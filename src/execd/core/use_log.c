#include "execd/core/use_log.h"

#include "base/log.h"
#include "base/time.h"
#include "execd/core/redact.h"
#include "execd/core/routes.h"

enum {
    TEXT_BYTES_MAX = 1024,       /* of what a client sent */
    LOGGED_BYTES_MAX = 3 * 1024, /* masks may be longer than what they stand for */
};

static bool is_logged(const struct http_req *req, enum log_level level)
{
    return ((const struct execd_api *)req->server_user)->log_use && log_enabled(level);
}

/* The end may be missing; what is cut was no less secret before. */
static void add_redacted(struct str text, struct buf *out)
{
    text.n = min_size(text.n, TEXT_BYTES_MAX);
    (void)redact(text, out);
}

/* What applications behind a port are asked is theirs, however the path to them was spelled. Of
 * what reached no route nobody knows whose it is. */
static bool is_query_ours(const struct http_req *req)
{
    return req->route && !str_starts(str_of(req->route->path), STR("/proxy/"));
}

void use_log_request(struct http_req *req, int error)
{
    uint64_t ns = loop_now_ns(http_req_loop(req)) - req->begin_ns;
    AUTO_BUF(message, LOGGED_BYTES_MAX);

    if (!is_logged(req, LOG_INFO))
        return;
    (void)buf_addf(&message, "Requested: %.*s - ", STR_ARG(req->head.method_name));
    add_redacted(req->head.path, &message);
    if (req->head.query.n > 0 && is_query_ours(req)) {
        (void)buf_add_char(&message, '?');
        add_redacted(req->head.query, &message);
    }
    log_event(LOG_INFO, message.p, LOG_I64("status", req->status), LOG_I64("error", error),
              LOG_U64("ms", ns / TIME_NS_PER_MS));
}

void use_log_command(const struct http_req *req, struct str text)
{
    AUTO_BUF(shown, LOGGED_BYTES_MAX);

    if (!is_logged(req, LOG_DEBUG))
        return;
    add_redacted(text, &shown);
    log_event(LOG_DEBUG, "command", LOG_STR("path", req->head.path),
              LOG_STR("command", buf_str(&shown)), LOG_U64("bytes", text.n));
}
