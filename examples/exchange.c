#include "exchange.h"

#include <errno.h>
#include <stdio.h>

#include "base/url.h"

enum { HEAD_MS_MAX = 60 * 1000, TARGET_BYTES_MAX = 4096 };

/* --- places --- */

int place_init(struct place *p, struct arena *a, struct str url, struct err *e)
{
    struct str text = arena_str(a, url);
    struct url parts;
    char *name, *host;
    int r = text.p ? url_split(text, &parts, e) : err_sys(e, ENOMEM, "keep the address");

    if (r < 0)
        return r;
    if (parts.scheme != URL_HTTP)
        return err_set(e, EPROTONOSUPPORT, "'%.*s': only http:// is spoken here", STR_ARG(url));
    while (parts.path.n > 0 && parts.path.p[parts.path.n - 1] == '/')
        parts.path.n--;
    name = arena_strdup(a, parts.host);
    host =
        name ? arena_printf(a, parts.host_is_ipv6 ? "[%s]:%u" : "%s:%u", name, parts.port) : NULL;
    if (!host)
        return err_sys(e, ENOMEM, "keep the address");
    *p = (struct place){.path = parts.path, .host = str_of(host)};
    return sock_resolve(name, parts.port, &p->addr, e);
}

/* --- the client --- */

static void on_signal(struct loop_signals *signals, int signo UNUSED)
{
    struct client *c = container_of(signals, struct client, signals);

    c->interrupted = true;
    if (c->now && !c->now->must_finish) {
        http_call_cancel(c->now->call);
        loop_stop(c->loop);
    }
}

int client_open(struct client *c, struct err *e)
{
    sigset_t set;
    int r;

    *c = (struct client){0};
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    r = loop_new(&c->loop, e);
    if (r == 0)
        r = http_client_new(c->loop, &(struct http_client_conf){0}, &c->http, e);
    if (r == 0)
        r = loop_signals_start(c->loop, &c->signals, &set, on_signal, e);
    c->watching = r == 0;
    return r;
}

void client_close(struct client *c)
{
    if (c->watching)
        loop_signals_stop(&c->signals);
    http_client_free(c->http);
    if (c->loop)
        loop_settle(c->loop);
    loop_free(c->loop);
}

/* --- one exchange --- */

static bool succeeded(const struct exchange *x)
{
    return x->status >= 200 && x->status < 300;
}

/* Passes on every complete line, and keeps the incomplete rest. */
static void give_lines(struct exchange *x)
{
    struct str rest = buf_str(&x->answer);
    size_t end;

    while ((end = str_find(rest, '\n')) < rest.n) {
        if (end > 0)
            x->on_line(x, str_make(rest.p, end));
        rest = str_skip(rest, end + 1);
    }
    buf_drop_front(&x->answer, x->answer.n - rest.n);
}

static void on_head(struct http_call *call)
{
    ((struct exchange *)call->user)->status = call->head.status;
}

static ssize_t on_body(struct http_call *call, struct str piece)
{
    struct exchange *x = call->user;
    int r = buf_add(&x->answer, piece);

    if (r < 0)
        return r;
    if (x->on_line && succeeded(x))
        give_lines(x);
    return (ssize_t)piece.n;
}

static void on_end(struct http_call *call, int error)
{
    struct exchange *x = call->user;

    x->over = true;
    if (error)
        x->err = call->err.code ? call->err : (struct err){.code = error};
    loop_stop(x->client->loop);
}

static const struct http_call_ops call_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end};

static int start(struct exchange *x, struct err *e)
{
    const struct place *p = x->place;
    struct http_header headers[PLACE_HEADERS_MAX + 1];
    size_t count = 0;
    AUTO_BUF(target, TARGET_BYTES_MAX);

    if (buf_addf(&target, "%.*s%s", STR_ARG(p->path), x->target) < 0)
        return err_set(e, EMSGSIZE, "the target is too long");
    for (; count < p->header_count; count++)
        headers[count] = p->headers[count];
    if (x->content_type.n)
        headers[count++] = (struct http_header){STR("Content-Type"), x->content_type};
    return http_call_start(x->client->http,
                           &(struct http_call_spec){
                               .addr = &p->addr,
                               .method = x->method,
                               .target = buf_str(&target),
                               .host = p->host,
                               .headers = headers,
                               .header_count = count,
                               .body = x->body,
                               .head_ms = HEAD_MS_MAX,
                               .ops = &call_ops,
                               .user = x,
                           },
                           &x->call, e);
}

int exchange_run(struct client *c, struct exchange *x, struct err *e)
{
    int r;

    x->client = c;
    buf_init(&x->answer, ANSWER_BYTES_MAX);
    if (c->interrupted && !x->must_finish)
        return err_set(e, EINTR, "interrupted");
    r = start(x, e);
    if (r < 0)
        return r;
    c->now = x;
    r = loop_run(c->loop, e);
    c->now = NULL;
    if (r < 0)
        return r;
    if (!x->over)
        return err_set(e, EINTR, "interrupted");
    if (x->err.code)
        return err_set(e, x->err.code, "%s", x->err.msg[0] ? x->err.msg : strerror(x->err.code));
    if (!succeeded(x))
        return err_set(e, EREMOTEIO, "%d %s", x->status, x->answer.p);
    return 0;
}

void exchange_done(struct exchange *x)
{
    buf_done(&x->answer);
}
