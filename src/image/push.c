#include "image/push.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "base/time.h"
#include "image/problem.h"
#include "image/registry_internal.h"

enum {
    ARENA_BYTES_MAX = 16 << 20,
    ANSWER_BYTES_MAX = 64 * 1024,
    URL_TEXT_MAX = 16 * 1024,
    TRIES = 5,
    BACKOFF_MS = 500,
    LOOK_MS = 100, /* at the stop flag */
    BEGIN_MS = 5,  /* between looks whether there is a connection to write to */
    ASKS_MAX = 4,  /* of one request: as nobody, for a token, with it, with a password */
    THREADS = 2,
    ANSWER_MS = 5 * 60 * 1000, /* a registry may copy a large blob before it answers */
};

struct image_push {
    struct image_push_conf conf;
    struct image_reference to;
    struct loop *loop;
    struct pool *pool;
    struct image_registry *registry;
    struct arena texts; /* lives as long as the push */
    struct image_endpoint at;
    struct image_auth auth;
    bool uses_basic;
    struct str token;
    char token_text[16 * 1024];

    struct arena scratch; /* of one request and its answer */
    struct image_web_call *web;
    bool done;
    int error;
    struct err why;
    int status;
    struct str location;
    struct image_challenge challenge;
    struct buf answer;
};

struct request {
    enum http_method method;
    const char *url;
    bool with_auth;
    struct str type, body;
    const struct image_push_blob *blob; /* the body, when it is not NULL */
};

/* --- one request --- */

static void on_head(struct image_web_call *c)
{
    struct image_push *p = image_web_user(c);
    const struct h1_response *head = image_web_head(c);

    p->status = head->status;
    p->location = arena_str(&p->scratch, http_header_get(&head->headers, STR("Location")));
    for (const struct http_header *row = http_header_find(&head->headers, STR("WWW-Authenticate"));
         row; row = http_header_next(&head->headers, row)) {
        struct str value = arena_str(&p->scratch, row->value);

        if (value.p)
            (void)image_challenge_parse(&p->scratch, value, &p->challenge, NULL);
    }
}

static ssize_t on_body(struct image_web_call *c, struct str piece)
{
    struct image_push *p = image_web_user(c);

    /* Past the room for an error's text the rest does not matter. */
    (void)buf_add(&p->answer, piece);
    return (ssize_t)piece.n;
}

static void on_end(struct image_web_call *c, int error, const struct err *e)
{
    struct image_push *p = image_web_user(c);

    p->web = NULL;
    p->done = true;
    /* A registry that answers and closes before it has the whole body did answer. */
    p->error = p->status ? 0 : error;
    if (p->error)
        p->why = *e;
}

static const struct image_web_ops web_ops = {on_head, on_body, on_end};

struct upload {
    const struct image_push_blob *blob;
    uint64_t at;
    struct buf piece;
    bool ended;
};

/* Hands on what the connection takes. 1 when it may take more after a turn, 0 when all is sent. */
static int feed(struct image_push *p, struct upload *u, struct err *e)
{
    while (!u->ended && p->web && !p->status) {
        ssize_t n;
        int r;

        if (u->piece.n == 0 && u->at < u->blob->bytes) {
            r = u->blob->read(u->blob->user, u->at, &u->piece, e);
            if (r < 0)
                return r;
        }
        n = u->piece.n ? image_web_write(p->web, buf_str(&u->piece)) : 0;
        if (n < 0)
            return err_set(e, EPROTO, "the blob has more bytes than its descriptor says");
        buf_drop_front(&u->piece, (size_t)n);
        u->at += (uint64_t)n;
        if (u->at == u->blob->bytes) {
            image_web_write_end(p->web);
            u->ended = true;
        } else if (n == 0) {
            return 1;
        }
    }
    return 0;
}

static int drive(struct image_push *p, struct upload *u, struct err *e)
{
    int r = 0;

    while (!p->done && r >= 0) {
        r = u->blob ? feed(p, u, e) : 0;
        if (r >= 0 && p->conf.stop && *p->conf.stop)
            r = err_set(e, EINTR, "stopped");
        if (r >= 0 && !p->done)
            (void)loop_turn(p->loop, r == 1 && u->at == 0 ? BEGIN_MS : LOOK_MS, NULL);
    }
    if (p->web)
        image_web_cancel(p->web);
    p->web = NULL;
    if (r < 0)
        return r;
    if (p->error) {
        *e = p->why;
        return -p->error;
    }
    return 0;
}

static struct str authorization(struct image_push *p)
{
    if (p->uses_basic)
        return str_of(image_basic_header(&p->scratch, &p->auth));
    if (p->token.n)
        return str_of(arena_printf(&p->scratch, "Bearer %.*s", STR_ARG(p->token)));
    return STR_NONE;
}

/* Sends it once. 0 with p->status, whatever that is. */
static int send_once(struct image_push *p, const struct request *rq, struct err *e)
{
    struct http_header headers[4] = {
        {STR("User-Agent"), STR("opensandbox")}
    };
    struct image_web_spec spec = {
        .url = str_of(rq->url),
        .method = rq->method,
        .headers = headers,
        .header_count = 1,
        .body = rq->body.p ? rq->body : STR(""),
        .streams_body = rq->blob != NULL,
        .body_length = rq->blob ? rq->blob->bytes : 0,
        .ops = &web_ops,
        .user = p,
    };
    struct upload u = {.blob = rq->blob};
    struct str auth = rq->with_auth ? authorization(p) : STR_NONE;
    struct url url;
    int r = url_split(spec.url, &url, e);

    if (r < 0)
        return r;
    spec.tls = image_registry_tls(p->registry, &url);
    if (auth.p)
        headers[spec.header_count++] = (struct http_header){STR("Authorization"), auth};
    if (rq->type.p)
        headers[spec.header_count++] = (struct http_header){STR("Content-Type"), rq->type};
    buf_init(&u.piece, IMAGE_PUSH_PIECE_MAX);
    buf_clear(&p->answer);
    p->done = false;
    p->error = p->status = 0;
    p->location = STR_NONE;
    p->challenge = (struct image_challenge){0};
    loop_refresh(p->loop);
    r = image_web_start(image_registry_web(p->registry), &spec, &p->web, e);
    if (r == 0)
        r = drive(p, &u, e);
    buf_done(&u.piece);
    return r;
}

/* --- credentials --- */

static int fail_by_status(struct image_push *p, const char *what, struct err *e)
{
    struct str message = image_answer_message(&p->scratch, buf_str(&p->answer));

    return err_set(
        e, (int)image_problem_of_status(p->status), "%.*s answered %d %.*s to %s%s%.*s%s",
        STR_ARG(p->at.host), p->status, STR_ARG(http_status_reason(p->status)), what,
        message.n ? ": " : "", STR_ARG(message),
        p->status == 401 && !image_auth_is_set(&p->auth) ? " (no credentials were given)" : "");
}

/* Asks the server of tokens that the registry names. It gets the password, so it must be as well
 * guarded as the registry. */
static int ask_for_token(struct image_push *p, struct err *e)
{
    const char *url, *body, *basic = image_basic_header(&p->scratch, &p->auth);
    struct request rq = {.method = HTTP_GET};
    struct str token;
    uint64_t ttl_s;
    struct url at;
    int r = image_token_request(&p->scratch, &p->challenge, str_of(p->to.repository), "pull,push",
                                &p->auth, &url, &body, e);

    if (r == 0)
        r = url_split(str_of(url), &at, e);
    if (r == 0 && at.scheme != URL_HTTPS && !str_starts(p->at.base, STR("http://")))
        r = err_set(e, EPROTO, "%.*s sends for a token over http", STR_ARG(p->at.host));
    if (r < 0)
        return r;
    p->token = STR_NONE;
    p->uses_basic = !body && basic;
    rq.url = url;
    rq.with_auth = p->uses_basic;
    if (body) {
        rq.method = HTTP_POST;
        rq.body = str_of(body);
        rq.type = STR("application/x-www-form-urlencoded");
    }
    r = send_once(p, &rq, e);
    p->uses_basic = false;
    if (r < 0)
        return r;
    if (p->status != 200)
        return fail_by_status(p, "the request for a token", e);
    r = image_token_parse(&p->scratch, buf_str(&p->answer), &token, &ttl_s, e);
    if (r < 0)
        return r;
    if (str_copy(p->token_text, sizeof(p->token_text), token) < 0)
        return err_set(e, EPROTO, "its token is too long");
    p->token = str_of(p->token_text);
    return 0;
}

/* Sends it as the registry wants to be asked; a token that has run out is renewed once. */
static int send_request(struct image_push *p, const struct request *rq, struct err *e)
{
    bool tried_token = false, tried_basic = p->uses_basic;

    for (int i = 0; i < ASKS_MAX; i++) {
        struct image_challenge c;
        int r = send_once(p, rq, e);

        c = p->challenge;
        if (r < 0 || p->status != 401 || !rq->with_auth)
            return r;
        if (c.bearer && !tried_token) {
            tried_token = true;
            r = ask_for_token(p, e);
            if (r < 0)
                return r;
        } else if (c.basic && !tried_basic && p->auth.username.n) {
            tried_basic = p->uses_basic = true;
        } else {
            return 0;
        }
    }
    return 0;
}

/* --- blobs --- */

static const char *url_for(struct image_push *p, const char *rest)
{
    return arena_printf(&p->scratch, "%.*s/v2/%s/%s", STR_ARG(p->at.base), p->to.repository, rest);
}

static int has_blob(struct image_push *p, const struct image_push_blob *blob, struct err *e)
{
    const char *rest = arena_printf(&p->scratch, "blobs/%s", blob->digest.text);
    struct request rq = {.method = HTTP_HEAD, .with_auth = true};
    int r;

    rq.url = rest ? url_for(p, rest) : NULL;
    if (!rq.url)
        return err_set(e, ENOMEM, "out of room");
    r = send_request(p, &rq, e);
    if (r < 0)
        return r;
    if (p->status == 404)
        return 0;
    /* A redirect leads to where it lies. */
    if (p->status == 200 || (p->status >= 301 && p->status <= 308))
        return 1;
    return fail_by_status(p, "the question for a blob", e);
}

/* Begins an upload. 1 when the registry took the blob out of another repository instead. */
static int begin_upload(struct image_push *p, const struct image_push_blob *blob, struct err *e)
{
    AUTO_BUF(rest, URL_TEXT_MAX);
    struct request rq = {.method = HTTP_POST, .with_auth = true};
    int r = buf_add(&rest, STR("blobs/uploads/"));

    if (r == 0 && blob->from) {
        r = buf_addf(&rest, "?mount=%s&from=", blob->digest.text);
        if (r == 0)
            r = url_encode(str_of(blob->from), URL_SET_QUERY_VALUE, &rest);
    }
    rq.url = r == 0 ? url_for(p, rest.p) : NULL;
    if (!rq.url)
        return err_set(e, ENOMEM, "out of room");
    r = send_request(p, &rq, e);
    if (r < 0)
        return r;
    if (p->status == 201)
        return 1;
    return p->status == 202 ? 0 : fail_by_status(p, "the begin of an upload", e);
}

/* The place that the registry gave for an upload, with the blob's digest. */
static int upload_url(struct image_push *p, const struct image_push_blob *blob, struct request *rq,
                      struct err *e)
{
    struct str location = p->location;
    AUTO_BUF(url, URL_TEXT_MAX);
    struct url to, base;
    int r = 0;

    if (str_starts(location, STR("/")) && !str_starts(location, STR("//")))
        r = buf_add(&url, p->at.base);
    if (r == 0)
        r = buf_add(&url, location);
    if (r == 0)
        r = buf_addf(&url, "%cdigest=", str_find(location, '?') < location.n ? '&' : '?');
    if (r == 0)
        r = url_encode(str_of(blob->digest.text), URL_SET_QUERY_VALUE, &url);
    if (r == 0)
        r = url_split(buf_str(&url), &to, NULL);
    if (r == 0)
        r = url_split(p->at.base, &base, NULL);
    if (r < 0 || !location.n)
        return err_set(e, EPROTO, "%.*s names no place to send a blob to", STR_ARG(p->at.host));
    if (to.scheme != URL_HTTPS && base.scheme == URL_HTTPS)
        return err_set(e, EPROTO, "%.*s wants a blob over http", STR_ARG(p->at.host));
    /* Credentials stay with the host they are for. */
    rq->with_auth =
        to.port == base.port && to.scheme == base.scheme && str_eq_nocase(to.host, base.host);
    rq->url = arena_strdup(&p->scratch, buf_str(&url));
    return rq->url ? 0 : err_set(e, ENOMEM, "out of room");
}

static int push_blob_once(struct image_push *p, const struct image_push_blob *blob, struct err *e)
{
    struct request rq = {.method = HTTP_PUT, .type = STR("application/octet-stream"), .blob = blob};
    int r = has_blob(p, blob, e);

    if (r != 0)
        return r < 0 ? r : 0;
    r = begin_upload(p, blob, e);
    if (r != 0)
        return r < 0 ? r : 0;
    r = upload_url(p, blob, &rq, e);
    if (r == 0)
        r = send_request(p, &rq, e);
    if (r < 0)
        return r;
    return p->status == 201 || p->status == 204 ? 0 : fail_by_status(p, "a blob", e);
}

/* Waits before another try; false when there shall be none. */
static bool may_try_again(struct image_push *p, int r, int tries)
{
    uint64_t until = deadline_in_ms((uint64_t)BACKOFF_MS << tries);

    if (!image_problem_is_passing((enum image_problem) - r) || tries + 1 >= TRIES)
        return false;
    while (!deadline_passed(until)) {
        if (p->conf.stop && *p->conf.stop)
            return false;
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS / 2 * 1000000L}, NULL);
    }
    return true;
}

int image_push_blob(struct image_push *p, const struct image_push_blob *blob, struct err *e)
{
    int r, tries = 0;

    do {
        arena_reset(&p->scratch);
        r = push_blob_once(p, blob, e);
    } while (r < 0 && may_try_again(p, r, tries++));
    return r < 0 ? err_wrap(e, r, "push %s", blob->digest.text) : 0;
}

static int push_manifest_once(struct image_push *p, const char *version, struct str media_type,
                              struct str text, struct err *e)
{
    const char *rest = arena_printf(&p->scratch, "manifests/%s", version);
    struct request rq = {.method = HTTP_PUT, .with_auth = true, .type = media_type, .body = text};
    int r;

    rq.url = rest ? url_for(p, rest) : NULL;
    if (!rq.url)
        return err_set(e, ENOMEM, "out of room");
    r = send_request(p, &rq, e);
    if (r < 0)
        return r;
    return p->status == 201 || p->status == 200 ? 0 : fail_by_status(p, "a manifest", e);
}

int image_push_manifest(struct image_push *p, const char *version, struct str media_type,
                        struct str text, struct err *e)
{
    int r, tries = 0;

    do {
        arena_reset(&p->scratch);
        r = push_manifest_once(p, version, media_type, text, e);
    } while (r < 0 && may_try_again(p, r, tries++));
    return r < 0 ? err_wrap(e, r, "push the manifest %s", version) : 0;
}

/* --- the beginning --- */

static int make_registry(struct image_push *p, bool plain, struct err *e)
{
    struct image_registry_rule rule = {
        .registry = p->to.registry,
        .ca_file = p->conf.ca_file,
        .plain_http = plain,
        .skip_verify = p->conf.insecure,
    };
    struct image_registry_conf conf = {
        .loop = p->loop,
        .pool = p->pool,
        .proxy = p->conf.proxy,
        .rules = &rule,
        .rule_count = p->conf.insecure ? 1 : 0,
        .ca_file = p->conf.ca_file,
        .head_ms = ANSWER_MS,
    };
    struct image_endpoint at[IMAGE_MIRRORS_MAX + 1];
    size_t n;
    int r;

    image_registry_free(p->registry);
    p->registry = NULL;
    r = image_registry_new(&conf, &p->registry, e);
    if (r == 0)
        r = image_registry_endpoints(p->registry, p->to.registry, true, &p->texts, at, &n, e);
    if (r == 0)
        p->at = at[n - 1];
    return r;
}

/* Whether the registry answers by https. What it answers does not matter. */
static bool speaks_https(struct image_push *p)
{
    struct request rq = {.method = HTTP_GET};
    struct err e = {0};

    rq.url = arena_printf(&p->scratch, "%.*s/v2/", STR_ARG(p->at.base));
    return rq.url && send_once(p, &rq, &e) == 0;
}

static int begin(struct image_push *p, struct err *e)
{
    struct pool_conf pool = {.name = "push", .threads = THREADS, .queue_max = THREADS};
    int r = loop_new(&p->loop, e);

    if (r == 0)
        r = pool_new(&pool, &p->pool, e);
    if (r == 0)
        r = make_registry(p, false, e);
    if (r == 0 && p->conf.insecure && !speaks_https(p))
        r = make_registry(p, true, e);
    if (r == 0 && p->conf.credentials.p) {
        r = image_credentials_find(&p->texts, p->conf.credentials, str_of(p->to.registry),
                                   str_of(p->to.repository), &p->auth, e);
        r = r < 0 ? err_wrap(e, r, "the credentials file") : 0;
    }
    return r;
}

int image_push_new(const struct image_push_conf *conf, const struct image_reference *to,
                   struct image_push **ret, struct err *e)
{
    struct image_push *p = mem_new(struct image_push);
    int r;

    p->conf = *conf;
    p->to = *to;
    arena_init(&p->texts, ARENA_BYTES_MAX);
    arena_init(&p->scratch, ARENA_BYTES_MAX);
    buf_init(&p->answer, ANSWER_BYTES_MAX);
    r = begin(p, e);
    if (r < 0) {
        image_push_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

void image_push_free(struct image_push *p)
{
    if (!p)
        return;
    image_registry_free(p->registry);
    if (p->loop)
        loop_settle(p->loop);
    pool_free(p->pool);
    if (p->loop)
        loop_settle(p->loop);
    loop_free(p->loop);
    arena_done(&p->texts);
    arena_done(&p->scratch);
    buf_done(&p->answer);
    free(p);
}
