/* snapshot.c - processes that copy and merge layers.
 *
 * Copying takes long, and a worker serves many. So a worker forks a process for it, which ends with
 * the worker or when its caller closes the socket. If it is killed, the next process that looks at
 * the sandbox thaws it, see pause.c; the target is incomplete then, and the caller discards it. */
#include "broker/snapshot.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "sandbox/lasting.h"
#include "sandbox/layer_ids.h"

struct job {
    const struct broker *b;
    const struct slot_record *record; /* of a snapshot, else NULL */
    int dir;
    const struct layer_merge *merge;
    int target;
    int caller;
};

static int copy_layer(const struct job *j, struct layer_size *ret, struct err *e)
{
    struct layer_copy copy = {
        .id_first = LAYER_UID_FIRST, .usr = j->record->root == PLAN_ROOT_HOST, .caller = j->caller};
    auto_fd layer = lasting_find(j->dir, e);

    if (layer == -ENOENT) {
        layer = disk_open_layer(j->dir, e);
        copy.id_first = slot_uid_first(j->record->slot);
    }
    copy.from = layer;
    return layer < 0 ? layer : layer_copy(&copy, j->target, ret, e);
}

/* Whether the sandbox has not been removed. Its record goes before any of its files. */
static bool is_there(const struct job *j)
{
    struct slot_record now;
    struct err e;

    return life_is_current(j->b, j->record->slot, j->dir) &&
           slot_read_record(j->dir, &now, &e) == 0;
}

/* One that has ended need not be held. */
static int make_snapshot(const struct job *j, struct broker_copied *ret, struct layer_size *size)
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

static NORETURN void job_main(struct job *j, pid_t parent)
{
    static struct broker_copied copied;
    struct layer_size size = {0};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)prctl(PR_SET_NAME, "layer copy");
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    if (j->record) {
        copied.result = make_snapshot(j, &copied, &size);
    } else {
        struct layer_merge merge = *j->merge;

        merge.caller = j->caller;
        copied.result = layer_merge(&merge, j->target, &size, &copied.err);
    }
    copied.entries = size.entries;
    copied.bytes = size.bytes;
    if (copied.result < 0)
        (void)err_wrap(&copied.err, copied.result, "%s%s%s",
                       j->record ? "snapshot of '" : "merge layers", j->record ? j->record->id : "",
                       j->record ? "'" : "");
    _exit(fd_send(j->caller, &copied, sizeof(copied), NULL, 0) < 0);
}

static int job_start(struct job *j, struct err *e)
{
    pid_t self = getpid(), pid;
    int socks[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(e, errno, "make sockets");
    j->caller = socks[0];
    pid = fork();
    if (pid == 0) {
        fd_close(socks[1]); /* else we would never see it closed */
        job_main(j, self);
    }
    fd_close(socks[0]);
    if (pid > 0)
        return socks[1];
    fd_close(socks[1]);
    return err_sys(e, errno, "make a process");
}

int snapshot_start(const struct broker *b, const struct slot_record *record, int dir, int target,
                   struct err *e)
{
    return job_start(&(struct job){.b = b, .record = record, .dir = dir, .target = target}, e);
}

int merge_start(const struct broker *b, const struct layer_merge *merge, int target, struct err *e)
{
    return job_start(&(struct job){.b = b, .merge = merge, .target = target}, e);
}
