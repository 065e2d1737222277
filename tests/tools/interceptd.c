/* interceptd.c - the interceptor and its vault alone, for tests and benchmarks.
 *
 *   usage: interceptd --inside NETNS --control ADDRESS --ca FILE [--trust FILE] [--deny NAME]
 *                     [--pass NAME] [--forbid METHOD=PATH] [--address NAME=IP]
 *                     [--events no]
 *
 * Listens at ports 80 and 443 of every address of the network namespace NETNS, where the test has
 * made all addresses local: what a client dials is then the local address of the connection. Its
 * own connections leave from the namespace it was started in. The control address serves the vault,
 * POST /env?name=&value=&host= (answers the placeholder), POST /cut and GET /stats. Writes the
 * authority's certificate to FILE, prints "ready", then one line per event unless --events says no,
 * until SIGTERM. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/url.h"
#include "egress/intercept/intercept.h"
#include "net/http_server.h"

enum { ROWS_MAX = 32 };

struct interceptd {
    struct loop *loop;
    struct intercept *intercept;
    struct intercept_box *box;
    struct vault *vault;
    struct http_server *control;
    struct loop_signals signals;
    struct str deny[ROWS_MAX], pass[ROWS_MAX], forbid[ROWS_MAX], address[ROWS_MAX];
    size_t deny_count, pass_count, forbid_count, address_count;
    const char *inside, *control_at, *ca, *trust;
    bool silent;
};

static const struct vault_host host = {.intercepting = true, .ready = true};

/* --- callbacks of the interceptor --- */

static bool listed(const struct str *rows, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(rows[i], name))
            return true;
    return false;
}

static int may_connect(void *user, void *sandbox UNUSED, struct str name,
                       const struct sock_addr *to UNUSED, struct err *e)
{
    const struct interceptd *d = user;

    if (!listed(d->deny, d->deny_count, name.n ? name : STR("-")))
        return 0;
    printf("deny %.*s\n", STR_ARG(name));
    return err_set(e, EACCES, "no rule allows \"%.*s\"", STR_ARG(name));
}

static int may_request(void *user, void *sandbox UNUSED, const struct intercept_request *r,
                       struct err *e)
{
    const struct interceptd *d = user;

    for (size_t i = 0; i < d->forbid_count; i++) {
        struct str path = d->forbid[i], method;

        (void)str_cut(&path, '=', &method);
        if (str_eq(method, r->method) && str_starts(r->path, path))
            return err_set(e, EACCES, "a rule forbids this method and path");
    }
    return 0;
}

static bool passes(void *user, void *sandbox UNUSED, struct str name)
{
    const struct interceptd *d = user;

    return listed(d->pass, d->pass_count, name.n ? name : STR("-"));
}

static void is_address_of(void *user, void *sandbox UNUSED, struct str name,
                          const struct sock_addr *to, struct intercept_ask *ask)
{
    const struct interceptd *d = user;
    char text[SOCK_ADDR_TEXT_MAX];
    AUTO_BUF(row, 1024);

    sock_addr_format(to, text);
    intercept_answer(ask, buf_addf(&row, "%.*s=%s", STR_ARG(name), text) == 0 &&
                              listed(d->address, d->address_count, buf_str(&row)));
}

static void on_event(void *user, void *sandbox UNUSED, const struct intercept_event *v)
{
    const struct interceptd *d = user;

    if (d->silent)
        return;
    printf("%s host=%.*s method=%.*s path=%.*s binding=%.*s revision=%llu reason=%s\n", v->kind,
           STR_ARG(v->host), STR_ARG(v->method), STR_ARG(v->path), STR_ARG(v->binding),
           (unsigned long long)v->revision, v->reason ? v->reason : "");
}

/* --- control --- */

static void vault_act(struct http_req *req, struct str body, void *user UNUSED)
{
    struct interceptd *d = req->server_user;
    struct str path;

    if (url_decode_in(&req->arena, req->head.path, 0, &path) < 0)
        http_reply_error(req, 400, NULL, "the path does not decode");
    else
        vault_serve(d->vault, &host, req, path, body);
}

static void serve_vault(struct http_req *req)
{
    vault_collect(req, vault_act, NULL);
}

static void serve_env(struct http_req *req)
{
    struct interceptd *d = req->server_user;
    char placeholder[VAULT_PLACEHOLDER_BYTES];
    struct vault_secret_env env = {0};
    struct str at = STR_NONE;
    struct err e = {0};

    if (url_query_get(req->head.query, STR("name"), &req->arena, &env.name) != 1 ||
        url_query_get(req->head.query, STR("value"), &req->arena, &env.value) != 1 ||
        url_query_get(req->head.query, STR("host"), &req->arena, &at) != 1 ||
        vault_placeholder(placeholder, &e) < 0) {
        http_reply_error(req, 400, NULL, "expected name, value and host");
        return;
    }
    env.placeholder = str_of(placeholder);
    env.hosts = &at;
    env.host_count = 1;
    req->secret = true;
    if (vault_add_env(d->vault, &env, 1, &host, &e) < 0)
        http_reply_error(req, 400, NULL, "%s", e.msg);
    else
        http_reply(req, 200, STR("text/plain"), env.placeholder);
}

static void serve_cut(struct http_req *req)
{
    struct interceptd *d = req->server_user;

    intercept_cut(d->box);
    http_reply(req, 200, STR("text/plain"), STR("cut\n"));
}

static void serve_stats(struct http_req *req)
{
    const struct interceptd *d = req->server_user;
    struct intercept_stats s;
    AUTO_BUF(b, 1024);

    intercept_stats(d->box, &s);
    (void)buf_addf(&b,
                   "{\"connections\":%llu,\"requests\":%llu,\"injected\":%llu,\"denied\":%llu,"
                   "\"open\":%zu}\n",
                   (unsigned long long)s.connections, (unsigned long long)s.requests,
                   (unsigned long long)s.injected, (unsigned long long)s.denied, s.open);
    http_reply(req, 200, STR("application/json"), buf_str(&b));
}

static const struct http_route routes[] = {
    {HTTP_ANY_METHOD,     "/credential-vault",   ROUTE_STREAM_BODY, serve_vault, 0},
    {HTTP_ANY_METHOD,     "/credential-vault/*", ROUTE_STREAM_BODY, serve_vault, 0},
    {HTTP_BIT(HTTP_POST), "/env",                0,                 serve_env,   0},
    {HTTP_BIT(HTTP_POST), "/cut",                0,                 serve_cut,   0},
    {HTTP_BIT(HTTP_GET),  "/stats",              0,                 serve_stats, 0},
};

/* --- start --- */

struct door {
    struct sock_listener sock;
    struct interceptd *d;
};

static void on_accept(struct sock_listener *l, int fd, const struct sock_addr *peer UNUSED)
{
    struct interceptd *d = container_of(l, struct door, sock)->d;
    struct sock_addr original;

    if (sock_local_addr(fd, &original) < 0)
        fd_close(fd);
    else
        (void)intercept_accept(d->box, fd, &original);
}

static int open_door(struct interceptd *d, const char *at, struct err *e)
{
    static struct door doors[ROWS_MAX];
    static size_t count;
    struct sock_addr addr;
    int r = sock_addr_parse(str_of(at), &addr, e);

    if (r == 0)
        r = sock_listen(&addr, 1024, e);
    if (r < 0)
        return r;
    doors[count].d = d;
    return sock_listener_start(&doors[count++].sock, d->loop, r, on_accept, e);
}

/* Sockets belong to the namespace they were made in, wherever the process goes. */
static int open_doors(struct interceptd *d, struct err *e)
{
    auto_fd home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    auto_fd inside = open(d->inside, O_RDONLY | O_CLOEXEC);
    int r;

    if (home < 0 || inside < 0 || setns(inside, CLONE_NEWNET) < 0)
        return err_sys(e, errno, "enter %s", d->inside);
    r = open_door(d, ":443", e);
    if (r == 0)
        r = open_door(d, ":80", e);
    if (setns(home, CLONE_NEWNET) < 0)
        return err_sys(e, errno, "come back");
    return r;
}

static void on_signal(struct loop_signals *s, int signo UNUSED)
{
    loop_stop(s->loop);
}

static void add_row(struct str *rows, size_t *count, const char *text)
{
    if (*count < ROWS_MAX)
        rows[(*count)++] = str_of(text);
}

static int take_option(struct interceptd *d, struct str name, const char *value, struct err *e)
{
    if (str_eq(name, STR("--inside")))
        d->inside = value;
    else if (str_eq(name, STR("--control")))
        d->control_at = value;
    else if (str_eq(name, STR("--ca")))
        d->ca = value;
    else if (str_eq(name, STR("--trust")))
        d->trust = value;
    else if (str_eq(name, STR("--deny")))
        add_row(d->deny, &d->deny_count, value);
    else if (str_eq(name, STR("--pass")))
        add_row(d->pass, &d->pass_count, value);
    else if (str_eq(name, STR("--forbid")))
        add_row(d->forbid, &d->forbid_count, value);
    else if (str_eq(name, STR("--events")))
        d->silent = str_eq(str_of(value), STR("no"));
    else if (str_eq(name, STR("--address")))
        add_row(d->address, &d->address_count, value);
    else
        return err_set(e, EINVAL, "unknown option %.*s", STR_ARG(name));
    return 0;
}

static int start_intercept(struct interceptd *d, struct err *e)
{
    struct intercept_conf conf = {.loop = d->loop,
                                  .user = d,
                                  .may_connect = may_connect,
                                  .may_request = may_request,
                                  .passes = passes,
                                  .is_address_of = is_address_of,
                                  .event = on_event,
                                  .trust_file = d->trust};
    struct intercept_box_conf box = {.sandbox = d, .id = STR("test"), .vault = d->vault};
    int r = intercept_new(&conf, &d->intercept, e);

    return r < 0 ? r : intercept_attach(d->intercept, &box, &d->box, e);
}

static int start_control(struct interceptd *d, struct err *e)
{
    struct http_server_conf conf = {.routes = routes, .route_count = ARRAY_LEN(routes), .user = d};
    struct sock_addr addr;
    int r = http_server_new(d->loop, &conf, &d->control, e);

    if (r == 0)
        r = sock_addr_parse(str_of(d->control_at), &addr, e);
    if (r == 0)
        r = sock_listen(&addr, 128, e);
    return r < 0 ? r : http_server_listen(d->control, r, e);
}

static int write_ca(struct interceptd *d, struct err *e)
{
    struct str pem = intercept_ca_certificate(d->box);
    auto_fd fd = open(d->ca, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, pem.p, pem.n) != (ssize_t)pem.n)
        return err_sys(e, errno, "%s", d->ca);
    return 0;
}

static int start(struct interceptd *d, struct err *e)
{
    sigset_t set;
    int r = secret_confine(e);

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    setvbuf(stdout, NULL, _IOLBF, 0);
    d->vault = vault_new();
    if (r == 0)
        r = loop_new(&d->loop, e);
    if (r == 0)
        r = loop_signals_start(d->loop, &d->signals, &set, on_signal, e);
    if (r == 0)
        r = start_intercept(d, e);
    if (r == 0)
        r = start_control(d, e);
    if (r == 0)
        r = open_doors(d, e);
    return r < 0 ? r : write_ca(d, e);
}

int main(int argc, char **argv)
{
    static struct interceptd d;
    struct err e = {0};
    int r = 0;

    for (int i = 1; r == 0 && i + 1 < argc; i += 2)
        r = take_option(&d, str_of(argv[i]), argv[i + 1], &e);
    if (r == 0 && (!d.inside || !d.control_at || !d.ca))
        r = err_set(&e, EINVAL, "usage: interceptd --inside NETNS --control ADDRESS --ca FILE ...");
    if (r == 0)
        r = start(&d, &e);
    if (r == 0) {
        puts("ready");
        r = loop_run(d.loop, &e);
    }
    if (r < 0)
        fprintf(stderr, "interceptd: %s\n", e.msg);
    http_server_free(d.control);
    intercept_free(d.intercept);
    vault_free(d.vault);
    return r < 0;
}
