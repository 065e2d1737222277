/* audit_api.c - entries of the audit record, and GET /audit. */
#include <errno.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "server/http/server_internal.h"

enum { AUDIT_JSON_MAX = 32 << 20, TARGET_MAX = 1024, LIMIT_DEFAULT = 100 };

/* --- adding --- */

static bool is_read(enum http_method method)
{
    return method == HTTP_GET || method == HTTP_HEAD || method == HTTP_OPTIONS;
}

/* Ids and names of the path, joined by '/'. They are no secrets: queries and headers stay out. */
static struct str target_of(const struct http_req *req, struct buf *out)
{
    for (size_t i = 0; i < req->param_count; i++) {
        if (i && buf_add_char(out, '/') < 0)
            break;
        if (buf_add(out, req->params[i].value) < 0)
            break;
    }
    return buf_str(out);
}

void audit_request(struct http_req *req, uint64_t ns)
{
    struct server *s = server_of(req);
    const struct config *config = s->config;
    char peer[SOCK_ADDR_TEXT_MAX];
    AUTO_BUF(target, TARGET_MAX);
    bool proxied = req->route && req->route->methods == HTTP_ANY_METHOD;

    if (!s->audit || (req->route && guard_is_open_path(str_of(req->route->path)) &&
                      !guard_is_sign_in_path(str_of(req->route->path))))
        return;
    if (proxied ? !config->audit.data_plane
                : !config->audit.reads && is_read(req->head.method) && req->status < 400)
        return;
    sock_addr_format(http_req_peer(req), peer);
    audit_add(s->audit, &(struct audit_entry){
                            .time_us = time_wall_us() - (int64_t)(ns / 1000),
                            .by = guard_principal(req),
                            .request_id = req->id,
                            .peer = str_of(peer),
                            .method = req->head.method_name,
                            .route = req->route ? str_of(req->route->path) : STR("none"),
                            .target = target_of(req, &target),
                            .status = req->status,
                            .duration_us = ns / 1000,
                        });
}

enum { DECISION_TARGET_MAX = 512 };

/* Of the sandbox's tenant, by the sandbox. What it did not get is refused, all else succeeded. */
void audit_decision(struct server *s, const struct runtime_decision *d)
{
    const struct sandbox *sb = sandboxes_find(s->sandboxes, d->sandbox);
    struct principal by = principal_of_sandbox(d->sandbox);
    AUTO_BUF(target, DECISION_TARGET_MAX);

    if (!s->audit)
        return;
    if (sb)
        (void)snprintf(by.tenant, sizeof(by.tenant), "%s", sb->owner.tenant);
    (void)buf_addf(&target, "%.*s/%.*s", STR_ARG(d->sandbox), STR_ARG(d->target));
    if (d->left_out)
        (void)buf_addf(&target, " (%llu before are left out)", (unsigned long long)d->left_out);
    audit_add(s->audit, &(struct audit_entry){
                            .time_us = time_wall_us(),
                            .by = &by,
                            .request_id = STR(""),
                            .peer = STR(""),
                            .method = STR("EGRESS"),
                            .route = d->kind,
                            .target = buf_str(&target),
                            .status = str_ends(d->kind, STR(".deny")) ? 403 : 200,
                        });
}

/* --- reading --- */

struct reading {
    struct pending pending;
    struct pool_job job;
    struct audit *audit;
    struct audit_query q;
    struct arena arena; /* of the texts of q */
    struct buf out;
    uint64_t last;
    struct err err;
};

static void reading_free(struct pending *p)
{
    struct reading *r = container_of(p, struct reading, pending);

    arena_done(&r->arena);
    buf_done(&r->out);
    free(r);
}

static void read_work(struct pool_job *job)
{
    struct reading *r = container_of(job, struct reading, job);

    (void)audit_read(r->audit, &r->q, &r->out, &r->last, &r->err);
}

static void reply_page(struct http_req *req, struct reading *r)
{
    AUTO_BUF(body, AUDIT_JSON_MAX + 1024);
    struct audit_head head;
    int n;

    audit_head_get(r->audit, &head);
    n = buf_add(&body, STR("{\"items\":["));
    if (n == 0)
        n = buf_add(&body, buf_str(&r->out));
    if (n == 0)
        n = buf_add_char(&body, ']');
    if (n == 0 && r->last)
        n = buf_addf(&body, ",\"next\":%llu", (unsigned long long)r->last);
    if (n == 0)
        n = buf_addf(&body, ",\"head\":{\"seq\":%llu,\"hash\":\"%s\"}}",
                     (unsigned long long)head.seq, head.hash);
    reply_json(req, 200, &body, n);
}

static void read_done(struct pool_job *job, int error)
{
    struct reading *r = container_of(job, struct reading, job);
    struct http_req *req = r->pending.req;

    if (req && (error || r->err.code))
        http_reply_error(req, error ? 503 : 500,
                         error ? "SERVICE_UNAVAILABLE" : "GENERAL::UNKNOWN_ERROR", "%s",
                         error ? "the server is stopping" : r->err.msg);
    else if (req && r->q.raw)
        http_reply(req, 200, STR("application/x-ndjson"), buf_str(&r->out));
    else if (req)
        reply_page(req, r);
    pending_end(&r->pending);
}

static int read_number(struct str value, uint64_t *ret)
{
    return str_to_u64(value, ret) < 0 || *ret > INT64_MAX ? -EINVAL : 0;
}

static int read_parameter(struct audit_query *q, struct str key, struct str value,
                          struct api_fail *f)
{
    const struct {
        struct str name;
        struct str *to;
    } texts[] = {
        {STR("principal"), &q->principal},
        {STR("tenant"),    &q->tenant   },
        {STR("method"),    &q->method   },
        {STR("route"),     &q->route    },
        {STR("target"),    &q->target   },
        {STR("outcome"),   &q->outcome  },
    };
    uint64_t limit;
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (str_eq(key, texts[i].name))
            *texts[i].to = value;
    if (str_eq(key, STR("before")))
        r = read_number(value, &q->before);
    if (str_eq(key, STR("after"))) {
        r = read_number(value, &q->after);
        q->ascending = true;
    }
    if (str_eq(key, STR("limit"))) {
        r = read_number(value, &limit);
        if (r < 0 || limit < 1 || limit > AUDIT_LIMIT_MAX)
            return api_fail_invalid(f, "limit: expected a number from 1 to %d", AUDIT_LIMIT_MAX);
        q->limit = (uint32_t)limit;
    }
    if (r < 0)
        return api_fail_invalid(f, "%s: expected a number", api_show(key).text);
    if ((str_eq(key, STR("since")) && time_parse_lenient(value, &q->since_us, NULL) < 0) ||
        (str_eq(key, STR("until")) && time_parse_lenient(value, &q->until_us, NULL) < 0))
        return api_fail_invalid(f, "%s: expected a time as of RFC 3339", api_show(key).text);
    if (str_eq(key, STR("format"))) {
        q->raw = str_eq(value, STR("jsonl"));
        if (!q->raw && !str_eq(value, STR("json")))
            return api_fail_invalid(f, "format: expected json or jsonl");
    }
    return 0;
}

static int read_query(struct http_req *req, struct arena *a, struct audit_query *q,
                      struct api_fail *f)
{
    const struct principal *by = guard_principal(req);
    struct url_query_iter it;
    struct str query = arena_str(a, req->head.query);
    int n;

    q->limit = LIMIT_DEFAULT;
    url_query_init(&it, query, a);
    while ((n = url_query_next(&it)) > 0)
        if (read_parameter(q, it.key, it.value, f) < 0)
            return -EBADMSG;
    if (n < 0)
        return api_fail_invalid(f, "the query is not valid");
    if (!by->everywhere)
        q->tenant = arena_str(a, str_of(by->tenant));
    return 0;
}

void handle_audit_get(struct http_req *req)
{
    struct server *s = server_of(req);
    struct api_fail f = {0};
    struct reading *r;

    if (!s->audit) {
        http_reply_error(req, 501, "AUDIT::DISABLED",
                         "this server keeps no audit record: audit.enabled is false");
        return;
    }
    r = mem_new(struct reading);
    r->audit = s->audit;
    arena_init(&r->arena, 64 << 10);
    buf_init(&r->out, AUDIT_JSON_MAX);
    pending_init(&r->pending, req, reading_free);
    if (read_query(req, &r->arena, &r->q, &f) < 0)
        reply_fail(req, &f);
    else if (pool_submit(s->pool, &r->job, s->loop, read_work, read_done, POOL_SLOW) == 0)
        return;
    else
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "the server is too busy, try again");
    pending_end(&r->pending);
}
