/* forward.c - requests about what another server holds go to that server.
 *
 *   is it here? ──► the row's handler
 *       │ no
 *   which server holds it: known, or read from the database while the request waits
 *       ├─► none ────► the row's handler, which says that there is none
 *       ├─► a server that lives ──► forwarded, with what this server knows of the client
 *       └─► one that is away ──► its last state, or 503
 *
 * A request that came from another server is never forwarded again. */
#include <errno.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/http_proxy.h"
#include "server/cluster/cluster.h"
#include "server/gateway/host_route.h"
#include "server/http/routes.h"
#include "server/http/server_internal.h"
#include "server/http/tracing.h"

enum {
    KEPT_MAX = 256,
    FIND_MS = 12 * 1000, /* a statement of the database has 10 s */
    /* How long a request waits for a server that restarts. That may drain for 10 s. */
    RESTART_MS = 20 * 1000,
    RESTART_LOOK_MS = 100,
    ANSWER_MS = 330 * 1000, /* of the API, which may wait for 300 s; the gateway has no limit */
    ROWS_MAX = 5,
    BODY_ARENA_MAX = 4 << 20,
};

struct forwarding {
    struct server *server;
    struct http_client *client;
    struct http_tunnels tunnels;
    struct http_waits waits;
    struct cluster_found *now; /* while requests that waited for it are served */
};

/* What is remembered of a request; in its arena. */
struct journey {
    struct forwarding *f;
    char key[CLUSTER_KEY_MAX];
    struct str body; /* a copy; STR_NONE = none was collected */
    bool again;      /* its holder was asked for twice */
    uint64_t until;  /* deadline of waiting for a server that restarts; 0 = not yet */
};

/* A request that waits for a server that restarts. */
struct pause {
    struct http_req *req;
    struct loop_timer timer;
};

/* --- what a request is about --- */

static bool key_set(char key[CLUSTER_KEY_MAX], enum cluster_kind kind, struct str id)
{
    key[0] = (char)kind;
    return str_copy(key + 1, CLUSTER_KEY_MAX - 1, id) == 0 && id.n > 0;
}

/* A preview's ticket is "<secret>.<sandbox>" where there are other servers. */
static struct str ticket_sandbox(struct str ticket)
{
    size_t dot = str_find(ticket, '.');

    return dot < ticket.n ? str_skip(ticket, dot + 1) : STR_NONE;
}

bool create_snapshot_id(struct str body, char id[ID_UUID_MAX])
{
    AUTO_ARENA(arena, BODY_ARENA_MAX);
    struct json *root = NULL;
    struct str named = STR_NONE;

    return str_find_str(body, STR("\"snapshotId\"")) < body.n &&
           json_parse(&arena, body, NULL, &root, NULL) == 0 &&
           json_to_str(json_get(root, STR("snapshotId")), &named) == 0 && named.n > 0 &&
           str_copy(id, ID_UUID_MAX, named) == 0;
}

/* Of a create: its snapshot, when that is not here. */
static bool snapshot_key(struct http_req *req, struct str body, char key[CLUSTER_KEY_MAX])
{
    char id[ID_UUID_MAX];

    return create_snapshot_id(body, id) && !snapshots_find(server_of(req)->snapshots, str_of(id)) &&
           key_set(key, CLUSTER_SNAPSHOT, str_of(id));
}

/* Of a create: the server that knows its Idempotency-Key; when none does (serve_found), or without
 * a key, the one that has its snapshot. */
static bool create_key(struct http_req *req, char key[CLUSTER_KEY_MAX])
{
    struct server *s = server_of(req);
    struct str header = http_req_header(req, STR("Idempotency-Key"));
    char mark[IDEMPOTENCY_MARK_MAX];

    if (header.n && header.n <= IDEMPOTENCY_KEY_MAX) {
        idempotency_mark(guard_principal(req), header, req->body, mark);
        return !idempotency_has(s->idempotency, str_of(mark)) &&
               key_set(key, CLUSTER_MARK, str_make(mark, str_find(str_of(mark), ':')));
    }
    return snapshot_key(req, req->body, key);
}

/* False when it is about nothing that one server holds, or about what is here. */
static bool find_key(struct http_req *req, char key[CLUSTER_KEY_MAX])
{
    struct server *s = server_of(req);
    struct str sandbox = http_req_param(req, "sandboxId");
    struct str snapshot = http_req_param(req, "snapshotId");
    struct str ticket = http_req_param(req, "ticket");

    if (ticket.n)
        sandbox = ticket_sandbox(ticket);
    if (sandbox.n)
        return !sandboxes_find(s->sandboxes, sandbox) && key_set(key, CLUSTER_SANDBOX, sandbox);
    if (snapshot.n)
        return !snapshots_find(s->snapshots, snapshot) && key_set(key, CLUSTER_SNAPSHOT, snapshot);
    return req->head.method == HTTP_POST && str_ends(str_of(req->route->path), STR("/sandboxes")) &&
           create_key(req, key);
}

/* --- the header --- */

static struct cluster_request request_of(const struct http_req *req, struct str target)
{
    return (struct cluster_request){req->head.method_name, target, req->id};
}

/* As it is requested of the peer: the path of a host route is that which it stands for. */
static struct str target_of(struct http_req *req)
{
    struct str path = req->head.path, query = req->head.query;
    const char *text = query.p
                           ? arena_printf(&req->arena, "%.*s?%.*s", STR_ARG(path), STR_ARG(query))
                           : arena_printf(&req->arena, "%.*s", STR_ARG(path));

    return text ? str_of(text) : STR_NONE;
}

static const struct principal *client_of(const struct http_req *req)
{
    const struct server *s = server_of(req);
    const struct principal *by = guard_principal(req), *found;
    struct host_route route;

    if (by->role != ROLE_NONE)
        return by;
    /* A path of the gateway, where the guard does not look. Sessions are of this server alone, and
     * count nothing at the host of a sandbox. */
    found = guard_find_key(&s->guard, http_req_header(req, STR(GUARD_KEY_HEADER)));
    if (!found && !host_route_parse(req->head.host, gateway_domain(s->gateway), &route))
        found = auth_session(s, req);
    return found ? found : by;
}

bool forwarding_sign(struct http_req *req, struct str to, struct str method, struct str target,
                     struct http_header *ret)
{
    struct cluster *c = server_of(req)->cluster;
    struct cluster_request request = {method, target, req->id};
    AUTO_BUF(value, CLUSTER_HEADER_MAX);

    if (cluster_header_write(cluster_secret(c), cluster_id(c), to, &request, client_of(req),
                             time_wall_us() / TIME_US_PER_S, &value) < 0)
        return false;
    *ret = (struct http_header){STR(CLUSTER_HEADER), arena_str(&req->arena, buf_str(&value))};
    return ret->value.p;
}

/* The header is for this server alone. */
static void drop_header(struct http_req *req)
{
    struct http_headers *h = &req->head.headers;
    size_t n = 0;

    for (size_t i = 0; i < h->count; i++)
        if (!str_eq_nocase(h->rows[i].name, STR(CLUSTER_HEADER)))
            h->rows[n++] = h->rows[i];
    h->count = n;
}

bool forwarding_admit(struct http_req *req)
{
    struct server *s = server_of(req);
    struct cluster_request request = request_of(req, target_of(req));
    struct principal by;

    request.id = http_req_header(req, STR(GUARD_ID_HEADER));
    if (!request.target.p ||
        cluster_header_read(cluster_secret(s->cluster), cluster_id(s->cluster), &request,
                            http_req_header(req, STR(CLUSTER_HEADER)),
                            time_wall_us() / TIME_US_PER_S, &by) < 0) {
        guard_refuse(req);
        http_reply_error(req, 401, "INVALID_API_KEY",
                         "header " CLUSTER_HEADER " is for servers of this cluster, and proves "
                         "nothing here: it is not of them, not for this request, or too old");
        return false;
    }
    req->forwarded = true;
    guard_admit_forwarded(req, &by);
    drop_header(req);
    return true;
}

/* --- forwarding --- */

static void look_again(struct http_req *req);

static void pause_on_close(struct http_req *req, int error UNUSED)
{
    struct pause *p = req->user;

    loop_timer_stop(http_req_loop(req), &p->timer);
    free(p);
}

static const struct http_req_ops no_ops = {0};

static void pause_end(struct loop_timer *timer)
{
    struct pause *p = container_of(timer, struct pause, timer);
    struct http_req *req = p->req;

    req->ops = &no_ops;
    req->user = NULL;
    free(p);
    look_again(req);
}

/* A connection that was refused has sent nothing of a request that changes something. */
static bool wait_for_restart(struct http_req *req)
{
    static const struct http_req_ops ops = {.on_close = pause_on_close};
    struct journey *j = req->kept;
    struct pause *p;

    if (!j->until)
        j->until = deadline_in_ms(RESTART_MS);
    if (deadline_left_ms(j->until) == 0)
        return false;
    p = mem_new(struct pause);
    p->req = req;
    req->ops = &ops;
    req->user = p;
    http_req_be_patient(req);
    loop_timer_set(http_req_loop(req), &p->timer, deadline_in_ms(RESTART_LOOK_MS), pause_end);
    return true;
}

static bool on_take_back(void *user UNUSED, struct http_req *req, int status,
                         const struct http_headers *rows)
{
    struct journey *j = req->kept;

    if (status == 0)
        return wait_for_restart(req);
    if (status != 404 || j->again || !http_header_find(rows, STR(CLUSTER_MISS_HEADER)))
        return false;
    j->again = true;
    cluster_forget(server_of(req)->cluster, str_of(j->key));
    look_again(req);
    return true;
}

static void on_answer(void *user UNUSED, struct http_req *req, int status UNUSED,
                      struct http_headers *rows)
{
    struct journey *j = req->kept;
    size_t n = 0;

    for (size_t i = 0; i < rows->count; i++)
        if (!str_eq_nocase(rows->rows[i].name, STR(CLUSTER_MISS_HEADER)))
            rows->rows[n++] = rows->rows[i];
    if (n < rows->count)
        cluster_forget(server_of(req)->cluster, str_of(j->key));
    rows->count = n;
}

static void refuse(struct http_req *req, const char *text)
{
    (void)http_reply_header(req, STR("Retry-After"), STR("1"));
    http_reply_error(req, 503, "SERVER_UNAVAILABLE", "%s", text);
}

static void on_fail(void *user UNUSED, struct http_req *req, int status UNUSED,
                    const struct err *why UNUSED)
{
    refuse(req, req->head.method == HTTP_GET
                    ? "the server that holds this does not answer; try again"
                    : "the server that holds this does not answer; what it got of the request may "
                      "have been carried out");
}

static void forward_to(struct http_req *req, const struct cluster_peer *peer)
{
    struct journey *j = req->kept;
    const struct trace_context *trace = tracing_of(req);
    struct str target = target_of(req);
    struct http_header rows[ROWS_MAX];
    char parent[TRACE_PARENT_MAX];
    size_t n = 0;

    if (!target.p ||
        !forwarding_sign(req, str_of(peer->id), req->head.method_name, target, &rows[n++])) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "out of memory for this request");
        return;
    }
    rows[n++] = (struct http_header){STR(GUARD_ID_HEADER), req->id};
    rows[n++] = (struct http_header){STR("X-Forwarded-For"), gateway_forwarded_for(req)};
    if (!rows[n - 1].value.n) /* it has no address */
        n--;
    if (http_req_is_secure(req))
        rows[n++] = (struct http_header){STR("X-Forwarded-Proto"), STR("https")};
    if (trace) { /* the spans there are below ours */
        trace_format(trace, parent);
        rows[n++] = (struct http_header){STR("traceparent"), str_of(parent)};
    }
    http_req_be_patient(req);
    http_proxy_forward(req, j->f->client,
                       &(struct http_proxy_target){
                           .addr = &peer->addr,
                           .tls = peer->tls,
                           .tls_host = str_of(peer->host),
                           .target = target,
                           .host = req->head.host.n ? req->head.host : str_of(peer->host),
                           .headers = rows,
                           .header_count = n,
                           .body = j->body,
                           .head_ms = req->route->flags & ROUTE_STREAM_BODY ? 0 : ANSWER_MS,
                           .tunnels = &j->f->tunnels,
                           .on_take_back = on_take_back,
                           .on_answer = on_answer,
                           .on_fail = on_fail,
                       });
}

/* --- finding out --- */

static void serve_here(struct http_req *req)
{
    struct journey *j = req->kept;
    struct trace_context before = trace_enter(tracing_of(req)); /* the first handler has returned */

    req->body = j->body;
    handle_here(req);
    req->body = STR_NONE;
    (void)trace_enter(&before);
}

/* Whether the client may know that there is such a sandbox. On a path of the gateway that is for
 * the holder to decide, which is away: ids cannot be guessed. */
static bool may_know(const struct http_req *req, const struct cluster_found *found)
{
    const struct journey *j = req->kept;
    const struct principal *by = guard_principal(req);

    return j->key[0] != CLUSTER_SANDBOX || by->role == ROLE_NONE ||
           principal_sees_sandbox(by, found->tenant, j->key + 1);
}

/* Its holder does not renew its lease. */
static void serve_away(struct http_req *req, struct cluster_found *found)
{
    const struct journey *j = req->kept;

    if (!may_know(req, found))
        serve_here(req);
    else if (j->key[0] == CLUSTER_SANDBOX && req->head.method == HTTP_GET &&
             str_ends(str_of(req->route->path), STR("/{sandboxId}")))
        reply_json(req, 200, &found->json, 0);
    else
        refuse(req, "the server that holds this is away; what runs there goes on, and is back "
                    "with it");
}

static void serve_found(void *owner, struct http_req *req, const char *why)
{
    struct forwarding *f = owner;
    struct journey *j = req->kept;
    struct cluster_found *found = f->now;
    struct cluster_peer *peer;

    if (why) {
        refuse(req, why);
        return;
    }
    if (found->r == 0 || found->here) {
        if (j->key[0] == CLUSTER_MARK && snapshot_key(req, j->body, j->key))
            look_again(req);
        else
            serve_here(req);
        return;
    }
    peer = found->live ? cluster_peer_at(f->server->cluster, str_of(found->holder)) : NULL;
    if (!found->live)
        serve_away(req, found);
    else if (peer)
        forward_to(req, peer);
    else
        refuse(req, "the server that holds this has an address that cannot be reached");
}

static void serve_late(void *owner UNUSED, struct http_req *req)
{
    refuse(req, "the database did not say in time where this is");
}

struct finding {
    struct forwarding *f;
    http_wait_done_fn *done;
    void *user;
};

static void on_found(void *user, struct cluster_found *found)
{
    struct finding *finding = user;
    struct forwarding *f = finding->f;
    struct cluster_found *before = f->now; /* a request may look for something else at once */

    f->now = found;
    finding->done(finding->user, found->r < 0 ? "the database does not answer where this is; try "
                                                "again"
                                              : NULL);
    f->now = before;
    free(finding);
}

static void start_finding(void *user, struct str key, http_wait_done_fn *done, void *done_user)
{
    struct forwarding *f = user;
    struct finding *finding = mem_new(struct finding);

    *finding = (struct finding){f, done, done_user};
    cluster_find(f->server->cluster, key, on_found, finding);
}

static void look_again(struct http_req *req)
{
    struct journey *j = req->kept;
    struct forwarding *f = j->f;
    struct str key = str_of(j->key);
    struct cluster_peer *peer = cluster_held(f->server->cluster, key);

    if (peer)
        forward_to(req, peer);
    else if (http_waits_can(&f->waits, key, true))
        http_waits_add(&f->waits, key, req);
    else
        refuse(req, "too many requests wait to learn where something is; try again");
}

static bool keep(struct http_req *req, const char *key)
{
    struct journey *j = arena_new(&req->arena, struct journey);

    if (!j)
        return false;
    j->f = server_of(req)->forwarding;
    memcpy(j->key, key, sizeof(j->key));
    if (req->body.n) {
        j->body = arena_str(&req->arena, req->body);
        if (!j->body.p)
            return false;
    }
    req->kept = j;
    return true;
}

void handle_anywhere(struct http_req *req)
{
    char key[CLUSTER_KEY_MAX] = "";

    if (shared_wait(req))
        return;
    if (!server_of(req)->forwarding || !find_key(req, key)) {
        handle_here(req);
        return;
    }
    if (req->forwarded) {
        (void)http_reply_header(req, STR(CLUSTER_MISS_HEADER), STR("1"));
        handle_here(req);
        return;
    }
    if (keep(req, key))
        look_again(req);
    else
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "out of memory for this request");
}

/* --- construction --- */

struct http_client *forwarding_client(struct forwarding *f)
{
    return f->client;
}

int forwarding_new(struct server *s, struct err *e)
{
    /* What is behind the other server may take any time to answer and to read. */
    struct http_client_conf conf = {.kept_max = KEPT_MAX, .stall_ms = UINT32_MAX};
    struct forwarding *f = mem_new(struct forwarding);
    int r = http_client_new(s->loop, &conf, &f->client, e);

    if (r < 0) {
        free(f);
        return r;
    }
    f->server = s;
    http_tunnels_init(&f->tunnels);
    f->waits = (struct http_waits){
        .loop = s->loop,
        .wait_ms = FIND_MS,
        .start = start_finding,
        .serve = serve_found,
        .late = serve_late,
        .user = f,
        .owner = f,
    };
    list_init(&f->waits.all);
    s->forwarding = f;
    return 0;
}

void forwarding_free(struct forwarding *f)
{
    if (!f)
        return;
    http_waits_done(&f->waits);
    http_tunnels_cut(&f->tunnels);
    http_client_free(f->client);
    loop_settle(f->server->loop);
    free(f);
}
