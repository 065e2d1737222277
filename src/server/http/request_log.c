/* request_log.c - log lines about requests.
 *
 * The access log has a line for each. The program's log has requests that change something or fail.
 * As any client can cause any number of failures, only the first few per second and status are
 * written, and one line counts the rest. */
#include <errno.h>

#include "base/time.h"
#include "server/http/logfile.h"
#include "server/http/routes.h"
#include "server/http/server_internal.h"
#include "server/http/tracing.h"

enum { REPORT_MS = 1000 };

static const char *peer_of(const struct http_req *req, char out[SOCK_ADDR_TEXT_MAX])
{
    sock_addr_format(http_req_peer(req), out);
    return out;
}

/* Writes to the access log's descriptor, or to the program's log when `access` is negative. */
static void log_request(const struct http_req *req, uint64_t ns, enum log_level level, int access)
{
    char peer[SOCK_ADDR_TEXT_MAX];
    const struct log_field fields[] = {
        LOG_STR("peer", peer_of(req, peer)),
        LOG_STR("by", guard_principal(req)->key_id),
        LOG_STR("tenant", guard_principal(req)->tenant),
        LOG_STR("method", req->head.method_name),
        LOG_STR("path", req->head.path),
        LOG_I64("status", req->status),
        LOG_U64("us", ns / 1000),
        LOG_U64("bytes", req->reply_bytes),
        LOG_STR("request_id", req->id),
        {.key = NULL},
    };

    if (access >= 0)
        log_fields_to(access, level, "request", fields);
    else
        log_event_fields(level, "request", fields);
}

static void report_left_out(struct request_log *log)
{
    for (int status = 0; status < REQUEST_LOG_STATUS_COUNT; status++) {
        uint64_t count = log_limit_take(&log->limits[status]);

        if (count > 0)
            log_event(LOG_INFO, "left out lines of failed requests", LOG_I64("status", status),
                      LOG_U64("count", count));
    }
}

static void on_report_due(struct loop_timer *t)
{
    report_left_out(container_of(t, struct request_log, timer));
}

static bool may_log_failure(struct server *s, int status)
{
    struct request_log *log = &s->request_log;

    if (log_limit_pass(&log->limits[status % REQUEST_LOG_STATUS_COUNT], loop_now_ns(s->loop)))
        return true;
    if (!loop_timer_armed(&log->timer))
        loop_timer_after(s->loop, &log->timer, REPORT_MS, on_report_due);
    return false;
}

static bool is_change(enum http_method method)
{
    return method != HTTP_GET && method != HTTP_HEAD && method != HTTP_OPTIONS;
}

void request_log_write(struct http_req *req, int error)
{
    struct server *s = server_of(req);
    uint64_t ns = time_mono_ns() - req->begin_ns;
    bool asks_ready = route_is(req, handle_ready_get); /* it logs reasons */
    bool failed = error || (req->status >= 400 && !asks_ready);
    struct trace_context before;
    enum log_level level = failed || is_change(req->head.method) ? LOG_INFO : LOG_DEBUG;

    tracing_end(req, error);
    before = trace_enter(tracing_of(req)); /* for the line */
    audit_request(req, ns);
    metrics_request(s->metrics, req->route, req->head.method, req->status, ns);
    if (s->access_log)
        log_request(req, ns, LOG_INFO, logfile_fd(s->access_log));
    else if (log_enabled(level) && (!failed || may_log_failure(s, req->status)))
        log_request(req, ns, level, -EBADF);
    (void)trace_enter(&before);
}

void request_log_done(struct server *s)
{
    loop_timer_stop(s->loop, &s->request_log.timer);
    report_left_out(&s->request_log);
}
