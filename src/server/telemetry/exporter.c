#include "server/telemetry/exporter.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "net/http_client.h"
#include "net/tls.h"

enum {
    BODY_BYTES_MAX = EXPORTER_QUEUE_BYTES + (64 << 10),
    ANSWER_BYTES_MAX = 64 << 10,
    TARGET_MAX = 2048,
    WARN_MS = 60 * 1000, /* minimum time between warnings */
    GZIP_FORMAT = 15 + 16,
    GZIP_LEVEL = 1,
    GZIP_MEMORY = 8,
    STATUS_TOO_MANY = 429,
};

struct exporter {
    struct exporter_conf conf;
    struct url url;
    char host[URL_HOST_BYTES_MAX + 1];
    char target[TARGET_MAX], authority[URL_HOST_BYTES_MAX + 16];
    struct http_header headers[EXPORTER_HEADERS_MAX + 2];
    size_t header_count;
    struct http_client *client;
    struct tls_client *tls;

    pthread_mutex_t mutex; /* for the next eight */
    struct buf waiting;    /* objects, separated by commas */
    uint64_t waiting_count;
    bool posted; /* `post` is on its way to the loop */
    uint64_t sent, dropped, failures;
    bool busy, closed;

    struct loop_task post;
    struct loop_timer tick, pause, late;

    /* The batch under way. */
    struct buf batch, body;
    uint64_t batch_count;
    unsigned tries;
    struct pool_job job;
    struct sock_addr addr;
    struct err why;
    struct http_call *call;
    int status;
    uint32_t retry_after_s;
    size_t answer_bytes;
    uint64_t warned_ns; /* 0 = never */
};

static void exporter_begin(struct exporter *x);
static void exporter_prepare(struct exporter *x);

/* --- the queue --- */

static void on_post(struct loop_task *task)
{
    struct exporter *x = container_of(task, struct exporter, post);

    (void)pthread_mutex_lock(&x->mutex);
    x->posted = false;
    (void)pthread_mutex_unlock(&x->mutex);
    exporter_begin(x);
}

void exporter_add(struct exporter *x, struct str items, uint64_t count)
{
    size_t before;
    bool post = false;

    (void)pthread_mutex_lock(&x->mutex);
    before = x->waiting.n;
    if ((before && buf_add_char(&x->waiting, ',') < 0) || buf_add(&x->waiting, items) < 0) {
        buf_cut(&x->waiting, before);
        x->dropped += count;
    } else {
        x->waiting_count += count;
        post = x->waiting.n >= EXPORTER_EARLY_BYTES && !x->posted && !x->busy;
        x->posted |= post;
    }
    (void)pthread_mutex_unlock(&x->mutex);
    if (post)
        loop_post(x->conf.loop, &x->post, on_post);
}

void exporter_stats(struct exporter *x, struct exporter_stats *ret)
{
    (void)pthread_mutex_lock(&x->mutex);
    *ret = (struct exporter_stats){x->sent, x->dropped, x->failures, !x->busy && x->waiting.n == 0};
    (void)pthread_mutex_unlock(&x->mutex);
}

/* --- the end of a try --- */

static void warn(struct exporter *x, const char *why, bool again)
{
    uint64_t now = loop_now_ns(x->conf.loop);

    if (x->warned_ns && now - x->warned_ns < WARN_MS * TIME_NS_PER_MS)
        return;
    x->warned_ns = now;
    log_event(LOG_WARN, "the collector did not take telemetry", LOG_STR("url", x->authority),
              LOG_I64("status", x->status), LOG_STR("error", why), LOG_BOOL("again", again));
}

static void batch_end(struct exporter *x, bool taken)
{
    struct exporter_stats now;

    (void)pthread_mutex_lock(&x->mutex);
    if (taken)
        x->sent += x->batch_count;
    else
        x->dropped += x->batch_count;
    x->busy = false;
    (void)pthread_mutex_unlock(&x->mutex);
    buf_done(&x->batch);
    buf_done(&x->body);
    exporter_stats(x, &now);
    if (now.idle && x->conf.on_idle)
        x->conf.on_idle(x->conf.user);
}

static void on_pause(struct loop_timer *timer)
{
    exporter_prepare(container_of(timer, struct exporter, pause));
}

static uint64_t pause_ms(const struct exporter *x)
{
    uint64_t ms = (uint64_t)x->conf.pause_ms << (x->tries - 1);

    if (x->retry_after_s)
        ms = (uint64_t)x->retry_after_s * 1000;
    return min_size(ms, EXPORTER_PAUSE_MS_MAX);
}

static void try_end(struct exporter *x, const char *why)
{
    bool passes = x->status == 0 || x->status == STATUS_TOO_MANY || x->status == 502 ||
                  x->status == 503 || x->status == 504;
    bool taken = x->status >= 200 && x->status < 300, again = passes && x->tries < EXPORTER_TRIES;

    loop_timer_stop(x->conf.loop, &x->late);
    if (taken) {
        batch_end(x, true);
        return;
    }
    (void)pthread_mutex_lock(&x->mutex);
    x->failures++;
    (void)pthread_mutex_unlock(&x->mutex);
    warn(x, why, again);
    if (again)
        loop_timer_after(x->conf.loop, &x->pause, pause_ms(x), on_pause);
    else
        batch_end(x, false);
}

/* --- a try: the call --- */

static void on_head(struct http_call *call)
{
    struct exporter *x = call->user;
    struct str after = http_header_get(&call->head.headers, STR("Retry-After"));
    uint64_t seconds;

    x->status = call->head.status;
    if (str_to_u64_range(after, 1, EXPORTER_PAUSE_MS_MAX / 1000, &seconds) >= 0)
        x->retry_after_s = (uint32_t)seconds;
}

static ssize_t on_body(struct http_call *call, struct str piece)
{
    struct exporter *x = call->user;

    x->answer_bytes += piece.n; /* nobody reads it */
    return x->answer_bytes > ANSWER_BYTES_MAX ? -EMSGSIZE : (ssize_t)piece.n;
}

static void on_end(struct http_call *call, int error)
{
    struct exporter *x = call->user;
    struct err why = call->err;

    x->call = NULL;
    try_end(x, error ? why.msg : ""); /* a status that came before the error counts */
}

static void on_late(struct loop_timer *timer)
{
    struct exporter *x = container_of(timer, struct exporter, late);

    if (x->call)
        http_call_cancel(x->call);
    x->call = NULL;
    x->status = 0;
    try_end(x, "it does not answer");
}

static void send_batch(struct exporter *x)
{
    static const struct http_call_ops ops = {
        .on_head = on_head, .on_body = on_body, .on_end = on_end};
    struct http_call_spec spec = {
        .addr = &x->addr,
        .tls = x->tls ? tls_client_security(x->tls) : NULL,
        .tls_host = str_of(x->host),
        .method = HTTP_POST,
        .target = str_of(x->target),
        .host = str_of(x->authority),
        .headers = x->headers,
        .header_count = x->header_count,
        .body = buf_str(&x->body),
        .ops = &ops,
        .user = x,
    };
    struct err e = {0};

    loop_timer_after(x->conf.loop, &x->late, x->conf.timeout_ms, on_late);
    if (http_call_start(x->client, &spec, &x->call, &e) < 0)
        try_end(x, e.msg);
}

/* --- a try: on a worker --- */

static int compress_text(struct str text, struct buf *out, struct err *e)
{
    z_stream z = {0};
    size_t most;
    int r;

    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_FORMAT, GZIP_MEMORY, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return err_set(e, ENOMEM, "no memory to compress it");
    most = deflateBound(&z, text.n);
    r = buf_reserve(out, most);
    if (r == 0) {
        z.next_in = (Bytef *)text.p;
        z.avail_in = (uInt)text.n;
        z.next_out = (Bytef *)out->p + out->n;
        z.avail_out = (uInt)most;
        r = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : -EIO;
        out->n += r == 0 ? most - z.avail_out : 0;
    }
    (void)deflateEnd(&z);
    return r < 0 ? err_set(e, -r, "it cannot be compressed") : 0;
}

static int wrap_text(struct exporter *x, struct buf *out)
{
    int r = otlp_json_head(out, x->conf.signal, x->conf.resource);

    if (r >= 0)
        r = buf_add(out, buf_str(&x->batch));
    return r >= 0 ? otlp_json_tail(out) : r;
}

static void prepare_work(struct pool_job *job)
{
    struct exporter *x = container_of(job, struct exporter, job);

    x->why = (struct err){0};
    if (x->body.n == 0 && x->conf.gzip) {
        AUTO_BUF(plain, BODY_BYTES_MAX);

        if (wrap_text(x, &plain) < 0)
            (void)err_set(&x->why, ENOMEM, "no memory to encode it");
        else
            (void)compress_text(buf_str(&plain), &x->body, &x->why);
    } else if (x->body.n == 0 && wrap_text(x, &x->body) < 0) {
        (void)err_set(&x->why, ENOMEM, "no memory to encode it");
    }
    if (!x->why.code)
        (void)sock_resolve(x->host, x->url.port, &x->addr, &x->why);
}

static void prepare_done(struct pool_job *job, int error)
{
    struct exporter *x = container_of(job, struct exporter, job);

    if (error)
        return; /* the server ends */
    if (x->why.code)
        try_end(x, x->why.msg);
    else
        send_batch(x);
}

static void exporter_prepare(struct exporter *x)
{
    x->tries++;
    x->status = 0;
    x->retry_after_s = 0;
    x->answer_bytes = 0;
    if (pool_submit(x->conf.pool, &x->job, x->conf.loop, prepare_work, prepare_done, POOL_SLOW) < 0)
        try_end(x, "the server is too busy");
}

/* --- batches --- */

static void exporter_begin(struct exporter *x)
{
    bool begin;

    (void)pthread_mutex_lock(&x->mutex);
    begin = !x->busy && !x->closed && x->waiting.n > 0;
    if (begin) {
        x->busy = true;
        x->batch = x->waiting;
        x->batch_count = x->waiting_count;
        buf_init(&x->waiting, EXPORTER_QUEUE_BYTES);
        x->waiting_count = 0;
    }
    (void)pthread_mutex_unlock(&x->mutex);
    if (!begin)
        return;
    buf_init(&x->body, BODY_BYTES_MAX);
    x->tries = 0;
    exporter_prepare(x);
}

static void on_tick(struct loop_timer *timer)
{
    struct exporter *x = container_of(timer, struct exporter, tick);

    loop_timer_after(x->conf.loop, timer, x->conf.delay_ms, on_tick);
    exporter_begin(x);
}

void exporter_hurry(struct exporter *x)
{
    exporter_begin(x);
}

/* --- construction --- */

static int set_url(struct exporter *x, struct err *e)
{
    const struct url *u = &x->url;
    int n, r = url_split(str_of(x->conf.url), &x->url, e);

    if (r == 0 && u->scheme != URL_HTTP && u->scheme != URL_HTTPS)
        r = err_set(e, EINVAL, "expected http:// or https://");
    if (r < 0)
        return r;
    n = snprintf(x->target, sizeof(x->target), "%.*s%s%.*s",
                 STR_ARG(u->path.n ? u->path : STR("/")), u->query.p ? "?" : "", STR_ARG(u->query));
    if (n >= (int)sizeof(x->target) || str_copy(x->host, sizeof(x->host), u->host) < 0)
        return err_set(e, EINVAL, "it is too long");
    (void)snprintf(x->authority, sizeof(x->authority), u->host_is_ipv6 ? "[%s]:%u" : "%s:%u",
                   x->host, u->port);
    return 0;
}

static void set_headers(struct exporter *x)
{
    x->headers[x->header_count++] =
        (struct http_header){STR("Content-Type"), STR("application/json")};
    if (x->conf.gzip)
        x->headers[x->header_count++] = (struct http_header){STR("Content-Encoding"), STR("gzip")};
    for (size_t i = 0; i < x->conf.header_count && i < EXPORTER_HEADERS_MAX; i++)
        x->headers[x->header_count++] = x->conf.headers[i];
}

int exporter_new(const struct exporter_conf *conf, struct exporter **ret, struct err *e)
{
    struct exporter *x = mem_new(struct exporter);
    struct tls_client_conf tls = {.ca_file = conf->ca_file[0] ? conf->ca_file : NULL,
                                  .and_system = true};
    struct http_client_conf client = {0};
    int r;

    x->conf = *conf;
    (void)pthread_mutex_init(&x->mutex, NULL);
    buf_init(&x->waiting, EXPORTER_QUEUE_BYTES);
    set_headers(x);
    r = set_url(x, e);
    if (r == 0 && x->url.scheme == URL_HTTPS)
        r = tls_client_new(&tls, &x->tls, e);
    if (r == 0)
        r = http_client_new(conf->loop, &client, &x->client, e);
    if (r < 0) {
        exporter_free(x);
        return r;
    }
    loop_timer_after(conf->loop, &x->tick, conf->delay_ms, on_tick);
    *ret = x;
    return 0;
}

void exporter_free(struct exporter *x)
{
    if (!x)
        return;
    x->closed = true;
    loop_settle(x->conf.loop); /* `post` */
    loop_timer_stop(x->conf.loop, &x->tick);
    loop_timer_stop(x->conf.loop, &x->pause);
    loop_timer_stop(x->conf.loop, &x->late);
    if (x->call)
        http_call_cancel(x->call);
    if (x->client)
        http_client_free(x->client);
    tls_client_free(x->tls);
    buf_done(&x->waiting);
    buf_done(&x->batch);
    buf_done(&x->body);
    (void)pthread_mutex_destroy(&x->mutex);
    free(x);
}
