/* cluster_find.c - which server holds a sandbox, a snapshot, or an Idempotency-Key. */
#include <errno.h>
#include <stdio.h>

#include "api/answer.h"
#include "base/mem.h"
#include "server/cluster/cluster_internal.h"

enum { VIEW_JSON_MAX = 1 << 20 };

struct find {
    struct pool_job job;
    struct cluster *cluster;
    char key[CLUSTER_KEY_MAX];
    struct peer_news news;
    struct cluster_found found;
    cluster_found_fn *done;
    void *user;
};

/* --- what is known already --- */

struct cluster_peer *cluster_held(struct cluster *c, struct str key)
{
    const char *holder = map_get(&c->holders, key);
    struct cluster_peer *peer = holder ? cluster_peer_at(c, str_of(holder)) : NULL;

    return peer && peer->live ? peer : NULL;
}

void cluster_forget(struct cluster *c, struct str key)
{
    (void)map_remove(&c->holders, key);
}

/* Marks end after a day, and keep no place. */
static void remember(struct cluster *c, struct str key, const char *holder)
{
    char *copy;
    size_t at = 0;
    struct str oldest;

    if (key.p[0] == CLUSTER_MARK)
        return;
    if (c->holders.n == c->holders.max && map_next(&c->holders, &at, &oldest, NULL))
        (void)map_remove(&c->holders, oldest);
    copy = mem_strdup(holder);
    if (map_set(&c->holders, key, copy) < 0)
        free(copy);
}

/* --- on a worker --- */

struct api_sandbox cluster_view(const struct store_sandbox *row, bool live)
{
    struct api_sandbox view = {
        .id = row->id,
        .image = row->image,
        .snapshot_id = row->snapshot_id,
        .os = row->os,
        .arch = row->arch,
        .status = {row->state, row->reason, row->message, row->since_us},
        .metadata = row->metadata,
        .entrypoint = row->entrypoint,
        .created_us = row->created_us,
        .expires_us = row->expires_us,
    };

    if (!live) {
        view.status.reason = STR(CLUSTER_AWAY_REASON);
        view.status.message = STR("the server that holds the sandbox is away; this is the last "
                                  "state that it stored");
    }
    return view;
}

static int on_place(void *user, const struct store_sandbox *row, const struct store_place *place,
                    uint64_t total UNUSED)
{
    struct find *f = user;
    struct cluster_found *found = &f->found;
    struct api_sandbox view;

    peer_news_read(&f->news, place);
    found->live = place->live;
    (void)!str_copy(found->holder, sizeof(found->holder), place->holder);
    found->here = str_eq(place->holder, cluster_id(f->cluster));
    if (!row)
        return 1;
    view = cluster_view(row, place->live);
    if (str_copy(found->tenant, sizeof(found->tenant), row->tenant) < 0 ||
        api_sandbox_write(&found->json, &view) < 0)
        return err_sys(&found->err, EUCLEAN, "its row");
    return 1;
}

static void find_work(struct pool_job *job)
{
    struct find *f = container_of(job, struct find, job);
    struct store_cluster *store = f->cluster->store;
    struct str id = str_of(f->key + 1);
    struct cluster_found *found = &f->found;

    if (f->key[0] == CLUSTER_SANDBOX)
        found->r = store_cluster_find(store, id, on_place, f, &found->err);
    else if (f->key[0] == CLUSTER_SNAPSHOT)
        found->r = store_cluster_find_record(store, STR("snapshot"), id, on_place, f, &found->err);
    else
        found->r = store_cluster_find_mark(store, id, on_place, f, &found->err);
}

/* --- on the loop --- */

static void find_done(struct pool_job *job, int error)
{
    struct find *f = container_of(job, struct find, job);
    struct cluster *c = f->cluster;

    if (error)
        f->found.r = err_sys(&f->found.err, ECANCELED, "the server is stopping");
    if (f->found.r > 0 && !f->found.here) {
        (void)peer_update(c, &f->news);
        remember(c, str_of(f->key), f->found.holder);
    }
    f->done(f->user, &f->found);
    buf_done(&f->found.json);
    free(f);
}

void cluster_find(struct cluster *c, struct str key, cluster_found_fn *done, void *user)
{
    struct find *f = mem_new(struct find);

    f->cluster = c;
    f->done = done;
    f->user = user;
    buf_init(&f->found.json, VIEW_JSON_MAX);
    if (str_copy(f->key, sizeof(f->key), key) < 0) /* longer than any id */
        f->found.r = 0;
    else if (pool_submit(c->conf.pool, &f->job, c->conf.loop, find_work, find_done, 0) == 0)
        return;
    else
        f->found.r = err_sys(&f->found.err, EAGAIN, "workers");
    done(user, &f->found);
    buf_done(&f->found.json);
    free(f);
}
