/* snapshots_internal.h - shared by snapshots.c, snapshot_jobs.c and snapshot_share.c. */
#pragma once

#include "base/map.h"
#include "server/core/snapshots.h"

#define SNAPSHOT_KIND "snapshot" /* of records in the store */

struct snapshots {
    struct snapshots_conf conf;
    struct map by_id;
    struct list order; /* in order of creation, oldest first */
    struct list queue; /* of those that wait to be made */
    size_t queued, running;
    struct snapshot *copied[SNAPSHOT_JOBS]; /* those that are being made; NULL = a free place */
    size_t busy;                            /* number of jobs that have not ended */
    struct list looks;                      /* that wait for their turn */
    size_t lookers;                         /* who waits for the end of a look */
    size_t looking;                         /* looks that ask the runtime now */
    bool looking_at_all;                    /* one of them is of all snapshots */
    bool unanswered;                        /* the last look failed, and that was logged */
    bool stopping;
};

/* Adds it to the table. -ENOSPC when that is full. */
int snapshot_add(struct snapshot *s);
struct snapshot *snapshot_new(struct snapshots *t, struct str id);
void snapshot_free(struct snapshot *s); /* takes it out of the table */
void snapshot_set_status(struct snapshot *s, enum snapshot_state state, const char *reason,
                         const char *message, int64_t now_us);
void snapshots_stop_looks(struct snapshots *t); /* answers those that wait */
/* What the record has beside its id and state, as JSON. */
int snapshot_print(const struct snapshot *s, struct buf *out);
