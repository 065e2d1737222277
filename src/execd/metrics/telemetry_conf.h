/* telemetry_conf.h - where metrics and traces are sent, how often and with which attributes, from
 * the environment. For traces, METRICS is TRACES, and metrics is traces.
 *
 *   OTEL_SDK_DISABLED=true                 nowhere; overrides all others
 *   OTEL_METRICS_EXPORTER=none             the same, for this signal
 *   OTEL_EXPORTER_OTLP_METRICS_ENDPOINT    to this URL, unchanged
 *   OTEL_EXPORTER_OTLP_ENDPOINT            to /v1/metrics below this URL
 *   HOST_IP, or a line of /etc/hostinfo    to http://<that address>:4318/v1/metrics
 *   OTEL_METRIC_EXPORT_INTERVAL            milliseconds between exports (60000)
 *   OTEL_BSP_SCHEDULE_DELAY                the same for traces (5000)
 *   OTEL_EXPORTER_OTLP_METRICS_HEADERS, OTEL_EXPORTER_OTLP_HEADERS
 *                                          more request headers, k=v,k2=v2
 *   OPENSANDBOX_ID                         sandbox_id of the resource and of every point
 *   OTEL_RESOURCE_ATTRIBUTES               more attributes of the resource, k=v,k2=v2
 *   OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS  more attributes of every point, k=v,k2=v2
 *
 * A blank value counts as unset. In lists the first '=' separates key and value, and an entry
 * without a key or a value is skipped; lists in OTEL_ variables are percent-encoded. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/otlp.h"
#include "net/http.h"

enum {
    TELEMETRY_ATTRIBUTES_MAX = 32, /* per list; further ones are dropped */
    TELEMETRY_ATTRIBUTE_BYTES_MAX = 256,
    TELEMETRY_HEADERS_MAX = 16,
    TELEMETRY_HEADER_BYTES_MAX = 4096,
    TELEMETRY_INTERVAL_MS = 60 * 1000,
    TELEMETRY_DELAY_MS = 5 * 1000, /* of traces */
    TELEMETRY_INTERVAL_MS_MIN = 100,
    TELEMETRY_INTERVAL_MS_MAX = 24 * 3600 * 1000,
    TELEMETRY_CONF_BYTES_MAX = 256 << 10, /* enough for the arena, with both signals */
};

enum telemetry_signal { TELEMETRY_METRICS, TELEMETRY_TRACES, TELEMETRY_SIGNAL_COUNT };

struct telemetry_conf {
    const char *host; /* a host name or an address, for sock_resolve() */
    uint16_t port;
    struct str authority; /* host and port, as in a Host header */
    struct str target;    /* path and query */
    uint32_t interval_ms;
    struct otlp_attribute resource[TELEMETRY_ATTRIBUTES_MAX + 2];
    size_t resource_count;
    struct otlp_attribute points[TELEMETRY_ATTRIBUTES_MAX + 1];
    size_t point_count;
    struct http_header headers[TELEMETRY_HEADERS_MAX];
    size_t header_count;
};

/* True if export of this signal is enabled. `hostinfo` is the text of /etc/hostinfo, empty if there
 * is none. */
bool telemetry_conf_wanted(const char *const *env, struct str hostinfo,
                           enum telemetry_signal signal);
/* Reads the configuration if it is enabled. All that *ret points at is in `a` or static. -EINVAL
 * for an invalid endpoint, -ENOMEM. The message names the variable but not its value, which may be
 * secret. */
int telemetry_conf_read(const char *const *env, struct str hostinfo, enum telemetry_signal signal,
                        struct arena *a, struct telemetry_conf *ret, struct err *e) MUST_USE;
