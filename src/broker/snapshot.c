/* snapshot.c - jobs that copy and merge layers.
 *
 * If the process is killed, its worker thaws the sandbox, and if that died too, a sweep or the next
 * process that looks at it, see pause.c. The target is incomplete then: the caller discards it. */
#include "broker/snapshot.h"

#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "broker/jobs.h"
#include "broker/memory.h"
#include "sandbox/lasting.h"
#include "sandbox/layer_ids.h"

enum {
    KILL_AFTER_S = SNAPSHOT_MS_MAX / 1000 + 60, /* in a system call all the time */
    AHEAD_MS_MAX = SNAPSHOT_MS_MAX / 2,
};

struct copying {
    const struct broker *b;
    const struct slot_record *record; /* of a snapshot, else NULL */
    int dir;
    const struct layer_merge *merge;
    int target;
    int memory; /* directory for it; -EBADF: none is saved */
    int caller;
    uint64_t deadline;
};

static int open_layer(const struct copying *j, struct layer_copy *ret, struct err *e)
{
    *ret = (struct layer_copy){
        .id_first = LAYER_UID_FIRST,
        .usr = j->record->root == PLAN_ROOT_HOST,
        .stop = {j->caller, j->deadline},
    };
    ret->from = lasting_find(j->dir, j->b->host.disks, e);
    if (ret->from == -ENOENT) {
        ret->from = disk_open_layer(j->dir, e);
        ret->id_first = slot_uid_first(j->record->slot);
    }
    return ret->from < 0 ? ret->from : 0;
}

static int copy_layer(const struct copying *j, struct layer_size *ret, struct err *e)
{
    struct layer_copy copy;
    int r = open_layer(j, &copy, e);

    if (r == 0)
        r = layer_copy(&copy, j->target, ret, e);
    fd_close(copy.from);
    return r;
}

/* Whether the sandbox has not been removed. Its record goes before any of its files. */
static bool is_there(const struct copying *j)
{
    struct slot_record now;
    struct err e;

    return life_is_current(j->b, j->record->slot, j->dir) &&
           slot_read_record(j->dir, &now, &e) == 0;
}

/* Files and memory of one moment: the runtime keeps the sandbox paused for both. */
static int make_memory_snapshot(const struct copying *j, struct broker_copied *ret,
                                struct layer_size *size)
{
    uint64_t before = time_mono_ns();
    struct memory_hold hold;
    int r = memory_save(j->b, j->record, j->memory, &hold, &ret->err);

    if (r == 0)
        r = copy_layer(j, size, &ret->err);
    memory_release(j->b, j->record, &hold);
    ret->frozen_us = (time_mono_ns() - before) / 1000;
    if (r == 0 && !is_there(j))
        r = err_set(&ret->err, ESTALE, "the sandbox was removed while it was copied");
    size->bytes += memory_bytes(j->memory);
    return r;
}

static int copy_all(const struct copying *j, const struct layer_copy *copy, struct layer_size *size,
                    struct err *e)
{
    int r = layer_copy(copy, j->target, size, e);

    return r == 0 && !is_there(j)
               ? err_set(e, ESTALE, "the sandbox was removed while it was copied")
               : r;
}

/* While the sandbox is frozen. */
static int copy_held(const struct copying *j, const struct layer_copy *copy,
                     struct broker_copied *ret, struct layer_size *size)
{
    uint64_t before = time_mono_ns();
    int released, r = pause_hold(j->b, j->record, j->dir, &ret->err);

    if (r < 0)
        return r;
    r = copy_all(j, copy, size, &ret->err);
    released = pause_release(j->b, j->record, j->dir, r < 0 ? NULL : &ret->err);
    ret->frozen_us = (time_mono_ns() - before) / 1000;
    return r < 0 || released == -ESRCH ? r : released; /* it may have ended meanwhile */
}

/* One that has ended need not be held. What is at rest is copied before the others are frozen. */
static int make_snapshot(const struct copying *j, struct broker_copied *ret,
                         struct layer_size *size)
{
    struct layer_ahead ahead = {.dir = -EBADF};
    struct layer_copy copy;
    int r = open_layer(j, &copy, &ret->err);

    if (r < 0)
        return r;
    if (slot_owner_alive(&j->record->owner)) {
        struct layer_copy before = copy;

        before.stop.deadline = deadline_in_ms(AHEAD_MS_MAX);
        layer_ahead_start(&before, j->target, &ahead);
        copy.ahead = &ahead;
        r = copy_held(j, &copy, ret, size);
    } else {
        r = copy_all(j, &copy, size, &ret->err);
    }
    fd_close(copy.from);
    return r == 0 ? layer_ahead_end(&ahead, j->target, &ret->err) : r;
}

static int copying_main(void *user, int client)
{
    static struct broker_copied copied;
    struct copying *j = user;
    struct layer_size size = {0};

    (void)alarm(KILL_AFTER_S);
    j->caller = client;
    j->deadline = deadline_in_ms(SNAPSHOT_MS_MAX);
    if (j->record) {
        copied.result = (j->memory >= 0 ? make_memory_snapshot : make_snapshot)(j, &copied, &size);
    } else {
        struct layer_merge merge = *j->merge;

        merge.stop = (struct layer_stop){client, j->deadline};
        copied.result = layer_merge(&merge, j->target, &size, &copied.err);
    }
    copied.entries = size.entries;
    copied.bytes = size.bytes;
    if (copied.result < 0)
        (void)err_wrap(&copied.err, copied.result, "%s%s%s",
                       j->record ? "snapshot of '" : "merge layers", j->record ? j->record->id : "",
                       j->record ? "'" : "");
    return fd_send(client, &copied, sizeof(copied), NULL, 0) < 0;
}

int snapshot_start(struct broker *b, const struct slot_record *record, int dir, int target,
                   int memory, struct err *e)
{
    struct copying j = {.b = b, .record = record, .dir = dir, .target = target, .memory = memory};
    const int fds[] = {dir, target, memory};

    return job_start(b,
                     &(struct job){
                         .name = "layer copy",
                         .fds = fds,
                         .fd_count = memory >= 0 ? 3 : 2,
                         .needs_host = true,
                         .freezes = record->id,
                         .run = copying_main,
                         .user = &j,
                     },
                     e);
}

int merge_start(struct broker *b, const struct layer_merge *merge, int target, struct err *e)
{
    struct copying j = {.b = b, .merge = merge, .target = target, .memory = -EBADF};
    int fds[JOBS_FDS_MAX];

    memcpy(fds, merge->layers, merge->count * sizeof(fds[0]));
    fds[merge->count] = target;
    return job_start(b,
                     &(struct job){
                         .name = "layer copy",
                         .fds = fds,
                         .fd_count = merge->count + 1,
                         .run = copying_main,
                         .user = &j,
                     },
                     e);
}
