#include "server/runtime/docker/engine.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "net/tls.h"

enum {
    CONNS_KEPT_MAX = 64,
    CONNECT_MS = 5 * 1000,
    CONN_IDLE_MS = 60 * 1000,
    CANCEL_LOOK_MS = 100,
    API_MINOR_MIN = 24, /* what the calls here need at least: Docker 1.12, Podman */
    API_MINOR_MAX = 41, /* Docker 20.10; nothing newer is used */
    JSON_NODES_MAX = 4 << 20,
    TCP_PORT_USUAL = 2375,
    TLS_PORT_USUAL = 2376,
    HEADERS_MAX = 4,
};

/* One connection: a loop and a client that one thread at a time drives. */
struct conn {
    struct loop *loop;
    struct http_client *client;
    struct tls_client *tls; /* NULL = plain */
};

struct engine {
    struct engine_conf conf;
    struct engine_place place;
    char cert[3][PATH_MAX]; /* ca.pem, cert.pem, key.pem */
    atomic_uint api_minor;
    atomic_bool is_podman;
    pthread_mutex_t lock; /* protects the rest */
    struct conn *idle[CONNS_KEPT_MAX];
    size_t idle_count;
};

/* --- where it is --- */

static int parse_tcp(struct str rest, bool tls, struct engine_place *ret, struct err *e)
{
    struct str host, port = STR_NONE;
    size_t colon = rest.n;

    while (rest.n && rest.p[rest.n - 1] == '/')
        rest.n--;
    host = rest;
    for (size_t i = 0; i < rest.n; i++)
        if (rest.p[i] == ':')
            colon = i;
    if (rest.n && rest.p[0] == '[') { /* [::1]:2375 */
        size_t end = str_find(rest, ']');

        host = str_make(rest.p + 1, end > 0 && end < rest.n ? end - 1 : 0);
        colon = end + 1 < rest.n && rest.p[end + 1] == ':' ? end + 1 : rest.n;
    } else if (colon < rest.n) {
        host.n = colon;
    }
    if (colon < rest.n)
        port = str_skip(rest, colon + 1);
    ret->port = tls ? TLS_PORT_USUAL : TCP_PORT_USUAL;
    if (!host.n || str_copy(ret->host, sizeof(ret->host), host) < 0 ||
        (port.p && (str_to_u16(port, &ret->port) < 0 || !ret->port)))
        return err_set(e, EINVAL, "expected tcp://host:port");
    return sock_resolve(ret->host, ret->port, &ret->addr, e);
}

static int place_parse(const char *text, bool tls, struct engine_place *ret, struct err *e)
{
    struct str host = str_make(text, strlen(text));
    char unix_text[sizeof("unix:") + PATH_MAX];
    int r;

    *ret = (struct engine_place){0};
    if (str_starts(host, STR("tcp://")) || str_starts(host, STR("http://")) ||
        str_starts(host, STR("https://"))) {
        r = parse_tcp(str_skip(host, str_find_str(host, STR("://")) + 3), tls, ret, e);
    } else if (str_starts(host, STR("unix:///"))) {
        (void)snprintf(unix_text, sizeof(unix_text), "unix:%s", text + STR("unix://").n);
        r = sock_addr_parse(str_of(unix_text), &ret->addr, e);
    } else {
        r = err_set(e, EINVAL, "expected unix:///path or tcp://host:port");
    }
    return r < 0 ? err_wrap(e, r, "the Docker engine '%.100s'", text) : 0;
}

int engine_place_parse(const char *host, struct engine_place *ret, struct err *e)
{
    return place_parse(host, false, ret, e);
}

/* --- connections --- */

int engine_tls_new(const struct engine *en, struct tls_client **ret, struct err *e)
{
    struct tls_client_conf conf = {
        .ca_file = en->cert[0], .cert_file = en->cert[1], .key_file = en->cert[2]};

    *ret = NULL;
    return en->conf.cert_dir[0] ? tls_client_new(&conf, ret, e) : 0;
}

static void conn_free(struct conn *c)
{
    if (!c)
        return;
    http_client_free(c->client);
    if (c->loop)
        loop_settle(c->loop);
    tls_client_free(c->tls);
    loop_free(c->loop);
    free(c);
}

static int conn_new(const struct engine *en, struct conn **ret, struct err *e)
{
    struct http_client_conf conf = {
        .connect_ms = CONNECT_MS, .idle_ms = CONN_IDLE_MS, .kept_max = 1};
    struct conn *c = mem_new(struct conn);
    int r = loop_new(&c->loop, e);

    if (r == 0)
        r = engine_tls_new(en, &c->tls, e);
    if (r == 0)
        r = http_client_new(c->loop, &conf, &c->client, e);
    if (r < 0) {
        conn_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

static int conn_take(struct engine *en, struct conn **ret, struct err *e)
{
    struct conn *c = NULL;

    (void)pthread_mutex_lock(&en->lock);
    if (en->idle_count)
        c = en->idle[--en->idle_count];
    (void)pthread_mutex_unlock(&en->lock);
    if (!c)
        return conn_new(en, ret, e);
    (void)loop_turn(c->loop, 0, NULL); /* notices that the engine closed it meanwhile */
    *ret = c;
    return 0;
}

static void conn_give_back(struct engine *en, struct conn *c)
{
    (void)pthread_mutex_lock(&en->lock);
    if (en->idle_count < CONNS_KEPT_MAX) {
        en->idle[en->idle_count++] = c;
        c = NULL;
    }
    (void)pthread_mutex_unlock(&en->lock);
    conn_free(c);
}

/* --- a call --- */

struct call {
    const struct engine_request *rq;
    struct engine_answer *answer;
    struct http_call *http; /* NULL = it has ended */
    struct err err;         /* of the connection, or of on_piece */
    bool sent;
};

static void on_head(struct http_call *http)
{
    struct call *c = http->user;
    struct str stat = http_header_get(&http->head.headers, STR("X-Docker-Container-Path-Stat"));

    c->answer->status = http->head.status;
    if (stat.p)
        (void)!str_copy(c->answer->path_stat, sizeof(c->answer->path_stat), stat);
}

static ssize_t on_body(struct http_call *http, struct str piece)
{
    struct call *c = http->user;
    int r = c->rq->on_piece && c->answer->status < 400
                ? c->rq->on_piece(c->rq->user, piece, &c->err)
                : buf_add(&c->answer->body, piece);

    if (r < 0 && !c->err.code)
        (void)err_set(&c->err, -r, "the answer of the Docker engine is too long");
    return r < 0 ? r : (ssize_t)piece.n;
}

static void on_end(struct http_call *http, int error)
{
    struct call *c = http->user;

    c->sent = http_call_has_sent(http);
    if (error && !c->err.code) {
        c->err = http->err;
        if (!c->err.code)
            (void)err_sys(&c->err, error, "talk to the Docker engine");
        (void)err_set(&c->err, c->sent ? ETIMEDOUT : EBUSY, "%s", c->err.msg);
    }
    c->http = NULL;
}

static const struct http_call_ops call_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end};

int engine_fill_spec(const struct engine *en, const char *target, struct stream_security *security,
                     char out[ENGINE_TARGET_MAX], struct http_call_spec *ret)
{
    unsigned minor = engine_api_minor(en);
    int n = minor ? snprintf(out, ENGINE_TARGET_MAX, "/v1.%u%s", minor, target)
                  : snprintf(out, ENGINE_TARGET_MAX, "%s", target);

    if (n < 0 || n >= ENGINE_TARGET_MAX)
        return -EMSGSIZE;
    ret->addr = &en->place.addr;
    ret->target = str_make(out, (size_t)n);
    ret->host = en->place.host[0] ? str_of(en->place.host) : STR("docker");
    ret->tls = security;
    ret->tls_host = str_of(en->place.host);
    return 0;
}

static int call_start(struct engine *en, struct conn *conn, struct call *c, struct err *e)
{
    const struct engine_request *rq = c->rq;
    struct http_header headers[HEADERS_MAX];
    auto_free char *target = mem_alloc(ENGINE_TARGET_MAX);
    struct http_call_spec spec = {
        .method = rq->method,
        .headers = headers,
        .body = rq->body,
        .secret = rq->auth.n > 0,
        .ops = &call_ops,
        .user = c,
    };

    if (engine_fill_spec(en, rq->target, conn->tls ? tls_client_security(conn->tls) : NULL, target,
                         &spec) < 0)
        return err_set(e, EMSGSIZE, "a name is too long for a request to the Docker engine");
    if (rq->body.n)
        headers[spec.header_count++] = (struct http_header){
            STR("Content-Type"), rq->type ? str_of(rq->type) : STR("application/json")};
    if (rq->auth.n)
        headers[spec.header_count++] = (struct http_header){STR("X-Registry-Auth"), rq->auth};
    return http_call_start(conn->client, &spec, &c->http, e);
}

static bool is_cancelled(const struct engine_request *rq)
{
    return rq->cancelled && atomic_load(rq->cancelled);
}

/* Drives the loop until the call has ended, or must. */
static void call_drive(struct engine *en, struct conn *conn, struct call *c)
{
    uint32_t ms = c->rq->timeout_ms ? c->rq->timeout_ms : en->conf.timeout_ms;
    uint64_t deadline = deadline_in_ms(ms);

    while (c->http) {
        int left = deadline_left_ms(deadline);

        if (left == 0 || is_cancelled(c->rq)) {
            if (left == 0)
                (void)err_set(&c->err, ETIMEDOUT,
                              "the Docker engine did not answer within %u seconds", ms / 1000);
            else
                (void)err_set(&c->err, ECANCELED, "cancelled");
            http_call_cancel(take_ptr(&c->http));
            return;
        }
        if (c->rq->cancelled && left > CANCEL_LOOK_MS)
            left = CANCEL_LOOK_MS;
        if (loop_turn(conn->loop, left, &c->err) < 0 && c->http)
            http_call_cancel(take_ptr(&c->http));
    }
}

static int code_of(int status)
{
    static const struct {
        int status, code;
    } rows[] = {
        {400, EINVAL},
        {401, EACCES},
        {403, EACCES},
        {404, ENOENT},
        {409, ESTALE},
        {503, EBUSY },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].code;
    return EIO;
}

/* {"message":"..."} of a refusal. */
static int refuse(const struct engine_answer *a, struct err *e)
{
    AUTO_ARENA(arena, 1 << 20);
    struct json *tree = NULL;
    struct str message = str_trim(buf_str(&a->body));

    if (json_parse(&arena, buf_str(&a->body), NULL, &tree, NULL) == 0)
        (void)!json_to_str(json_get(tree, STR("message")), &message);
    if (!message.n)
        message = http_status_reason(a->status);
    return err_set(e, code_of(a->status), "Docker: %.*s", STR_ARG(message));
}

void engine_answer_done(struct engine_answer *a)
{
    buf_done(&a->body);
}

int engine_call(struct engine *en, const struct engine_request *rq, struct engine_answer *ret,
                struct err *e)
{
    struct call c = {.rq = rq, .answer = ret};
    struct conn *conn = NULL;
    int r = conn_take(en, &conn, e);

    if (r < 0)
        return r;
    engine_answer_done(ret);
    *ret = (struct engine_answer)ENGINE_ANSWER_NONE;
    buf_init(&ret->body, rq->answer_max ? rq->answer_max : ENGINE_ANSWER_MAX);
    r = call_start(en, conn, &c, &c.err);
    if (r == 0)
        call_drive(en, conn, &c);
    else if (r != -EMSGSIZE)
        (void)err_set(&c.err, EBUSY, "%s", c.err.msg);
    conn_give_back(en, conn);
    if (c.err.code == EBUSY)
        return err_set(e, EBUSY, "the Docker engine at %s cannot be reached: %s", en->conf.host,
                       c.err.msg);
    if (c.err.code)
        return err_set(e, c.err.code, "%s", c.err.msg);
    return ret->status >= 400 ? refuse(ret, e) : 0;
}

int engine_call_json(struct engine *en, const struct engine_request *rq, struct arena *a,
                     struct json **ret, struct err *e)
{
    const struct json_limits limits = {
        .nodes_max = JSON_NODES_MAX,
        .duplicates = JSON_DUPLICATES_LAST,
        .replace_invalid = true,
    };
    auto_answer answer = ENGINE_ANSWER_NONE;
    int r = engine_call(en, rq, &answer, e);

    if (r < 0)
        return r;
    r = json_parse(a, buf_str(&answer.body), &limits, ret, e);
    return r < 0 ? err_wrap(e, -EIO, "the Docker engine's answer to %.60s", rq->target) : 0;
}

/* --- life --- */

static int set_certificates(struct engine *en, struct err *e)
{
    static const char *const names[] = {"ca.pem", "cert.pem", "key.pem"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        int n = snprintf(en->cert[i], sizeof(en->cert[i]), "%s/%s", en->conf.cert_dir, names[i]);

        if (n < 0 || (size_t)n >= sizeof(en->cert[i]))
            return err_set(e, ENAMETOOLONG, "docker.cert_path is too long");
    }
    return 0;
}

int engine_new(const struct engine_conf *conf, struct engine **ret, struct err *e)
{
    struct engine *en = mem_new(struct engine);
    int r;

    en->conf = *conf;
    (void)pthread_mutex_init(&en->lock, NULL);
    r = place_parse(conf->host, conf->cert_dir[0], &en->place, e);
    if (r == 0)
        r = set_certificates(en, e);
    if (r < 0) {
        engine_free(en);
        return r;
    }
    *ret = en;
    return 0;
}

void engine_free(struct engine *en)
{
    if (!en)
        return;
    while (en->idle_count)
        conn_free(en->idle[--en->idle_count]);
    (void)pthread_mutex_destroy(&en->lock);
    free(en);
}

const struct engine_place *engine_place(const struct engine *en)
{
    return &en->place;
}

const char *engine_host(const struct engine *en)
{
    return en->conf.host;
}

unsigned engine_api_minor(const struct engine *en)
{
    return atomic_load(&en->api_minor);
}

/* "1.41" -> 41. */
static int minor_of(const struct json *v, unsigned usual, unsigned *ret)
{
    struct str text, major;
    uint32_t minor;

    *ret = usual;
    if (json_to_str(v, &text) < 0 || !text.n)
        return usual ? 0 : -EINVAL;
    if (!str_cut(&text, '.', &major) || !str_eq(major, STR("1")) || str_to_u32(text, &minor) < 0)
        return -EINVAL;
    *ret = minor;
    return 0;
}

bool engine_is_podman(const struct engine *en)
{
    return atomic_load(&en->is_podman);
}

static bool names_podman(const struct json *components)
{
    struct str name;

    json_each(item, components)
    {
        if (json_to_str(json_get(item, STR("Name")), &name) == 0 && str_starts(name, STR("Podman")))
            return true;
    }
    return false;
}

int engine_negotiate(struct engine *en, struct err *e)
{
    AUTO_ARENA(arena, 1 << 20);
    struct json *tree = NULL;
    unsigned newest, oldest;
    int r = engine_call_json(en, &(struct engine_request){.method = HTTP_GET, .target = "/version"},
                             &arena, &tree, e);

    if (r < 0)
        return r;
    if (minor_of(json_get(tree, STR("ApiVersion")), 0, &newest) < 0 ||
        minor_of(json_get(tree, STR("MinAPIVersion")), 1, &oldest) < 0)
        return err_set(e, EPROTO, "%s is no Docker engine: it names no version of its API",
                       en->conf.host);
    if (newest < API_MINOR_MIN)
        return err_set(e, EPROTO, "the Docker engine has API 1.%u; expected 1.%d or newer", newest,
                       API_MINOR_MIN);
    atomic_store(&en->is_podman, names_podman(json_get(tree, STR("Components"))));
    /* An engine that has dropped 1.41 is asked for the oldest it has: what is used here stays. */
    atomic_store(&en->api_minor, oldest > API_MINOR_MAX   ? oldest
                                 : newest > API_MINOR_MAX ? API_MINOR_MAX
                                                          : newest);
    return 0;
}
