#include "execd/metrics/telemetry_conf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/url.h"
#include "base/utf8.h"
#include "execd/core/path.h"
#include "version.h"

enum { NODE_PORT = 4318 };

#define METRICS_PATH "/v1/metrics"

/* --- lists --- */

struct pair {
    struct str key, value;
};

/* Parses "k=v,k2=v2": returns the next entry that has both. */
static bool next_pair(struct str *list, struct pair *ret)
{
    struct str entry;

    while (list->n > 0 && str_cut(list, ',', &entry)) {
        size_t at = str_find(entry, '=');

        if (at >= entry.n)
            continue;
        ret->key = str_trim(str_make(entry.p, at));
        ret->value = str_trim(str_skip(entry, at + 1));
        if (ret->key.n > 0 && ret->value.n > 0)
            return true;
    }
    return false;
}

/* Copies a valid protobuf string into the arena; STR_NONE if it is invalid. */
static struct str settle(struct arena *a, struct str s, bool encoded)
{
    struct str decoded = s;

    if (encoded && url_decode_in(a, s, 0, &decoded) < 0)
        return STR_NONE;
    if (decoded.n > TELEMETRY_ATTRIBUTE_BYTES_MAX || !utf8_valid(decoded))
        return STR_NONE;
    return arena_str(a, decoded);
}

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
    struct pair pair;

    while (count < max && next_pair(&list, &pair)) {
        struct str key = settle(a, pair.key, encoded);
        struct str value = settle(a, pair.value, encoded);

        if (key.p && value.p && !has_key(rows, count, key))
            rows[count++] = (struct otlp_attribute){.key = key, .text = value};
    }
    return count;
}

static void read_attributes(const char *const *env, struct arena *a, struct telemetry_conf *ret)
{
    struct str id = settle(a, str_trim(path_env(env, STR("OPENSANDBOX_ID"))), false);
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

/* Headers that execd itself sets are refused. */
static bool header_is_fine(const struct http_header *row)
{
    static const char *const ours[] = {
        "connection", "content-encoding",  "content-length", "content-type", "expect", "host",
        "te",         "transfer-encoding", "upgrade",
    };

    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (str_eq_nocase(row->name, str_of(ours[i])))
            return false;
    return http_is_token(row->name) && row->value.p && http_is_value(row->value);
}

static void read_headers(const char *const *env, struct arena *a, struct telemetry_conf *ret)
{
    struct str list = str_trim(path_env(env, STR("OTEL_EXPORTER_OTLP_METRICS_HEADERS")));
    struct pair pair;

    ret->headers[ret->header_count++] =
        (struct http_header){STR("Content-Type"), STR("application/x-protobuf")};
    if (list.n == 0)
        list = path_env(env, STR("OTEL_EXPORTER_OTLP_HEADERS"));
    while (ret->header_count < TELEMETRY_HEADERS_MAX && next_pair(&list, &pair)) {
        struct http_header row = {.name = settle(a, pair.key, true),
                                  .value = settle(a, pair.value, true)};

        if (header_is_fine(&row))
            ret->headers[ret->header_count++] = row;
    }
}

/* --- endpoint --- */

static int set_endpoint(struct str text, bool is_base, struct arena *a, struct telemetry_conf *ret,
                        struct err *e)
{
    struct url url;
    int r = url_split(text, &url, e);

    if (r < 0)
        return r;
    if (url.scheme == URL_HTTPS)
        return err_set(e, EINVAL, "execd has no TLS: https does not work, http does");
    if (url.scheme != URL_HTTP)
        return err_set(e, EINVAL, "it is not an http URL");
    if (is_base && str_ends(url.path, STR("/")))
        url.path.n--;
    ret->host = arena_strdup(a, url.host);
    ret->port = url.port;
    ret->authority = str_of(
        arena_printf(a, url.host_is_ipv6 ? "[%.*s]:%u" : "%.*s:%u", STR_ARG(url.host), url.port));
    ret->target = str_of(arena_printf(a, "%.*s%s%s%.*s", STR_ARG(url.path),
                                      is_base           ? METRICS_PATH
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

static struct str own_endpoint(const char *const *env)
{
    return str_trim(path_env(env, STR("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")));
}

static struct str base_endpoint(const char *const *env)
{
    return str_trim(path_env(env, STR("OTEL_EXPORTER_OTLP_ENDPOINT")));
}

static int read_endpoint(const char *const *env, struct str hostinfo, struct arena *a,
                         struct telemetry_conf *ret, struct err *e)
{
    struct str node = node_address(env, hostinfo);
    const char *url;
    int r;

    if (own_endpoint(env).n > 0) {
        r = set_endpoint(own_endpoint(env), false, a, ret, e);
        return r < 0 ? err_wrap(e, r, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") : r;
    }
    if (base_endpoint(env).n > 0) {
        r = set_endpoint(base_endpoint(env), true, a, ret, e);
        return r < 0 ? err_wrap(e, r, "OTEL_EXPORTER_OTLP_ENDPOINT") : r;
    }
    url = arena_printf(a, str_find(node, ':') < node.n ? "http://[%.*s]:%d" : "http://%.*s:%d",
                       STR_ARG(node), NODE_PORT);
    return url ? set_endpoint(str_of(url), true, a, ret, e)
               : err_set(e, ENOMEM, "no memory for the node's address");
}

/* --- public functions --- */

bool telemetry_conf_wanted(const char *const *env, struct str hostinfo)
{
    if (str_eq_nocase(str_trim(path_env(env, STR("OTEL_SDK_DISABLED"))), STR("true")))
        return false;
    return own_endpoint(env).n > 0 || base_endpoint(env).n > 0 || node_address(env, hostinfo).p;
}

int telemetry_conf_read(const char *const *env, struct str hostinfo, struct arena *a,
                        struct telemetry_conf *ret, struct err *e)
{
    uint64_t ms;
    int r;

    *ret = (struct telemetry_conf){.interval_ms = TELEMETRY_INTERVAL_MS};
    r = read_endpoint(env, hostinfo, a, ret, e);
    if (r < 0)
        return r;
    if (str_to_u64_range(str_trim(path_env(env, STR("OTEL_METRIC_EXPORT_INTERVAL"))),
                         TELEMETRY_INTERVAL_MS_MIN, TELEMETRY_INTERVAL_MS_MAX, &ms) >= 0)
        ret->interval_ms = (uint32_t)ms;
    read_attributes(env, a, ret);
    read_headers(env, a, ret);
    return 0;
}
