#include "execd/metrics/telemetry.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/metrics/figures.h"
#include "execd/metrics/series.h"
#include "execd/metrics/spans.h"
#include "execd/metrics/telemetry_export.h"
#include "version.h"

enum {
    STATUS_UPGRADED = 101, /* assumed for an upgraded connection, which has no status */
    HOSTINFO_BYTES_MAX = 1024,
    TEMPLATE_BYTES_MAX = 128,
    LABELS_MAX = 3,
    NS_PER_US = 1000,
};
#define NS_PER_MS     1e6
#define BYTES_PER_MIB 1048576.0

enum instrument { HTTP_REQUEST, EXECUTION, FILESYSTEM };

static const struct {
    const char *name;
    const char *labels[2];
} instruments[] = {
    [HTTP_REQUEST] = {"execd.http.request.duration",          {"http_method", "http_route"}},
    [EXECUTION] = {"execd.execution.duration",             {"operation", "result"}      },
    [FILESYSTEM] = {"execd.filesystem.operations.duration", {"operation", "result"}      },
};

struct telemetry {
    struct arena memory; /* holds the strings of conf and traces */
    struct telemetry_conf conf, traces;
    struct telemetry_export export, traces_export; /* zeroed: that signal is not sent */
    struct spans spans;
    struct telemetry_parts parts;
    struct metrics_point last; /* cpu time at the last export; at_ns 0: unknown */
    struct series_set series;
    int64_t begin_us; /* wall clock */
};

static const char success_text[] = "success", failure_text[] = "failure";
static const char unknown_route[] = "unknown", other_method[] = "_OTHER";

/* --- recording --- */

void telemetry_executed(struct telemetry *t, enum telemetry_run run, bool success, uint64_t ns,
                        const struct trace_span *span)
{
    static const char *const names[] = {
        [TELEMETRY_RUN_CODE] = "run_code",
        [TELEMETRY_RUN_COMMAND] = "run_command",
        [TELEMETRY_RUN_IN_SESSION] = "run_in_session",
    };
    struct series_key key = {
        EXECUTION, {names[run], success ? success_text : failure_text},
         0
    };

    if (!t)
        return;
    series_set_add(&t->series, &key, (double)ns / NS_PER_MS);
    trace_end(span, &(struct trace_note){
                        .name = str_of(names[run]), .kind = TRACE_INTERNAL, .failed = !success});
}

/* NULL: not a request about files. Routes of isolated sessions count as the same operations. */
static const char *file_operation(const struct http_route *route)
{
    static const struct {
        unsigned method;
        const char *path, *operation;
    } rows[] = {
        {HTTP_BIT(HTTP_GET),    "/files/info",           "info"    },
        {HTTP_BIT(HTTP_DELETE), "/files",                "delete"  },
        {HTTP_BIT(HTTP_POST),   "/files/permissions",    "chmod"   },
        {HTTP_BIT(HTTP_POST),   "/files/mv",             "rename"  },
        {HTTP_BIT(HTTP_GET),    "/files/search",         "search"  },
        {HTTP_BIT(HTTP_POST),   "/files/replace",        "replace" },
        {HTTP_BIT(HTTP_POST),   "/files/upload",         "upload"  },
        {HTTP_BIT(HTTP_GET),    "/files/download",       "download"},
        {HTTP_BIT(HTTP_GET),    "/directories/list",     "listdir" },
        {HTTP_BIT(HTTP_POST),   "/directories",          "mkdir"   },
        {HTTP_BIT(HTTP_DELETE), "/directories",          "rmdir"   },
        {HTTP_BIT(HTTP_POST),   "/directories/upload",   "upload"  },
        {HTTP_BIT(HTTP_GET),    "/directories/download", "download"},
    };
    struct str path = str_of(route->path), session = STR("/v1/isolated/session/{id}");

    if (str_starts(path, session))
        path = str_skip(path, session.n);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (route->methods == rows[i].method && str_eq(path, str_of(rows[i].path)))
            return rows[i].operation;
    return NULL;
}

/* The route's path. A request refused for its token counts for the route that would have answered
 * it. */
static const char *route_label(const struct http_req *req)
{
    const struct http_route *route = req->route;

    if (!route && req->head.path.n > 0)
        route = http_req_route_at(req, req->head.path);
    return !route || str_starts(str_of(route->path), STR("/proxy/")) ? unknown_route : route->path;
}

/* --- spans --- */

bool telemetry_enter(struct http_req *req)
{
    const struct http_headers *h = &req->head.headers;
    const struct http_header *row = trace_is_on() ? http_header_find(h, STR("traceparent")) : NULL;
    struct trace_context parent;
    struct trace_span *span;

    if (!row || http_header_next(h, row) || trace_parse(str_trim(row->value), &parent) < 0)
        return true;
    span = arena_new(&req->arena, struct trace_span);
    if (!span)
        return true;
    *span = trace_begin(&parent);
    req->trace = span;
    (void)trace_enter(trace_is_recorded(span) ? &span->context : NULL);
    return true;
}

void telemetry_leave(struct http_req *req UNUSED)
{
    (void)trace_enter(NULL);
}

static void end_request_span(const struct http_req *req, const char *method, const char *operation,
                             int status)
{
    const char *route = route_label(req);
    struct trace_attribute rows[TRACE_ATTRIBUTES_MAX] = {
        {"http.request.method",       str_of(method), 0     },
        {"http.route",                str_of(route),  0     },
        {"http.response.status_code", STR_NONE,       status},
    };
    struct trace_note note = {
        .kind = TRACE_SERVER, .failed = status >= 500, .attributes = rows, .attribute_count = 3};
    char name[TEMPLATE_BYTES_MAX + 16];

    if (operation)
        rows[note.attribute_count++] = (struct trace_attribute){"operation", str_of(operation), 0};
    (void)snprintf(name, sizeof(name), "%s %s", method, route);
    note.name = str_of(name);
    trace_end(req->trace, &note);
}

static void take_span(void *user, const struct trace_row *row)
{
    struct telemetry *t = user;

    spans_add(&t->spans, row);
    trim_soon(t->parts.trim);
}

static int make_traces(void *user, struct buf *body)
{
    struct telemetry *t = user;
    struct otlp_conf conf = {
        .resource = t->traces.resource,
        .resource_count = t->traces.resource_count,
        .scope = STR("opensandbox/execd"),
        .version = STR(OPENSANDBOX_VERSION),
    };

    return spans_send(&t->spans, &conf, body);
}

static void traces_sent(void *user, bool taken)
{
    struct telemetry *t = user;

    spans_sent(&t->spans, taken);
    trim_soon(t->parts.trim);
}

void telemetry_request(struct telemetry *t, const struct http_req *req, int error)
{
    const char *method, *operation;
    int status = req->status ? req->status : error ? 0 : STATUS_UPGRADED;
    bool success;
    double ms;

    if (!t || status == 0) /* the client disconnected before the reply */
        return;
    success = !error && status < 400;
    ms = (double)(loop_now_ns(http_req_loop(req)) - req->begin_ns) / NS_PER_MS;
    method = req->head.path.n > 0 ? http_method_name(req->head.method).p : "";
    series_set_add(
        &t->series,
        &(struct series_key){
            HTTP_REQUEST, {method[0] ? method : other_method, route_label(req)},
             req->status
    },
        ms);
    operation = req->route ? file_operation(req->route) : NULL;
    if (operation)
        series_set_add(&t->series,
                       &(struct series_key){
                           FILESYSTEM, {operation, success ? success_text : failure_text},
                            0
        },
                       ms);
    if (req->trace)
        end_request_span(req, method[0] ? method : other_method, operation, status);
}

/* --- export --- */

static struct otlp_attribute label(const char *key, const char *text)
{
    return (struct otlp_attribute){.key = str_of(key), .text = str_of(text)};
}

/* Other implementations name "/code/contexts/{id}" "/code/contexts/:contextId". */
static const char *route_template(const char *path, char out[TEMPLATE_BYTES_MAX])
{
    static const struct {
        const char *below, *name;
    } rows[] = {
        {"/code/contexts/",       ":contextId"},
        {"/pty/",                 ":sessionId"},
        {"/session/",             ":sessionId"},
        {"/v1/isolated/session/", ":sessionId"},
        {"/",                     ":id"       },
    };
    const char *at = strstr(path, "{id}");
    size_t i = 0;

    if (!at)
        return path;
    while (!str_starts(str_of(path), str_of(rows[i].below)))
        i++; /* ends: every path starts with the last row */
    (void)snprintf(out, TEMPLATE_BYTES_MAX, "%.*s%s%s", (int)(at - path), path, rows[i].name,
                   at + strlen("{id}"));
    return out;
}

static void tell_series(struct otlp *o, const struct series *s)
{
    struct otlp_histogram h = {s->count,         s->sum_ms,     s->min_ms, s->max_ms,
                               series_bounds_ms, SERIES_BOUNDS, s->buckets};
    const char *const *keys = instruments[s->key.instrument].labels;
    char template[TEMPLATE_BYTES_MAX];
    struct otlp_attribute labels[LABELS_MAX];
    size_t n = 0;

    if (s->overflow) {
        labels[n++] = label("otel.metric.overflow", "true");
    } else {
        labels[n++] = label(keys[0], s->key.labels[0]);
        labels[n++] = label(keys[1], route_template(s->key.labels[1], template));
        if (s->key.status)
            labels[n++] =
                (struct otlp_attribute){.key = STR("http_status_code"), .number = s->key.status};
    }
    otlp_point_histogram(o, &h, labels, n);
}

static void tell_durations(struct telemetry *t, struct otlp *o)
{
    for (size_t kind = 0; kind < ARRAY_LEN(instruments); kind++) {
        bool begun = false;

        for (size_t i = 0; i < t->series.count; i++) {
            if (t->series.rows[i].key.instrument != kind)
                continue;
            if (!begun)
                otlp_metric_begin(o, OTLP_HISTOGRAM, instruments[kind].name, "ms");
            begun = true;
            tell_series(o, &t->series.rows[i]);
        }
        if (begun)
            otlp_metric_end(o);
    }
}

/* Unknown values are not sent. */
static void tell_number(struct otlp *o, const char *name, const char *unit, int64_t value)
{
    if (value < 0)
        return;
    otlp_metric_begin(o, OTLP_GAUGE, name, unit);
    otlp_point_i64(o, value, NULL, 0);
    otlp_metric_end(o);
}

struct labelled {
    const char *label;
    int64_t value;
};

static void tell_two(struct otlp *o, enum otlp_kind kind, const char *name, const char *unit,
                     const char *key, const struct labelled rows[2])
{
    otlp_metric_begin(o, kind, name, unit);
    for (size_t i = 0; i < 2; i++) {
        struct otlp_attribute own = label(key, rows[i].label);

        if (rows[i].value >= 0)
            otlp_point_i64(o, rows[i].value, &own, 1);
    }
    otlp_metric_end(o);
}

static void tell_use(struct telemetry *t, struct otlp *o)
{
    struct metrics_point now;
    struct metrics m;
    bool first = t->last.at_ns == 0;

    if (metrics_take_point(t->parts.metrics, &now, NULL) < 0 ||
        metrics_measure(t->parts.metrics, first ? &now : &t->last, &now, &m, NULL) < 0)
        return;
    t->last = now;
    if (!first) {
        otlp_metric_begin(o, OTLP_GAUGE, "execd.system.cpu.usage", "%");
        otlp_point_double(o, m.cpu_used_pct, NULL, 0);
        otlp_metric_end(o);
    }
    tell_number(o, "execd.system.memory.usage_bytes", "By",
                (int64_t)(m.mem_used_mib * BYTES_PER_MIB));
}

static void tell_figures(struct otlp *o)
{
    struct figures f;

    figures_take(&f);
    tell_number(o, "execd.system.process.count", "", f.processes);
    tell_two(o, OTLP_COUNTER, "execd.system.network.io.bytes", "By", "direction",
             (struct labelled[]){
                 {"in",  f.bytes_in },
                 {"out", f.bytes_out}
    });
    tell_two(o, OTLP_GAUGE, "execd.system.network.connections.active", "", "protocol",
             (struct labelled[]){
                 {"tcp", f.tcp},
                 {"udp", f.udp}
    });
}

static int tell_all(void *user, struct buf *body)
{
    struct telemetry *t = user;
    struct otlp_conf conf = {
        .resource = t->conf.resource,
        .resource_count = t->conf.resource_count,
        .common = t->conf.points,
        .common_count = t->conf.point_count,
        .scope = STR("opensandbox/execd"),
        .version = STR(OPENSANDBOX_VERSION),
        .begin_ns = (uint64_t)t->begin_us * NS_PER_US,
        .now_ns = (uint64_t)time_wall_us() * NS_PER_US,
    };
    struct otlp o;

    trim_soon(t->parts.trim);
    otlp_begin(&o, body, &conf);
    tell_durations(t, &o);
    tell_use(t, &o);
    tell_figures(&o);
    return otlp_end(&o);
}

/* --- start and stop --- */

static struct str read_hostinfo(char room[HOSTINFO_BYTES_MAX])
{
    auto_fd fd = open("/etc/hostinfo", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, room, HOSTINFO_BYTES_MAX);

    return n < 0 ? STR_NONE : str_make(room, (size_t)n);
}

void telemetry_stop(struct telemetry *t)
{
    if (!t)
        return;
    trace_set_sink(NULL, NULL);
    if (t->export.conf.loop)
        telemetry_export_stop(&t->export);
    if (t->traces_export.conf.loop)
        telemetry_export_stop(&t->traces_export);
    spans_done(&t->spans);
    series_set_done(&t->series);
    arena_done(&t->memory);
    free(t);
}

static void start_export(struct telemetry *t, enum telemetry_signal signal, struct str hostinfo,
                         const char *const *env)
{
    static const char *const names[] = {"metrics", "traces"};
    bool traces = signal == TELEMETRY_TRACES;
    struct telemetry_conf *to = traces ? &t->traces : &t->conf;
    struct telemetry_export_conf conf = {
        .loop = t->parts.loop,
        .client = t->parts.client,
        .place = t->parts.place,
        .to = to,
        .make = traces ? make_traces : tell_all,
        .done = traces ? traces_sent : NULL,
        .user = t,
    };
    struct err e = {0};

    if (!telemetry_conf_wanted(env, hostinfo, signal))
        return;
    if (telemetry_conf_read(env, hostinfo, signal, &t->memory, to, &e) < 0) {
        log_event(LOG_WARN, "telemetry is off", LOG_STR("signal", names[signal]),
                  LOG_STR("why", e.msg));
        return;
    }
    telemetry_export_start(traces ? &t->traces_export : &t->export, &conf);
    if (traces)
        trace_set_sink(take_span, t);
    log_event(LOG_INFO, "telemetry is sent", LOG_STR("signal", names[signal]),
              LOG_STR("collector", to->authority), LOG_U64("every_ms", to->interval_ms));
}

struct telemetry *telemetry_start(const struct telemetry_parts *parts, const char *const *env)
{
    char room[HOSTINFO_BYTES_MAX];
    struct str hostinfo = read_hostinfo(room);
    struct telemetry *t;

    if (!telemetry_conf_wanted(env, hostinfo, TELEMETRY_METRICS) &&
        !telemetry_conf_wanted(env, hostinfo, TELEMETRY_TRACES))
        return NULL;
    t = mem_new(struct telemetry);
    t->parts = *parts;
    t->begin_us = time_wall_us();
    arena_init(&t->memory, TELEMETRY_CONF_BYTES_MAX);
    spans_init(&t->spans);
    start_export(t, TELEMETRY_METRICS, hostinfo, env);
    start_export(t, TELEMETRY_TRACES, hostinfo, env);
    if (!t->export.conf.loop && !t->traces_export.conf.loop) {
        telemetry_stop(t);
        return NULL;
    }
    if (metrics_take_point(parts->metrics, &t->last, NULL) < 0)
        t->last.at_ns = 0;
    return t;
}
