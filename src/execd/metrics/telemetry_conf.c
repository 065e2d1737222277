#include "execd/metrics/telemetry_conf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/url.h"
#include "base/utf8.h"
#include "execd/core/path.h"
#include "version.h"

enum { NODE_PORT = 4318 };

static const struct {
    const char *endpoint, *headers, *exporter, *interval; /* variables */
    const char *path, *type;
    uint32_t interval_ms;
} signals[TELEMETRY_SIGNAL_COUNT] = {
    [TELEMETRY_METRICS] = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                           "OTEL_EXPORTER_OTLP_METRICS_HEADERS",                                       "OTEL_METRICS_EXPORTER",
                           "OTEL_METRIC_EXPORT_INTERVAL",                                                                                                  "/v1/metrics", "application/x-protobuf",
                           TELEMETRY_INTERVAL_MS                                                                                                                                                                      },
    [TELEMETRY_TRACES] = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",  "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
                           "OTEL_TRACES_EXPORTER",                                                                              "OTEL_BSP_SCHEDULE_DELAY", "/v1/traces",
                           "application/json",                                                                                                                                                      TELEMETRY_DELAY_MS},
};

/* --- lists --- */

static bool has_key(const struct otlp_attribute *rows, size_t count, struct str key)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(rows[i].key, key))
            return true;
    return false;
}

/* Existing keys take precedence. */
static size_t add_list(struct arena *a, struct str list, bool encoded, struct otlp_attribute *rows,
                       size_t count, size_t max)
{
    struct str key, value;

    while (count < max &&
           otlp_list_next(&list, a, encoded, TELEMETRY_ATTRIBUTE_BYTES_MAX, &key, &value))
        if (!has_key(rows, count, key))
            rows[count++] = (struct otlp_attribute){.key = key, .text = value};
    return count;
}

/* STR_NONE if it is unset, or no text that can be sent. */
static struct str sandbox_id(struct arena *a, const char *const *env)
{
    struct str id = str_trim(path_env(env, STR("OPENSANDBOX_ID")));

    return id.n > TELEMETRY_ATTRIBUTE_BYTES_MAX || !utf8_valid(id) ? STR_NONE : arena_str(a, id);
}

static void read_attributes(const char *const *env, struct arena *a, struct telemetry_conf *ret)
{
    struct str id = sandbox_id(a, env);
    struct otlp_attribute sandbox = {.key = STR("sandbox_id"), .text = id};

    ret->resource[ret->resource_count++] = (struct otlp_attribute){
        .key = STR("service.name"),
        .text = STR("opensandbox-execd-" OPENSANDBOX_VERSION),
    };
    if (id.n > 0) {
        ret->resource[ret->resource_count++] = sandbox;
        ret->points[ret->point_count++] = sandbox;
    }
    ret->resource_count = add_list(a, path_env(env, STR("OTEL_RESOURCE_ATTRIBUTES")), true,
                                   ret->resource, ret->resource_count, ARRAY_LEN(ret->resource));
    ret->point_count = add_list(a, path_env(env, STR("OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS")),
                                false, ret->points, ret->point_count, ARRAY_LEN(ret->points));
}

static void read_headers(const char *const *env, enum telemetry_signal signal, struct arena *a,
                         struct telemetry_conf *ret)
{
    struct str list = str_trim(path_env(env, str_of(signals[signal].headers)));
    struct http_header row;

    ret->headers[ret->header_count++] =
        (struct http_header){STR("Content-Type"), str_of(signals[signal].type)};
    if (list.n == 0)
        list = path_env(env, STR("OTEL_EXPORTER_OTLP_HEADERS"));
    while (ret->header_count < TELEMETRY_HEADERS_MAX &&
           otlp_list_next(&list, a, true, TELEMETRY_HEADER_BYTES_MAX, &row.name, &row.value))
        if (http_header_is_free(&row))
            ret->headers[ret->header_count++] = row;
}

/* --- endpoint --- */

/* path: what is below a base; NULL = it is a whole URL. */
static int set_endpoint(struct str text, const char *path, struct arena *a,
                        struct telemetry_conf *ret, struct err *e)
{
    struct url url;
    int r = url_split(text, &url, e);

    if (r < 0)
        return r;
    if (url.scheme == URL_HTTPS)
        return err_set(e, EINVAL, "execd has no TLS: https does not work, http does");
    if (url.scheme != URL_HTTP)
        return err_set(e, EINVAL, "it is not an http URL");
    if (path && str_ends(url.path, STR("/")))
        url.path.n--;
    ret->host = arena_strdup(a, url.host);
    ret->port = url.port;
    ret->authority = str_of(
        arena_printf(a, url.host_is_ipv6 ? "[%.*s]:%u" : "%.*s:%u", STR_ARG(url.host), url.port));
    ret->target = str_of(arena_printf(a, "%.*s%s%s%.*s", STR_ARG(url.path),
                                      path              ? path
                                      : url.path.n == 0 ? "/"
                                                        : "",
                                      url.query.p ? "?" : "", STR_ARG(url.query)));
    if (!ret->host || !ret->authority.p || !ret->target.p)
        return err_set(e, ENOMEM, "%zu bytes are too many", text.n);
    return 0;
}

static bool is_address(struct str s)
{
    char text[INET6_ADDRSTRLEN], out[sizeof(struct in6_addr)];

    return str_copy(text, sizeof(text), s) >= 0 &&
           (inet_pton(AF_INET, text, out) == 1 || inet_pton(AF_INET6, text, out) == 1);
}

/* Address of the machine that the sandbox runs on, if configured. */
static struct str node_address(const char *const *env, struct str hostinfo)
{
    struct str line = str_trim(path_env(env, STR("HOST_IP")));

    if (is_address(line))
        return line;
    while (hostinfo.n > 0 && str_cut(&hostinfo, '\n', &line)) {
        if (str_ends(line, STR("\r")))
            line.n--;
        line = str_trim(line);
        if (is_address(line))
            return line;
    }
    return STR_NONE;
}

static struct str own_endpoint(const char *const *env, enum telemetry_signal signal)
{
    return str_trim(path_env(env, str_of(signals[signal].endpoint)));
}

static struct str base_endpoint(const char *const *env)
{
    return str_trim(path_env(env, STR("OTEL_EXPORTER_OTLP_ENDPOINT")));
}

static int read_endpoint(const char *const *env, struct str hostinfo, enum telemetry_signal signal,
                         struct arena *a, struct telemetry_conf *ret, struct err *e)
{
    const char *path = signals[signal].path;
    struct str node = node_address(env, hostinfo);
    const char *url;
    int r;

    if (own_endpoint(env, signal).n > 0) {
        r = set_endpoint(own_endpoint(env, signal), NULL, a, ret, e);
        return r < 0 ? err_wrap(e, r, "%s", signals[signal].endpoint) : r;
    }
    if (base_endpoint(env).n > 0) {
        r = set_endpoint(base_endpoint(env), path, a, ret, e);
        return r < 0 ? err_wrap(e, r, "OTEL_EXPORTER_OTLP_ENDPOINT") : r;
    }
    url = arena_printf(a, str_find(node, ':') < node.n ? "http://[%.*s]:%d" : "http://%.*s:%d",
                       STR_ARG(node), NODE_PORT);
    return url ? set_endpoint(str_of(url), path, a, ret, e)
               : err_set(e, ENOMEM, "no memory for the node's address");
}

/* --- public functions --- */

bool telemetry_conf_wanted(const char *const *env, struct str hostinfo,
                           enum telemetry_signal signal)
{
    if (str_eq_nocase(str_trim(path_env(env, STR("OTEL_SDK_DISABLED"))), STR("true")) ||
        str_eq(str_trim(path_env(env, str_of(signals[signal].exporter))), STR("none")))
        return false;
    return own_endpoint(env, signal).n > 0 || base_endpoint(env).n > 0 ||
           node_address(env, hostinfo).p;
}

int telemetry_conf_read(const char *const *env, struct str hostinfo, enum telemetry_signal signal,
                        struct arena *a, struct telemetry_conf *ret, struct err *e)
{
    uint64_t ms;
    int r;

    *ret = (struct telemetry_conf){.interval_ms = signals[signal].interval_ms};
    r = read_endpoint(env, hostinfo, signal, a, ret, e);
    if (r < 0)
        return r;
    if (str_to_u64_range(str_trim(path_env(env, str_of(signals[signal].interval))),
                         TELEMETRY_INTERVAL_MS_MIN, TELEMETRY_INTERVAL_MS_MAX, &ms) >= 0)
        ret->interval_ms = (uint32_t)ms;
    read_attributes(env, a, ret);
    read_headers(env, signal, a, ret);
    return 0;
}
