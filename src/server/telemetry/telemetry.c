#include "server/telemetry/telemetry.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "version.h"

enum {
    ITEM_BYTES_MAX = 16 << 10,
    MEMORY_BYTES_MAX = 512 << 10,
    NS_PER_US = 1000,
    HOST_NAME_ROOM = 256,
};

struct telemetry {
    struct telemetry_parts parts;
    struct arena memory;
    struct otlp_attribute resource[TELEMETRY_ATTRIBUTES_MAX];
    struct otlp_conf conf; /* the resource */
    struct http_header headers[EXPORTER_HEADERS_MAX];
    size_t header_count;
    struct exporter *exporters[OTLP_SIGNAL_COUNT]; /* NULL = that signal is not sent */
    struct loop_timer metrics_due, flush_late;
    uint32_t metric_interval_ms;
    bool flushing;
};

/* --- sources --- */

static void take_span(void *user, const struct trace_row *row)
{
    struct telemetry *t = user;
    AUTO_BUF(item, ITEM_BYTES_MAX);

    if (otlp_json_span(&item, row) == 0)
        exporter_add(t->exporters[OTLP_TRACES], buf_str(&item), 1);
}

static void take_log(void *user, enum log_level level, const char *message,
                     const struct log_field *fields)
{
    struct telemetry *t = user;
    const struct trace_context *now = trace_current();
    struct otlp_log log = {
        .time_ns = (uint64_t)time_wall_us() * NS_PER_US,
        .level = level,
        .message = message,
        .fields = fields,
        .context = now && now->sampled ? now : NULL,
    };
    AUTO_BUF(item, ITEM_BYTES_MAX);

    if (otlp_json_log(&item, &log) == 0)
        exporter_add(t->exporters[OTLP_LOGS], buf_str(&item), 1);
}

static void on_metrics_due(struct loop_timer *timer)
{
    struct telemetry *t = container_of(timer, struct telemetry, metrics_due);

    loop_timer_after(t->parts.loop, timer, t->metric_interval_ms, on_metrics_due);
    t->parts.on_metrics_due(t->parts.user);
}

void telemetry_clock(const struct telemetry *t, struct otlp_json_metric *m)
{
    m->begin_ns = t->conf.begin_ns;
    m->now_ns = (uint64_t)time_wall_us() * NS_PER_US;
}

void telemetry_metrics(struct telemetry *t, struct str items, uint64_t count)
{
    exporter_add(t->exporters[OTLP_METRICS], items, count);
    exporter_hurry(t->exporters[OTLP_METRICS]);
}

void telemetry_stats(const struct telemetry *t, struct exporter_stats ret[OTLP_SIGNAL_COUNT])
{
    for (int i = 0; i < OTLP_SIGNAL_COUNT; i++) {
        ret[i] = (struct exporter_stats){.idle = true};
        if (t && t->exporters[i])
            exporter_stats(t->exporters[i], &ret[i]);
    }
}

/* --- the end --- */

static bool all_are_idle(const struct telemetry *t)
{
    struct exporter_stats now[OTLP_SIGNAL_COUNT];
    bool idle = true;

    telemetry_stats(t, now);
    for (int i = 0; i < OTLP_SIGNAL_COUNT; i++)
        idle &= now[i].idle;
    return idle;
}

static void on_idle(void *user)
{
    struct telemetry *t = user;

    if (t->flushing && all_are_idle(t))
        loop_stop(t->parts.loop);
    else if (t->flushing)
        for (int i = 0; i < OTLP_SIGNAL_COUNT; i++)
            if (t->exporters[i])
                exporter_hurry(t->exporters[i]);
}

static void on_flush_late(struct loop_timer *timer)
{
    loop_stop(container_of(timer, struct telemetry, flush_late)->parts.loop);
}

void telemetry_flush(struct telemetry *t)
{
    if (!t)
        return;
    loop_timer_stop(t->parts.loop, &t->metrics_due);
    if (all_are_idle(t))
        return;
    t->flushing = true;
    loop_timer_after(t->parts.loop, &t->flush_late, TELEMETRY_FLUSH_MS, on_flush_late);
    for (int i = 0; i < OTLP_SIGNAL_COUNT; i++)
        if (t->exporters[i])
            exporter_hurry(t->exporters[i]);
    (void)loop_run(t->parts.loop, NULL);
    loop_timer_stop(t->parts.loop, &t->flush_late);
    t->flushing = false;
}

void telemetry_stop(struct telemetry *t)
{
    if (!t)
        return;
    trace_set_sink(NULL, NULL);
    log_set_tap(NULL, NULL);
    loop_timer_stop(t->parts.loop, &t->metrics_due);
    for (int i = 0; i < OTLP_SIGNAL_COUNT; i++)
        exporter_free(t->exporters[i]);
    arena_done(&t->memory);
    free(t);
}

/* --- the start --- */

static void add_attribute(struct telemetry *t, struct str key, struct str text)
{
    for (size_t i = 0; i < t->conf.resource_count; i++)
        if (str_eq(t->resource[i].key, key))
            return;
    if (t->conf.resource_count < TELEMETRY_ATTRIBUTES_MAX && text.n)
        t->resource[t->conf.resource_count++] = (struct otlp_attribute){.key = key, .text = text};
}

static void set_resource(struct telemetry *t, const struct config *c)
{
    struct str list = str_of(c->telemetry.resource_attributes), key, value;
    char host[HOST_NAME_ROOM] = "";

    (void)gethostname(host, sizeof(host) - 1);
    t->conf = (struct otlp_conf){
        .resource = t->resource,
        .scope = STR("opensandbox/server"),
        .version = STR(OPENSANDBOX_VERSION),
        .begin_ns = (uint64_t)time_wall_us() * NS_PER_US,
    };
    add_attribute(t, STR("service.name"), str_of(c->telemetry.service_name));
    add_attribute(t, STR("service.version"), STR(OPENSANDBOX_VERSION));
    while (otlp_list_next(&list, &t->memory, true, TELEMETRY_BYTES_MAX, &key, &value))
        add_attribute(t, key, value);
    add_attribute(t, STR("host.name"), arena_str(&t->memory, str_of(host)));
}

static void set_headers(struct telemetry *t, const struct config *c)
{
    struct str list = str_of(c->telemetry.headers);
    struct http_header row;

    while (t->header_count < EXPORTER_HEADERS_MAX &&
           otlp_list_next(&list, &t->memory, true, TELEMETRY_BYTES_MAX, &row.name, &row.value))
        if (http_header_is_free(&row))
            t->headers[t->header_count++] = row;
}

/* The URL of a signal; NULL = it is not sent. */
static const char *endpoint_of(struct telemetry *t, const struct config *c, enum otlp_signal signal)
{
    const struct {
        const char *own, *path;
        int exporter; /* the word of its key: 0 is otlp */
    } rows[OTLP_SIGNAL_COUNT] = {
        [OTLP_TRACES] = {c->telemetry.traces_endpoint,  "v1/traces",  c->telemetry.traces },
        [OTLP_METRICS] = {c->telemetry.metrics_endpoint, "v1/metrics", c->telemetry.metrics},
        [OTLP_LOGS] = {c->telemetry.logs_endpoint,    "v1/logs",    c->telemetry.logs   },
    };
    const char *base = c->telemetry.endpoint;

    if (c->telemetry.disabled || rows[signal].exporter != 0)
        return NULL;
    if (rows[signal].own[0])
        return rows[signal].own;
    return base[0] ? arena_printf(&t->memory, "%s%s%s", base,
                                  str_ends(str_of(base), STR("/")) ? "" : "/", rows[signal].path)
                   : NULL;
}

static int start_exporter(struct telemetry *t, const struct config *c, enum otlp_signal signal,
                          struct err *e)
{
    static const char *const names[] = {"traces", "metrics", "logs"};
    struct exporter_conf conf = {
        .loop = t->parts.loop,
        .pool = t->parts.pool,
        .signal = signal,
        .resource = &t->conf,
        .url = endpoint_of(t, c, signal),
        .ca_file = c->telemetry.certificate,
        .headers = t->headers,
        .header_count = t->header_count,
        .delay_ms = (uint32_t)c->telemetry.delay_ms,
        .timeout_ms = (uint32_t)c->telemetry.timeout_ms,
        .pause_ms = EXPORTER_PAUSE_MS,
        .gzip = c->telemetry.compression == 0,
        .on_idle = on_idle,
        .user = t,
    };
    int r = conf.url ? exporter_new(&conf, &t->exporters[signal], e) : 0;

    if (r == 0 && conf.url)
        log_event(LOG_INFO, "telemetry is sent", LOG_STR("signal", names[signal]));
    return r < 0 ? err_wrap(e, r, "telemetry: the endpoint for %s", names[signal]) : 0;
}

int telemetry_start(const struct config *config, const struct telemetry_parts *parts,
                    struct telemetry **ret, struct err *e)
{
    struct telemetry *t = mem_new(struct telemetry);
    bool any = false;
    int r = 0;

    t->parts = *parts;
    t->metric_interval_ms = (uint32_t)config->telemetry.metric_interval_ms;
    arena_init(&t->memory, MEMORY_BYTES_MAX);
    set_resource(t, config);
    set_headers(t, config);
    for (int i = 0; i < OTLP_SIGNAL_COUNT && r == 0; i++) {
        r = start_exporter(t, config, (enum otlp_signal)i, e);
        any |= t->exporters[i] != NULL;
    }
    if (r < 0 || !any) {
        telemetry_stop(t);
        *ret = NULL;
        return r;
    }
    if (t->exporters[OTLP_TRACES])
        trace_set_sink(take_span, t);
    if (t->exporters[OTLP_LOGS])
        log_set_tap(take_log, t);
    if (t->exporters[OTLP_METRICS])
        loop_timer_after(parts->loop, &t->metrics_due, t->metric_interval_ms, on_metrics_due);
    *ret = t;
    return 0;
}
