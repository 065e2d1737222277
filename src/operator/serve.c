#include "operator/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "net/http_server.h"
#include "net/tls.h"

enum { BACKLOG = 64, METRICS_MAX = 1 << 20, TOKEN_MAX = 16 * 1024, PATH_TEXT_MAX = 4096 };

struct serve {
    struct operator* op;
    struct http_server *probes, *metrics;
    struct tls_server *tls;
    bool secure;
};

/* --- figures --- */

static uint64_t resident_bytes(void)
{
    AUTO_BUF(text, 4096);
    struct str rest, pages;
    uint64_t n = 0;

    if (io_read_file(AT_FDCWD, "/proc/self/statm", 4096, &text, NULL) < 0)
        return 0;
    rest = buf_str(&text);
    (void)str_cut(&rest, ' ', &pages);
    (void)str_cut(&rest, ' ', &pages);
    return str_to_u64(pages, &n) < 0 ? 0 : n * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void figure(struct buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    (void)buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, type, name,
                   (unsigned long long)value);
}

static void queue_figures(struct buf *out, const struct operator* op)
{
    static const char *const names[QUEUE_COUNT] = {"batchsandbox", "pool", "sandboxsnapshot"};

    (void)buf_addf(out, "# TYPE opensandbox_operator_passes_total counter\n"
                        "# TYPE opensandbox_operator_pass_failures_total counter\n"
                        "# TYPE opensandbox_operator_queue_depth gauge\n"
                        "# TYPE opensandbox_operator_running gauge\n");
    for (size_t i = 0; i < QUEUE_COUNT; i++) {
        const struct queue *q = &op->queues.rows[i];

        (void)buf_addf(out,
                       "opensandbox_operator_passes_total{controller=\"%s\"} %llu\n"
                       "opensandbox_operator_pass_failures_total{controller=\"%s\"} %llu\n"
                       "opensandbox_operator_queue_depth{controller=\"%s\"} %zu\n"
                       "opensandbox_operator_running{controller=\"%s\"} %u\n",
                       names[i], (unsigned long long)q->passes, names[i],
                       (unsigned long long)q->failures, names[i], q->depth, names[i], q->running);
    }
}

int serve_metrics(const struct operator* op, struct buf *out)
{
    const struct operator_stats *s = &op->stats;

    queue_figures(out, op);
    figure(out, "opensandbox_operator_writes_total", "counter", "Writes sent to the API server.",
           s->writes);
    figure(out, "opensandbox_operator_conflicts_total", "counter",
           "Writes refused because the object had changed.", s->conflicts);
    figure(out, "opensandbox_operator_write_failures_total", "counter", "Other writes that failed.",
           s->write_failures);
    figure(out, "opensandbox_operator_pods_granted_total", "counter",
           "Pods of pools given to sandboxes.", s->grants);
    figure(out, "opensandbox_operator_task_calls_total", "counter", "Requests to task executors.",
           s->task_calls);
    figure(out, "opensandbox_operator_task_failures_total", "counter",
           "Requests to task executors that failed.", s->task_failures);
    figure(out, "opensandbox_operator_duplicate_claims_total", "counter",
           "Pods that two sandboxes claimed; must be 0.", op->world.duplicates);
    figure(out, "opensandbox_operator_sandboxes", "gauge", "BatchSandboxes.",
           op->world.sandboxes.n);
    figure(out, "opensandbox_operator_pods", "gauge", "Pods of sandboxes, pools and Jobs.",
           op->world.pods.n);
    figure(out, "opensandbox_operator_leading", "gauge", "Whether this process decides.",
           op->leading);
    figure(out, "process_resident_memory_bytes", "gauge", "Memory of this process.",
           resident_bytes());
    return out->n < out->max ? 0 : -EMSGSIZE;
}

static void reply_metrics(struct http_req *req)
{
    struct serve *s = req->server_user;
    AUTO_BUF(out, METRICS_MAX);

    (void)serve_metrics(s->op, &out);
    http_reply(req, 200, STR("text/plain; version=0.0.4; charset=utf-8"), buf_str(&out));
}

/* --- who may read them: TokenReview, then SubjectAccessReview --- */

struct asking {
    struct serve *serve;
    struct http_req *req; /* NULL: the client is gone */
};

static void asking_closed(struct http_req *req, int error UNUSED)
{
    if (req->user)
        ((struct asking *)req->user)->req = NULL;
}

static void asking_end(struct asking *a, int status)
{
    struct http_req *req = a->req;

    free(a);
    if (!req)
        return;
    req->user = NULL;
    if (status == 200)
        reply_metrics(req);
    else
        http_reply_error(req, status, NULL,
                         status == 403 ? "this account may not get /metrics"
                                       : "a valid bearer token is needed");
}

static void on_access(void *user, const struct kube_answer *answer)
{
    struct asking *a = user;
    bool allowed = answer->object && kube_bool(answer->object->root, "status.allowed");

    asking_end(a, answer->error.err.code ? 503 : allowed ? 200 : 403);
}

static int review_send(struct asking *a, const struct kube_kind *kind, struct buf *body,
                       kube_done_fn *on_done)
{
    struct kube_request rq = {.verb = KUBE_CREATE, .kind = kind, .body = buf_str(body)};

    return kube_send(a->serve->op->client, &rq, on_done, a, NULL, NULL);
}

static void on_token(void *user, const struct kube_answer *answer)
{
    struct asking *a = user;
    const struct json *status, *who;
    AUTO_BUF(body, TOKEN_MAX);
    struct json_writer w;

    status = answer->object ? kube_get(answer->object->root, "status") : NULL;
    if (answer->error.err.code || !kube_bool(status, "authenticated")) {
        asking_end(a, answer->error.err.code ? 503 : 401);
        return;
    }
    who = kube_get(status, "user");
    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR("authorization.k8s.io/v1"));
    json_member_string(&w, STR("kind"), STR("SubjectAccessReview"));
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    json_member_string(&w, STR("user"), kube_str(who, "username"));
    json_member_string(&w, STR("uid"), kube_str(who, "uid"));
    if (kube_get(who, "groups")) {
        json_write_key(&w, STR("groups"));
        json_write_value(&w, kube_get(who, "groups"));
    }
    json_write_key(&w, STR("nonResourceAttributes"));
    json_write_raw(&w, STR("{\"path\":\"/metrics\",\"verb\":\"get\"}"));
    json_write_object_end(&w);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0 || review_send(a, &kube_access_reviews, &body, on_access) < 0)
        asking_end(a, 503);
}

static void metrics_handler(struct http_req *req)
{
    static const struct http_req_ops ops = {.on_close = asking_closed};
    struct serve *s = req->server_user;
    struct str auth = http_req_header(req, STR("Authorization"));
    AUTO_BUF(body, TOKEN_MAX);
    struct json_writer w;
    struct asking *a;

    if (!s->secure) {
        reply_metrics(req);
        return;
    }
    if (!str_starts(auth, STR("Bearer ")) || auth.n <= STR("Bearer ").n) {
        http_reply_error(req, 401, NULL, "a bearer token is needed");
        return;
    }
    buf_keep_secret(&body);
    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR("authentication.k8s.io/v1"));
    json_member_string(&w, STR("kind"), STR("TokenReview"));
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    json_member_string(&w, STR("token"), str_skip(auth, STR("Bearer ").n));
    json_write_object_end(&w);
    json_write_object_end(&w);
    a = mem_new(struct asking);
    a->serve = s;
    a->req = req;
    req->ops = &ops;
    req->user = a;
    if (json_write_end(&w) < 0 || review_send(a, &kube_token_reviews, &body, on_token) < 0)
        asking_end(a, 503);
}

/* --- probes --- */

static void healthz(struct http_req *req)
{
    http_reply(req, 200, STR("text/plain"), STR("ok"));
}

static void readyz(struct http_req *req)
{
    struct serve *s = req->server_user;

    if (operator_is_synced(s->op))
        http_reply(req, 200, STR("text/plain"), STR("ok"));
    else
        http_reply_error(req, 503, NULL, "the objects of the cluster are not all read yet");
}

static const struct http_route probe_routes[] = {
    {.methods = HTTP_BIT(HTTP_GET), .path = "/healthz", .handler = healthz},
    {.methods = HTTP_BIT(HTTP_GET), .path = "/readyz",  .handler = readyz },
};
static const struct http_route metrics_routes[] = {
    {.methods = HTTP_BIT(HTTP_GET), .path = "/metrics", .handler = metrics_handler},
};

static int listen_on(struct operator* op, const char *where, const struct http_server_conf *conf,
                     struct http_server **ret, struct err *e)
{
    struct sock_addr addr;
    int fd, r;

    if (!where[0] || str_eq(str_of(where), STR("0")))
        return 0;
    r = sock_addr_parse(str_of(where), &addr, e);
    if (r < 0)
        return err_wrap(e, r, "address '%s'", where);
    fd = sock_listen(&addr, BACKLOG, e);
    if (fd < 0)
        return fd;
    r = http_server_new(op->loop, conf, ret, e);
    if (r < 0) {
        fd_close(fd);
        return r;
    }
    return http_server_listen(*ret, fd, e);
}

static int metrics_start(struct serve *s, struct err *e)
{
    const struct options *o = s->op->options;
    struct http_server_conf conf = {
        .routes = metrics_routes, .route_count = ARRAY_LEN(metrics_routes), .user = s};
    char cert[PATH_TEXT_MAX], key[PATH_TEXT_MAX];
    struct tls_server_conf tls = {.cert_file = cert, .key_file = key};
    bool off = !o->metrics_bind[0] || str_eq(str_of(o->metrics_bind), STR("0"));

    if (off)
        return 0;
    s->secure = o->metrics_secure;
    if (s->secure) {
        if (!o->metrics_cert_dir[0])
            tls.self_signed = "localhost";
        (void)snprintf(cert, sizeof(cert), "%s/%s", o->metrics_cert_dir, o->metrics_cert);
        (void)snprintf(key, sizeof(key), "%s/%s", o->metrics_cert_dir, o->metrics_key);
        if (tls_server_new(&tls, &s->tls, e) < 0)
            return -e->code;
        conf.tls = tls_server_security(s->tls);
    }
    return listen_on(s->op, o->metrics_bind, &conf, &s->metrics, e);
}

int serve_start(struct operator* op, struct serve **ret, struct err *e)
{
    struct serve *s = mem_new(struct serve);
    struct http_server_conf conf = {
        .routes = probe_routes, .route_count = ARRAY_LEN(probe_routes), .user = s};
    int r;

    s->op = op;
    r = listen_on(op, op->options->probe_bind, &conf, &s->probes, e);
    if (r >= 0)
        r = metrics_start(s, e);
    if (r < 0) {
        serve_stop(s);
        return r;
    }
    *ret = s;
    return 0;
}

void serve_stop(struct serve *s)
{
    if (!s)
        return;
    if (s->probes)
        http_server_free(s->probes);
    if (s->metrics)
        http_server_free(s->metrics);
    tls_server_free(s->tls);
    free(s);
}
