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

enum { KILL_AFTER_S = SNAPSHOT_MS_MAX / 1000 + 60 }; /* in a system call all the time */

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

static int copy_layer(const struct copying *j, struct layer_size *ret, struct err *e)
{
    struct layer_copy copy = {
        .id_first = LAYER_UID_FIRST,
        .usr = j->record->root == PLAN_ROOT_HOST,
        .stop = {j->caller, j->deadline},
    };
    auto_fd layer = lasting_find(j->dir, e);

    if (layer == -ENOENT) {
        layer = disk_open_layer(j->dir, e);
        copy.id_first = slot_uid_first(j->record->slot);
    }
    copy.from = layer;
    return layer < 0 ? layer : layer_copy(&copy, j->target, ret, e);
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

/* One that has ended need not be held. */
static int make_snapshot(const struct copying *j, struct broker_copied *ret,
                         struct layer_size *size)
{
    uint64_t before = time_mono_ns();
    bool held = slot_owner_alive(&j->record->owner);
    int r = held ? pause_hold(j->b, j->record, j->dir, &ret->err) : 0;
    int released;

    if (r < 0)
        return r;
    r = copy_layer(j, size, &ret->err);
    if (r == 0 && !is_there(j))
        r = err_set(&ret->err, ESTALE, "the sandbox was removed while it was copied");
    released = held ? pause_release(j->b, j->record, j->dir, r < 0 ? NULL : &ret->err) : 0;
    if (held)
        ret->frozen_us = (time_mono_ns() - before) / 1000;
    return r < 0 || released == -ESRCH ? r : released; /* it may have ended meanwhile */
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
