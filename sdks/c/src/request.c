/* request.c - osb_request: any request, to the server or to a port of a sandbox. */
#include <errno.h>

#include "base/mem.h"
#include "sdk.h"

enum { SOURCE_BYTES = 64 << 10 };

static int send_source(struct exchange *x, const struct osb_request *req)
{
    auto_free char *block = mem_alloc(SOURCE_BYTES);

    for (;;) {
        long n = req->source(req->user, block, SOURCE_BYTES);
        int r;

        if (n == 0)
            return 0;
        if (n < 0)
            return fail(x->client, (int)-n, "the source of the body: %s", strerror((int)-n));
        if (n > SOURCE_BYTES)
            return fail(x->client, EINVAL, "the source of the body gave more than was asked for");
        r = exchange_write(x, str_make(block, (size_t)n));
        if (r != 0)
            return r < 0 ? r : 0; /* answered before its end: the answer says why */
    }
}

static int feed_sink(struct exchange *x, const struct osb_request *req)
{
    struct str piece;
    int r;

    while ((r = exchange_next(x, &piece)) == 1)
        if (req->sink(req->user, piece.p, piece.n) != 0)
            return fail(x->client, ECANCELED, "the receiver of the body ended the call");
    return r;
}

static int run(struct osb_client *c, const struct osb_request *req,
               const struct exchange_spec *spec, struct osb_answer **ret)
{
    struct exchange x;
    int r = exchange_start(&x, c, spec);

    if (r == 0 && req->source)
        r = send_source(&x, req);
    else if (r == 0 && spec->streams_body)
        r = exchange_write(&x, str_make(req->body, req->body_bytes));
    if (r >= 0)
        r = exchange_head(&x);
    if (r == 0 && req->sink)
        r = feed_sink(&x, req);
    if (r == 0)
        r = answer_read(&x, ret);
    exchange_close(&x);
    return r;
}

static int make_target(struct osb_client *c, const struct osb_request *req, struct target *t)
{
    target_init(t, req->path);
    for (size_t i = 0; i < req->query_count; i++)
        target_query(t, req->query[i].name, req->query[i].value);
    if (t->error < 0)
        return fail(c, -t->error, "the path of the request is too long");
    /* What is no printable ASCII must come encoded; spaces would end the request line. */
    for (size_t i = 0; i < t->text.n; i++)
        if (t->text.p[i] <= ' ' || t->text.p[i] == 0x7f || t->text.p[i] == '#')
            return fail(c, EINVAL, "path '%.200s': expected an encoded path that begins with '/'",
                        req->path);
    return 0;
}

static int fill_spec(struct osb_client *c, const struct osb_request *req, struct arena *a,
                     struct exchange_spec *spec)
{
    struct http_header *rows = arena_new_array(a, struct http_header, req->header_count);

    if (!rows)
        return fail(c, ENOMEM, "no memory left for the headers");
    for (size_t i = 0; i < req->header_count; i++)
        rows[i] = (struct http_header){str_of(req->headers[i].name), str_of(req->headers[i].value)};
    spec->method_name = str_of(req->method ? req->method : "GET");
    if (!http_is_token(spec->method_name))
        return fail(c, EINVAL, "method '%.32s': not allowed by HTTP", req->method);
    spec->method = http_method_of(spec->method_name);
    spec->headers = rows;
    spec->header_count = req->header_count;
    if (req->content_type)
        spec->content_type = str_of(req->content_type);
    else if (req->body_bytes || req->source)
        spec->content_type = STR("application/json");
    /* Long bodies are written as the peer takes them. */
    spec->streams_body = req->source || req->body_bytes > SDK_IN_BYTES_MAX;
    spec->body_length = !req->source        ? req->body_bytes
                        : req->source_bytes ? (uint64_t)req->source_bytes
                                            : HTTP_UNKNOWN_LENGTH;
    if (!spec->streams_body)
        spec->body = str_make(req->body, req->body_bytes);
    spec->streams = req->streams || req->sink || req->source;
    return 0;
}

int osb_request(struct osb_client *client, const struct osb_request *request,
                struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_request, req, request);
    struct exchange_spec spec = {.site = &client->server};
    struct osb_answer *answer = NULL;
    AUTO_ARENA(a, 1 << 20);
    struct target target;
    int r = 0;

    if (!req.path || req.path[0] != '/')
        return fail(client, EINVAL, "path: expected one that begins with '/'");
    if (req.sandbox)
        r = sandbox_site(req.sandbox, req.port ? req.port : OSB_PORT_EXECD, &spec.site);
    if (r == 0)
        r = fill_spec(client, &req, &a, &spec);
    if (r < 0)
        return r;
    r = make_target(client, &req, &target);
    spec.target = buf_str(&target.text);
    if (r == 0)
        r = run(client, &req, &spec, &answer);
    target_done(&target);
    if (r == 0 && ret_answer)
        *ret_answer = answer;
    else
        osb_answer_free(answer);
    return r;
}
