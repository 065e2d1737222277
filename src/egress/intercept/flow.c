/* flow.c - one request: judge it, find its binding, put the credential in, forward it.
 *
 *   head --> name, policy, path --> binding --> [address of that name?] --> [collect] --> forward
 *
 * Whatever is refused is answered here and never reaches a server. */
#include "egress/intercept/flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/url.h"
#include "net/http_bytes.h"

struct intercept_ask {
    struct flow *flow; /* NULL: the request is over */
};

static void flow_forward(struct flow *f);
static void flow_go(struct flow *f);

/* --- the end of a flow --- */

static void flow_done(struct flow *f)
{
    if (f->ask)
        f->ask->flow = NULL;
    f->ask = NULL;
    buf_done(&f->collected);
    rewrite_end(&f->guard);
    rewrite_end(&f->redact);
    for (size_t i = 0; i < f->put_count; i++)
        rewrite_end(&f->put[i]);
    vault_set_unref(f->set);
    f->set = NULL;
}

static void flow_reply(struct flow *f, int status, const char *text)
{
    struct http_req *req = f->req;
    AUTO_BUF(b, 1024);

    (void)buf_addf(&b, "%s\n", text);
    flow_done(f);
    req->ops = NULL; /* what follows of its body is discarded */
    if (req->body_state != HTTP_BODY_DONE)
        http_req_close_after(req);
    http_reply(req, status, STR("text/plain; charset=utf-8"), buf_str(&b));
    http_req_resume(req);
}

static void flow_refuse(struct flow *f, int status, const char *reason)
{
    icpt_deny(f->box, f->facts.host, f->facts.method, f->facts.path, reason);
    flow_reply(f, status, reason);
}

/* --- name --- */

/* Splits "name:port" of Host; the port must be the one that was dialled. */
static bool split_host(struct flow *f, struct str text)
{
    struct str host, port = STR_NONE;
    size_t colon;
    uint16_t number = f->facts.port;
    char *p;

    if (text.n && text.p[0] == '[') {
        size_t end = str_find(text, ']');

        host = str_make(text.p + 1, end - 1);
        colon = end + 1;
    } else {
        colon = str_find(text, ':');
        host = str_make(text.p, colon);
    }
    if (colon < text.n)
        port = str_skip(text, colon + 1);
    if (port.p && port.n && (str_to_u16(port, &number) < 0 || number != f->facts.port))
        return false;
    if (str_ends(host, STR(".")))
        host.n--;
    p = arena_strdup(&f->req->arena, host);
    if (!p || host.n == 0)
        return false;
    for (size_t i = 0; i < host.n; i++)
        p[i] = ascii_lower(p[i]);
    f->facts.host = str_make(p, host.n);
    return true;
}

/* An address, in any of its spellings, as the one that was dialled. */
static bool host_is_original(const struct flow *f)
{
    const struct sock_addr *to = &f->conn->original;
    unsigned char ip[sizeof(struct in6_addr)];
    char text[INET6_ADDRSTRLEN];

    if (str_copy(text, sizeof(text), f->facts.host) < 0)
        return false;
    if (to->any.sa_family == AF_INET)
        return inet_pton(AF_INET, text, ip) == 1 && memcmp(ip, &to->v4.sin_addr, 4) == 0;
    return inet_pton(AF_INET6, text, ip) == 1 && memcmp(ip, &to->v6.sin6_addr, 16) == 0;
}

/* TLS: the Host must be the name of the handshake, which the server's certificate must have. */
static bool host_is_proven(const struct flow *f)
{
    if (!f->conn->tls)
        return true;
    return f->conn->named ? str_eq(f->facts.host, str_of(f->conn->name)) : host_is_original(f);
}

/* --- path --- */

/* 0, or -EINVAL for a path that a server may read as another one. */
static int normalise_path(struct flow *f)
{
    struct str raw = f->req->head.path;
    AUTO_BUF(b, H1_TARGET_BYTES_MAX);

    f->facts.path = raw;
    if (vault_path_is_devious(raw) || url_path_normalize(raw, &b) < 0)
        return -EINVAL;
    f->facts.path = arena_str(&f->req->arena, buf_str(&b));
    return f->facts.path.p ? 0 : -ENOMEM;
}

/* --- judgement: each step replies and returns false, or goes on --- */

static bool judge_name(struct flow *f)
{
    const struct h1_request *head = &f->req->head;
    const struct intercept_conf *conf = &f->box->intercept->conf;
    struct err e = {0};

    if (!head->host.p || !split_host(f, head->host)) {
        flow_refuse(f, 421, "the Host is missing or names another port than the connection's");
        return false;
    }
    if (!host_is_proven(f)) {
        flow_refuse(f, 421, "the Host differs from the server name of the TLS connection");
        return false;
    }
    if (conf->may_connect(conf->user, f->box->sandbox,
                          host_is_original(f) ? STR("") : f->facts.host, &f->conn->original,
                          &e) < 0) {
        f->box->stats.denied++; /* may_connect recorded it */
        flow_reply(f, 403, e.msg[0] ? e.msg : "denied by the network policy");
        return false;
    }
    return true;
}

static bool judge_path(struct flow *f)
{
    const struct intercept_conf *conf = &f->box->intercept->conf;
    int r = normalise_path(f);
    struct err e = {0};

    f->facts.devious = r < 0;
    if (r < 0 && f->set && vault_set_knows_host(f->set, f->facts.host)) {
        flow_refuse(f, 400, "the path has dot segments or encodings that servers read differently");
        return false;
    }
    if (conf->may_request && conf->may_request(conf->user, f->box->sandbox, &f->facts, &e) < 0) {
        flow_refuse(f, 403, "the network policy denies this method and path of the host");
        return false;
    }
    return true;
}

static bool judge_binding(struct flow *f)
{
    struct vault_request r = {f->facts.scheme, f->facts.port, f->facts.host, f->facts.method,
                              f->facts.path};
    const struct vault_binding *env;
    size_t at = 0;

    if (!f->set)
        return true;
    if (vault_set_match(f->set, &r, &f->binding) == VAULT_AMBIGUOUS) {
        flow_refuse(f, 403, "credential binding ambiguous");
        return false;
    }
    while (f->conn->tls && f->env_count < FLOW_ENVS_MAX &&
           (env = vault_set_next_env(f->set, f->facts.host, &at)))
        f->envs[f->env_count++] = env;
    if (f->box->intercept->conf.insecure) {
        f->binding = NULL;
        f->env_count = 0;
    }
    if (inject_finds_leak(f)) {
        flow_refuse(f, 403,
                    f->lost ? "the value of the request's placeholder was lost when "
                              "opensandbox-egress was started again"
                            : "the request carries a secret's placeholder to a host it is not for");
        return false;
    }
    return true;
}

/* --- waiting: for an answer, for a body --- */

static ssize_t wait_on_body(struct http_req *req UNUSED, struct str piece UNUSED)
{
    return 0; /* until it is forwarded */
}

static void wait_on_close(struct http_req *req, int error UNUSED)
{
    flow_done(req->user);
}

static const struct http_req_ops wait_ops = {.on_body = wait_on_body, .on_close = wait_on_close};

void intercept_answer(struct intercept_ask *ask, bool yes)
{
    struct flow *f = ask->flow;

    free(ask);
    if (!f)
        return;
    f->ask = NULL;
    if (yes)
        flow_go(f);
    else
        flow_refuse(f, 403, "the address does not belong to the host of the credential");
}

/* Plain HTTP proves nothing: the address must be one of the name. */
static void flow_ask(struct flow *f)
{
    const struct intercept_conf *conf = &f->box->intercept->conf;
    struct intercept_ask *ask = mem_new(struct intercept_ask);

    ask->flow = f;
    f->ask = ask;
    f->req->ops = &wait_ops;
    f->req->user = f;
    if (conf->is_address_of)
        conf->is_address_of(conf->user, f->box->sandbox, f->facts.host, &f->conn->original, ask);
    else
        intercept_answer(ask, false);
}

static ssize_t collect_on_body(struct http_req *req, struct str piece)
{
    struct flow *f = req->user;

    return buf_add(&f->collected, piece) < 0 ? -ENOMEM : (ssize_t)piece.n;
}

static void collect_on_end(struct http_req *req)
{
    flow_forward(req->user);
}

static const struct http_req_ops collect_ops = {
    .on_body = collect_on_body, .on_body_end = collect_on_end, .on_close = wait_on_close};

/* --- forwarding --- */

static void target_on_answer(void *user, struct http_req *req UNUSED, int status,
                             struct http_headers *rows)
{
    struct flow *f = user;
    struct str coding = http_header_get(rows, STR("Content-Encoding"));

    if (f->injects && f->set) {
        inject_redact_rows(f, rows);
        f->redacts_body = coding.n == 0 || str_eq_nocase(coding, STR("identity"));
    }
    if (status == 101) /* no other callback follows */
        flow_done(f);
}

static void target_on_fail(void *user, struct http_req *req, int status, const struct err *why)
{
    struct flow *f = user;
    AUTO_BUF(b, 512);

    icpt_event(f->box, &(struct intercept_event){.kind = "egress.fail",
                                                 .host = f->facts.host,
                                                 .method = f->facts.method,
                                                 .reason = "the server did not answer"});
    (void)buf_addf(&b, "no answer from %.*s: %s\n", STR_ARG(f->facts.host), why->msg);
    http_reply(req, status, STR("text/plain; charset=utf-8"), buf_str(&b));
}

static void target_on_end(void *user)
{
    struct flow *f = user;

    if (f->leaks)
        icpt_deny(f->box, f->facts.host, f->facts.method, f->facts.path,
                  f->lost ? "the value of the body's placeholder was lost when "
                            "opensandbox-egress was started again"
                          : "the body carries a secret's placeholder to a host it is not for");
    flow_done(f);
}

/* All of a collected body, with what is put in. STR_NONE: no memory. */
static struct str collected_body(struct flow *f)
{
    struct buf out;
    struct str body;

    buf_init(&out, FLOW_EXPANDED_MAX);
    buf_keep_secret(&out);
    if (inject_request_piece(f, buf_str(&f->collected), true, &out) < 0) {
        buf_done(&out);
        return STR_NONE;
    }
    buf_done(&f->collected);
    f->collected = out; /* flow_done frees it */
    body = buf_str(&f->collected);
    return body;
}

static void flow_forward(struct flow *f)
{
    struct intercept *i = f->box->intercept;
    struct http_req *req = f->req;
    struct http_header rows[VAULT_LIST_MAX + 1];
    struct http_proxy_target target = {
        .addr = &f->conn->original,
        .tls = f->conn->tls ? tls_client_security(i->tls) : NULL,
        .tls_host = str_of(f->conn->name),
        .group = f->box->group,
        .target = f->target,
        .headers = rows,
        .secret = f->injects,
        .head_ms = i->conf.head_ms,
        .tunnels = &f->box->tunnels,
        .on_answer = target_on_answer,
        .on_fail = target_on_fail,
        .on_end = target_on_end,
        .user = f,
    };

    for (size_t n = 0; f->binding && n < f->binding->header_count; n++)
        rows[target.header_count++] =
            (struct http_header){f->binding->headers[n].name, f->binding->headers[n].value};
    if (f->injects) { /* what is compressed could not be redacted */
        rows[target.header_count++] = (struct http_header){STR("Accept-Encoding"), STR("identity")};
        target.response_filter = (struct http_proxy_filter){inject_response_piece, f};
    }
    if (f->collects) {
        target.body = collected_body(f);
        if (!target.body.p) {
            flow_reply(f, 413, "the body is too large with its secrets in it");
            return;
        }
    } else if ((f->put_count || f->guarded) && req->body_state != HTTP_BODY_DONE) {
        target.request_filter = (struct http_proxy_filter){inject_request_piece, f};
        target.request_keeps_length = f->put_count == 0;
    }
    http_proxy_forward(req, i->client, &target);
    http_req_resume(req);
}

/* Everything is allowed: put the secrets in and go. */
static void flow_go(struct flow *f)
{
    struct http_req *req = f->req;

    if (inject_head(f) < 0) {
        flow_reply(f, 503, "out of memory for this request");
        return;
    }
    if (f->put_count && req->body_state != HTTP_BODY_DONE && req->framing.body == H1_BODY_LENGTH &&
        req->framing.body_bytes <= FLOW_COLLECT_MAX) {
        f->collects = true;
        req->ops = &collect_ops;
        req->user = f;
        http_req_resume(req);
        return;
    }
    flow_forward(f);
}

/* --- start --- */

static bool upgrades(const struct http_req *req)
{
    return req->head.fields.count[H1_UPGRADE] > 0;
}

void icpt_serve(struct http_req *req)
{
    struct icpt_conn *c = http_req_conn_user(req);
    struct flow *f = arena_new(&req->arena, struct flow);

    if (!f || c->box->detached) {
        http_reply(req, 503, STR_NONE, STR_NONE);
        return;
    }
    http_req_be_patient(req);
    c->box->stats.requests++;
    f->conn = c;
    f->box = c->box;
    f->req = req;
    f->facts = (struct intercept_request){
        .scheme = c->tls ? STR("https") : STR("http"),
        .port = sock_addr_port(&c->original),
        .method = req->head.method_name,
        .path = req->head.path,
    };
    f->target = req->head.target;
    if (req->head.form != H1_ORIGIN_FORM)
        f->target = req->head.query.p
                        ? str_of(arena_printf(&req->arena, "%.*s?%.*s", STR_ARG(req->head.path),
                                              STR_ARG(req->head.query)))
                        : req->head.path;
    f->set = vault_current(c->box->vault);
    buf_init(&f->collected, FLOW_COLLECT_MAX);
    buf_keep_secret(&f->collected);
    rewrite_begin(&f->guard, NULL);
    rewrite_begin(&f->redact, NULL);
    if (!judge_name(f) || !judge_path(f) || !judge_binding(f))
        return;
    if (upgrades(req) && req->head.fields.count[H1_UPGRADE] > 1) {
        flow_refuse(f, 400, "more than one Upgrade header");
        return;
    }
    if (f->binding && !c->tls)
        flow_ask(f);
    else
        flow_go(f);
}
