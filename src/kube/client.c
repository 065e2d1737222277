#include "kube/client.h"

#include <errno.h>
#include <stdio.h>

#include "base/id.h"
#include "base/mem.h"
#include "kube/client_internal.h"
#include "kube/config_internal.h"
#include "kube/object_internal.h"
#include "net/pool.h"

enum {
    INFLIGHT_USUAL = 128,
    QUEUE_USUAL = 65536,
    CONNECT_MS = 5 * 1000,
    CONN_IDLE_MS = 60 * 1000,
    HEADERS_MAX = 4,
    TARGET_MAX = 32 << 10,
    CALL_BYTES_MAX = 64 << 20, /* of a request: strings and body */
    TRIES_MAX = 12,
    BACKOFF_MS = 100, /* doubled after each try, up to: */
    BACKOFF_MAX_MS = 2 * 1000,
    ERROR_BODY_MAX = 256 << 10,
};

enum call_class { CLASS_READ, CLASS_WRITE, CLASS_COUNT };

enum call_state {
    CALL_QUEUED,  /* in client->queues */
    CALL_PENDING, /* waits for credentials: in client->pending */
    CALL_ACTIVE,  /* the HTTP call is under way: in client->active */
    CALL_WAITING, /* before the next try: in client->active */
    CALL_ENDED,   /* on_done is due: in client->ended */
};

struct kube_call {
    struct list link;
    struct kube_client *client;
    struct arena arena;
    struct kube_request rq; /* its strings are of the arena */
    struct str target;
    kube_done_fn *on_done;
    void *user;
    struct http_call *http; /* NULL = none under way */
    struct buf body;
    struct kube_answer answer;
    struct loop_timer deadline, wait; /* wait: for the next try, or for the next byte of a watch */
    uint32_t silence_ms, tries, retry_after_ms;
    enum call_state state;
    struct err failed; /* of on_piece, or an answer too long */
    bool is_watch, sent, new_credentials, delivered, in_piece, cancelled;
};

struct kube_client {
    struct kube_client_conf conf;
    struct http_client *http;
    struct tls_client *tls;
    char host[300]; /* of the Host header */
    struct list queues[CLASS_COUNT], pending, active, ended;
    struct kube_bucket buckets[CLASS_COUNT];
    struct loop_task turn;
    struct loop_timer throttle;
    struct pool *pool; /* for what blocks: made when it is needed */
    struct pool_job refresh;
    struct err refresh_err;
    bool refreshing, resolve;
    uint32_t address; /* which of the server's is used */
    struct kube_client_stats stats;
};

static void pump(struct kube_client *c);

static void turn_soon(struct kube_client *c);

/* --- calls --- */

static enum call_class class_of(const struct kube_call *call)
{
    return call->rq.verb == KUBE_GET || call->rq.verb == KUBE_LIST ? CLASS_READ : CLASS_WRITE;
}

static void call_free(struct kube_call *call)
{
    struct loop *loop = call->client->conf.loop;

    loop_timer_stop(loop, &call->deadline);
    loop_timer_stop(loop, &call->wait);
    kube_object_unref(call->answer.object);
    buf_done(&call->body);
    arena_done(&call->arena);
    free(call);
}

/* Leaves the list it is in. */
static void call_leave(struct kube_call *call)
{
    struct kube_client *c = call->client;

    if (call->state == CALL_QUEUED)
        c->stats.queued--;
    else if ((call->state == CALL_ACTIVE || call->state == CALL_WAITING) && !call->is_watch)
        c->stats.inflight--;
    list_remove(&call->link);
}

static void call_enter(struct kube_call *call, enum call_state state, struct list *list)
{
    call->state = state;
    list_push(list, &call->link);
    if (state == CALL_QUEUED)
        call->client->stats.queued++;
    else if ((state == CALL_ACTIVE || state == CALL_WAITING) && !call->is_watch)
        call->client->stats.inflight++;
}

/* on_done comes at the end of this turn. */
static void call_end(struct kube_call *call)
{
    call_leave(call);
    call_enter(call, CALL_ENDED, &call->client->ended);
    loop_timer_stop(call->client->conf.loop, &call->deadline);
    loop_timer_stop(call->client->conf.loop, &call->wait);
    turn_soon(call->client);
}

static void call_fail(struct kube_call *call, int code, const char *what)
{
    struct kube_error *error = &call->answer.error;

    error->status = call->answer.status;
    (void)err_set(&error->err, code, "Kubernetes API server %s: %s",
                  kube_config_server(call->client->conf.config), what);
    call_end(call);
}

static void on_wait(struct loop_timer *t)
{
    struct kube_call *call = container_of(t, struct kube_call, wait);
    struct kube_client *c = call->client;

    if (call->state == CALL_WAITING) {
        call_leave(call);
        call_enter(call, CALL_QUEUED, &c->queues[class_of(call)]);
        pump(c);
    } else if (call->http) { /* a watch that is silent */
        http_call_cancel(take_ptr(&call->http));
        call_fail(call, ETIMEDOUT, "the connection is silent");
    }
}

static void on_deadline(struct loop_timer *t)
{
    struct kube_call *call = container_of(t, struct kube_call, deadline);
    char what[300];

    if (call->http) {
        call->sent |= http_call_has_sent(call->http);
        http_call_cancel(take_ptr(&call->http));
    }
    if (call->answer.error.err.code) { /* of the last try */
        call_end(call);
        return;
    }
    (void)snprintf(what, sizeof(what), "no answer within %u ms", call->rq.timeout_ms);
    call_fail(call, call->sent ? ETIMEDOUT : EBUSY, what);
}

/* Tries again later; false when that is not to be. */
static bool call_retry(struct kube_call *call, uint32_t least_ms)
{
    struct loop *loop = call->client->conf.loop;
    uint32_t backoff = BACKOFF_MS << (call->tries < 8 ? call->tries : 8);
    uint64_t now = loop_now_ns(loop), wait_ms;
    uint16_t dice;

    if (call->rq.once || call->delivered || call->tries + 1 >= TRIES_MAX)
        return false;
    id_random_bytes(&dice, sizeof(dice));
    if (backoff > BACKOFF_MAX_MS)
        backoff = BACKOFF_MAX_MS;
    wait_ms = max_size(least_ms, backoff / 2 + dice % (backoff / 2 + 1));
    if (now + wait_ms * TIME_NS_PER_MS >= call->deadline.due_ns)
        return false;
    call->tries++;
    call->client->stats.retries++;
    kube_object_unref(take_ptr(&call->answer.object));
    buf_clear(&call->body);
    call_leave(call);
    call_enter(call, CALL_WAITING, &call->client->active);
    loop_timer_after(loop, &call->wait, wait_ms, on_wait);
    return true;
}

/* --- the HTTP call --- */

static void on_head(struct http_call *http)
{
    struct kube_call *call = http->user;
    struct str after = http_header_get(&http->head.headers, STR("Retry-After"));
    uint32_t s = 0;

    call->answer.status = http->head.status;
    call->retry_after_ms = 0;
    if (str_to_u32(after, &s) == 0)
        call->retry_after_ms = (s < 600 ? s : 600) * 1000;
}

static int take_piece(struct kube_call *call, struct str piece)
{
    int r;

    if (!call->rq.on_piece || call->answer.status >= 300) {
        r = buf_add(&call->body, piece);
        return r < 0 ? err_set(&call->failed, -r, "the answer is too long") : 0;
    }
    call->delivered = true;
    call->in_piece = true;
    r = call->rq.on_piece(call->rq.user, piece, &call->failed);
    call->in_piece = false;
    if (r < 0 && !call->failed.code)
        (void)err_set(&call->failed, -r, "the receiver gave up");
    return call->cancelled ? -ECANCELED : r;
}

static ssize_t on_body(struct http_call *http, struct str piece)
{
    struct kube_call *call = http->user;
    int r = take_piece(call, piece);

    if (r < 0)
        return r;
    if (call->silence_ms)
        loop_timer_after(call->client->conf.loop, &call->wait, call->silence_ms, on_wait);
    return (ssize_t)piece.n;
}

static void refresh_soon(struct kube_client *c, bool resolve);

/* No answer, or half of one. */
static void on_broken(struct kube_call *call, int error, const struct err *why)
{
    struct kube_client *c = call->client;
    int code = call->sent ? ETIMEDOUT : EBUSY;

    if (call->failed.code) {
        call_fail(call, call->failed.code, call->failed.msg);
        return;
    }
    if (!call->sent) {
        c->address++;
        refresh_soon(c, true);
    }
    call->answer.status = 0;
    (void)err_set(&call->answer.error.err, code, "Kubernetes API server %s: %s",
                  kube_config_server(c->conf.config), why->code ? why->msg : strerror(error));
    if ((!call->sent || class_of(call) == CLASS_READ) && call_retry(call, 0))
        return;
    call_end(call);
}

static void on_refused(struct kube_call *call)
{
    struct kube_error *error = &call->answer.error;
    char after[16];
    uint32_t wait_ms;

    (void)snprintf(after, sizeof(after), "%u", call->retry_after_ms / 1000);
    (void)!kube_error_of(call->answer.status, buf_str(&call->body), str_of(after), error);
    wait_ms = error->retry_after_ms;
    if (error->status == 401 && !call->new_credentials) {
        call->new_credentials = true;
        kube_config_distrust(call->client->conf.config);
        if (call_retry(call, 0))
            return;
    } else if (error->status == 429 || (error->status >= 500 && wait_ms) ||
               (error->status >= 500 && class_of(call) == CLASS_READ)) {
        call->client->stats.throttled += error->status == 429;
        if (call_retry(call, wait_ms))
            return;
    }
    call_end(call);
}

static void on_answered(struct kube_call *call)
{
    struct str body = buf_str(&call->body);
    struct err e = {0};

    call->answer.error = (struct kube_error){.status = call->answer.status};
    if (body.n && body.p[0] == '{' && !call->rq.on_piece) {
        if (kube_object_parse_max(body, max_size(call->rq.answer_max, 1 << 20),
                                  &call->answer.object, &e) < 0) {
            call_fail(call, EIO, e.msg);
            return;
        }
    }
    call->answer.text = body;
    call_end(call);
}

static void on_end(struct http_call *http, int error)
{
    struct kube_call *call = http->user;

    call->http = NULL;
    call->sent |= http_call_has_sent(http);
    loop_timer_stop(call->client->conf.loop, &call->wait);
    if (call->cancelled) {
        call_leave(call);
        call_free(call);
    } else if (error) {
        on_broken(call, error, &http->err);
    } else if (call->answer.status >= 300) {
        on_refused(call);
    } else {
        on_answered(call);
    }
}

static const struct http_call_ops call_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end};

static enum http_method method_of(enum kube_verb verb)
{
    static const enum http_method methods[] = {
        [KUBE_GET] = HTTP_GET,    [KUBE_LIST] = HTTP_GET,    [KUBE_CREATE] = HTTP_POST,
        [KUBE_UPDATE] = HTTP_PUT, [KUBE_PATCH] = HTTP_PATCH, [KUBE_DELETE] = HTTP_DELETE,
    };

    return methods[verb];
}

static struct str type_of(const struct kube_request *rq)
{
    static const char *const types[] = {
        [KUBE_PATCH_MERGE] = "application/merge-patch+json",
        [KUBE_PATCH_JSON] = "application/json-patch+json",
        [KUBE_PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
        [KUBE_PATCH_APPLY] = "application/apply-patch+yaml",
    };

    return rq->verb == KUBE_PATCH ? str_of(types[rq->patch]) : STR("application/json");
}

static struct str agent_of(const struct kube_client *c)
{
    return c->conf.user_agent ? str_of(c->conf.user_agent) : STR("opensandbox");
}

static int start_http(struct kube_call *call, struct str authorization, struct err *e)
{
    struct kube_client *c = call->client;
    struct http_header headers[HEADERS_MAX];
    struct sock_addr addr;
    struct http_call_spec spec = {
        .addr = &addr,
        .tls = c->tls ? tls_client_security(c->tls) : NULL,
        .tls_host = str_of(c->conf.config->tls_name),
        .method = method_of(call->rq.verb),
        .target = call->target,
        .host = str_of(c->host),
        .headers = headers,
        .body = call->rq.body,
        .secret = authorization.n > 0,
        .ops = &call_ops,
        .user = call,
    };

    kube_config_address(c->conf.config, c->address, &addr);
    headers[spec.header_count++] = (struct http_header){STR("Accept"), STR("application/json")};
    headers[spec.header_count++] = (struct http_header){STR("User-Agent"), agent_of(c)};
    if (authorization.n)
        headers[spec.header_count++] = (struct http_header){STR("Authorization"), authorization};
    if (call->rq.body.n)
        headers[spec.header_count++] =
            (struct http_header){STR("Content-Type"), type_of(&call->rq)};
    return http_call_start(c->http, &spec, &call->http, e);
}

/* Of a call that is in no list. */
static void call_start(struct kube_call *call)
{
    struct kube_client *c = call->client;
    AUTO_BUF(authorization, KUBE_TOKEN_BYTES_MAX + 64);
    struct err e = {0};
    int r;

    buf_keep_secret(&authorization);
    r = kube_config_authorization(c->conf.config, &authorization, &e);
    if (r == 1) {
        call_enter(call, CALL_PENDING, &c->pending);
        refresh_soon(c, false);
        return;
    }
    call_enter(call, CALL_ACTIVE, &c->active);
    if (r < 0) {
        call_fail(call, EACCES, e.msg);
        return;
    }
    call->sent = false;
    call->failed = (struct err){0};
    *(class_of(call) == CLASS_READ ? &c->stats.reads : &c->stats.writes) += 1;
    r = start_http(call, buf_str(&authorization), &e);
    if (r < 0)
        on_broken(call, -r, &e);
    else if (call->silence_ms)
        loop_timer_after(c->conf.loop, &call->wait, call->silence_ms, on_wait);
}

/* --- credentials and names, which block --- */

static void refresh_work(struct pool_job *job)
{
    struct kube_client *c = container_of(job, struct kube_client, refresh);

    c->refresh_err = (struct err){0};
    if (kube_config_refresh(c->conf.config, c->resolve, &c->refresh_err) == 0)
        c->refresh_err.code = 0;
}

static void refresh_failed(struct kube_client *c, const char *why)
{
    LIST_EACH(&c->pending, at)
    call_fail(container_of(at, struct kube_call, link), EACCES, why);
}

static void refresh_done(struct pool_job *job, int error)
{
    struct kube_client *c = container_of(job, struct kube_client, refresh);
    size_t count = 0;

    c->refreshing = false;
    c->resolve = false;
    if (error || c->refresh_err.code) {
        refresh_failed(c, error ? "cancelled" : c->refresh_err.msg);
        return;
    }
    LIST_EACH(&c->pending, at) count++;
    while (count--) { /* those that must wait once more go to the end */
        struct kube_call *call = container_of(c->pending.next, struct kube_call, link);

        call_leave(call);
        call_start(call);
    }
}

static void refresh_soon(struct kube_client *c, bool resolve)
{
    const struct pool_conf conf = {.name = "kube", .threads = 1, .queue_max = 1};

    if (c->refreshing || (resolve && !kube_config_can_resolve(c->conf.config)))
        return;
    if (!c->pool && pool_new(&conf, &c->pool, &c->refresh_err) < 0) {
        refresh_failed(c, c->refresh_err.msg);
        return;
    }
    c->resolve = resolve;
    c->refreshing =
        pool_submit(c->pool, &c->refresh, c->conf.loop, refresh_work, refresh_done, POOL_SLOW) == 0;
}

/* --- queues --- */

static void on_throttle(struct loop_timer *t)
{
    pump(container_of(t, struct kube_client, throttle));
}

/* Starts what may start now. */
static void pump(struct kube_client *c)
{
    uint64_t now = loop_now_ns(c->conf.loop), next = 0;

    for (int class = 0; class < CLASS_COUNT; class ++) {
        while (!list_empty(&c->queues[class]) && c->stats.inflight < c->conf.inflight_max) {
            struct kube_call *call = container_of(c->queues[class].next, struct kube_call, link);
            uint64_t wait = call->is_watch ? 0 : kube_bucket_take(&c->buckets[class], now);

            if (wait) {
                next = !next || wait < next ? wait : next;
                break;
            }
            call_leave(call);
            call_start(call);
        }
    }
    if (next)
        loop_timer_set(c->conf.loop, &c->throttle, now + next, on_throttle);
}

static void on_turn(struct loop_task *t)
{
    struct kube_client *c = container_of(t, struct kube_client, turn);
    struct list *at;

    while ((at = list_take(&c->ended))) {
        struct kube_call *call = container_of(at, struct kube_call, link);

        call_leave(call);
        call->on_done(call->user, &call->answer);
        call_free(call);
    }
    pump(c);
}

static void turn_soon(struct kube_client *c)
{
    loop_defer(c->conf.loop, &c->turn, on_turn);
}

static int copy_request(struct kube_call *call, const struct kube_request *rq, struct err *e)
{
    AUTO_BUF(target, TARGET_MAX);
    int r;

    if (buf_add(&target, str_of(call->client->conf.config->prefix)) < 0)
        return err_set(e, EMSGSIZE, "the path of the Kubernetes API server is too long");
    r = kube_request_target(rq, &target, e);
    if (r < 0)
        return r;
    call->rq = *rq;
    call->target = arena_str(&call->arena, buf_str(&target));
    call->rq.body = rq->body.n ? arena_str(&call->arena, rq->body) : STR("");
    if (!call->target.p || !call->rq.body.p)
        return err_set(e, EMSGSIZE, "a request to Kubernetes is too long");
    if (!rq->timeout_ms)
        call->rq.timeout_ms = KUBE_TIMEOUT_MS;
    if (!rq->answer_max)
        call->rq.answer_max = KUBE_ANSWER_BYTES_MAX;
    return 0;
}

static int send_call(struct kube_client *c, const struct kube_request *rq, uint32_t silence_ms,
                     bool is_watch, kube_done_fn *on_done, void *user, struct kube_call **ret_call,
                     struct err *e)
{
    struct kube_call *call;
    int r;

    if (!is_watch && c->stats.queued >= c->conf.queue_max)
        return err_set(e, EAGAIN, "%u requests to Kubernetes wait already", c->conf.queue_max);
    call = mem_new(struct kube_call);
    call->client = c;
    call->is_watch = is_watch;
    call->silence_ms = silence_ms;
    call->on_done = on_done;
    call->user = user;
    list_init(&call->link);
    arena_init(&call->arena, CALL_BYTES_MAX);
    r = copy_request(call, rq, e);
    buf_init(&call->body, rq->on_piece ? ERROR_BODY_MAX : call->rq.answer_max);
    if (r < 0) {
        call_free(call);
        return r;
    }
    loop_timer_after(c->conf.loop, &call->deadline, call->rq.timeout_ms, on_deadline);
    call_enter(call, CALL_QUEUED, &c->queues[class_of(call)]);
    turn_soon(c);
    if (ret_call)
        *ret_call = call;
    return 0;
}

int kube_send(struct kube_client *c, const struct kube_request *rq, kube_done_fn *on_done,
              void *user, struct kube_call **ret_call, struct err *e)
{
    return send_call(c, rq, 0, false, on_done, user, ret_call, e);
}

int kube_send_watch(struct kube_client *c, const struct kube_request *rq, uint32_t silence_ms,
                    kube_done_fn *on_done, void *user, struct kube_call **ret_call, struct err *e)
{
    return send_call(c, rq, silence_ms, true, on_done, user, ret_call, e);
}

void kube_cancel(struct kube_call *call)
{
    struct kube_client *c = call->client;

    if (call->in_piece) { /* on_body ends it */
        call->cancelled = true;
        return;
    }
    if (call->http)
        http_call_cancel(take_ptr(&call->http));
    call_leave(call);
    call_free(call);
    turn_soon(c);
}

/* --- life --- */

int kube_client_new(const struct kube_client_conf *conf, struct kube_client **ret, struct err *e)
{
    const struct kube_config *config = conf->config;
    struct kube_client *c = mem_new(struct kube_client);
    struct http_client_conf http = {.connect_ms = CONNECT_MS, .idle_ms = CONN_IDLE_MS};
    uint64_t now = loop_now_ns(conf->loop);
    int r;

    c->conf = *conf;
    if (!c->conf.inflight_max)
        c->conf.inflight_max = INFLIGHT_USUAL;
    if (!c->conf.queue_max)
        c->conf.queue_max = QUEUE_USUAL;
    http.kept_max = c->conf.inflight_max;
    for (int class = 0; class < CLASS_COUNT; class ++)
        list_init(&c->queues[class]);
    list_init(&c->pending);
    list_init(&c->active);
    list_init(&c->ended);
    kube_bucket_init(&c->buckets[CLASS_READ], conf->reads, now);
    kube_bucket_init(&c->buckets[CLASS_WRITE], conf->writes, now);
    (void)snprintf(c->host, sizeof(c->host), config->host_is_ipv6 ? "[%s]:%u" : "%s:%u",
                   config->host, config->port);
    r = kube_config_tls_new(config, &c->tls, e);
    if (r == 0)
        r = http_client_new(conf->loop, &http, &c->http, e);
    if (r < 0) {
        kube_client_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

static void end_all(struct kube_client *c, struct list *list)
{
    struct list *at;

    while ((at = list_take(list))) {
        struct kube_call *call = container_of(at, struct kube_call, link);

        if (call->http)
            http_call_cancel(take_ptr(&call->http));
        call_leave(call);
        if (!call->answer.error.err.code || call->state != CALL_ENDED)
            (void)err_set(&call->answer.error.err, ECANCELED, "the Kubernetes client ends");
        call->on_done(call->user, &call->answer);
        call_free(call);
    }
}

void kube_client_free(struct kube_client *c)
{
    if (!c)
        return;
    pool_free(c->pool);
    loop_settle(c->conf.loop);
    end_all(c, &c->ended);
    end_all(c, &c->active);
    end_all(c, &c->pending);
    for (int class = 0; class < CLASS_COUNT; class ++)
        end_all(c, &c->queues[class]);
    loop_timer_stop(c->conf.loop, &c->throttle);
    http_client_free(c->http);
    loop_settle(c->conf.loop);
    tls_client_free(c->tls);
    free(c);
}

struct loop *kube_client_loop(const struct kube_client *c)
{
    return c->conf.loop;
}

const struct kube_config *kube_client_config(const struct kube_client *c)
{
    return c->conf.config;
}

void kube_client_stats(const struct kube_client *c, struct kube_client_stats *ret)
{
    *ret = c->stats;
}

int kube_client_endpoint(struct kube_client *c, const struct kube_request *rq, struct arena *a,
                         struct kube_endpoint *ret, struct err *e)
{
    AUTO_BUF(text, TARGET_MAX + KUBE_TOKEN_BYTES_MAX);
    int r;

    *ret = (struct kube_endpoint){
        .tls = c->tls ? tls_client_security(c->tls) : NULL,
        .tls_host = str_of(c->conf.config->tls_name),
        .host = str_of(c->host),
        .http = c->http,
    };
    buf_keep_secret(&text);
    kube_config_address(c->conf.config, c->address, &ret->addr);
    (void)buf_add(&text, str_of(c->conf.config->prefix));
    r = kube_request_target(rq, &text, e);
    if (r < 0)
        return r;
    ret->target = arena_str(a, buf_str(&text));
    buf_clear(&text);
    r = kube_config_authorization(c->conf.config, &text, e);
    if (r == 1)
        return err_set(e, EAGAIN, "a token must be fetched first");
    if (r < 0)
        return r;
    ret->headers[ret->header_count++] = (struct http_header){STR("User-Agent"), agent_of(c)};
    if (text.n)
        ret->headers[ret->header_count++] =
            (struct http_header){STR("Authorization"), arena_str(a, buf_str(&text))};
    return ret->target.p ? 0 : err_set(e, ENOMEM, "no memory for a request");
}
