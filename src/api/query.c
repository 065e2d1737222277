/* query.c - parses query parameters by table. */
#include "api/query.h"

#include <errno.h>

#include "api/body.h"
#include "api/metadata.h"
#include "api/snapshot.h"
#include "base/url.h"

struct query_row {
    const char *name;
    /* Reads a decoded value into *to; on failure only `f` is filled. */
    int (*parse)(struct arena *a, const struct query_row *row, struct str value, void *to,
                 struct api_fail *f);
    size_t at;
    uint64_t min, max; /* of a number */
};

#define QUERY_ROW(name, parse, type, member, ...)                                                  \
    {                                                                                              \
        name, parse, offsetof(type, member), __VA_ARGS__                                           \
    }

static int query_bind(struct arena *a, struct str query, const struct query_row *rows, size_t count,
                      void *to, struct api_fail *f)
{
    struct url_query_iter it;
    int r;

    url_query_init(&it, query, a);
    while ((r = url_query_next(&it)) > 0)
        for (size_t i = 0; i < count; i++) {
            if (!str_eq(it.key, str_of(rows[i].name)))
                continue;
            r = rows[i].parse(a, &rows[i], it.value, (char *)to + rows[i].at, f);
            if (r < 0)
                return r;
        }
    if (r == -ENOMEM)
        return api_fail_memory(f);
    if (r < 0)
        return api_fail_invalid(f,
                                "query '%s': a %% must be followed by two hexadecimal digits, "
                                "and not by 00",
                                api_show(it.raw_key).text);
    return 0;
}

/* --- kinds of values --- */

static int query_u64(struct arena *a, const struct query_row *row, struct str value, void *to,
                     struct api_fail *f)
{
    if (str_to_u64_range(value, row->min, row->max, to) < 0)
        return api_fail_invalid(f, "query %s: expected an integer from %llu to %llu, got '%s'",
                                row->name, (unsigned long long)row->min,
                                (unsigned long long)row->max, api_show(value).text);
    return 0;
}

static int query_u32(struct arena *a, const struct query_row *row, struct str value, void *to,
                     struct api_fail *f)
{
    uint64_t wide = 0;
    int r = query_u64(a, row, value, &wide, f);

    if (r == 0)
        *(uint32_t *)to = (uint32_t)wide;
    return r;
}

static int query_bool(struct arena *a, const struct query_row *row, struct str value, void *to,
                      struct api_fail *f)
{
    if (api_bool_word(value, to) == 0)
        return 0;
    return api_fail_invalid(f, "query %s: expected true or false, got '%s'", row->name,
                            api_show(value).text);
}

static int query_str(struct arena *a, const struct query_row *row, struct str value, void *to,
                     struct api_fail *f)
{
    *(struct str *)to = value;
    return 0;
}

/* --- lists --- */

#define PAGE_ROWS(type)                                                                            \
    QUERY_ROW("page", query_u32, type, page, .min = 1, .max = INT32_MAX),                          \
        QUERY_ROW("pageSize", query_u32, type, page_size, .min = 1, .max = API_PAGE_SIZE_MAX)

static int list_state(struct arena *a, const struct query_row *row, struct str value, void *to,
                      struct api_fail *f)
{
    struct api_list_query *q = to;
    enum sandbox_state state;

    if (sandbox_state_parse(value, &state) < 0)
        q->unknown_state = true;
    else
        q->states |= STATE_BIT(state);
    return 0;
}

static int fail_metadata(struct api_fail *f)
{
    return api_fail_set(f, 400, "INVALID_METADATA_FORMAT",
                        "query metadata: expected key=value pairs joined by '&', the whole of it "
                        "percent-encoded, like metadata=team%%3Da%%26env%%3Dtest");
}

/* Adds one pair of the filter; replaces an earlier one with the same key. */
static int list_add_pair(struct arena *a, struct str pair, struct api_list_query *q,
                         struct api_fail *f)
{
    size_t equals = str_find(pair, '='), i = 0;
    struct json_pair read;
    int r;

    if (equals == pair.n)
        return fail_metadata(f);
    r = url_decode_in(a, str_make(pair.p, equals), URL_PLUS_IS_SPACE, &read.key);
    if (r == 0)
        r = url_decode_in(a, str_skip(pair, equals + 1), URL_PLUS_IS_SPACE, &read.value);
    if (r < 0)
        return r == -ENOMEM ? api_fail_memory(f) : fail_metadata(f);
    while (i < q->metadata_count && !str_eq(q->metadata[i].key, read.key))
        i++;
    if (i == API_METADATA_MAX)
        return api_fail_invalid(f, "query metadata: expected at most %d pairs", API_METADATA_MAX);
    q->metadata[i] = read;
    q->metadata_count += i == q->metadata_count;
    return 0;
}

/* The value was decoded like any other; the keys and values inside it are encoded once more. */
static int list_metadata(struct arena *a, const struct query_row *row, struct str value, void *to,
                         struct api_fail *f)
{
    struct api_list_query *q = to;
    struct str pair;
    int r = 0;

    q->metadata_count = 0;
    if (value.n == 0)
        return 0;
    if (!q->metadata)
        q->metadata = arena_new_array(a, struct json_pair, API_METADATA_MAX);
    if (!q->metadata)
        return api_fail_memory(f);
    while (r == 0 && str_cut(&value, '&', &pair))
        r = list_add_pair(a, pair, q, f);
    return r;
}

int api_list_query_parse(struct arena *a, struct str query, struct api_list_query *ret,
                         struct api_fail *f)
{
    static const struct query_row rows[] = {
        {"state",    list_state,    0},
        {"metadata", list_metadata, 0},
        PAGE_ROWS(struct api_list_query),
    };
    struct api_list_query q = {.page = 1, .page_size = API_PAGE_SIZE_DEFAULT};
    int r = query_bind(a, query, rows, ARRAY_LEN(rows), &q, f);

    if (r == 0)
        *ret = q;
    return r;
}

/* As it is written: other spellings match nothing. */
static int snapshot_state(struct arena *a, const struct query_row *row, struct str value, void *to,
                          struct api_fail *f)
{
    struct api_snapshot_query *q = to;
    enum snapshot_state state;

    if (snapshot_state_parse(value, &state) < 0)
        q->unknown_state = true;
    else
        q->states |= STATE_BIT(state);
    return 0;
}

int api_snapshot_query_parse(struct arena *a, struct str query, struct api_snapshot_query *ret,
                             struct api_fail *f)
{
    static const struct query_row rows[] = {
        QUERY_ROW("sandboxId", query_str, struct api_snapshot_query, sandbox_id),
        QUERY_ROW("name", query_str, struct api_snapshot_query, name),
        {"state", snapshot_state, 0},
        PAGE_ROWS(struct api_snapshot_query),
    };
    struct api_snapshot_query q = {
        .sandbox_id = STR(""), .page = 1, .page_size = API_PAGE_SIZE_DEFAULT};
    int r = query_bind(a, query, rows, ARRAY_LEN(rows), &q, f);

    if (r == 0)
        *ret = q;
    return r;
}

/* --- endpoints --- */

static int endpoint_expires(struct arena *a, const struct query_row *row, struct str value,
                            void *to, struct api_fail *f)
{
    struct api_endpoint_query *q = to;

    q->signed_route = true;
    return query_u64(a, row, value, &q->expires_s, f);
}

int api_endpoint_query_parse(struct arena *a, struct str query, struct api_endpoint_query *ret,
                             struct api_fail *f)
{
    static const struct query_row rows[] = {
        QUERY_ROW("by_host", query_bool, struct api_endpoint_query, by_host),
        QUERY_ROW("use_server_proxy", query_bool, struct api_endpoint_query, use_server_proxy),
        {"expires", endpoint_expires, 0, 0, UINT64_MAX},
    };
    struct api_endpoint_query q = {0};
    int r = query_bind(a, query, rows, ARRAY_LEN(rows), &q, f);

    if (r < 0)
        return r;
    if (q.use_server_proxy && q.signed_route)
        return api_fail_invalid(f, "query expires: a route through the server (use_server_proxy) "
                                   "cannot be signed; leave one of them out");
    *ret = q;
    return 0;
}

int api_port_parse(struct str text, uint16_t *ret_port, struct api_fail *f)
{
    int64_t port;
    int r = str_to_i64(text, &port);

    if (r == -EINVAL)
        return api_fail_invalid(f, "port: expected an integer from 1 to 65535, got '%s'",
                                api_show(text).text);
    if (r < 0 || port < 1 || port > UINT16_MAX)
        return api_fail_set(f, 400, "DOCKER::INVALID_PORT",
                            "port: expected an integer from 1 to 65535, got %s",
                            api_show(text).text);
    *ret_port = (uint16_t)port;
    return 0;
}

/* --- diagnostics --- */

enum {
    SINCE_DEFAULT_S = 600,
    LOGS_TAIL_DEFAULT = 100,
    TAIL_MAX = 10000,
    EVENTS_DEFAULT = 50,
    EVENTS_MAX = 500,
    SUMMARY_TAIL_DEFAULT = 50,
    SUMMARY_EVENTS_DEFAULT = 20,
};

static int diag_scope(struct arena *a, const struct query_row *row, struct str value, void *to,
                      struct api_fail *f)
{
    static const char *const scopes[] = {"container", "lifecycle", "runtime",
                                         "network",   "process",   "all"};

    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (str_eq(value, str_of(scopes[i]))) {
            *(struct str *)to = str_of(scopes[i]);
            return 0;
        }
    return api_fail_invalid(f,
                            "query scope: expected container, lifecycle, runtime, network, "
                            "process or all, got '%s'",
                            api_show(value).text);
}

/* "10m", "2 h": a number, blanks, and a unit. */
static int since_parse(struct str text, int64_t *ret_s)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {
        {'s', 1    },
        {'m', 60   },
        {'h', 3600 },
        {'d', 86400},
    };
    char unit = text.n ? text.p[text.n - 1] : '\0';
    uint64_t number;

    if (text.n < 2 || !ascii_is_digit(text.p[0]))
        return -EINVAL;
    if (str_to_u64_range(str_trim(str_make(text.p, text.n - 1)), 0, INT32_MAX, &number) < 0)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (units[i].unit == unit) {
            *ret_s = (int64_t)number * units[i].seconds;
            return 0;
        }
    return -EINVAL;
}

/* The contract treats an invalid value as ten minutes. */
static int diag_since(struct arena *a, const struct query_row *row, struct str value, void *to,
                      struct api_fail *f)
{
    if (since_parse(value, to) < 0)
        *(int64_t *)to = SINCE_DEFAULT_S;
    return 0;
}

#define SCOPE_ROW QUERY_ROW("scope", diag_scope, struct api_diag_query, scope)
#define TAIL_ROW                                                                                   \
    QUERY_ROW("tail", query_u32, struct api_diag_query, tail, .min = 1, .max = TAIL_MAX)
#define EVENTS_ROW(name)                                                                           \
    QUERY_ROW(name, query_u32, struct api_diag_query, limit, .min = 1, .max = EVENTS_MAX)

int api_diag_query_parse(struct arena *a, struct str query, enum api_diag_kind kind,
                         struct api_diag_query *ret, struct api_fail *f)
{
    static const struct query_row logs[] = {
        SCOPE_ROW,
        TAIL_ROW,
        QUERY_ROW("since", diag_since, struct api_diag_query, since_s),
    };
    static const struct query_row events[] = {SCOPE_ROW, EVENTS_ROW("limit")};
    static const struct query_row summary[] = {TAIL_ROW, EVENTS_ROW("event_limit")};
    static const struct {
        const struct query_row *rows;
        size_t count;
        uint32_t tail, limit;
    } kinds[] = {
        [API_DIAG_LOGS] = {logs,    ARRAY_LEN(logs),    LOGS_TAIL_DEFAULT,    EVENTS_DEFAULT},
        [API_DIAG_EVENTS] = {events,  ARRAY_LEN(events),  LOGS_TAIL_DEFAULT,    EVENTS_DEFAULT},
        [API_DIAG_INSPECT] = {NULL,    0,                  LOGS_TAIL_DEFAULT,    EVENTS_DEFAULT},
        [API_DIAG_SUMMARY] = {summary, ARRAY_LEN(summary), SUMMARY_TAIL_DEFAULT,
                           SUMMARY_EVENTS_DEFAULT                                           },
    };
    struct api_diag_query q = {.tail = kinds[kind].tail, .limit = kinds[kind].limit};
    int r = query_bind(a, query, kinds[kind].rows, kinds[kind].count, &q, f);

    if (r == 0)
        *ret = q;
    return r;
}
