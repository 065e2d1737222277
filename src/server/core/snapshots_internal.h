/* snapshots_internal.h - shared by snapshots.c and snapshot_jobs.c. */
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
    bool stopping;
};

/* Adds it to the table. -ENOSPC when that is full. */
int snapshot_add(struct snapshot *s);
struct snapshot *snapshot_new(struct snapshots *t, struct str id);
void snapshot_free(struct snapshot *s); /* takes it out of the table */
void snapshot_set_status(struct snapshot *s, enum snapshot_state state, const char *reason,
                         const char *message, int64_t now_us);
/* What the record has beside its id and state, as JSON. */
int snapshot_print(const struct snapshot *s, struct buf *out);
