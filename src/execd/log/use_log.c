#include "execd/log/use_log.h"

#include "base/log.h"
#include "base/time.h"
#include "execd/core/routes.h"
#include "execd/log/redact.h"

enum {
    TEXT_BYTES_MAX = 1024,       /* of a client's text */
    LOGGED_BYTES_MAX = 3 * 1024, /* a mask may be longer than the text it replaces */
};

static bool is_logged(const struct http_req *req, enum log_level level)
{
    return ((const struct execd_api *)req->server_user)->log_use && log_enabled(level);
}

/* The text may be cut: the cut does not expose more of a secret. */
static void add_redacted(struct str text, struct buf *out)
{
    text.n = min_size(text.n, TEXT_BYTES_MAX);
    (void)redact(text, out);
}

/* A query below /proxy/ belongs to the application behind the port, however the path was spelled.
 * So may one that matched no route. */
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
