/* snapshots.h - all snapshots of this server: their state, and how they are made and deleted.
 *
 * The store has a record of kind "snapshot" for each, the runtime its files. A record is there
 * before the files and goes after them, so that the next start can settle what was cut short. At
 * most SNAPSHOT_JOBS are made at a time, others wait; but where other servers see them, each is
 * begun before it is accepted. Loop thread only. */
#pragma once

#include "api/snapshot.h"
#include "base/id.h"
#include "base/list.h"
#include "net/pool.h"
#include "server/runtime/runtime.h"
#include "server/store/store.h"
#include "server/tenants/principal.h"

enum {
    SNAPSHOT_JOBS = 2,
    SNAPSHOT_QUEUE_MAX = 256, /* that wait to be made; more are refused */
    SNAPSHOTS_MAX = 100 * 1000,
    SNAPSHOT_REASON_MAX = 48,
};

struct snapshots;

struct snapshot {
    char id[ID_UUID_MAX];
    char sandbox_id[ID_UUID_MAX]; /* its source */
    char tenant[PRINCIPAL_TENANT_MAX];
    char *name; /* "" = none */
    enum snapshot_state state;
    char reason[SNAPSHOT_REASON_MAX];
    char *message;
    int64_t created_us, since_us;
    uint64_t size_bytes, frozen_us; /* of one that is Ready */
    bool hidden;                    /* made for a fork: not shown, and gone after it */
    bool foreign;  /* looks tell its state: another server made it, or one before */
    bool recorded; /* of a foreign one: it has a record here all the same */

    /* The remaining fields are private. */
    struct snapshots *table;
    struct list link;  /* in order of creation */
    struct list queue; /* of those that wait to be made */
    struct snapshot_job *job;
    int64_t seen_us; /* the begin of the last look that found it */
};

struct snapshots_conf {
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct runtime *runtime;
    void (*on_idle)(void *user); /* no work is left; may be NULL */
    void *user;
};

struct snapshots *snapshots_new(const struct snapshots_conf *conf);
/* Ends work early, and begins no more. What is being made becomes Failed. */
void snapshots_stop(struct snapshots *t);
void snapshots_free(struct snapshots *t); /* when no work is left; NULL is fine */
size_t snapshots_busy(const struct snapshots *t);

/* Call before serving: reads the records and asks the runtime for what it has. One that was being
 * made is Ready if its files are complete, else Failed; deletions go on. BLOCKS. */
int snapshots_load(struct snapshots *t, struct err *e);

struct snapshot *snapshots_find(struct snapshots *t, struct str id); /* NULL = none */
void snapshot_view(const struct snapshot *s, struct api_snapshot *ret);
/* Newest first. Skips hidden ones. */
struct snapshot *snapshots_newest(struct snapshots *t);
struct snapshot *snapshots_older(struct snapshots *t, const struct snapshot *s);
/* Whether other servers make snapshots in the same place (RUNTIME_CAN_SHARE). */
bool snapshots_shared(const struct snapshots *t);
/* Has the table know what others made, completed or deleted until now, then calls `done` on the
 * loop, in any case; at once where there are no others. id: of one snapshot; "" = all. Few looks
 * ask the runtime at a time, and one of them of all snapshots; the next one is for all callers that
 * wait for it. */
typedef void snapshots_looked_fn(void *user);
void snapshots_look(struct snapshots *t, struct str id, snapshots_looked_fn *done, void *user);
/* Whether `by` can make a sandbox of it: 404 or 409 in `f` if not. */
int snapshots_check(struct snapshots *t, const struct principal *by, struct str id,
                    struct api_fail *f);

/* Called exactly once, on the loop. fail is NULL on success; s is NULL when there is none (any
 * more). */
typedef void snapshot_done_fn(void *user, struct snapshot *s, const struct api_fail *fail);

struct snapshot_request {
    struct str sandbox_id; /* of a sandbox that runs */
    struct str tenant;     /* whose it is, and the snapshot will be; "" = of `by` */
    struct str name;       /* "" = none */
    bool hidden;
    bool memory; /* with RUNTIME_CAN_MEMORY: also of its processes */
};

/* `accepted` is called once it is stored as Creating, or failed to be. `made` (may be NULL) is
 * called when it is Ready or Failed, and only after `accepted` had no failure. */
void snapshots_create(struct snapshots *t, const struct principal *by,
                      const struct snapshot_request *request, snapshot_done_fn *accepted,
                      snapshot_done_fn *made, void *user);
/* done may be NULL: a failure is logged then. */
void snapshot_delete(struct snapshot *s, const struct principal *by, snapshot_done_fn *done,
                     void *user);
