/* fetch.c - one manifest or blob, however many requests it takes: mirrors, credentials, redirects,
 * resumption, retries. */
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "image/manifest.h"
#include "image/problem.h"
#include "image/registry_internal.h"

enum {
    FETCH_ARENA_BYTES_MAX = 16 << 20,
    REDIRECTS_MAX = 5,
    ANSWER_BYTES_MAX = 64 * 1024, /* of an answer that is not what was asked for */
    URL_TEXT_MAX = 16 * 1024,
    PROGRESS_BYTES_MIN = 1 << 20, /* a try that brought this much does not count */
};

struct image_fetch {
    struct image_registry *registry;
    struct arena arena; /* holds the fetch itself */
    const struct image_fetch_ops *ops;
    void *user;

    struct str repository, version;
    bool is_blob;
    uint64_t bytes;       /* of a blob */
    uint64_t at;          /* bytes delivered */
    uint64_t at_of_start; /* the same when this try began */
    struct image_auth request_auth;
    bool has_request_auth;
    struct str credentials;

    struct image_endpoint endpoints[IMAGE_MIRRORS_MAX + 1];
    size_t endpoint_count, endpoint_at;
    struct image_auth auth; /* at this endpoint */
    uint32_t tries;         /* at this endpoint */
    bool tried_basic, tried_token, uses_basic;

    struct arena scratch; /* of one request and its answer */
    struct image_web_call *web;
    struct loop_timer timer;
    char url[URL_TEXT_MAX]; /* asked now */
    uint32_t redirects;
    bool with_auth; /* the URL is one that may see credentials */
    bool for_token; /* the request is one for a token */
    bool wanted;    /* the answer is what was asked for: its body is delivered */
    struct buf answer;
    int status;
    uint32_t retry_after_ms;
    struct str location, challenge_error;
    struct image_challenge challenge;
    struct err stop; /* code set: the receiver, or a check of ours, ends it */
    char media_type[256], content_digest[IMAGE_DIGEST_TEXT_MAX];
};

static void request(struct image_fetch *f);
static void begin_endpoint(struct image_fetch *f);

static const struct image_registry_conf *conf(const struct image_fetch *f)
{
    return image_registry_conf_of(f->registry);
}

/* --- the end --- */

static void fetch_free(struct image_fetch *f)
{
    struct arena a = f->arena;

    loop_timer_stop(conf(f)->loop, &f->timer);
    arena_done(&f->scratch);
    buf_done(&f->answer);
    arena_done(&a);
}

static void fetch_end(struct image_fetch *f, const struct err *e)
{
    f->ops->on_end(f, e ? e->code : 0, e);
    fetch_free(f);
}

void image_fetch_cancel(struct image_fetch *f)
{
    if (f->web)
        image_web_cancel(f->web);
    fetch_free(f);
}

/* --- tries --- */

static void on_begin(struct loop_timer *t)
{
    begin_endpoint(container_of(t, struct image_fetch, timer));
}

static bool may_try_again(struct image_fetch *f, const struct err *e)
{
    if (!image_problem_is_passing((enum image_problem)e->code) ||
        f->retry_after_ms > conf(f)->retry_after_max_ms)
        return false;
    if (f->at >= f->at_of_start + PROGRESS_BYTES_MIN)
        f->tries = 0;
    return ++f->tries < conf(f)->tries;
}

/* This endpoint did not do. Its like again later, or the next one, or the end. */
static void fetch_failed(struct image_fetch *f, const struct err *e)
{
    struct err why = *e; /* e may be in what is reset below */
    uint64_t wait_ms;

    if (f->stop.code) {
        fetch_end(f, &f->stop);
        return;
    }
    if (f->endpoint_at + 1 < f->endpoint_count) {
        f->endpoint_at++;
        f->tries = 0;
        loop_timer_after(conf(f)->loop, &f->timer, 0, on_begin);
        return;
    }
    if (!may_try_again(f, &why)) {
        fetch_end(f, &why);
        return;
    }
    wait_ms = (uint64_t)conf(f)->backoff_ms << (f->tries - 1);
    if (f->retry_after_ms > wait_ms)
        wait_ms = f->retry_after_ms;
    loop_timer_after(conf(f)->loop, &f->timer, wait_ms, on_begin);
}

/* --- what the answer's head says --- */

static int delivered_from(struct image_fetch *f, uint64_t from)
{
    int r;

    f->at = from;
    f->at_of_start = from;
    r = f->ops->on_start(f, from);
    if (r < 0)
        return err_set(&f->stop, -r, "the receiver gave up");
    return 0;
}

/* "bytes 5-9/10" */
static bool content_range_is(struct str value, uint64_t from, uint64_t bytes)
{
    struct str range = value, first, last;
    uint64_t a, b, total;

    if (!str_starts(value, STR("bytes ")))
        return false;
    value = str_skip(value, 6);
    if (!str_cut(&value, '/', &range) || !value.p || !str_cut(&range, '-', &first) || !range.p)
        return false;
    last = range;
    return str_to_u64(first, &a) == 0 && a == from && str_to_u64(last, &b) == 0 && b == bytes - 1 &&
           (str_eq(value, STR("*")) || (str_to_u64(value, &total) == 0 && total == bytes));
}

/* A blob's size is known before: an answer of another is not it. */
static int check_length(struct image_fetch *f, const struct h1_framing *framing, uint64_t from)
{
    if (!f->is_blob || framing->body != H1_BODY_LENGTH || framing->body_bytes == f->bytes - from)
        return 0;
    return err_set(&f->stop, EPROTO, "%s announced %llu bytes of a blob that has %llu",
                   image_web_host(f->web), (unsigned long long)framing->body_bytes,
                   (unsigned long long)(f->bytes - from));
}

static int begin_body(struct image_fetch *f, const struct h1_response *head)
{
    const struct h1_framing *framing = image_web_framing(f->web);
    uint64_t from = f->status == 206 ? f->at : 0;
    struct str encoding = http_header_get(&head->headers, STR("Content-Encoding"));

    if (encoding.n && !str_eq_nocase(encoding, STR("identity")))
        return err_set(&f->stop, EPROTO, "%s sent it encoded as '%.*s', unasked",
                       image_web_host(f->web), (int)min_size(encoding.n, 40), encoding.p);
    if (f->status == 206 &&
        !content_range_is(http_header_get(&head->headers, STR("Content-Range")), from, f->bytes))
        return err_set(&f->stop, EPROTO, "%s sent another part than was asked for",
                       image_web_host(f->web));
    if (check_length(f, framing, from) < 0)
        return -EPROTO;
    return delivered_from(f, from);
}

static void copy_text(char *out, size_t size, struct str value)
{
    if (str_copy(out, size, value) < 0)
        out[0] = '\0';
}

/* Seconds, or a date. */
static uint32_t read_retry_after(struct str value)
{
    uint64_t s;
    int64_t us;

    if (str_to_u64(value, &s) == 0)
        return s < UINT32_MAX / 1000 ? (uint32_t)s * 1000 : UINT32_MAX;
    if (value.n == 0 || time_parse_http(value, &us, NULL) < 0)
        return 0;
    us -= time_wall_us();
    return us <= 0 ? 0 : (uint32_t)min_size((size_t)(us / TIME_US_PER_MS), UINT32_MAX);
}

static void read_challenges(struct image_fetch *f, const struct http_headers *headers)
{
    struct err e = {0};

    f->challenge = (struct image_challenge){0};
    f->challenge_error = STR_NONE;
    for (const struct http_header *row = http_header_find(headers, STR("WWW-Authenticate")); row;
         row = http_header_next(headers, row)) {
        /* What is read borrows from the head, which the answer does not outlive. */
        struct str value = arena_str(&f->scratch, row->value);

        if (!value.p || image_challenge_parse(&f->scratch, value, &f->challenge, &e) < 0)
            f->challenge_error = str_of(arena_printf(&f->scratch, "%s", e.msg));
    }
}

static void on_head(struct image_web_call *c)
{
    struct image_fetch *f = image_web_user(c);
    const struct h1_response *head = image_web_head(c);

    f->status = head->status;
    f->wanted = !f->for_token && (head->status == 200 || (head->status == 206 && f->at > 0));
    copy_text(f->media_type, sizeof(f->media_type),
              http_header_get(&head->headers, STR("Content-Type")));
    if (f->wanted) {
        copy_text(f->content_digest, sizeof(f->content_digest),
                  http_header_get(&head->headers, STR("Docker-Content-Digest")));
        (void)begin_body(f, head); /* on_body sees f->stop */
        return;
    }
    f->retry_after_ms = read_retry_after(http_header_get(&head->headers, STR("Retry-After")));
    f->location = arena_str(&f->scratch, http_header_get(&head->headers, STR("Location")));
    read_challenges(f, &head->headers);
}

static ssize_t take_wanted(struct image_fetch *f, struct str piece)
{
    ssize_t n;

    if (f->is_blob && piece.n > f->bytes - f->at)
        return err_set(&f->stop, EPROTO, "%s sent more than the %llu bytes of the blob",
                       image_web_host(f->web), (unsigned long long)f->bytes);
    n = f->ops->on_body(f, piece);
    if (n < 0)
        return err_set(&f->stop, (int)-n, "the receiver gave up");
    f->at += (uint64_t)n;
    return n;
}

static ssize_t on_body(struct image_web_call *c, struct str piece)
{
    struct image_fetch *f = image_web_user(c);

    if (f->stop.code)
        return -f->stop.code;
    if (f->wanted)
        return take_wanted(f, piece);
    if (buf_add(&f->answer, piece) < 0)
        return -EMSGSIZE; /* so much talk for an error: what came is enough */
    return (ssize_t)piece.n;
}

/* --- what is not what was asked for --- */

static void fail_by_status(struct image_fetch *f, const char *host)
{
    struct str message = image_answer_message(&f->scratch, buf_str(&f->answer));
    struct err e;

    err_set(&e, image_problem_of_status(f->status), "%s answered %d %.*s%s%.*s%s", host, f->status,
            STR_ARG(http_status_reason(f->status)), message.n ? ": " : "", STR_ARG(message),
            f->status == 401 && !image_auth_is_set(&f->auth) ? " (no credentials were given)" : "");
    fetch_failed(f, &e);
}

static void fail_with(struct image_fetch *f, int code, const char *host, const char *what)
{
    struct err e;

    err_set(&e, code, "%s: %s", host, what);
    fetch_failed(f, &e);
}

/* Where a redirect leads. Credentials stay with the host they are for. */
static void follow(struct image_fetch *f, const char *host)
{
    struct url from, to;
    struct str target = f->location;
    const char *text;
    struct err e = {0};

    if (++f->redirects > REDIRECTS_MAX) {
        fail_with(f, EPROTO, host, "it redirects in circles");
        return;
    }
    if (url_split(str_of(f->url), &from, &e) < 0 || target.n == 0) {
        fail_with(f, EPROTO, host, "it redirects to nowhere");
        return;
    }
    text = str_starts(target, STR("/")) && !str_starts(target, STR("//"))
               ? arena_printf(&f->scratch, "%s://%s%.*s",
                              from.scheme == URL_HTTPS ? "https" : "http", host, STR_ARG(target))
               : target.p;
    if (!text || url_split(str_of(text), &to, &e) < 0 || strlen(text) >= sizeof(f->url)) {
        fail_with(f, EPROTO, host, "it redirects to what is no address");
        return;
    }
    if (to.scheme != URL_HTTPS && from.scheme == URL_HTTPS &&
        !image_registry_allows_http(f->registry, &to)) {
        fail_with(f, EPROTO, host, "it redirects to http, which is not allowed there");
        return;
    }
    f->with_auth = f->with_auth && to.scheme == from.scheme && to.port == from.port &&
                   str_eq_nocase(to.host, from.host);
    copy_text(f->url, sizeof(f->url), str_of(text));
    request(f);
}

/* --- credentials --- */

static struct str token_key(struct image_fetch *f)
{
    uint8_t secret[SHA256_BYTES];
    char hex[HEX_TEXT_MAX(SHA256_BYTES)];
    const char *text = arena_printf(&f->scratch, "%.*s\n%.*s\n%.*s", STR_ARG(f->auth.username),
                                    STR_ARG(f->auth.password), STR_ARG(f->auth.identity_token));
    const struct image_endpoint *at = &f->endpoints[f->endpoint_at];

    if (!text)
        return STR_NONE;
    sha256_of(str_of(text), secret);
    hex_encode(str_make((const char *)secret, sizeof(secret)), hex);
    return str_of(arena_printf(&f->scratch, "%.*s\n%.*s\n%s", STR_ARG(at->base),
                               STR_ARG(f->repository), hex));
}

static int start_web(struct image_fetch *f, struct image_web_spec *spec, struct err *e);

/* A token server is named by the registry. It gets the password, so it must be as well guarded. */
static void ask_for_token(struct image_fetch *f, const char *host)
{
    const char *url, *body, *basic = image_basic_header(&f->scratch, &f->auth);
    struct http_header headers[3] = {
        {STR("Accept"), STR("application/json")}
    };
    struct image_web_spec spec = {.headers = headers, .header_count = 1};
    struct err e = {0};
    struct url at;
    int r = image_token_request(&f->scratch, &f->challenge, f->repository, "pull", &f->auth, &url,
                                &body, &e);

    f->tried_token = true;
    if (r == 0)
        r = url_split(str_of(url), &at, &e);
    if (r == 0 && at.scheme != URL_HTTPS && !image_registry_allows_http(f->registry, &at) &&
        !str_starts(f->endpoints[f->endpoint_at].base, STR("http://")))
        r = err_set(&e, EPROTO, "%s sends for a token over http", host);
    if (r < 0) {
        fail_with(f, EPROTO, host, e.msg);
        return;
    }
    if (body) {
        headers[spec.header_count++] =
            (struct http_header){STR("Content-Type"), STR("application/x-www-form-urlencoded")};
        spec.body = str_of(body);
        spec.method = HTTP_POST;
    } else if (basic) {
        headers[spec.header_count++] = (struct http_header){STR("Authorization"), str_of(basic)};
    }
    f->for_token = true;
    spec.url = str_of(url);
    if (start_web(f, &spec, &e) < 0) {
        f->for_token = false;
        fetch_failed(f, &e);
    }
}

static void take_token(struct image_fetch *f, const char *host)
{
    struct str token;
    uint64_t ttl_s;
    struct err e = {0};

    if (f->status != 200) {
        fail_by_status(f, host);
        return;
    }
    if (image_token_parse(&f->scratch, buf_str(&f->answer), &token, &ttl_s, &e) < 0) {
        fail_with(f, EPROTO, host, e.msg);
        return;
    }
    image_token_put(f->registry, token_key(f), token, ttl_s);
    request(f);
}

/* 401: what it offers, each way once. A token that has run out is renewed once. */
static void authenticate(struct image_fetch *f, const char *host)
{
    if (f->challenge_error.p) {
        fail_with(f, EPROTO, host, f->challenge_error.p);
    } else if (!f->with_auth) {
        fail_by_status(f, host); /* behind a redirect */
    } else if (f->challenge.bearer && !f->tried_token) {
        image_token_drop(f->registry, token_key(f));
        ask_for_token(f, host);
    } else if (f->challenge.basic && !f->tried_basic && f->auth.username.n) {
        f->tried_basic = f->uses_basic = true;
        request(f);
    } else {
        fail_by_status(f, host);
    }
}

/* --- the answer as a whole --- */

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static void finish_wanted(struct image_fetch *f, const char *host)
{
    struct err e;

    if (f->is_blob && f->at < f->bytes) {
        err_set(&e, EHOSTUNREACH, "%s sent %llu of %llu bytes", host, (unsigned long long)f->at,
                (unsigned long long)f->bytes);
        fetch_failed(f, &e);
        return;
    }
    fetch_end(f, NULL);
}

static void on_end(struct image_web_call *c, int error, const struct err *why)
{
    struct image_fetch *f = image_web_user(c);
    const char *host = arena_printf(&f->scratch, "%s", image_web_host(c));
    bool for_token = f->for_token;

    f->web = NULL;
    f->for_token = false;
    if (!host)
        host = "the registry";
    if (f->stop.code)
        fetch_end(f, &f->stop);
    else if (error && (f->wanted || f->status == 0))
        fetch_failed(f, why);
    else if (for_token)
        take_token(f, host);
    else if (f->wanted)
        finish_wanted(f, host);
    else if (is_redirect(f->status))
        follow(f, host);
    else if (f->status == 401)
        authenticate(f, host);
    else if (f->status == 416 && f->at > 0 && delivered_from(f, 0) == 0)
        request(f); /* it has no such part: all of it */
    else if (f->stop.code)
        fetch_end(f, &f->stop);
    else
        fail_by_status(f, host);
}

static const struct image_web_ops web_ops = {on_head, on_body, on_end};

/* --- requests --- */

static int start_web(struct image_fetch *f, struct image_web_spec *spec, struct err *e)
{
    struct url url;
    int r = url_split(spec->url, &url, e);

    if (r < 0)
        return r;
    buf_clear(&f->answer);
    f->status = 0;
    f->wanted = false;
    f->retry_after_ms = 0;
    spec->tls = image_registry_tls(f->registry, &url);
    spec->ops = &web_ops;
    spec->user = f;
    return image_web_start(image_registry_web(f->registry), spec, &f->web, e);
}

static struct str authorization(struct image_fetch *f)
{
    struct str token = image_token_get(f->registry, token_key(f));

    if (!f->with_auth)
        return STR_NONE;
    if (f->uses_basic)
        return str_of(image_basic_header(&f->scratch, &f->auth));
    if (!token.p)
        return STR_NONE;
    return str_of(arena_printf(&f->scratch, "Bearer %.*s", STR_ARG(token)));
}

static const struct str manifest_types =
    STR_INIT("application/vnd.oci.image.manifest.v1+json, "
             "application/vnd.oci.image.index.v1+json, "
             "application/vnd.docker.distribution.manifest.v2+json, "
             "application/vnd.docker.distribution.manifest.list.v2+json");

/* Asks for f->url. */
static void request(struct image_fetch *f)
{
    struct http_header headers[4] = {
        {STR("Accept"),     f->is_blob ? STR("*/*") : manifest_types},
        {STR("User-Agent"), STR("opensandbox")                      },
    };
    struct image_web_spec spec = {.url = str_of(f->url), .headers = headers, .header_count = 2};
    struct str auth = authorization(f);
    char range[64];
    struct err e = {0};

    if (auth.p)
        headers[spec.header_count++] = (struct http_header){STR("Authorization"), auth};
    if (f->is_blob && f->at > 0) {
        snprintf(range, sizeof(range), "bytes=%llu-", (unsigned long long)f->at);
        headers[spec.header_count++] = (struct http_header){STR("Range"), str_of(range)};
    }
    if (start_web(f, &spec, &e) < 0)
        fetch_failed(f, &e);
}

static int find_auth(struct image_fetch *f, const struct image_endpoint *at, struct err *e)
{
    int r = 0;

    f->auth = (struct image_auth){0};
    if (at->is_origin && f->has_request_auth)
        f->auth = f->request_auth;
    else if (f->credentials.p)
        r = image_credentials_find(&f->scratch, f->credentials, at->host, f->repository, &f->auth,
                                   e);
    return r < 0 ? err_wrap(e, r, "the credentials file") : 0;
}

/* Asks the endpoint from the start: its own URL, and nothing tried yet. */
static void begin_endpoint(struct image_fetch *f)
{
    const struct image_endpoint *at = &f->endpoints[f->endpoint_at];
    struct err e = {0};
    int n, r;

    arena_reset(&f->scratch);
    f->redirects = 0;
    f->with_auth = true;
    f->tried_basic = f->tried_token = f->uses_basic = false;
    f->at_of_start = f->at;
    n = snprintf(f->url, sizeof(f->url), "%.*s/v2/%.*s/%s/%.*s", STR_ARG(at->base),
                 STR_ARG(f->repository), f->is_blob ? "blobs" : "manifests", STR_ARG(f->version));
    r = n < (int)sizeof(f->url) ? find_auth(f, at, &e)
                                : err_set(&e, EINVAL, "its address is too long");
    if (r < 0)
        fetch_failed(f, &e);
    else
        request(f);
}

static int copy_spec(struct image_fetch *f, const struct image_fetch_spec *spec)
{
    bool good;

    f->ops = spec->ops;
    f->user = spec->user;
    f->is_blob = spec->is_blob;
    f->bytes = spec->bytes;
    f->at = spec->is_blob ? spec->offset : 0;
    f->credentials = spec->credentials;
    f->repository = arena_str(&f->arena, str_of(spec->reference->repository));
    f->version = arena_str(&f->arena, str_of(spec->version));
    good = f->repository.p && f->version.p;
    if (spec->auth && image_auth_is_set(spec->auth)) {
        f->has_request_auth = true;
        f->request_auth.username = arena_str(&f->arena, spec->auth->username);
        f->request_auth.password = arena_str(&f->arena, spec->auth->password);
        f->request_auth.identity_token = arena_str(&f->arena, spec->auth->identity_token);
        good = good && f->request_auth.username.p && f->request_auth.password.p &&
               f->request_auth.identity_token.p;
    }
    return good ? 0 : -ENOMEM;
}

int image_fetch_start(struct image_registry *r, const struct image_fetch_spec *spec,
                      struct image_fetch **ret, struct err *e)
{
    struct image_fetch *f;
    struct arena a;
    int error;

    arena_init(&a, FETCH_ARENA_BYTES_MAX);
    f = arena_new(&a, struct image_fetch);
    if (!f)
        return err_set(e, ENOMEM, "out of memory");
    f->arena = a;
    f->registry = r;
    arena_init(&f->scratch, FETCH_ARENA_BYTES_MAX);
    buf_init(&f->answer, ANSWER_BYTES_MAX);
    error = copy_spec(f, spec);
    if (error == 0)
        error = image_registry_endpoints(r, spec->reference->registry, spec->skip_mirrors,
                                         &f->arena, f->endpoints, &f->endpoint_count, e);
    if (error < 0) {
        fetch_free(f);
        return err_set(e, -error, "begin to fetch from %s", spec->reference->registry);
    }
    loop_timer_after(image_registry_conf_of(r)->loop, &f->timer, 0, on_begin);
    *ret = f;
    return 0;
}

void image_fetch_resume(struct image_fetch *f)
{
    if (f->web)
        image_web_resume(f->web);
}

void *image_fetch_user(const struct image_fetch *f)
{
    return f->user;
}

const char *image_fetch_media_type(const struct image_fetch *f)
{
    return f->media_type;
}

const char *image_fetch_content_digest(const struct image_fetch *f)
{
    return f->content_digest;
}

const char *image_fetch_host(const struct image_fetch *f)
{
    return f->web ? image_web_host(f->web) : f->endpoints[f->endpoint_at].host.p;
}
