#include "egress/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "egress/outcall.h"
#include "egress/webhook.h"
#include "version.h"

enum {
    PROC_BYTES_MAX = 64 * 1024,
    BODY_BYTES_MAX = 1 << 20,
    TIMEOUT_MS = 10 * 1000,
    NS_PER_US = 1000,
    ATTRS_MAX = 40,
};

const double egress_duration_bounds[EGRESS_DURATION_BOUNDS] = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5};

/* --- the host --- */

static uint64_t meminfo(struct str text, struct str name)
{
    struct str line;
    uint64_t n;

    while (text.n && str_cut(&text, '\n', &line)) {
        if (!str_starts(line, name))
            continue;
        line = str_trim(str_skip(line, name.n));
        line.n = str_find(line, ' ');
        return str_to_u64(line, &n) < 0 ? 0 : n * 1024;
    }
    return 0;
}

static uint64_t memory_used(void)
{
    AUTO_BUF(text, PROC_BYTES_MAX);

    if (io_read_file(AT_FDCWD, "/proc/meminfo", PROC_BYTES_MAX, &text, NULL) < 0)
        return 0;
    return meminfo(buf_str(&text), STR("MemTotal:")) -
           meminfo(buf_str(&text), STR("MemAvailable:"));
}

struct cpu_time {
    uint64_t all, idle;
};

static struct cpu_time cpu_time(void)
{
    AUTO_BUF(text, PROC_BYTES_MAX);
    struct cpu_time t = {0};
    struct str line, word, rest;

    if (io_read_file(AT_FDCWD, "/proc/stat", PROC_BYTES_MAX, &text, NULL) < 0)
        return t;
    rest = buf_str(&text);
    if (!str_cut(&rest, '\n', &line) || !str_starts(line, STR("cpu ")))
        return t;
    line = str_trim(str_skip(line, 4));
    for (size_t i = 0; i < 8 && str_cut(&line, ' ', &word); i++) {
        uint64_t n;

        if (str_to_u64(word, &n) < 0)
            continue;
        t.all += n;
        if (i == 3 || i == 4) /* idle, iowait */
            t.idle += n;
    }
    return t;
}

/* --- Prometheus --- */

struct row {
    const char *name, *kind, *help;
    uint64_t value;
};

static int write_rows(const struct row *rows, size_t count, const char *label, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < count; i++)
        r = buf_addf(out,
                     "# HELP opensandbox_egress_%s %s\n# TYPE opensandbox_egress_%s %s\n"
                     "opensandbox_egress_%s%s %llu\n",
                     rows[i].name, rows[i].help, rows[i].name, rows[i].kind, rows[i].name, label,
                     (unsigned long long)rows[i].value);
    return r;
}

static int write_duration(const struct egress_stats *s, struct buf *out)
{
#define NAME "opensandbox_egress_dns_query_duration_seconds"
    uint64_t sum = 0;
    int r = buf_addf(out,
                     "# HELP " NAME " Time of allowed DNS questions.\n# TYPE " NAME " histogram\n");

    for (size_t i = 0; r >= 0 && i < EGRESS_DURATION_BOUNDS; i++) {
        sum += s->duration_buckets[i];
        r = buf_addf(out, NAME "_bucket{le=\"%g\"} %llu\n", egress_duration_bounds[i],
                     (unsigned long long)sum);
    }
    if (r >= 0)
        r = buf_addf(out,
                     NAME "_bucket{le=\"+Inf\"} %llu\n" NAME "_sum %.9f\n" NAME "_count %llu\n",
                     (unsigned long long)s->duration_count, s->duration_sum,
                     (unsigned long long)s->duration_count);
    return r;
#undef NAME
}

int metrics_text(const struct egress *g, struct buf *out)
{
    const struct egress_stats *s = &g->stats;
    struct webhook_stats hook = {0};
    int r;

    if (g->webhook)
        webhook_stats(g->webhook, &hook);
    const struct row rows[] = {
        {"sandboxes",              "gauge",   "Sandboxes that are known.",             g->guarded.n    },
        {"dns_queries_total",      "counter", "Questions of sandboxes.",               s->queries      },
        {"dns_answers_total",      "counter", "Questions that were answered.",         s->answered     },
        {"dns_cached_total",       "counter", "Answers out of the cache.",             s->cached       },
        {"dns_failed_total",       "counter", "Questions without an upstream answer.", s->failed       },
        {"policy_denied_total",    "counter", "Questions and connections denied.",     s->denied       },
        {"policy_changes_total",   "counter", "Policies put in force.",                s->changes      },
        {"nftables_updates_total", "counter", "Changes of rules and sets.",            s->updates      },
        {"nftables_rules",         "gauge",   "Entries of the policy last applied.",   s->rules        },
        {"nftables_errors_total",  "counter", "Changes that failed.",                  s->broker_errors},
        {"vault_uses_total",       "counter", "Requests that got a credential.",       s->vault_uses   },
        {"vaults_lost_total",      "counter", "Vaults that an earlier process lost.",  s->vaults_lost  },
        {"webhook_sent_total",     "counter", "Reports that the webhook took.",        hook.sent       },
        {"webhook_failed_total",   "counter", "Reports that it did not take.",         hook.failed     },
        {"webhook_dropped_total",  "counter", "Reports that found the queue full.",    hook.dropped    },
    };
    r = write_rows(rows, ARRAY_LEN(rows), "", out);
    return r < 0 ? r : write_duration(s, out);
}

int metrics_text_of(const struct guarded *b, struct buf *out)
{
    struct intercept_stats i = {0};
    char label[PLAN_ID_MAX + 16];

    if (b->box)
        intercept_stats(b->box, &i);
    (void)snprintf(label, sizeof(label), "{sandbox=\"%s\"}", b->id);
    const struct row rows[] = {
        {"sandbox_dns_queries_total",             "counter", "Questions of the sandbox.",         b->queries            },
        {"sandbox_denied_total",                  "counter", "Questions and connections denied.", b->denied             },
        {"sandbox_learned_addresses",             "gauge",   "Addresses of allowed names.",       b->learned_count      },
        {"sandbox_events_total",                  "counter", "Events of the sandbox.",            b->event_count        },
        {"sandbox_intercepted_connections_total", "counter", "Connections intercepted.",
         i.connections                                                                                                  },
        {"sandbox_intercepted_requests_total",    "counter", "Requests intercepted.",             i.requests            },
        {"sandbox_vault_uses_total",              "counter", "Requests that got a credential.",   i.injected            },
        {"sandbox_vaults_lost_total",             "counter", "1: an earlier process lost it.",    b->vault_lost         },
        {"sandbox_packets_total",                 "counter", "Packets in both directions.",       b->traffic.packets    },
        {"sandbox_bytes_total",                   "counter", "Bytes in both directions.",         b->traffic.bytes      },
        {"sandbox_connections_total",             "counter", "Connections begun.",                b->traffic.connections},
    };
    return write_rows(rows, ARRAY_LEN(rows), label, out);
}

/* --- OpenTelemetry --- */

struct metrics_export {
    struct metrics_export_conf conf;
    struct outcall *call;
    struct loop_timer timer;
    struct cpu_time cpu;
    uint64_t begin_ns;
    struct otlp_attribute resource[2], points[ATTRS_MAX];
    size_t resource_count, point_count;
    struct log_limit warnings;
};

static void point(struct otlp *o, enum otlp_kind kind, const char *name, const char *unit,
                  int64_t value)
{
    otlp_metric_begin(o, kind, name, unit);
    otlp_point_i64(o, value, NULL, 0);
    otlp_metric_end(o);
}

static int write_body(struct metrics_export *x, struct buf *body)
{
    const struct egress_stats *s = &x->conf.egress->stats;
    struct otlp_conf conf = {.resource = x->resource,
                             .resource_count = x->resource_count,
                             .common = x->points,
                             .common_count = x->point_count,
                             .scope = STR("opensandbox/egress"),
                             .version = STR(OPENSANDBOX_VERSION),
                             .begin_ns = x->begin_ns,
                             .now_ns = (uint64_t)time_wall_us() * NS_PER_US};
    const struct otlp_histogram h = {.count = s->duration_count,
                                     .sum = s->duration_sum,
                                     .min = s->duration_min,
                                     .max = s->duration_max,
                                     .bounds = egress_duration_bounds,
                                     .bound_count = EGRESS_DURATION_BOUNDS,
                                     .buckets = s->duration_buckets};
    struct cpu_time now = cpu_time();
    uint64_t all = now.all - x->cpu.all, idle = now.idle - x->cpu.idle;
    struct otlp o;

    otlp_begin(&o, body, &conf);
    otlp_metric_begin(&o, OTLP_HISTOGRAM, "egress.dns.query.duration", "s");
    otlp_point_histogram(&o, &h, NULL, 0);
    otlp_metric_end(&o);
    point(&o, OTLP_COUNTER, "egress.policy.denied_total", "", (int64_t)s->denied);
    point(&o, OTLP_COUNTER, "egress.nftables.updates.count", "", (int64_t)s->updates);
    point(&o, OTLP_GAUGE, "egress.nftables.rules.count", "{element}", (int64_t)s->rules);
    point(&o, OTLP_GAUGE, "egress.system.memory.usage_bytes", "By", (int64_t)memory_used());
    otlp_metric_begin(&o, OTLP_GAUGE, "egress.system.cpu.utilization", "1");
    otlp_point_double(&o, all ? 1.0 - (double)idle / (double)all : 0, NULL, 0);
    otlp_metric_end(&o);
    x->cpu = now;
    return otlp_end(&o);
}

static void on_exported(void *user, int status)
{
    struct metrics_export *x = user;

    if ((status < 200 || status >= 300) &&
        log_limit_pass(&x->warnings, loop_now_ns(x->conf.egress->loop)))
        log_event(LOG_WARN, "the collector of metrics did not take them, trying again later",
                  LOG_I64("status", status < 0 ? 0 : status),
                  LOG_I64("error", status < 0 ? -status : 0));
}

static void on_interval(struct loop_timer *timer)
{
    struct metrics_export *x = container_of(timer, struct metrics_export, timer);
    AUTO_BUF(body, BODY_BYTES_MAX);

    loop_timer_after(x->conf.egress->loop, &x->timer, x->conf.interval_ms, on_interval);
    if (write_body(x, &body) == 0)
        (void)outcall_post(x->call, buf_str(&body), on_exported, x); /* busy: the next time */
}

static void fill_attributes(struct metrics_export *x)
{
    const struct otlp_attribute id = {.key = STR("sandbox_id"), .text = x->conf.sandbox_id};

    x->resource[x->resource_count++] = (struct otlp_attribute){
        .key = STR("service.name"), .text = STR("opensandbox-egress-" OPENSANDBOX_VERSION)};
    if (id.text.n) {
        x->resource[x->resource_count++] = id;
        x->points[x->point_count++] = id;
    }
    for (size_t i = 0; i < x->conf.attr_count && x->point_count < ATTRS_MAX; i++)
        x->points[x->point_count++] = x->conf.attrs[i];
}

int metrics_export_start(const struct metrics_export_conf *conf, struct metrics_export **ret,
                         struct err *e)
{
    struct metrics_export *x = mem_new(struct metrics_export);
    const struct outcall_conf call = {.loop = conf->egress->loop,
                                      .forward = conf->egress->forward,
                                      .on_socket = conf->on_socket,
                                      .user = conf->user,
                                      .url = conf->url,
                                      .more_path = conf->is_base ? STR("/v1/metrics") : STR(""),
                                      .type = STR("application/x-protobuf"),
                                      .timeout_ms = TIMEOUT_MS};
    int r;

    x->conf = *conf;
    x->begin_ns = (uint64_t)time_wall_us() * NS_PER_US;
    x->cpu = cpu_time();
    fill_attributes(x);
    r = outcall_new(&call, &x->call, e);
    if (r < 0) {
        free(x);
        return err_wrap(e, r, "URL of the collector of metrics");
    }
    loop_timer_after(conf->egress->loop, &x->timer, conf->interval_ms, on_interval);
    *ret = x;
    return 0;
}

void metrics_export_stop(struct metrics_export *x)
{
    if (!x)
        return;
    loop_timer_stop(x->conf.egress->loop, &x->timer);
    outcall_free(x->call);
    free(x);
}
