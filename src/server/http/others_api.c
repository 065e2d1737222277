/* others_api.c - lists over all servers: the table has what is here, the database the rest.
 *
 * A holder stores a change before it answers, so the database knows all that was answered. A page
 * is of one moment per server; what happens to a sandbox in between is as its holder says. */
#include <errno.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/http_client.h"
#include "server/cluster/cluster.h"
#include "server/http/server_internal.h"

enum {
    LIST_JSON_MAX = 64 << 20,
    LIST_ARENA_MAX = 64 << 20,
    METADATA_ARENA_MAX = 1 << 20,
    DELETE_MS = 60 * 1000,
};

/* A row of another server. */
struct other {
    struct api_sandbox view;
    struct str holder;
    bool live;
};

struct listing {
    struct pending pending;
    struct pool_job job;
    struct arena arena, scratch;
    struct api_list_query q;
    struct principal by;
    struct other *others; /* newest first: those that may stand on the page */
    uint64_t first, behind;
    uint64_t count, total; /* of others: kept, and in all */
    struct err err;
};

static void listing_free(struct pending *p)
{
    struct listing *l = container_of(p, struct listing, pending);

    arena_done(&l->arena);
    arena_done(&l->scratch);
    free(l);
}

/* --- on a worker --- */

static int keep_other(struct listing *l, const struct store_sandbox *row,
                      const struct store_place *place)
{
    struct api_sandbox view = cluster_view(row, place->live);
    struct other *other = &l->others[l->count];
    struct str *texts[] = {&view.id,
                           &view.image,
                           &view.snapshot_id,
                           &view.os,
                           &view.arch,
                           &view.metadata,
                           &view.status.reason,
                           &view.entrypoint,
                           &view.status.message};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        *texts[i] = arena_str(&l->arena, *texts[i]);
        if (!texts[i]->p)
            return err_sys(&l->err, ENOMEM, "the list");
    }
    *other = (struct other){view, arena_str(&l->arena, place->holder), place->live};
    if (!other->holder.p)
        return err_sys(&l->err, ENOMEM, "the list");
    l->count++;
    return 0;
}

static int on_other(void *user, const struct store_sandbox *row, const struct store_place *place,
                    uint64_t total)
{
    struct listing *l = user;

    if (!metadata_matches(&l->scratch, row->metadata, &l->q))
        return 0;
    l->total = l->q.metadata_count ? l->total + 1 : total;
    return l->count < l->behind ? keep_other(l, row, place) : 0;
}

static void list_work(struct pool_job *job)
{
    struct listing *l = container_of(job, struct listing, job);
    bool by_state = l->q.states || l->q.unknown_state;
    const struct store_cluster_query query = {
        .tenant = l->by.everywhere ? STR("") : str_of(l->by.tenant),
        .states = by_state ? l->q.states : STATE_BIT(SANDBOX_STATE_COUNT) - 1,
        .limit = l->q.metadata_count ? INT64_MAX : l->behind,
    };

    l->others = arena_new_array(&l->arena, struct other, (size_t)l->behind);
    if (!l->others)
        (void)err_set(&l->err, EMSGSIZE, "the page is too far behind");
    else
        (void)!store_cluster_others(cluster_store(l->pending.server->cluster), &query, on_other, l,
                                    &l->err);
}

/* --- on the loop --- */

static struct sandbox *next_here(struct listing *l, struct sandbox *sb)
{
    struct sandboxes *t = l->pending.server->sandboxes;

    for (sb = sb ? sandboxes_older(t, sb) : sandboxes_newest(t); sb; sb = sandboxes_older(t, sb))
        if (sandbox_matches(&l->scratch, sb, &l->q, &l->by))
            break;
    return sb;
}

static int write_page(struct listing *l, struct buf *body)
{
    struct sandbox *sb = next_here(l, NULL);
    uint64_t at = 0, other = 0, here = 0;
    struct api_page page;

    api_page_begin(&page, body, l->q.page, l->q.page_size);
    while (sb || other < l->count) {
        struct api_sandbox view;

        if (sb && (other == l->count || sb->created_us >= l->others[other].view.created_us)) {
            sandbox_view(sb, &view);
            sb = next_here(l, sb);
            here++;
        } else {
            view = l->others[other++].view;
        }
        if (at >= l->first && at < l->behind)
            api_page_add(&page, &view);
        at++;
    }
    return api_page_end(&page, here + l->total);
}

static void list_done(struct pool_job *job, int error)
{
    struct listing *l = container_of(job, struct listing, job);
    struct http_req *req = l->pending.req;
    AUTO_BUF(body, LIST_JSON_MAX);

    if (req && (error || l->err.code)) {
        (void)http_reply_header(req, STR("Retry-After"), STR("1"));
        http_reply_error(req, 503, "SERVER_UNAVAILABLE",
                         "the database does not answer what other servers hold; try again");
    } else if (req)
        reply_json(req, 200, &body, write_page(l, &body));
    pending_end(&l->pending);
}

static void listing_init(struct listing *l, struct http_req *req)
{
    arena_init(&l->arena, LIST_ARENA_MAX);
    arena_init(&l->scratch, METADATA_ARENA_MAX);
    l->by = *guard_principal(req);
    l->pending.server = server_of(req);
}

void others_list(struct http_req *req, const struct api_list_query *q)
{
    struct listing *l = mem_new(struct listing);
    struct api_fail f = {0};

    listing_init(l, req);
    pending_init(&l->pending, req, listing_free);
    l->first = (uint64_t)(q->page - 1) * q->page_size;
    l->behind = l->first + q->page_size;
    /* Once more, into memory that lives as long as the listing. */
    if (api_list_query_parse(&l->arena, req->head.query, &l->q, &f) < 0 ||
        pool_submit(l->pending.server->pool, &l->job, l->pending.server->loop, list_work, list_done,
                    0) < 0) {
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "the server is too busy, try again");
        pending_end(&l->pending);
    }
}

/* --- deleting several --- */

struct deletion {
    struct listing list; /* its `pending` is not used but for the server */
    struct others_delete then;
    char request_id[GUARD_ID_BYTES_MAX + 1];
    size_t left; /* calls, and one for the function that starts them */
};

struct delete_call {
    struct deletion *deletion;
    char id[ID_UUID_MAX];
};

static void deletion_end_one(struct deletion *d, const struct api_fail *fail)
{
    if (--d->left > 0)
        return;
    d->then.done(d->then.user, fail);
    arena_done(&d->list.arena);
    arena_done(&d->list.scratch);
    free(d);
}

static const struct api_fail unavailable = {503, "SERVER_UNAVAILABLE",
                                            "the server that holds the sandbox does not answer"};

static void call_on_end(struct http_call *call, int error)
{
    struct delete_call *dc = call->user;
    struct api_fail fail = {0};
    int status = call->head.status;

    if (error)
        fail = unavailable;
    else if (status >= 300)
        (void)api_fail_set(&fail, status,
                           status == 404 ? "DOCKER::SANDBOX_NOT_FOUND"
                                         : "DOCKER::SANDBOX_DELETE_FAILED",
                           "the server that holds the sandbox answered %d", status);
    dc->deletion->then.one(dc->deletion->then.user, dc->id, fail.status ? &fail : NULL);
    deletion_end_one(dc->deletion, NULL);
    free(dc);
}

static ssize_t call_on_body(struct http_call *call UNUSED, struct str piece)
{
    return (ssize_t)piece.n;
}

static bool delete_there(struct deletion *d, struct cluster_peer *peer, struct delete_call *dc)
{
    static const struct http_call_ops ops = {.on_body = call_on_body, .on_end = call_on_end};
    struct server *s = d->list.pending.server;
    AUTO_BUF(target, 128);
    AUTO_BUF(proof, CLUSTER_HEADER_MAX);
    struct cluster_request request = {STR("DELETE"), STR_NONE, str_of(d->request_id)};
    struct http_header rows[2];
    struct http_call *call;

    (void)buf_addf(&target, "/v1/sandboxes/%s", dc->id);
    request.target = buf_str(&target);
    if (cluster_header_write(cluster_secret(s->cluster), cluster_id(s->cluster), str_of(peer->id),
                             &request, &d->list.by, time_wall_us() / TIME_US_PER_S, &proof) < 0)
        return false;
    rows[0] = (struct http_header){STR(CLUSTER_HEADER), buf_str(&proof)};
    rows[1] = (struct http_header){STR(GUARD_ID_HEADER), request.id};
    return http_call_start(forwarding_client(s->forwarding),
                           &(struct http_call_spec){
                               .addr = &peer->addr,
                               .tls = peer->tls,
                               .tls_host = str_of(peer->host),
                               .method = HTTP_DELETE,
                               .target = request.target,
                               .host = str_of(peer->host),
                               .headers = rows,
                               .header_count = ARRAY_LEN(rows),
                               .head_ms = DELETE_MS,
                               .ops = &ops,
                               .user = dc,
                           },
                           &call, NULL) == 0;
}

static void delete_one(struct deletion *d, const struct other *other)
{
    struct cluster *c = d->list.pending.server->cluster;
    struct cluster_peer *peer = other->live ? cluster_peer_at(c, other->holder) : NULL;
    struct delete_call *dc = mem_new(struct delete_call);

    dc->deletion = d;
    (void)!str_copy(dc->id, sizeof(dc->id), other->view.id);
    d->left++;
    if (peer && delete_there(d, peer, dc))
        return;
    d->left--; /* not the last: that is of the caller */
    d->then.one(d->then.user, dc->id, &unavailable);
    free(dc);
}

static void delete_listed(struct pool_job *job, int error)
{
    struct deletion *d = container_of(job, struct deletion, list.job);

    if (error || d->list.err.code) {
        struct api_fail fail = unavailable;

        (void)api_fail_set(&fail, 503, "SERVER_UNAVAILABLE",
                           "the database does not answer what other servers hold");
        deletion_end_one(d, &fail);
        return;
    }
    for (uint64_t i = 0; i < d->list.count; i++)
        delete_one(d, &d->list.others[i]);
    deletion_end_one(d, NULL);
}

void others_delete(struct http_req *req, size_t max, const struct others_delete *then)
{
    struct deletion *d = mem_new(struct deletion);
    struct api_fail f = {0};

    listing_init(&d->list, req);
    d->list.behind = max;
    d->then = *then;
    d->left = 1;
    (void)!str_copy(d->request_id, sizeof(d->request_id), req->id);
    if (api_list_query_parse(&d->list.arena, req->head.query, &d->list.q, &f) < 0 ||
        pool_submit(server_of(req)->pool, &d->list.job, server_of(req)->loop, list_work,
                    delete_listed, 0) < 0)
        deletion_end_one(d, &unavailable);
}
