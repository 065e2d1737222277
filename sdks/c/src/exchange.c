/* exchange.c - one HTTP request and its answer, pulled by the caller piece by piece. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "sdk.h"

enum { HEAD_ARENA_BYTES_MAX = 256 << 10, LOOKUPS_MAX = 256, ADDRESS_MS = 30 * 1000 };

/* --- addresses --- */

struct address {
    struct sock_addr addr;
    uint64_t until; /* deadline */
};

/* Outlives the call that wants it, as a lookup cannot be stopped. */
struct lookup {
    struct pool_job job;
    struct osb_task *waiter;
    char *name;
    uint16_t port;
    struct sock_addr addr;
    struct err err;
    int result;
    bool done, abandoned;
};

static void lookup_free(struct lookup *l)
{
    free(l->name);
    free(l);
}

static void lookup_work(struct pool_job *job)
{
    struct lookup *l = container_of(job, struct lookup, job);

    l->result = sock_resolve(l->name, l->port, &l->addr, &l->err);
}

static void lookup_done(struct pool_job *job, int error)
{
    struct lookup *l = container_of(job, struct lookup, job);

    if (error)
        l->result = err_set(&l->err, error, "look up '%s': canceled", l->name);
    l->done = true;
    if (l->abandoned)
        lookup_free(l);
    else
        client_wake(&l->waiter);
}

static int lookup_run(struct osb_client *c, const struct site *site, struct sock_addr *ret)
{
    struct pool_conf conf = {"osb-lookup", 2, LOOKUPS_MAX};
    struct lookup *l;
    struct err e;
    int r = c->pool ? 0 : pool_new(&conf, &c->pool, &e);

    if (r < 0)
        return fail_err(c, &e);
    l = mem_new(struct lookup);
    l->name = mem_strdup(site->name);
    l->port = site->port;
    r = pool_submit(c->pool, &l->job, c->loop, lookup_work, lookup_done, 0);
    if (r < 0) {
        lookup_free(l);
        return fail(c, -r, "look up '%s': %s", site->name, strerror(-r));
    }
    while (r == 0 && !l->done)
        r = client_wait(c, &l->waiter, deadline_in_ms(c->connect_ms));
    if (!l->done) {
        l->abandoned = true;
        return fail_wait(c, r, "look up the address of the server");
    }
    r = l->result < 0 ? fail_err(c, &l->err) : 0;
    *ret = l->addr;
    lookup_free(l);
    return r;
}

/* What needs no lookup. A server of this machine listens on IPv4 unless it was told otherwise. */
static int resolve_numeric(const struct site *site, struct sock_addr *ret)
{
    const char *name = strcmp(site->name, "localhost") == 0 ? "127.0.0.1" : site->name;
    char text[320];

    (void)snprintf(text, sizeof(text), strchr(name, ':') ? "[%s]:%u" : "%s:%u", name, site->port);
    return sock_addr_parse(str_of(text), ret, NULL);
}

int client_resolve(struct osb_client *c, const struct site *site, struct sock_addr *ret)
{
    struct address *known;
    char key[320];
    int r;

    if (resolve_numeric(site, ret) == 0)
        return 0;
    (void)snprintf(key, sizeof(key), "%s:%u", site->name, site->port);
    known = map_get(&c->addresses, str_of(key));
    if (known && !deadline_passed(known->until)) {
        *ret = known->addr;
        return 0;
    }
    r = lookup_run(c, site, ret);
    if (r < 0)
        return r;
    known = mem_new(struct address);
    *known = (struct address){*ret, deadline_in_ms(ADDRESS_MS)};
    if (map_set(&c->addresses, str_of(key), known) < 0)
        free(known); /* a cache that is full is no error */
    return 0;
}

int client_security(struct osb_client *c, const struct site *site, struct stream_security **ret)
{
    struct tls_client_conf conf = {.ca_file = c->ca_file,
                                   .insecure_skip_verification = c->insecure};
    struct err e;

    *ret = NULL;
    if (!site->tls)
        return 0;
    if (!c->tls && tls_client_new(&conf, &c->tls, &e) < 0)
        return fail_err(c, &e);
    *ret = tls_client_security(c->tls);
    return 0;
}

/* --- headers --- */

static bool has_header(const struct http_header *rows, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(rows[i].name, name))
            return true;
    return false;
}

int client_headers(struct osb_client *c, const struct site *site, struct http_header *rows,
                   size_t *count)
{
    struct {
        const struct osb_pair *pairs;
        size_t count;
    } sources[] = {
        {site->headers,     site->header_count    }, /* wins over the next */
        {c->server.headers, c->server.header_count},
    };
    size_t n = *count;

    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        for (size_t k = 0; k < sources[i].count; k++) {
            struct str name = str_of(sources[i].pairs[k].name);

            if (has_header(rows, n, name))
                continue;
            /* The key opens the server; code inside a sandbox must not see it. */
            if (!site->is_server && str_eq_nocase(name, STR(SDK_API_KEY_HEADER)))
                continue;
            if (n == SDK_HEADERS_MAX)
                return fail(c, E2BIG, "more than %d headers", SDK_HEADERS_MAX);
            rows[n++] = (struct http_header){name, str_of(sources[i].pairs[k].value)};
        }
    if (n + 2 > SDK_HEADERS_MAX)
        return fail(c, E2BIG, "more than %d headers", SDK_HEADERS_MAX);
    if (!has_header(rows, n, STR("User-Agent")))
        rows[n++] = (struct http_header){STR("User-Agent"), str_of(c->user_agent)};
    if (site->is_server && c->api_key[0] && !has_header(rows, n, STR(SDK_API_KEY_HEADER)))
        rows[n++] = (struct http_header){STR(SDK_API_KEY_HEADER), str_of(c->api_key)};
    *count = n;
    return 0;
}

/* --- callbacks of the loop --- */

static int copy_headers(struct arena *a, const struct http_headers *from, struct http_headers *ret)
{
    ret->rows = arena_new_array(a, struct http_header, from->count);
    if (!ret->rows)
        return -ENOMEM;
    for (size_t i = 0; i < from->count; i++) {
        ret->rows[i].name = arena_str(a, from->rows[i].name);
        ret->rows[i].value = arena_str(a, from->rows[i].value);
        if (!ret->rows[i].name.p || !ret->rows[i].value.p)
            return -ENOMEM;
    }
    ret->count = ret->max = from->count;
    return 0;
}

static void on_head(struct http_call *call)
{
    struct exchange *x = call->user;

    if (copy_headers(&x->arena, &call->head.headers, &x->headers) < 0)
        x->headers.count = 0; /* no memory for them: as if there were none */
    x->status = call->head.status;
    client_wake(&x->waiter);
}

static ssize_t on_body(struct http_call *call, struct str piece)
{
    struct exchange *x = call->user;
    size_t n = min_size(piece.n, SDK_IN_BYTES_MAX - x->in.n);

    if (n > 0 && buf_add(&x->in, str_make(piece.p, n)) < 0)
        return -ENOMEM;
    client_wake(&x->waiter);
    return (ssize_t)n;
}

static void on_drain(struct http_call *call)
{
    struct exchange *x = call->user;

    x->room = true;
    client_wake(&x->waiter);
}

static void on_end(struct http_call *call, int error)
{
    struct exchange *x = call->user;

    x->call = NULL;
    x->ended = true;
    x->error = error;
    (void)snprintf(x->why, sizeof(x->why), "%s", call->err.msg);
    client_wake(&x->waiter);
}

static const struct http_call_ops exchange_ops = {on_head, on_body, on_drain, NULL, on_end};

/* --- the exchange --- */

static int fail_transport(struct exchange *x)
{
    struct osb_client *c = x->client;
    const char *why = x->why[0] ? x->why : strerror(x->error);
    const char *next = x->error == ECONNREFUSED && x->site->is_server
                           ? "; is the server running, and is this its address?"
                           : "";

    if (x->status)
        return fail(c, x->error == ENOMEM ? ENOMEM : EPROTO, "%s broke its answer off: %s",
                    x->site->authority, why);
    return fail(c, x->error, "%s://%s: %s%s", x->site->tls ? "https" : "http", x->site->authority,
                why, next);
}

static int wait_until(struct exchange *x, uint64_t deadline, const char *what)
{
    int r = client_wait(x->client, &x->waiter, deadline);

    if (r == -ETIMEDOUT)
        return fail(x->client, ETIMEDOUT, "%s: no %s within the time limit", x->site->authority,
                    what);
    return r < 0 ? fail_wait(x->client, r, "request") : 0;
}

static void set_deadlines(struct exchange *x, bool streams)
{
    const struct osb_task *t = x->client->current;
    uint64_t all = t->op_deadline      ? t->op_deadline
                   : t->timeout_ms > 0 ? deadline_in_ms((uint64_t)t->timeout_ms)
                                       : DEADLINE_NEVER;
    uint64_t usual = t->timeout_ms == 0 ? deadline_in_ms(x->client->request_ms) : DEADLINE_NEVER;

    x->head_deadline = usual < all ? usual : all;
    x->deadline = streams ? all : x->head_deadline;
}

/* A site's path and the target; HTTP wants it whole. */
static int whole_target(struct osb_client *c, const struct exchange_spec *spec, struct buf *out)
{
    if (buf_add(out, str_of(spec->site->path)) < 0 || buf_add(out, spec->target) < 0)
        return fail(c, EMSGSIZE, "the path of the request is too long");
    return 0;
}

static int collect_headers(struct osb_client *c, const struct exchange_spec *spec,
                           struct http_header *rows, size_t *ret_count)
{
    size_t n = 0;

    if (spec->header_count + 1 > SDK_HEADERS_MAX)
        return fail(c, E2BIG, "more than %d headers", SDK_HEADERS_MAX);
    for (size_t i = 0; i < spec->header_count; i++) {
        if (!http_is_token(spec->headers[i].name) || !http_is_value(spec->headers[i].value))
            return fail(c, EINVAL, "a header has a name or value that HTTP does not allow");
        rows[n++] = spec->headers[i];
    }
    if (spec->content_type.n)
        rows[n++] = (struct http_header){STR("Content-Type"), spec->content_type};
    *ret_count = n;
    return client_headers(c, spec->site, rows, ret_count);
}

int exchange_start(struct exchange *x, struct osb_client *c, const struct exchange_spec *spec)
{
    struct http_header rows[SDK_HEADERS_MAX];
    AUTO_BUF(target, SDK_TARGET_BYTES_MAX);
    struct http_call_spec call = {
        .method = spec->method,
        .method_name = spec->method_name,
        .host = str_of(spec->site->authority),
        .tls_host = str_of(spec->site->name),
        .headers = rows,
        .body = spec->body,
        .streams_body = spec->streams_body,
        .body_length = spec->body_length,
        .ops = &exchange_ops,
        .user = x,
    };
    struct sock_addr addr;
    struct err e = {0};
    int r;

    *x = (struct exchange){.client = c, .site = spec->site, .idle_ms = spec->idle_ms};
    arena_init(&x->arena, HEAD_ARENA_BYTES_MAX);
    buf_init(&x->in, SDK_IN_BYTES_MAX);
    buf_init(&x->taken, SDK_IN_BYTES_MAX);
    loop_refresh(c->loop);
    set_deadlines(x, spec->streams);
    r = collect_headers(c, spec, rows, &call.header_count);
    if (r == 0)
        r = whole_target(c, spec, &target);
    if (r == 0)
        r = client_security(c, spec->site, &call.tls);
    if (r == 0)
        r = client_resolve(c, spec->site, &addr);
    if (r < 0)
        return r;
    call.addr = &addr;
    call.target = buf_str(&target);
    if (http_call_start(c->http, &call, &x->call, &e) < 0)
        return fail(c, e.code ? e.code : EIO, "%s: %s", spec->site->authority, e.msg);
    return 0;
}

int exchange_write(struct exchange *x, struct str data)
{
    while (data.n > 0 && !x->ended && !x->status) {
        ssize_t n;

        x->room = false;
        n = http_call_write(x->call, data);
        if (n < 0)
            return fail(x->client, (int)-n, "write the request: %s", strerror((int)-n));
        data = str_skip(data, (size_t)n);
        if (data.n == 0)
            break;
        while (!x->room && !x->ended && !x->status) {
            int r = wait_until(x, x->deadline, "progress of the upload");

            if (r < 0)
                return r;
        }
    }
    return x->ended || x->status ? 1 : 0;
}

/* Why the server refused: as much of its body as an error needs. */
static int read_refusal(struct exchange *x)
{
    AUTO_BUF(body, SDK_ERROR_BYTES_MAX);
    struct str piece;

    while (exchange_next(x, &piece) == 1) {
        if (buf_add(&body, str_make(piece.p, min_size(piece.n, body.max - body.n))) < 0 ||
            body.n == body.max)
            break;
    }
    return fail_http(x->client, x->status, buf_str(&body), exchange_header(x, STR("X-Request-ID")),
                     exchange_header(x, STR("Retry-After")));
}

int exchange_head(struct exchange *x)
{
    uint64_t usual = deadline_in_ms(x->client->request_ms);

    if (x->call)
        http_call_write_end(x->call);
    if (x->head_deadline != x->deadline) /* an upload may have taken its time */
        x->head_deadline = usual < x->deadline ? usual : x->deadline;
    while (!x->status && !x->ended) {
        int r = wait_until(x, x->head_deadline, "answer");

        if (r < 0)
            return r;
    }
    if (!x->status)
        return fail_transport(x);
    if (x->status < 200 || x->status > 299)
        return read_refusal(x);
    return 0;
}

int exchange_next(struct exchange *x, struct str *ret)
{
    uint64_t idle = x->idle_ms ? deadline_in_ms(x->idle_ms) : DEADLINE_NEVER;
    struct buf swap;

    buf_clear(&x->taken);
    if (x->call && x->in.n == 0)
        http_call_resume(x->call);
    while (x->in.n == 0) {
        int r;

        if (x->ended)
            return x->error ? fail_transport(x) : 0;
        r = wait_until(x, idle < x->deadline ? idle : x->deadline, "more of its answer");
        if (r < 0)
            return r;
    }
    swap = x->taken;
    x->taken = x->in;
    x->in = swap;
    if (x->call)
        http_call_resume(x->call);
    *ret = buf_str(&x->taken);
    return 1;
}

struct str exchange_header(const struct exchange *x, struct str name)
{
    return http_header_get(&x->headers, name);
}

void exchange_close(struct exchange *x)
{
    if (x->call)
        http_call_cancel(x->call);
    x->call = NULL;
    x->ended = true;
    buf_done(&x->in);
    buf_done(&x->taken);
    arena_done(&x->arena);
}
