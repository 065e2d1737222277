/* Counters and histograms in flat arrays, one element per (route, method). */
#include "server/http/metrics.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "server/http/metrics_otlp.h"
#include "version.h"

enum {
    BUCKETS_MAX = 16,
    STATUS_CLASSES = 6, /* by the first digit; 0 is for requests without an answer */
};

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

/* Upper bounds of buckets, inclusive, as numbers and as labels. One more bucket is for values above
 * the last. */
struct bound {
    uint64_t ns;
    const char *le;
};

static const struct bound request_rows[] = {
    {MS / 2,   "0.0005"},
    {1 * MS,   "0.001" },
    {2 * MS,   "0.002" },
    {5 * MS,   "0.005" },
    {10 * MS,  "0.01"  },
    {20 * MS,  "0.02"  },
    {50 * MS,  "0.05"  },
    {100 * MS, "0.1"   },
    {200 * MS, "0.2"   },
    {500 * MS, "0.5"   },
    {1 * S,    "1"     },
    {10 * S,   "10"    },
};

static const struct bound create_rows[] = {
    {1 * MS,   "0.001"},
    {2 * MS,   "0.002"},
    {3 * MS,   "0.003"},
    {5 * MS,   "0.005"},
    {10 * MS,  "0.01" },
    {20 * MS,  "0.02" },
    {50 * MS,  "0.05" },
    {100 * MS, "0.1"  },
    {200 * MS, "0.2"  },
    {500 * MS, "0.5"  },
    {1 * S,    "1"    },
    {2 * S,    "2"    },
    {5 * S,    "5"    },
    {10 * S,   "10"   },
};

struct bounds {
    const struct bound *rows;
    size_t count;
};

static const struct bounds request_bounds = {request_rows, ARRAY_LEN(request_rows)};
static const struct bounds create_bounds = {create_rows, ARRAY_LEN(create_rows)};
static_assert(ARRAY_LEN(request_rows) <= BUCKETS_MAX && ARRAY_LEN(create_rows) <= BUCKETS_MAX,
              "histograms have room for all");

struct histogram {
    uint64_t counts[BUCKETS_MAX + 1]; /* not cumulative; summed up when written */
    uint64_t sum_ns;
};

struct series { /* of a route and a method */
    uint64_t by_class[STATUS_CLASSES];
    struct histogram durations;
};

struct metrics {
    const struct http_route *routes;
    size_t route_count;
    struct series *series; /* [row * HTTP_METHOD_COUNT + method]; the last row is for no route */
    struct histogram creations;
};

struct metrics *metrics_new(const struct http_route *routes, size_t route_count)
{
    struct metrics *m = mem_new(struct metrics);

    for (size_t i = 0; i < route_count; i++)
        assert(!strpbrk(routes[i].path, "\\\"\n")); /* used as a label without escaping */
    m->routes = routes;
    m->route_count = route_count;
    m->series = mem_new_array(struct series, (route_count + 1) * HTTP_METHOD_COUNT);
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    free(m->series);
    free(m);
}

static void observe(struct histogram *h, const struct bounds *bounds, uint64_t ns)
{
    size_t i = 0;

    while (i < bounds->count && ns > bounds->rows[i].ns)
        i++;
    h->counts[i]++;
    h->sum_ns += ns;
}

void metrics_request(struct metrics *m, const struct http_route *route, enum http_method method,
                     int status, uint64_t duration_ns)
{
    size_t row = route ? (size_t)(route - m->routes) : m->route_count;
    int class = status / 100;
    struct series *s;

    assert(row <= m->route_count && method < HTTP_METHOD_COUNT);
    s = &m->series[row * HTTP_METHOD_COUNT + method];
    s->by_class[class > 0 && class < STATUS_CLASSES ? class : 0]++;
    observe(&s->durations, &request_bounds, duration_ns);
}

void metrics_create(struct metrics *m, uint64_t duration_ns)
{
    observe(&m->creations, &create_bounds, duration_ns);
}

/* --- the process --- */

static uint64_t read_resident_bytes(void)
{
    AUTO_BUF(text, 256);
    struct str rest, pages;
    uint64_t n;

    if (io_read_file(AT_FDCWD, "/proc/self/statm", 256, &text, NULL) < 0)
        return 0;
    rest = buf_str(&text);
    if (!str_cut(&rest, ' ', &pages)) /* skips the total size */
        return 0;
    if (!str_cut(&rest, ' ', &pages) || str_to_u64(pages, &n) < 0)
        return 0;
    return n * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t count_open_fds(void)
{
    struct stat st;
    uint64_t n = 0;
    DIR *dir;

    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (uint64_t)st.st_size; /* the number of descriptors since Linux 6.2 */
    dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        n += entry->d_name[0] != '.';
    (void)closedir(dir);
    return n - 1; /* without the one that reads the directory */
}

void metrics_read_process(struct metrics_gauges *g)
{
    g->resident_bytes = read_resident_bytes();
    g->open_fds = count_open_fds();
}

/* --- the rows, as text or for OTLP --- */

/* Adds rows, and keeps the first error. */
struct text {
    struct buf *out; /* of text; NULL = for OTLP */
    struct metrics_otlp *otlp;
    int r;
};

enum unit { UNIT_NONE, UNIT_NS, UNIT_US };

static PRINTF_LIKE(2, 3) void add(struct text *t, const char *fmt, ...)
{
    va_list ap;

    if (t->r < 0)
        return;
    va_start(ap, fmt);
    t->r = buf_vaddf(t->out, fmt, ap);
    va_end(ap);
}

static void add_head(struct text *t, const char *name, const char *type, const char *help)
{
    if (t->otlp)
        metrics_otlp_head(t->otlp, name, type, help);
    else
        add(t, "# HELP opensandbox_%s %s\n# TYPE opensandbox_%s %s\n", name, help, name, type);
}

/* Exact, and independent of the locale's decimal point. */
static void add_seconds(struct text *t, uint64_t ns)
{
    add(t, "%llu.%09llu\n", (unsigned long long)(ns / S), (unsigned long long)(ns % S));
}

/* labels: "" or `name="value",name="value"`. */
static void add_value(struct text *t, const char *name, const char *labels, uint64_t value,
                      enum unit unit)
{
    uint64_t ns = unit == UNIT_US ? value * 1000 : value;

    if (t->otlp) {
        metrics_otlp_value(t->otlp, labels, unit == UNIT_NONE ? (double)value : (double)ns / S,
                           unit == UNIT_NONE);
        return;
    }
    add(t, labels[0] ? "opensandbox_%s{%s} " : "opensandbox_%s%s ", name, labels);
    if (unit == UNIT_NONE)
        add(t, "%llu\n", (unsigned long long)value);
    else
        add_seconds(t, ns);
}

static void add_histogram_otlp(struct text *t, const char *labels, const struct bounds *bounds,
                               const struct histogram *h)
{
    double limits[BUCKETS_MAX];
    struct otlp_histogram to = {.sum = (double)h->sum_ns / S,
                                .bounds = limits,
                                .bound_count = bounds->count,
                                .buckets = h->counts};

    for (size_t i = 0; i <= bounds->count; i++)
        to.count += h->counts[i];
    for (size_t i = 0; i < bounds->count; i++)
        limits[i] = (double)bounds->rows[i].ns / S;
    metrics_otlp_histogram(t->otlp, labels, &to);
}

/* labels as above. */
static void add_histogram(struct text *t, const char *name, const char *labels,
                          const struct bounds *bounds, const struct histogram *h)
{
    uint64_t count = 0;
    const char *open = labels[0] ? "{" : "", *close = labels[0] ? "}" : "";

    if (t->otlp) {
        add_histogram_otlp(t, labels, bounds, h);
        return;
    }
    for (size_t i = 0; i <= bounds->count; i++) {
        count += h->counts[i];
        add(t, "opensandbox_%s_bucket{%s%sle=\"%s\"} %llu\n", name, labels, labels[0] ? "," : "",
            i < bounds->count ? bounds->rows[i].le : "+Inf", (unsigned long long)count);
    }
    add(t, "opensandbox_%s_sum%s%s%s ", name, open, labels, close);
    add_seconds(t, h->sum_ns);
    add(t, "opensandbox_%s_count%s%s%s %llu\n", name, open, labels, close,
        (unsigned long long)count);
}

/* The labels of a series: route and method. */
enum { LABELS_MAX = 256 };

static void series_labels(const struct metrics *m, size_t i, char out[LABELS_MAX])
{
    size_t row = i / HTTP_METHOD_COUNT;
    struct str method = http_method_name((enum http_method)(i % HTTP_METHOD_COUNT));

    (void)snprintf(out, LABELS_MAX, "route=\"%.200s\",method=\"%.*s\"",
                   row < m->route_count ? m->routes[row].path : "none",
                   STR_ARG(method.n ? method : STR("other")));
}

static bool series_is_used(const struct series *s)
{
    for (size_t i = 0; i < STATUS_CLASSES; i++) {
        if (s->by_class[i] > 0)
            return true;
    }
    return false;
}

static void add_series_counts(struct text *t, const char *labels, const struct series *s)
{
    static const char *const classes[STATUS_CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};

    for (size_t i = 0; i < STATUS_CLASSES; i++) {
        char all[LABELS_MAX + 32];

        (void)snprintf(all, sizeof(all), "%s,status=\"%s\"", labels, classes[i]);
        if (s->by_class[i] > 0)
            add_value(t, "http_requests_total", all, s->by_class[i], UNIT_NONE);
    }
}

/* All lines of a metric family must be together, hence two loops. */
static void add_requests(struct text *t, const struct metrics *m)
{
    static const char duration[] = "http_request_duration_seconds";
    size_t count = (m->route_count + 1) * HTTP_METHOD_COUNT;
    char labels[LABELS_MAX];

    add_head(t, "http_requests_total", "counter", "Requests that ended, by status class.");
    for (size_t i = 0; i < count; i++) {
        series_labels(m, i, labels);
        add_series_counts(t, labels, &m->series[i]);
    }
    add_head(t, duration, "histogram", "Time from a request's first byte to the end of its reply.");
    for (size_t i = 0; i < count; i++) {
        if (!series_is_used(&m->series[i]))
            continue;
        series_labels(m, i, labels);
        add_histogram(t, duration, labels, &request_bounds, &m->series[i].durations);
    }
}

/* Families with one value per line, in a table that follows the enum. */
enum family {
    FAMILY_SLOTS,
    FAMILY_GATEWAY,
    FAMILY_ACCEPTED,
    FAMILY_CONNECTIONS,
    FAMILY_IDLE,
    FAMILY_RUNNING,
    FAMILY_QUEUED,
    FAMILY_LAG,
    FAMILY_RESIDENT,
    FAMILY_FDS,
    FAMILY_START,
    FAMILY_TELEMETRY,
    FAMILY_TELEMETRY_FAILURES,
    FAMILY_EGRESS_UP,
    FAMILY_EGRESS_SANDBOXES,
    FAMILY_EGRESS_QUERIES,
    FAMILY_EGRESS_FAILED,
    FAMILY_EGRESS_DENIED,
    FAMILY_EGRESS_CHANGES,
    FAMILY_EGRESS_RULE_ERRORS,
    FAMILY_EGRESS_VAULT_USES,
    FAMILY_EGRESS_VAULTS_LOST,
    FAMILY_COUNT,
};

static const struct {
    const char *name, *type, *help;
} families[FAMILY_COUNT] = {
    {"slots",                        "gauge",   "Places for sandboxes: ready, wanted ready, in use."          },
    {"gateway_requests_total",       "counter", "Requests into sandboxes, by outcome."                        },
    {"connections_accepted_total",   "counter", "Connections from clients."                                   },
    {"connections",                  "gauge",   "Connections that are open."                                  },
    {"connections_idle",             "gauge",   "Open connections between two requests."                      },
    {"jobs_running",                 "gauge",   "Jobs that workers are running."                              },
    {"jobs_queued",                  "gauge",   "Jobs that wait for a worker."                                },
    {"loop_lag_seconds",             "gauge",   "Longest turn of the event loop since the last scrape."       },
    {"resident_memory_bytes",        "gauge",   "Memory of the server that is in RAM."                        },
    {"open_fds",                     "gauge",   "Descriptors of the server that are open."                    },
    {"start_time_seconds",           "gauge",   "When the server started, since 1970."                        },
    {"telemetry_items_total",        "counter", "Spans, metrics and log lines, sent and dropped."             },
    {"telemetry_failures_total",     "counter", "Exports that the collector did not take at a try."           },
    {"egress_up",                    "gauge",   "1: opensandbox-egress answers; 0: networks stay as they are."},
    {"egress_sandboxes",             "gauge",   "Sandboxes that opensandbox-egress knows."                    },
    {"egress_dns_queries_total",     "counter", "Questions of sandboxes."                                     },
    {"egress_dns_failed_total",      "counter", "Questions without an upstream answer."                       },
    {"egress_policy_denied_total",   "counter", "Questions and connections denied."                           },
    {"egress_policy_changes_total",  "counter", "Policies put in force."                                      },
    {"egress_nftables_errors_total", "counter", "Changes of rules that failed."                               },
    {"egress_vault_uses_total",      "counter", "Requests that got a credential."                             },
    {"egress_vaults_lost_total",     "counter", "Vaults that an earlier process lost."                        },
};

#define AT(field) offsetof(struct metrics_gauges, field)
static const struct line {
    enum family family;
    const char *labels;
    size_t offset;
    enum unit unit;
} lines[] = {
    {FAMILY_SLOTS,              "kind=\"ready\"",                         AT(slots_ready),           UNIT_NONE},
    {FAMILY_SLOTS,              "kind=\"wanted\"",                        AT(slots_ready_wanted),    UNIT_NONE},
    {FAMILY_SLOTS,              "kind=\"live\"",                          AT(slots_live),            UNIT_NONE},
    {FAMILY_GATEWAY,            "outcome=\"forwarded\"",                  AT(gateway_forwarded),     UNIT_NONE},
    {FAMILY_GATEWAY,            "outcome=\"refused\"",                    AT(gateway_refused),       UNIT_NONE},
    {FAMILY_GATEWAY,            "outcome=\"failed\"",                     AT(gateway_failed),        UNIT_NONE},
    {FAMILY_ACCEPTED,           "",                                       AT(connections_accepted),  UNIT_NONE},
    {FAMILY_CONNECTIONS,        "",                                       AT(connections),           UNIT_NONE},
    {FAMILY_IDLE,               "",                                       AT(connections_idle),      UNIT_NONE},
    {FAMILY_RUNNING,            "",                                       AT(jobs_running),          UNIT_NONE},
    {FAMILY_QUEUED,             "",                                       AT(jobs_queued),           UNIT_NONE},
    {FAMILY_LAG,                "",                                       AT(loop_lag_ns),           UNIT_NS  },
    {FAMILY_RESIDENT,           "",                                       AT(resident_bytes),        UNIT_NONE},
    {FAMILY_FDS,                "",                                       AT(open_fds),              UNIT_NONE},
    {FAMILY_START,              "",                                       AT(started_us),            UNIT_US  },
    {FAMILY_TELEMETRY,          "signal=\"traces\",outcome=\"sent\"",     AT(telemetry[0].sent),     UNIT_NONE},
    {FAMILY_TELEMETRY,          "signal=\"traces\",outcome=\"dropped\"",  AT(telemetry[0].dropped),
     UNIT_NONE                                                                                                },
    {FAMILY_TELEMETRY,          "signal=\"metrics\",outcome=\"sent\"",    AT(telemetry[1].sent),     UNIT_NONE},
    {FAMILY_TELEMETRY,          "signal=\"metrics\",outcome=\"dropped\"", AT(telemetry[1].dropped),
     UNIT_NONE                                                                                                },
    {FAMILY_TELEMETRY,          "signal=\"logs\",outcome=\"sent\"",       AT(telemetry[2].sent),     UNIT_NONE},
    {FAMILY_TELEMETRY,          "signal=\"logs\",outcome=\"dropped\"",    AT(telemetry[2].dropped),  UNIT_NONE},
    {FAMILY_TELEMETRY_FAILURES, "signal=\"traces\"",                      AT(telemetry[0].failures), UNIT_NONE},
    {FAMILY_TELEMETRY_FAILURES, "signal=\"metrics\"",                     AT(telemetry[1].failures), UNIT_NONE},
    {FAMILY_TELEMETRY_FAILURES, "signal=\"logs\"",                        AT(telemetry[2].failures), UNIT_NONE},
    {FAMILY_EGRESS_UP,          "",                                       AT(egress_up),             UNIT_NONE},
    {FAMILY_EGRESS_SANDBOXES,   "",                                       AT(egress_sandboxes),      UNIT_NONE},
    {FAMILY_EGRESS_QUERIES,     "",                                       AT(egress_queries),        UNIT_NONE},
    {FAMILY_EGRESS_FAILED,      "",                                       AT(egress_failed),         UNIT_NONE},
    {FAMILY_EGRESS_DENIED,      "",                                       AT(egress_denied),         UNIT_NONE},
    {FAMILY_EGRESS_CHANGES,     "",                                       AT(egress_changes),        UNIT_NONE},
    {FAMILY_EGRESS_RULE_ERRORS, "",                                       AT(egress_rule_errors),    UNIT_NONE},
    {FAMILY_EGRESS_VAULT_USES,  "",                                       AT(egress_vault_uses),     UNIT_NONE},
    {FAMILY_EGRESS_VAULTS_LOST, "",                                       AT(egress_vaults_lost),    UNIT_NONE},
};

static void add_line(struct text *t, const struct line *line, const struct metrics_gauges *g)
{
    uint64_t value;

    memcpy(&value, (const char *)g + line->offset, sizeof(value));
    add_value(t, families[line->family].name, line->labels, value, line->unit);
}

static bool is_known(enum family family, const struct metrics_gauges *g)
{
    if (family == FAMILY_SLOTS)
        return g->has_slots;
    if (family == FAMILY_TELEMETRY || family == FAMILY_TELEMETRY_FAILURES)
        return g->has_telemetry;
    if (family == FAMILY_EGRESS_UP)
        return g->has_egress;
    return family < FAMILY_EGRESS_UP || g->egress_up;
}

static void add_lines(struct text *t, const struct metrics_gauges *g)
{
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        enum family family = lines[i].family;

        if (!is_known(family, g))
            continue;
        if (i == 0 || lines[i - 1].family != family)
            add_head(t, families[family].name, families[family].type, families[family].help);
        add_line(t, &lines[i], g);
    }
}

static void add_sandboxes(struct text *t, const struct metrics_gauges *g)
{
    add_head(t, "sandboxes", "gauge", "Sandboxes, by state.");
    for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++) {
        char label[LABELS_MAX];

        (void)snprintf(label, sizeof(label), "state=\"%s\"",
                       sandbox_state_name((enum sandbox_state)i));
        add_value(t, "sandboxes", label, g->sandboxes[i], UNIT_NONE);
    }
}

static void add_all(struct text *t, const struct metrics *m, const struct metrics_gauges *g)
{
    add_head(t, "build_info", "gauge", "Always 1; its label says which release this is.");
    add_value(t, "build_info", "version=\"" OPENSANDBOX_VERSION "\"", 1, UNIT_NONE);
    add_sandboxes(t, g);
    add_lines(t, g);
    add_head(t, "sandbox_create_duration_seconds", "histogram",
             "Time from a request for a sandbox to the answer that it runs.");
    add_histogram(t, "sandbox_create_duration_seconds", "", &create_bounds, &m->creations);
    add_requests(t, m);
}

int metrics_render(const struct metrics *m, const struct metrics_gauges *g, struct buf *out)
{
    struct text t = {.out = out};
    size_t before = out->n;

    add_all(&t, m, g);
    if (t.r < 0)
        buf_cut(out, before);
    return t.r < 0 ? t.r : 0;
}

int metrics_render_otlp(const struct metrics *m, const struct metrics_gauges *g,
                        const struct otlp_json_metric *clock, struct buf *out, uint64_t *ret_count)
{
    struct metrics_otlp otlp;
    struct text t = {.otlp = &otlp};

    metrics_otlp_begin(&otlp, clock, out);
    add_all(&t, m, g);
    return metrics_otlp_end(&otlp, ret_count);
}
