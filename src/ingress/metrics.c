#include "ingress/metrics.h"

#include <inttypes.h>

#include "base/time.h"
#include "ingress/intent.h"

static const uint32_t bounds_us[METRIC_BUCKETS] = {
    500,    1000,   2500,   5000,    10000,   25000,    50000,
    100000, 250000, 500000, 1000000, 2500000, 10000000, 60000000,
};

/* Rows of one name follow each other; the first has its type and its help. */
#define LOOKUPS "ingress_routing_resolutions_count_total"
#define LIMITED "ingress_limited_total"
static const struct row {
    const char *name, *labels, *type, *help;
} rows[METRIC_COUNT] = {
    {"ingress_proxy_http_requests_total",         "",                        "counter", "Requests sent to a sandbox."               },
    {"ingress_proxy_websocket_connections_total", "",                        "counter", "Upgraded connections."                     },
    {"ingress_proxy_websocket_connections",       "",                        "gauge",   "Of these, open ones."                      },
    {"ingress_connections",                       "",                        "gauge",   "Open connections of clients."              },
    {LOOKUPS,                                     "{result=\"found\"}",      "counter", "Lookups of sandboxes."                     },
    {LOOKUPS,                                     "{result=\"not_ready\"}",  NULL,      NULL                                        },
    {LOOKUPS,                                     "{result=\"paused\"}",     NULL,      NULL                                        },
    {LOOKUPS,                                     "{result=\"not_found\"}",  NULL,      NULL                                        },
    {LOOKUPS,                                     "{result=\"ambiguous\"}",  NULL,      NULL                                        },
    {LOOKUPS,                                     "{result=\"failed\"}",     NULL,      NULL                                        },
    {"ingress_access_denied_total",               "",                        "counter", "Requests without a right credential."      },
    {LIMITED,                                     "{limit=\"rate\"}",        "counter", "What limits of a source refused."          },
    {LIMITED,                                     "{limit=\"failures\"}",    NULL,      NULL                                        },
    {LIMITED,                                     "{limit=\"connections\"}", NULL,      NULL                                        },
    {"ingress_backend_failures_total",            "",                        "counter", "Requests that a sandbox did not answer."   },
    {"ingress_wakes_total",                       "",                        "counter", "Requests that waited for a paused sandbox."},
    {"ingress_retries_total",                     "",                        "counter", "Requests that were sent again."            },
};

void metric_status(struct metrics *m, int status)
{
    if (status >= METRIC_STATUS_MIN && status <= METRIC_STATUS_MAX)
        counter_add(&m->status[status - METRIC_STATUS_MIN], 1);
}

void metric_observe(struct histogram *h, uint64_t ns)
{
    uint64_t us = ns / 1000;
    size_t i = 0;

    while (i < METRIC_BUCKETS && us > bounds_us[i])
        i++;
    counter_add(&h->buckets[i], 1);
    counter_add(&h->sum_us, us);
}

static int head(struct buf *out, const char *name, const char *type, const char *help)
{
    return buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int single(struct buf *out, const char *name, const char *type, const char *help,
                  uint64_t value)
{
    int r = head(out, name, type, help);

    return r < 0 ? r : buf_addf(out, "%s %" PRIu64 "\n", name, value);
}

static int write_rows(struct buf *out, struct metrics *const *workers, size_t count)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < METRIC_COUNT; i++) {
        uint64_t sum = 0;

        for (size_t w = 0; w < count; w++)
            sum += atomic_load_explicit(&workers[w]->at[i], memory_order_relaxed);
        if (rows[i].type)
            r = head(out, rows[i].name, rows[i].type, rows[i].help);
        if (r == 0)
            r = buf_addf(out, "%s%s %" PRIu64 "\n", rows[i].name, rows[i].labels, sum);
    }
    return r;
}

static int write_status(struct buf *out, struct metrics *const *workers, size_t count)
{
    int r = head(out, "ingress_http_request_count_total", "counter", "Requests by their status.");

    for (int code = METRIC_STATUS_MIN; r == 0 && code <= METRIC_STATUS_MAX; code++) {
        uint64_t sum = 0;

        for (size_t w = 0; w < count; w++)
            sum += atomic_load_explicit(&workers[w]->status[code - METRIC_STATUS_MIN],
                                        memory_order_relaxed);
        if (sum)
            r = buf_addf(out, "ingress_http_request_count_total{status=\"%d\"} %" PRIu64 "\n", code,
                         sum);
    }
    return r;
}

static int write_histogram(struct buf *out, struct metrics *const *workers, size_t count,
                           size_t offset, const char *name, const char *help)
{
    uint64_t sum = 0, us = 0;
    int r = head(out, name, "histogram", help);

    for (size_t i = 0; r == 0 && i <= METRIC_BUCKETS; i++) {
        for (size_t w = 0; w < count; w++) {
            struct histogram *h = (void *)((char *)workers[w] + offset);

            sum += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
            if (i == 0)
                us += atomic_load_explicit(&h->sum_us, memory_order_relaxed);
        }
        if (i < METRIC_BUCKETS)
            r = buf_addf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds_us[i] / 1e6, sum);
        else
            r = buf_addf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
    }
    return r < 0 ? r
                 : buf_addf(out, "%s_sum %.6f\n%s_count %" PRIu64 "\n", name, (double)us / 1e6,
                            name, sum);
}

static int write_intents(struct buf *out, const struct intents_stats *s)
{
    const struct {
        const char *result;
        uint64_t n;
    } results[] = {
        {"noted",     s->noted    },
        {"throttled", s->throttled},
        {"dropped",   s->dropped  },
        {"pushed",    s->pushed   },
        {"failed",    s->failed   },
    };
    int r = head(out, "ingress_renew_intents_total", "counter",
                 "Renew intents, by what became of them.");

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(results); i++)
        r = buf_addf(out, "ingress_renew_intents_total{result=\"%s\"} %" PRIu64 "\n",
                     results[i].result, results[i].n);
    return r;
}

int metrics_write(struct buf *out, struct metrics *const *workers, size_t count,
                  const struct metrics_rest *rest)
{
    int r = write_rows(out, workers, count);

    if (r == 0)
        r = write_status(out, workers, count);
    if (r == 0)
        r = write_histogram(out, workers, count, offsetof(struct metrics, requests),
                            "ingress_http_request_duration_seconds",
                            "From a request's head to the end of its answer.");
    if (r == 0)
        r = write_histogram(out, workers, count, offsetof(struct metrics, lookups),
                            "ingress_routing_resolution_duration_seconds",
                            "From a request's head until its sandbox was found.");
    if (r == 0 && rest->intents)
        r = write_intents(out, rest->intents);
    if (r == 0 && rest->watch_lag_s >= 0)
        r = single(out, "ingress_watch_lag_seconds", "gauge",
                   "Since the table of sandboxes was last in step with the cluster.",
                   (uint64_t)rest->watch_lag_s);
    if (r == 0)
        r = single(out, "ingress_sandboxes", "gauge", "Sandboxes known by watching.",
                   rest->sandboxes);
    if (r == 0)
        r = single(out, "ingress_draining", "gauge", "1 while it ends.", rest->draining);
    if (r == 0)
        r = head(out, "ingress_system_cpu_usage", "counter", "CPU time used, in seconds.");
    if (r == 0)
        r = buf_addf(out, "ingress_system_cpu_usage %.6f\n", (double)rest->cpu_us / 1e6);
    if (r == 0)
        r = single(out, "ingress_system_memory_usage_bytes", "gauge", "Resident memory.",
                   rest->memory_bytes);
    return r;
}
