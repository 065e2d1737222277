/* snapshots.c - the table of snapshots, their records, and start-up. snapshot_jobs.c changes them.
 */
#include "server/core/snapshots.h"

#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/snapshots_internal.h"

enum { RECORD_BYTES_MAX = 64 << 10, RECORD_ARENA_MAX = 1 << 20 };

/* --- members --- */

static char *text_of(struct str s)
{
    char *p = mem_alloc(s.n + 1);

    memcpy(p, s.p ? s.p : "", s.n);
    p[s.n] = '\0';
    return p;
}

struct snapshot *snapshot_new(struct snapshots *t, struct str id)
{
    struct snapshot *s = mem_new(struct snapshot);

    s->table = t;
    s->name = mem_strdup("");
    s->message = mem_strdup("");
    list_init(&s->link);
    list_init(&s->queue);
    (void)snprintf(s->id, sizeof(s->id), "%.*s", STR_ARG(id));
    return s;
}

int snapshot_add(struct snapshot *s)
{
    struct list *after = &s->table->order;
    int r = map_add(&s->table->by_id, str_of(s->id), s);

    if (r < 0)
        return r;
    /* One of another server may be older than those that are here. */
    while (s->foreign && after->prev != &s->table->order &&
           container_of(after->prev, struct snapshot, link)->created_us > s->created_us)
        after = after->prev;
    list_push(after, &s->link);
    return 0;
}

void snapshot_free(struct snapshot *s)
{
    if (map_get(&s->table->by_id, str_of(s->id)) == s)
        map_take(&s->table->by_id, str_of(s->id));
    list_remove(&s->link);
    list_remove(&s->queue);
    free(s->name);
    free(s->message);
    free(s);
}

void snapshot_set_status(struct snapshot *s, enum snapshot_state state, const char *reason,
                         const char *message, int64_t now_us)
{
    s->state = state;
    (void)snprintf(s->reason, sizeof(s->reason), "%s", reason);
    free(s->message);
    s->message = mem_strdup(message);
    s->since_us = now_us;
}

/* --- records --- */

int snapshot_print(const struct snapshot *s, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("sandboxId"), str_of(s->sandbox_id));
    json_member_string(&w, STR("name"), str_of(s->name));
    json_member_string(&w, STR("reason"), str_of(s->reason));
    json_member_string(&w, STR("message"), str_of(s->message));
    json_member_i64(&w, STR("sinceUs"), s->since_us);
    json_member_u64(&w, STR("sizeBytes"), s->size_bytes);
    json_member_u64(&w, STR("frozenUs"), s->frozen_us);
    json_member_bool(&w, STR("hidden"), s->hidden);
    json_write_object_end(&w);
    return json_write_end(&w);
}

static struct str member(const struct json *root, struct str key)
{
    struct str s = STR("");

    (void)!json_to_str(json_get(root, key), &s);
    return s;
}

bool snapshots_shared(const struct snapshots *t)
{
    return runtime_can(t->conf.runtime, RUNTIME_CAN_SHARE) &&
           runtime_can(t->conf.runtime, RUNTIME_CAN_SNAPSHOT);
}

static int load_record(void *user, const struct store_record *record)
{
    AUTO_ARENA(arena, RECORD_ARENA_MAX);
    struct snapshots *t = user;
    struct snapshot *s = snapshot_new(t, record->id);
    struct json *root = NULL;

    if (snapshot_state_parse(record->state, &s->state) < 0 ||
        json_parse(&arena, record->json, NULL, &root, NULL) < 0 ||
        str_copy(s->tenant, sizeof(s->tenant), record->tenant) < 0 ||
        str_copy(s->sandbox_id, sizeof(s->sandbox_id), member(root, STR("sandboxId"))) < 0 ||
        str_copy(s->reason, sizeof(s->reason), member(root, STR("reason"))) < 0 ||
        snapshot_add(s) < 0) {
        snapshot_free(s);
        log_event(LOG_ERROR, "a record of a snapshot is damaged, leaving it alone",
                  LOG_STR("snapshot", record->id));
        return 0;
    }
    free(s->name);
    free(s->message);
    s->name = text_of(member(root, STR("name")));
    s->message = text_of(member(root, STR("message")));
    s->created_us = record->created_us;
    (void)!json_to_i64(json_get(root, STR("sinceUs")), &s->since_us);
    (void)!json_to_u64(json_get(root, STR("sizeBytes")), &s->size_bytes);
    (void)!json_to_u64(json_get(root, STR("frozenUs")), &s->frozen_us);
    (void)!json_to_bool(json_get(root, STR("hidden")), &s->hidden);
    return 0;
}

/* --- start-up --- */

struct found {
    struct snapshots *table;
    struct map there; /* those that the runtime has */
};

static void on_found(void *user, struct str id, uint64_t size_bytes)
{
    struct found *f = user;
    struct snapshot *s = snapshots_find(f->table, id);

    if (!s && snapshots_shared(f->table))
        return; /* a look takes it over */
    if (!s)
        log_event(LOG_WARN, "the runtime has a snapshot that nobody knows, leaving it alone",
                  LOG_STR("snapshot", id));
    else if (map_set(&f->there, id, s) == 0 && s->state == SNAPSHOT_CREATING)
        s->size_bytes = size_bytes;
}

/* One that was being made when the server ended. */
static void settle(struct snapshot *s, const struct found *f, int listed)
{
    const struct snapshots_conf *conf = &s->table->conf;
    bool there = map_has(&f->there, str_of(s->id));
    AUTO_BUF(json, RECORD_BYTES_MAX);
    struct err e = {0};

    if (!runtime_can(conf->runtime, RUNTIME_CAN_SNAPSHOT))
        snapshot_set_status(s, SNAPSHOT_FAILED, "snapshot_recovery_not_supported",
                            "this runtime makes no snapshots", time_wall_us());
    else if (listed < 0)
        snapshot_set_status(s, SNAPSHOT_FAILED, "snapshot_recovery_inspect_failed",
                            "the runtime could not tell its snapshots", time_wall_us());
    else if (there)
        snapshot_set_status(s, SNAPSHOT_READY, "snapshot_recovery_ready",
                            "the snapshot was complete when the server started again",
                            time_wall_us());
    else
        snapshot_set_status(s, SNAPSHOT_FAILED, "snapshot_recovery_missing_image",
                            "the server stopped while it made the snapshot", time_wall_us());
    if (snapshot_print(s, &json) < 0 ||
        store_record_update(conf->store, STR(SNAPSHOT_KIND), str_of(s->id), STR("Creating"),
                            str_of(snapshot_state_name(s->state)), buf_str(&json), &e) < 0)
        log_event(LOG_WARN, "cannot store the state of a snapshot", LOG_STR("snapshot", s->id),
                  LOG_STR("error", e.msg));
}

/* The cluster goes on with it: looks tell what becomes of it, as of those of others. Its record
 * stays Creating, and goes with it: the cluster does not know whose it is. */
static void disown(struct snapshot *s)
{
    s->foreign = true;
    s->recorded = true;
}

int snapshots_load(struct snapshots *t, struct err *e)
{
    struct runtime *rt = t->conf.runtime;
    struct found f = {.table = t};
    struct err why = {0};
    int listed = 0, r = store_record_each(t->conf.store, STR(SNAPSHOT_KIND), load_record, t, e);

    if (r < 0)
        return err_wrap(e, r, "read the snapshots of before");
    map_init(&f.there, SNAPSHOTS_MAX, NULL);
    if (runtime_can(rt, RUNTIME_CAN_SNAPSHOT))
        listed = rt->ops->snapshot_each(rt, on_found, &f, &why);
    if (listed < 0)
        log_event(LOG_WARN, "cannot ask the runtime for its snapshots", LOG_STR("error", why.msg));
    LIST_EACH(&t->order, at)
    {
        struct snapshot *s = container_of(at, struct snapshot, link);

        if (s->state == SNAPSHOT_CREATING && !s->hidden && snapshots_shared(t))
            disown(s);
        else if (s->state == SNAPSHOT_CREATING)
            settle(s, &f, listed);
        if (s->state == SNAPSHOT_DELETING || s->hidden)
            snapshot_delete(s, &principal_server, NULL, NULL);
    }
    map_done(&f.there);
    if (t->by_id.n)
        log_event(LOG_INFO, "snapshots of before", LOG_U64("count", t->by_id.n));
    return 0;
}

struct snapshots *snapshots_new(const struct snapshots_conf *conf)
{
    struct snapshots *t = mem_new(struct snapshots);

    t->conf = *conf;
    map_init(&t->by_id, SNAPSHOTS_MAX, NULL);
    list_init(&t->order);
    list_init(&t->queue);
    list_init(&t->looks);
    return t;
}

void snapshots_free(struct snapshots *t)
{
    if (!t)
        return;
    LIST_EACH(&t->order, at)
    snapshot_free(container_of(at, struct snapshot, link));
    map_done(&t->by_id);
    free(t);
}

/* --- reading --- */

struct snapshot *snapshots_find(struct snapshots *t, struct str id)
{
    return map_get(&t->by_id, id);
}

static struct snapshot *shown_from(struct snapshots *t, struct list *at)
{
    for (; at != &t->order; at = at->prev) {
        struct snapshot *s = container_of(at, struct snapshot, link);

        if (!s->hidden)
            return s;
    }
    return NULL;
}

struct snapshot *snapshots_newest(struct snapshots *t)
{
    return shown_from(t, t->order.prev);
}

struct snapshot *snapshots_older(struct snapshots *t, const struct snapshot *s)
{
    return shown_from(t, s->link.prev);
}

void snapshot_view(const struct snapshot *s, struct api_snapshot *ret)
{
    *ret = (struct api_snapshot){
        .id = str_of(s->id),
        .sandbox_id = str_of(s->sandbox_id),
        .name = str_of(s->name),
        .status = {s->state, str_of(s->reason), str_of(s->message), s->since_us},
        .created_us = s->created_us,
        .size_bytes = s->size_bytes,
        .frozen_ms = (s->frozen_us + TIME_US_PER_MS - 1) / TIME_US_PER_MS,
    };
}

int snapshots_check(struct snapshots *t, const struct principal *by, struct str id,
                    struct api_fail *f)
{
    const struct snapshot *s = snapshots_find(t, id);

    if (!s || s->hidden || !principal_sees(by, s->tenant))
        return api_fail_set(f, 404, "SNAPSHOT::NOT_FOUND", "there is no snapshot '%s'",
                            api_show(id).text);
    if (s->state != SNAPSHOT_READY)
        return api_fail_set(f, 409, "SNAPSHOT::NOT_READY", "snapshot %s is %s, not Ready: %s",
                            s->id, snapshot_state_name(s->state), s->message);
    return 0;
}
