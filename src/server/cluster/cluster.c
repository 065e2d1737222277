/* cluster.c - the life of a server among others: its lease, what it learns of them at each beat,
 * and what it takes over from those that stayed away. */
#include "server/cluster/cluster.h"

#include <errno.h>
#include <stdio.h>

#include "api/answer.h"
#include "base/arena.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/cluster/cluster_internal.h"

enum {
    BEAT_MS_MAX = 1000,
    HOLDERS_MAX = 200 * 1000,
    BEAT_ARENA_MAX = 64 << 20, /* tenants, keys, and rows that are taken over */
    RECORDS_MAX = KEYS_MAX + TENANTS_MAX,
    MARK_LIFE_S = 24 * 3600,
};

/* What one round learns. */
struct beat {
    struct pool_job job;
    struct cluster *cluster;
    struct arena arena;
    uint64_t begin_ns;
    int held; /* 0: this server was given up */
    struct peer_news *news;
    size_t news_count;
    char fingerprint[STORE_FINGERPRINT_MAX];
    uint64_t version; /* of the tenants, when it began */
    bool changed;     /* tenants or keys */
    struct store_record *records;
    size_t record_count;
    struct taken {
        struct taken *next;
        struct store_sandbox row;
    } * taken;
    struct err err;
};

/* --- on a worker --- */

static void on_server(void *user, const struct store_place *place)
{
    struct beat *b = user;

    if (b->news_count < CLUSTER_PEERS_MAX)
        peer_news_read(&b->news[b->news_count++], place);
}

static int on_record(void *user, const struct store_record *record)
{
    struct beat *b = user;
    struct store_record *copy = &b->records[b->record_count];

    if (b->record_count == RECORDS_MAX)
        return 0;
    *copy = *record;
    copy->kind = arena_str(&b->arena, record->kind);
    copy->id = arena_str(&b->arena, record->id);
    copy->state = arena_str(&b->arena, record->state);
    copy->tenant = arena_str(&b->arena, record->tenant);
    copy->owner = arena_str(&b->arena, record->owner);
    copy->json = arena_str(&b->arena, record->json);
    if (!copy->json.p)
        return -ENOMEM;
    b->record_count++;
    return 0;
}

/* The fingerprint is read first: what changes after it is found at the next beat. */
static int read_tenants(struct beat *b)
{
    struct cluster *c = b->cluster;
    int r = store_cluster_fingerprint(c->store, b->fingerprint, &b->err);

    if (r < 0 || strcmp(b->fingerprint, c->fingerprint) == 0)
        return r;
    b->records = arena_alloc(&b->arena, RECORDS_MAX * sizeof(*b->records));
    if (!b->records)
        return err_sys(&b->err, ENOMEM, "tenants and keys");
    r = store_record_each(c->conf.store, STR("tenant"), on_record, b, &b->err);
    if (r >= 0)
        r = store_record_each(c->conf.store, STR("api_key"), on_record, b, &b->err);
    b->changed = r >= 0;
    return r;
}

static int on_taken(void *user, const struct store_sandbox *row)
{
    struct beat *b = user;
    struct taken *t = arena_new(&b->arena, struct taken);
    struct str *texts[] = {&t->row.id,       &t->row.reason,      &t->row.message, &t->row.image,
                           &t->row.os,       &t->row.snapshot_id, &t->row.arch,    &t->row.spec,
                           &t->row.metadata, &t->row.entrypoint,  &t->row.token,   &t->row.tenant,
                           &t->row.owner};

    if (!t)
        return -ENOMEM;
    t->row = *row;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        *texts[i] = arena_str(&b->arena, *texts[i]);
        if (!texts[i]->p)
            return -ENOMEM;
    }
    t->next = b->taken;
    b->taken = t;
    return 0;
}

/* Rows that do not fit into memory are loaded at the next start: they are this server's now. */
static void give_up(struct beat *b, const char *server)
{
    struct cluster *c = b->cluster;
    const struct store_status status = {
        .state = SANDBOX_FAILED,
        .reason = STR("SERVER_LOST"),
        .message = STR("the server that held the sandbox stayed away, and was given up"),
        .now_us = time_wall_us(),
    };
    struct err e = {0};

    if (c->conf.give_up_s && store_cluster_give_up(c->store, str_of(server), c->conf.give_up_s,
                                                   &status, on_taken, b, &e) < 0)
        (void)log_err(&e, "cannot take over all of server %s", server);
}

static void beat_work(struct pool_job *job)
{
    struct beat *b = container_of(job, struct beat, job);
    struct cluster *c = b->cluster;

    b->held = store_cluster_beat(c->store, c->conf.lease_s, &b->err);
    if (b->held <= 0 || store_cluster_servers(c->store, on_server, b, &b->err) < 0)
        return;
    for (size_t i = 0; i < b->news_count; i++)
        if (!b->news[i].live && strcmp(b->news[i].id, c->conf.place.holder) != 0)
            give_up(b, b->news[i].id);
    (void)!read_tenants(b);
    (void)store_cluster_prune(c->store, time_wall_us() - MARK_LIFE_S * TIME_US_PER_S, NULL);
}

/* --- on the loop --- */

static void beat_begin(struct cluster *c);

static void on_timer(struct loop_timer *timer)
{
    beat_begin(container_of(timer, struct cluster, timer));
}

static void beat_free(struct beat *b)
{
    arena_done(&b->arena);
    free(b->news);
    free(b);
}

static void take(struct cluster *c, const struct beat *b)
{
    for (const struct taken *t = b->taken; t; t = t->next) {
        log_event(LOG_WARN, "took over a sandbox of a server that was given up",
                  LOG_STR("sandbox", t->row.id));
        sandboxes_take(c->conf.sandboxes, &t->row);
    }
}

/* Servers that were given up, or that are no more. */
static void drop_peers(struct cluster *c, const struct beat *b)
{
    struct str id;
    size_t at = 0;

    while (map_next(&c->peers, &at, &id, NULL)) {
        bool there = false;

        for (size_t i = 0; i < b->news_count; i++)
            there |= str_eq(id, str_of(b->news[i].id));
        if (!there)
            (void)map_remove(&c->peers, id);
    }
}

static void apply(struct cluster *c, struct beat *b)
{
    drop_peers(c, b);
    for (size_t i = 0; i < b->news_count; i++)
        (void)peer_update(c, &b->news[i]);
    take(c, b);
    if (b->changed && b->version == tenants_version(c->conf.tenants)) {
        tenants_replace(c->conf.tenants, b->records, b->record_count);
        memcpy(c->fingerprint, b->fingerprint, sizeof(c->fingerprint));
    }
}

/* Cut off for so long that the others may have given this server up, its word no longer counts. The
 * time runs from the beginning of the last beat that succeeded, and theirs from a lease later. */
static void check_cut_off(struct cluster *c, const struct err *why)
{
    uint64_t cut_ns = time_mono_ns() - c->beaten_ns;

    if (!c->failing)
        log_event(LOG_WARN, "cannot renew the lease of this server, trying again",
                  LOG_STR("error", why->msg));
    c->failing = true;
    if (c->conf.give_up_s && cut_ns > c->conf.give_up_s * 1000 * TIME_NS_PER_MS)
        c->conf.on_given_up(c->conf.user, "this server was cut off from the database for longer "
                                          "than cluster.give_up_seconds");
}

static void beat_done(struct pool_job *job, int error)
{
    struct beat *b = container_of(job, struct beat, job);
    struct cluster *c = b->cluster;
    uint32_t ms = c->conf.lease_s * 1000 / 5;

    c->beat = NULL;
    if (error || c->stopped) {
        beat_free(b);
        return;
    }
    if (b->held > 0) {
        c->beaten_ns = b->begin_ns;
        c->failing = false;
        apply(c, b);
    } else if (b->held == 0)
        c->conf.on_given_up(c->conf.user, "the other servers have given this one up");
    else
        check_cut_off(c, &b->err);
    beat_free(b);
    if (c->stopped)
        return; /* it was given up */
    loop_timer_set(c->conf.loop, &c->timer, deadline_in_ms(ms < BEAT_MS_MAX ? ms : BEAT_MS_MAX),
                   on_timer);
}

static void beat_begin(struct cluster *c)
{
    struct beat *b = mem_new(struct beat);

    b->cluster = c;
    b->begin_ns = time_mono_ns();
    b->version = tenants_version(c->conf.tenants);
    b->news = mem_new_array(struct peer_news, CLUSTER_PEERS_MAX);
    arena_init(&b->arena, BEAT_ARENA_MAX);
    c->beat = b;
    if (pool_submit(c->conf.pool, &b->job, c->conf.loop, beat_work, beat_done, 0) == 0)
        return;
    c->beat = NULL;
    beat_free(b);
    loop_timer_set(c->conf.loop, &c->timer, deadline_in_ms(BEAT_MS_MAX), on_timer);
}

/* --- construction --- */

/* One server makes it, and the others read it. */
static int load_secret(struct cluster *c, struct err *e)
{
    AUTO_ARENA(arena, 64 << 10);
    char made[ID_TOKEN_MAX];
    struct store_record record = {
        .kind = STR("cluster"),
        .id = STR("secret"),
        .state = STR("live"),
        .created_us = time_wall_us(),
    };
    int r;

    if (c->conf.secret[0])
        return buf_add(&c->secret, str_of(c->conf.secret));
    id_token(made);
    record.json = str_of(made);
    r = store_record_insert(c->conf.store, &record, e);
    if (r < 0 && r != -EEXIST)
        return r;
    *e = (struct err){0};
    r = store_record_get(c->conf.store, record.kind, record.id, &arena, &record, e);
    if (r > 0)
        r = buf_add(&c->secret, record.json);
    else if (r == 0)
        r = err_set(e, ENOENT, "the servers' secret is gone from the store");
    arena_wipe(&arena);
    mem_wipe(made, sizeof(made));
    return r;
}

int cluster_new(const struct cluster_conf *conf, struct cluster **ret, struct err *e)
{
    struct cluster *c = mem_new(struct cluster);
    int r;

    c->conf = *conf;
    map_init(&c->peers, CLUSTER_PEERS_MAX, free);
    map_init(&c->holders, HOLDERS_MAX, free);
    list_init(&c->finds);
    buf_init(&c->secret, CLUSTER_SECRET_MAX);
    buf_keep_secret(&c->secret);
    r = store_cluster_open(&conf->place, &c->store, e);
    if (r == 0)
        r = load_secret(c, e);
    if (r >= 0)
        r = store_cluster_register(c->store, str_of(conf->address), conf->lease_s, e);
    if (r < 0) {
        cluster_free(c);
        return err_wrap(e, r, "cluster");
    }
    c->beaten_ns = time_mono_ns();
    *ret = c;
    return 0;
}

void cluster_start(struct cluster *c)
{
    beat_begin(c);
}

void cluster_stop(struct cluster *c)
{
    if (!c)
        return;
    c->stopped = true;
    loop_timer_stop(c->conf.loop, &c->timer);
}

void cluster_free(struct cluster *c)
{
    if (!c)
        return;
    cluster_stop(c);
    map_done(&c->peers);
    map_done(&c->holders);
    tls_client_free(c->tls);
    store_cluster_close(c->store);
    buf_done(&c->secret);
    free(c);
}

struct store_cluster *cluster_store(struct cluster *c)
{
    return c->store;
}

struct str cluster_secret(const struct cluster *c)
{
    return buf_str(&c->secret);
}

struct str cluster_id(const struct cluster *c)
{
    return str_of(c->conf.place.holder);
}
