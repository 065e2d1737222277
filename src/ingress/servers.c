#include "ingress/servers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/toml.h"
#include "base/url.h"

enum { ARENA_BYTES_MAX = 8 << 20, ANSWER_MS = 5000 };

#define API_KEY_HEADER "OPEN-SANDBOX-API-KEY"

/* --- the list --- */

static int take_text(const struct toml *table, const char *key, char *out, size_t size,
                     struct err *e)
{
    const struct toml *v = toml_get(table, str_of(key));
    struct str text;
    int r = v ? toml_to_str(v, &text, e) : 0;

    if (v && r == 0 && str_copy(out, size, text) < 0)
        return toml_fail(v, e, EINVAL, "expected at most %zu bytes", size - 1);
    return r;
}

static int take_key_file(const struct toml *table, struct server *s, struct err *e)
{
    char path[SERVER_TEXT_MAX] = "";
    AUTO_BUF(text, SERVER_TEXT_MAX);
    int r = take_text(table, "api_key_file", path, sizeof(path), e);

    if (r < 0 || !path[0])
        return r;
    buf_keep_secret(&text);
    r = io_read_file(AT_FDCWD, path, SERVER_TEXT_MAX - 1, &text, e);
    while (r == 0 && text.n && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
        buf_cut(&text, text.n - 1);
    if (r == 0 && (str_copy(s->api_key, sizeof(s->api_key), buf_str(&text)) < 0 ||
                   !http_is_value(buf_str(&text))))
        r = err_set(e, EINVAL, "%s: not the text of a key", path);
    return r;
}

static int take_url(const struct toml *table, struct server *s, struct err *e)
{
    const struct toml *v = toml_get(table, STR("url"));
    struct err why = {0};
    struct str text;
    struct url url;
    int r = v ? toml_to_str(v, &text, e) : toml_fail(table, e, EINVAL, "a server needs a url");

    if (r < 0)
        return r;
    if (url_split(text, &url, &why) < 0)
        return toml_fail(v, e, EINVAL, "%s", why.msg);
    if ((url.scheme != URL_HTTP && url.scheme != URL_HTTPS) || url.query.p ||
        (url.path.n && !str_eq(url.path, STR("/"))))
        return toml_fail(v, e, EINVAL, "expected http://host:port or https://host:port");
    s->tls = url.scheme == URL_HTTPS;
    s->port = url.port;
    if (str_copy(s->host, sizeof(s->host), url.host) < 0)
        return toml_fail(v, e, EINVAL, "its host is too long");
    (void)snprintf(s->authority, sizeof(s->authority), url.host_is_ipv6 ? "[%.*s]:%u" : "%.*s:%u",
                   STR_ARG(url.host), url.port);
    (void)sock_addr_parse(str_of(s->authority), &s->addr, NULL); /* unset for a name */
    return 0;
}

static int take_server(const struct toml *table, struct server *s, struct err *e)
{
    int r = take_url(table, s, e);

    if (r == 0)
        r = take_text(table, "name", s->name, sizeof(s->name), e);
    if (r == 0)
        r = take_text(table, "api_key", s->api_key, sizeof(s->api_key), e);
    if (r == 0)
        r = take_text(table, "ca_file", s->ca_file, sizeof(s->ca_file), e);
    if (r == 0)
        r = take_key_file(table, s, e);
    if (r == 0 && !http_is_value(str_of(s->api_key)))
        r = toml_fail(table, e, EINVAL, "api_key has a byte that no header may have");
    if (r == 0 && !s->name[0])
        (void)snprintf(s->name, sizeof(s->name), "%.60s", s->authority);
    return r;
}

int servers_parse(struct str text, const char *path, struct servers *ret, struct err *e)
{
    AUTO_ARENA(arena, ARENA_BYTES_MAX);
    const struct toml *list, *at;
    struct toml *root;
    int r = toml_parse(&arena, text, path, &root, e);

    *ret = (struct servers){0};
    if (r < 0)
        return r;
    list = toml_get(root, STR("servers"));
    if (!list || toml_type(list) != TOML_ARRAY || toml_count(list) == 0)
        return err_set(e, EINVAL, "%s: expected at least one table servers with a url", path);
    if (toml_count(list) > SERVERS_MAX)
        return err_set(e, EINVAL, "%s: more than %d servers", path, SERVERS_MAX);
    ret->at = mem_new_array(struct server, toml_count(list));
    for (at = toml_first(list); r == 0 && at; at = toml_next(at)) {
        struct server *s = &ret->at[ret->count];

        s->index = ret->count++;
        r = take_server(at, s, e);
    }
    if (r < 0)
        servers_done(ret);
    return r;
}

int servers_load(const char *path, struct servers *ret, struct err *e)
{
    AUTO_BUF(text, SERVERS_FILE_BYTES_MAX);
    int r;

    buf_keep_secret(&text);
    r = io_read_file(AT_FDCWD, path, SERVERS_FILE_BYTES_MAX, &text, e);
    if (r == 0)
        r = servers_parse(buf_str(&text), path, ret, e);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < ret->count; i++)
        if (!ret->at[i].addr.size)
            r = sock_resolve(ret->at[i].host, ret->at[i].port, &ret->at[i].addr, e);
    if (r < 0)
        servers_done(ret);
    return r;
}

void servers_done(struct servers *s)
{
    if (s->at)
        mem_wipe(s->at, s->count * sizeof(*s->at));
    free(s->at);
    *s = (struct servers){0};
}

/* --- requests --- */

struct server_call {
    struct http_call *call;
    struct buf body;
    server_done_fn *done;
    void *user;
};

static ssize_t call_on_body(struct http_call *call, struct str piece)
{
    struct server_call *c = call->user;
    int r = buf_add(&c->body, piece);

    return r < 0 ? r : (ssize_t)piece.n;
}

static void call_on_end(struct http_call *call, int error)
{
    struct server_call *c = call->user;

    c->done(c->user, error ? 0 : call->head.status, buf_str(&c->body));
    buf_done(&c->body);
    free(c);
}

static const struct http_call_ops call_ops = {.on_body = call_on_body, .on_end = call_on_end};

struct server_call *server_ask(const struct server_calls *calls, const struct server *server,
                               enum http_method method, const char *target, server_done_fn *done,
                               void *user)
{
    struct server_call *c = mem_new(struct server_call);
    struct http_header key = {STR(API_KEY_HEADER), str_of(server->api_key)};
    struct http_call_spec spec = {
        .addr = &server->addr,
        .tls = calls->tls[server->index],
        .tls_host = str_of(server->host),
        .method = method,
        .target = str_of(target),
        .host = str_of(server->authority),
        .headers = &key,
        .header_count = server->api_key[0] ? 1 : 0,
        .secret = true,
        .head_ms = ANSWER_MS,
        .ops = &call_ops,
        .user = c,
    };

    c->done = done;
    c->user = user;
    buf_init(&c->body, SERVER_REPLY_BYTES_MAX);
    buf_keep_secret(&c->body);
    if (http_call_start(calls->client, &spec, &c->call, NULL) < 0) {
        free(c);
        return NULL;
    }
    return c;
}

void server_cancel(struct server_call *call)
{
    http_call_cancel(call->call);
    buf_done(&call->body);
    free(call);
}
