/* diagnostics_api.c - a sandbox's output, events and description: as text for people, and logs and
 * events also as JSON when a scope is given. */
#include <arpa/inet.h>
#include <errno.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/spec_json.h"
#include "server/http/server_internal.h"

enum { DIAG_TEXT_MAX = 4 << 20 };

struct diagnosis {
    struct pending pending;
    struct pool_job job;
    enum api_diag_kind kind;
    struct api_diag_query query;
    char id[ID_UUID_MAX], scope[16];
    struct buf about;     /* description of the sandbox, made on the loop */
    struct buf text;      /* the result */
    uint64_t first_event; /* its number; 0 = no event */
    bool truncated, busy;
    struct err err; /* code 0 = fine */
};

static void diagnosis_free(struct pending *p)
{
    struct diagnosis *d = container_of(p, struct diagnosis, pending);

    buf_done(&d->about);
    buf_done(&d->text);
    free(d);
}

/* --- on the loop: from the table --- */

static void about_time(struct buf *out, const char *name, int64_t us, const char *without)
{
    char text[TIME_TEXT_MAX];

    if (us)
        time_format(us, text);
    (void)buf_addf(out, "%-12s%s\n", name, us ? text : without);
}

static void render_about(const struct sandbox *sb, const struct server *s, struct buf *out)
{
    (void)buf_addf(out, "%-12s%s\n%-12s%s\n", "id:", sb->id, "runtime:", s->runtime->name);
    (void)buf_addf(out, "%-12s%s\n", "image:", sb->image);
    (void)buf_addf(out, "%-12s%s/%s\n", "platform:", sb->os[0] ? sb->os : "linux",
                   sb->arch[0] ? sb->arch : "of the host");
    (void)buf_addf(out, "%-12s%s (%s)\n", "state:", sandbox_state_name(sb->state), sb->reason);
    (void)buf_addf(out, "%-12s%s\n", "message:", sb->message);
    about_time(out, "since:", sb->since_us, "never");
    about_time(out, "created:", sb->created_us, "never");
    about_time(out, "expires:", sb->expires_us, "never");
    (void)buf_addf(out, "%-12s%s\n", "entrypoint:", sb->entrypoint);
    (void)buf_addf(out, "%-12s%s\n", "metadata:", sb->metadata[0] ? sb->metadata : "{}");
    (void)spec_json_print(str_of(sb->spec), out);
}

/* --- on a worker --- */

/* The time `seconds` ago; 0, the beginning, when that is out of range. */
static int64_t ago_us(int64_t seconds)
{
    int64_t now_us = time_wall_us();

    return seconds < now_us / TIME_US_PER_S ? now_us - seconds * TIME_US_PER_S : 0;
}

static void collect_logs(struct diagnosis *d)
{
    struct runtime *rt = d->pending.server->runtime;
    const struct runtime_log_query query = {
        .since_us = d->query.since_s ? ago_us(d->query.since_s) : 0,
        .lines = d->query.tail,
    };
    size_t before = d->text.n;
    bool cut = false;

    if (rt->ops->logs(rt, str_of(d->id), &query, &d->text, &cut, &d->err) < 0)
        return;
    d->truncated |= cut;
    if (d->text.n == before && !d->query.scope.p)
        (void)buf_add(&d->text, STR("(no output)\n"));
}

static void on_event(void *user, const struct store_event *event)
{
    struct diagnosis *d = user;
    char at[TIME_TEXT_MAX];

    if (!d->first_event)
        d->first_event = event->number;
    time_format(event->at_us, at);
    (void)buf_addf(&d->text, "%s  %-10s  %.*s  %.*s\n", at, sandbox_state_name(event->state),
                   STR_ARG(event->reason), STR_ARG(event->message));
}

static void collect_events(struct diagnosis *d)
{
    struct runtime *rt = d->pending.server->runtime;

    (void)store_history(d->pending.server->store, str_of(d->id), d->query.limit, on_event, d,
                        &d->err);
    d->truncated |= d->first_event > 1;
    if (rt->ops->egress_report) /* the rest is worth having without it */
        (void)rt->ops->egress_report(rt, str_of(d->id), &d->text, NULL);
    if (rt->ops->report)
        (void)rt->ops->report(rt, str_of(d->id), API_DIAG_EVENTS, &d->text, NULL);
}

/* How the sandbox ended, if it did. */
static void collect_end(struct diagnosis *d)
{
    struct runtime *rt = d->pending.server->runtime;
    struct runtime_status status = {0};
    auto_fd watch = -EBADF;

    if (rt->ops->adopt(rt, str_of(d->id), &watch, &status, NULL) < 0)
        return;
    free(status.metadata);
    if (status.state != RUNTIME_EXITED && status.state != RUNTIME_FAILED)
        return;
    if (status.state == RUNTIME_FAILED)
        (void)buf_addf(&d->text, "%-12s%s\n", "error:", status.err.msg);
    else if (status.exit_signal)
        (void)buf_addf(&d->text, "%-12s%d\n", "signal:", status.exit_signal);
    else
        (void)buf_addf(&d->text, "%-12s%d\n", "exit code:", status.exit_code);
    about_time(&d->text, "ended:", status.ended_us, "unknown");
}

static void collect_inspection(struct diagnosis *d)
{
    struct runtime *rt = d->pending.server->runtime;
    struct runtime_usage u;
    struct err e = {0};
    char address[INET_ADDRSTRLEN] = "none";

    (void)buf_add(&d->text, buf_str(&d->about));
    collect_end(d);
    if (rt->ops->report)
        (void)rt->ops->report(rt, str_of(d->id), API_DIAG_INSPECT, &d->text, NULL);
    if (rt->ops->usage(rt, str_of(d->id), &u, &e) < 0) {
        (void)buf_addf(&d->text, "%-12s%s\n", "usage:", e.msg);
        return;
    }
    if (u.address.s_addr)
        (void)inet_ntop(AF_INET, &u.address, address, sizeof(address));
    (void)buf_addf(
        &d->text,
        "%-12s%s\n%-12s%d\n%-12s%llu bytes, %llu at most so far\n%-12s%llu us\n"
        "%-12s%llu\n%-12s%llu\n",
        "address:", address, "pid:", u.pid, "memory:", (unsigned long long)u.memory_bytes,
        (unsigned long long)u.memory_peak_bytes, "cpu:", (unsigned long long)u.cpu_us,
        "processes:", (unsigned long long)u.pids, "oom kills:", (unsigned long long)u.oom_kills);
}

static void collect_part(struct diagnosis *d, const char *heading,
                         void (*collect)(struct diagnosis *))
{
    (void)buf_addf(&d->text, "== %s ==\n", heading);
    collect(d);
    if (d->err.code)
        (void)buf_addf(&d->text, "(not available: %s)\n", d->err.msg);
    d->err = (struct err){0};
    (void)buf_add_char(&d->text, '\n');
}

static void collect_summary(struct diagnosis *d)
{
    collect_part(d, "Inspect", collect_inspection);
    collect_part(d, "Events", collect_events);
    collect_part(d, "Logs", collect_logs);
}

/* Whether the scope includes this kind; other scopes have none of it. */
static bool covers(const struct diagnosis *d)
{
    struct str scope = d->query.scope;

    if (!scope.p || str_eq(scope, STR("all")))
        return true;
    if (d->kind == API_DIAG_LOGS)
        return str_eq(scope, STR("container")) || str_eq(scope, STR("process"));
    return str_eq(scope, STR("lifecycle")) || str_eq(scope, STR("runtime"));
}

static void diagnosis_work(struct pool_job *job)
{
    static void (*const collectors[])(struct diagnosis *) = {
        [API_DIAG_LOGS] = collect_logs,
        [API_DIAG_EVENTS] = collect_events,
        [API_DIAG_INSPECT] = collect_inspection,
        [API_DIAG_SUMMARY] = collect_summary,
    };
    struct diagnosis *d = container_of(job, struct diagnosis, job);

    if (covers(d))
        collectors[d->kind](d);
}

/* --- the answer --- */

static void reply_diagnosis(struct diagnosis *d, struct http_req *req)
{
    if (d->err.code == ENOENT && d->kind == API_DIAG_LOGS) {
        /* The sandbox never ran, so it printed nothing. */
        buf_clear(&d->text);
        d->err = (struct err){0};
    }
    if (d->busy) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "the server is too busy, try again");
    } else if (sandboxes_failure_passes(d->err.code)) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "%s", d->err.msg);
    } else if (d->err.code) {
        http_reply_error(req, 500,
                         runtime_code(d->pending.server->runtime, "DOCKER::SANDBOX_QUERY_FAILED"),
                         "%s", d->err.msg);
    } else if (d->query.scope.p) {
        AUTO_BUF(body, 2 * DIAG_TEXT_MAX);

        reply_json(req, 200, &body,
                   api_diag_write(&body, str_of(d->id), d->kind, d->query.scope,
                                  STR("text/plain; charset=utf-8"), buf_str(&d->text),
                                  d->truncated));
    } else {
        if (d->kind == API_DIAG_LOGS || d->kind == API_DIAG_EVENTS)
            (void)http_reply_header(req, STR("Deprecation"), STR("true"));
        http_reply(req, 200, STR("text/plain; charset=utf-8"), buf_str(&d->text));
    }
}

static void diagnosis_done(struct pool_job *job, int error)
{
    struct diagnosis *d = container_of(job, struct diagnosis, job);

    d->busy = error != 0; /* or stopping */
    if (d->pending.req)
        reply_diagnosis(d, d->pending.req);
    pending_end(&d->pending);
}

static void diagnose(struct http_req *req, enum api_diag_kind kind)
{
    struct server *s = server_of(req);
    struct api_diag_query query = {0};
    struct api_fail f = {0};
    struct sandbox *sb = require_sandbox(req);
    struct diagnosis *d;

    if (!sb)
        return;
    if (api_diag_query_parse(&req->arena, req->head.query, kind, &query, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    d = mem_new(struct diagnosis);
    pending_init(&d->pending, req, diagnosis_free);
    d->kind = kind;
    d->query = query;
    buf_init(&d->about, DIAG_TEXT_MAX);
    buf_init(&d->text, DIAG_TEXT_MAX);
    memcpy(d->id, sb->id, sizeof(d->id));
    if (query.scope.p) { /* the query's strings are copied: the request may end first */
        int r = str_copy(d->scope, sizeof(d->scope), query.scope);

        d->query.scope = r < 0 ? STR_NONE : str_of(d->scope);
    }
    render_about(sb, s, &d->about);
    if (pool_submit(s->pool, &d->job, s->loop, diagnosis_work, diagnosis_done, 0) < 0)
        diagnosis_done(&d->job, EAGAIN);
}

void handle_diagnostics_logs(struct http_req *req)
{
    diagnose(req, API_DIAG_LOGS);
}

void handle_diagnostics_events(struct http_req *req)
{
    diagnose(req, API_DIAG_EVENTS);
}

void handle_diagnostics_inspect(struct http_req *req)
{
    diagnose(req, API_DIAG_INSPECT);
}

void handle_diagnostics_summary(struct http_req *req)
{
    diagnose(req, API_DIAG_SUMMARY);
}
