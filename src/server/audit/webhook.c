#include "server/audit/webhook.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha.h"
#include "base/time.h"
#include "base/url.h"
#include "net/http_client.h"
#include "net/tls.h"

enum { PAUSE_MS = 500, TEXT_MAX = 2048, STATUS_TOO_MANY = 429 };

struct posting {
    struct list link;
    char *body;
    size_t n;
    const char *type;
    unsigned tries;
};

struct webhook {
    struct webhook_conf conf;
    struct url url;
    char host[URL_HOST_BYTES_MAX + 1];
    char target[TEXT_MAX], authority[URL_HOST_BYTES_MAX + 16];
    struct http_client *client;
    struct tls_client *tls;
    struct http_call *call;
    struct pool_job job; /* looks up the name */
    struct sock_addr addr;
    struct err why;
    struct list queue; /* of struct posting; the first is under way */
    size_t count, bytes;
    uint64_t dropped;
    struct log_limit limit;
    struct loop_timer timer;
    int status;
    bool busy;
};

static void send_first(struct webhook *w);

static void posting_free(struct webhook *w, struct posting *p)
{
    list_remove(&p->link);
    w->count--;
    w->bytes -= p->n;
    free(p->body);
    free(p);
}

static void on_pause(struct loop_timer *timer)
{
    struct webhook *w = container_of(timer, struct webhook, timer);

    w->busy = false;
    send_first(w);
}

/* The first one was taken, or not. The next one, or the next try, comes in a later turn. */
static void settle(struct webhook *w, int status, const char *why)
{
    struct posting *p = container_of(w->queue.next, struct posting, link);
    bool passes = status == 0 || status >= 500 || status == STATUS_TOO_MANY;
    uint64_t pause_ms = 0;

    if (passes && p->tries < WEBHOOK_TRIES) {
        pause_ms = (uint64_t)PAUSE_MS << (p->tries - 1);
    } else {
        if (status < 200 || status >= 300)
            log_event(LOG_WARN, "a webhook did not take what was posted, dropping it",
                      LOG_STR("webhook", w->conf.name), LOG_I64("status", status),
                      LOG_STR("error", why), LOG_U64("tries", p->tries));
        posting_free(w, p);
    }
    loop_timer_after(w->conf.loop, &w->timer, pause_ms, on_pause);
}

static void on_head(struct http_call *call)
{
    ((struct webhook *)call->user)->status = call->head.status;
}

static ssize_t on_body(struct http_call *call UNUSED, struct str piece)
{
    return (ssize_t)piece.n; /* nobody reads it */
}

static void on_end(struct http_call *call, int error)
{
    struct webhook *w = call->user;
    struct err why = call->err;

    w->call = NULL;
    settle(w, error ? 0 : w->status, error ? why.msg : "");
}

static void sign(const struct webhook *w, const struct posting *p, const char *at,
                 char ret[2 * SHA256_BYTES + 16])
{
    struct hmac_sha256 h;
    uint8_t mac[SHA256_BYTES];
    size_t n;

    hmac_sha256_init(&h, str_of(w->conf.secret));
    hmac_sha256_add(&h, str_of(at));
    hmac_sha256_add(&h, STR("."));
    hmac_sha256_add(&h, str_make(p->body, p->n));
    hmac_sha256_end(&h, mac);
    n = (size_t)snprintf(ret, 16, "sha256=");
    ret[n + hex_encode(str_make((const char *)mac, sizeof(mac)), ret + n)] = '\0';
}

static void post(struct webhook *w)
{
    static const struct http_call_ops ops = {
        .on_head = on_head, .on_body = on_body, .on_end = on_end};
    struct posting *p = container_of(w->queue.next, struct posting, link);
    char at[32], signature[2 * SHA256_BYTES + 16];
    struct http_header headers[3] = {
        {STR("Content-Type"), str_of(p->type)}
    };
    struct http_call_spec spec = {
        .addr = &w->addr,
        .tls = w->tls ? tls_client_security(w->tls) : NULL,
        .tls_host = str_of(w->host),
        .method = HTTP_POST,
        .target = str_of(w->target),
        .host = str_of(w->authority),
        .headers = headers,
        .header_count = 1,
        .body = str_make(p->body, p->n),
        .head_ms = WEBHOOK_TIMEOUT_MS,
        .ops = &ops,
        .user = w,
    };
    struct err e = {0};

    if (w->conf.secret[0]) {
        (void)snprintf(at, sizeof(at), "%lld", (long long)(time_wall_us() / TIME_US_PER_S));
        sign(w, p, at, signature);
        headers[1] = (struct http_header){STR("X-OpenSandbox-Timestamp"), str_of(at)};
        headers[2] = (struct http_header){STR("X-OpenSandbox-Signature"), str_of(signature)};
        spec.header_count = 3;
    }
    w->status = 0;
    if (http_call_start(w->client, &spec, &w->call, &e) < 0)
        settle(w, 0, e.msg);
}

static void resolve_work(struct pool_job *job)
{
    struct webhook *w = container_of(job, struct webhook, job);

    w->why = (struct err){0};
    (void)sock_resolve(w->host, w->url.port, &w->addr, &w->why);
}

static void on_resolved(struct pool_job *job, int error)
{
    struct webhook *w = container_of(job, struct webhook, job);

    if (error)
        return; /* the server ends */
    if (w->why.code)
        settle(w, 0, w->why.msg);
    else
        post(w);
}

static void send_first(struct webhook *w)
{
    if (w->busy || list_empty(&w->queue))
        return;
    w->busy = true;
    container_of(w->queue.next, struct posting, link)->tries++;
    if (pool_submit(w->conf.pool, &w->job, w->conf.loop, resolve_work, on_resolved, POOL_SLOW) < 0)
        settle(w, 0, "the server is too busy");
}

void webhook_post(struct webhook *w, struct str type, struct str body)
{
    struct posting *p;

    if (w->count >= WEBHOOK_QUEUE_MAX || w->bytes + body.n > WEBHOOK_QUEUE_BYTES) {
        w->dropped++;
        if (log_limit_pass(&w->limit, loop_now_ns(w->conf.loop)))
            log_event(LOG_WARN, "too much waits for a webhook, dropping what is new",
                      LOG_STR("webhook", w->conf.name), LOG_U64("dropped", w->dropped));
        return;
    }
    p = mem_new(struct posting);
    p->type = type.p; /* of the program's own texts */
    p->body = mem_alloc(body.n + 1);
    memcpy(p->body, body.p, body.n);
    p->n = body.n;
    list_push(&w->queue, &p->link);
    w->count++;
    w->bytes += p->n;
    send_first(w);
}

static int set_url(struct webhook *w, struct err *e)
{
    int r = url_split(str_of(w->conf.url), &w->url, e);
    const struct url *u = &w->url;
    int n;

    if (r == 0 && u->scheme != URL_HTTP && u->scheme != URL_HTTPS)
        r = err_set(e, EINVAL, "expected http:// or https://");
    if (r < 0)
        return r;
    n = snprintf(w->target, sizeof(w->target), "%.*s%s%.*s",
                 STR_ARG(u->path.n ? u->path : STR("/")), u->query.p ? "?" : "", STR_ARG(u->query));
    if (n >= (int)sizeof(w->target) || str_copy(w->host, sizeof(w->host), u->host) < 0)
        return err_set(e, EINVAL, "it is too long");
    (void)snprintf(w->authority, sizeof(w->authority), u->host_is_ipv6 ? "[%s]:%u" : "%s:%u",
                   w->host, u->port);
    return 0;
}

int webhook_new(const struct webhook_conf *conf, struct webhook **ret, struct err *e)
{
    struct webhook *w = mem_new(struct webhook);
    struct http_client_conf client = {0};
    int r;

    w->conf = *conf;
    list_init(&w->queue);
    r = set_url(w, e);
    if (r == 0 && w->url.scheme == URL_HTTPS)
        r = tls_client_new(&(struct tls_client_conf){0}, &w->tls, e);
    if (r == 0)
        r = http_client_new(conf->loop, &client, &w->client, e);
    if (r < 0) {
        webhook_free(w);
        return err_wrap(e, r, "URL of the webhook for %s", conf->name);
    }
    *ret = w;
    return 0;
}

void webhook_free(struct webhook *w)
{
    struct list *at;

    if (!w)
        return;
    loop_timer_stop(w->conf.loop, &w->timer);
    if (w->call)
        http_call_cancel(w->call);
    http_client_free(w->client);
    tls_client_free(w->tls);
    while ((at = list_take(&w->queue)))
        posting_free(w, container_of(at, struct posting, link));
    free(w);
}
