/* life.c - sandboxes by id: <state>/ids/<id> is a symbolic link to the number of its slot. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/proc.h"
#include "broker/broker.h"
#include "sandbox/objects.h"

enum {
    KILL_MS_MAX = 8 * 1000, /* below SHORT_MS of client.c: other callers of the worker wait */
    OWNER_MS_MAX = 10 * 1000,
};

int life_name(const struct broker *b, const char *id, uint32_t slot, struct err *e)
{
    char target[16];

    (void)snprintf(target, sizeof(target), "%u", slot);
    if (symlinkat(target, b->host.ids, id) < 0)
        return errno == EEXIST ? err_set(e, EEXIST, "there is a sandbox '%s' already", id)
                               : err_sys(e, errno, "name sandbox '%s'", id);
    return 0;
}

static int life_slot_of(const struct broker *b, const char *id, uint32_t *ret_slot, struct err *e)
{
    char target[16];
    uint64_t slot;
    ssize_t n = readlinkat(b->host.ids, id, target, sizeof(target));

    if (n < 0 || str_to_u64_range(str_make(target, (size_t)n), 0, SLOT_COUNT_MAX - 1, &slot) < 0)
        return err_set(e, ENOENT, "there is no sandbox '%s'", id);
    *ret_slot = (uint32_t)slot;
    return 0;
}

int life_find_any(const struct broker *b, const char *id, struct slot_record *ret, int *ret_dir,
                  struct err *e)
{
    auto_fd dir = -EBADF;
    uint32_t slot = 0;
    int r = life_slot_of(b, id, &slot, e);

    if (r < 0)
        return r;
    dir = slot_open(&b->host, slot, e);
    r = dir < 0 ? dir : slot_read_record(dir, ret, e);
    if (r == -ENOENT || r == -EBADMSG || (r >= 0 && !str_eq(str_of(ret->id), str_of(id))))
        return err_set(e, ENOENT, "there is no sandbox '%s'", id);
    if (r < 0)
        return r;
    *ret_dir = take_fd(&dir);
    return 0;
}

int life_find(const struct broker *b, const char *id, struct slot_record *ret, int *ret_dir,
              struct err *e)
{
    auto_fd dir = -EBADF;
    int r = life_find_any(b, id, ret, &dir, e);

    if (r < 0 || ret->state != SLOT_LIVE)
        return err_set(e, ENOENT, "there is no sandbox '%s'", id);
    *ret_dir = take_fd(&dir);
    return 0;
}

int life_find_leftover(const struct broker *b, const char *id, struct slot_record *ret,
                       int *ret_dir, struct err *e)
{
    uint32_t slot;
    int r = life_slot_of(b, id, &slot, e);

    if (r < 0)
        return r;
    if (flock(b->host.lock, LOCK_EX) < 0)
        return err_sys(e, errno, "lock the slots");
    r = life_find_any(b, id, ret, ret_dir, e);
    if (r == -ENOENT && unlinkat(b->host.ids, id, 0) < 0 && errno != ENOENT)
        r = err_sys(e, errno, "remove the name '%s'", id);
    (void)flock(b->host.lock, LOCK_UN);
    return r;
}

/* Compares device and inode: the number may have been reused with a new directory. */
bool life_is_current(const struct broker *b, uint32_t slot, int dir)
{
    auto_fd now = slot_open(&b->host, slot, NULL);
    struct stat ours, theirs;

    return now >= 0 && fstat(dir, &ours) == 0 && fstat(now, &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Makes a slot one of a dead worker: if we die now, any sweep removes the rest. Its record stays,
 * so that no other process takes the name for a leftover and removes it, and a create gives it to a
 * new sandbox, between the two steps of life_unname(). If the record cannot be written, the slot is
 * abandoned, and that is possible. */
static void life_disown(const struct broker *b, int dir)
{
    struct slot_record record;

    if (slot_read_record(dir, &record, NULL) == 0) {
        record.state = SLOT_READY;
        record.owner = b->self;
        if (slot_write_record(dir, &record, NULL) == 0)
            return;
    }
    life_abandon(dir);
}

/* The name may have a new sandbox, if the process that removed the old one died before this. */
static int life_unname(const struct broker *b, const char *id, uint32_t slot, struct err *e)
{
    uint32_t named = 0;

    if (!id || !id[0] || life_slot_of(b, id, &named, NULL) < 0 || named != slot)
        return 0;
    if (unlinkat(b->host.ids, id, 0) < 0 && errno != ENOENT)
        return err_sys(e, errno, "remove the name");
    return 0;
}

/* PID 1 of a sandbox; PROC_NONE when there is none any more. */
static void life_open_owner(int dir, struct proc *ret)
{
    struct slot_record record;

    if (slot_read_record(dir, &record, NULL) < 0 || record.state != SLOT_LIVE ||
        proc_open(record.owner.pid, ret) < 0)
        return;
    if (!slot_owner_alive(&record.owner))
        proc_close(ret);
}

/* Kills PID 1 by its pidfd, too: the cgroups may have been moved or be hidden from us, and a range
 * of user ids must not be reused while a process runs with it. */
static int life_kill_owner(const struct proc *owner, struct err *e)
{
    struct pollfd p = {.fd = owner->pidfd, .events = POLLIN};
    int r;

    if (owner->pidfd < 0)
        return 0;
    r = proc_signal(owner->pidfd, SIGKILL);
    if (r < 0)
        return r == -ESRCH ? 0 : err_sys(e, -r, "kill its first process");
    do
        r = poll(&p, 1, OWNER_MS_MAX);
    while (r < 0 && errno == EINTR);
    return r > 0 ? 0 : err_set(e, ETIMEDOUT, "its first process outlives SIGKILL");
}

static int life_kill(const struct broker *b, uint32_t slot, int dir, struct err *e)
{
    struct cgroup groups = cgroup_at(b->host.cgroups, slot);
    auto_proc owner = PROC_NONE;
    int r;

    objects_kill(dir); /* first: until they end, processes that wait for them cannot */
    life_open_owner(dir, &owner);
    r = cgroup_kill(&groups, owner.pidfd, KILL_MS_MAX, e);
    if (r < 0 && r != -ENOENT)
        return err_wrap(e, r, "kill");
    return life_kill_owner(&owner, e);
}

static int life_remove_parts(const struct broker *b, uint32_t slot, int dir, const char *id,
                             struct err *e)
{
    int r = cgroup_remove(b->host.cgroups, slot, e);

    if (r < 0)
        return err_wrap(e, r, "remove cgroups");
    if (b->host.has_bridge)
        (void)netns_release(&b->host.net, slot, NULL);
    r = policy_forget(b, slot, dir, e);
    if (r < 0)
        return r;
    life_disown(b, dir);
    r = life_unname(b, id, slot, e);
    life_abandon(dir);
    if (r == 0)
        r = b->remover < 0 ? slot_remove(&b->host, slot, e) : slot_remove_little(&b->host, slot, e);
    if (r > 0)
        remover_wake(b);
    return r < 0 ? err_wrap(e, r, "remove files") : 0;
}

static int life_destroy_taken(struct broker *b, uint32_t slot, int dir, const char *id,
                              struct err *e)
{
    int r = life_kill(b, slot, dir, e);

    return r < 0 ? r : life_remove_parts(b, slot, dir, id, e);
}

#define MARKER_SHARES "shares" /* made before a sandbox starts that mounts volumes */

int life_note_shares(int dir, struct err *e)
{
    auto_fd fd = openat(dir, MARKER_SHARES, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd < 0 ? err_sys(e, errno, "note that the sandbox has volumes") : 0;
}

static bool life_has(int dir, const char *name)
{
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether the kernel may still be busy with the sandbox's end when its removal is answered. SIGKILL
 * keeps a process from running its own code, but a system call that it is in may complete:
 * - a sandbox with a lasting layer may start again at once, and its overlay must be unmounted;
 * - a write to a volume must not be seen after the answer;
 * - processes of an OCI runtime need not end with PID 1. */
static bool life_may_linger(int dir, const struct slot_record *record)
{
    return record->state == SLOT_LIVE && !record->runtime[0] && !life_has(dir, "layer") &&
           !life_has(dir, MARKER_SHARES);
}

/* As life_kill, but does not wait for the end of the processes if it need not. PID 1 ends the
 * others of its pid namespace. */
static int life_kill_soon(const struct broker *b, const struct slot_record *record, int dir,
                          struct err *e)
{
    struct cgroup groups = cgroup_at(b->host.cgroups, record->slot);
    int r = life_may_linger(dir, record) ? cgroup_kill_begin(&groups, e) : 0;

    return r > 0 ? r : life_kill(b, record->slot, dir, e);
}

/* 1: its cgroups, network and files are left, and processes that are ending. -ENOENT when another
 * process was here since the caller found the slot: its record is gone then, though its directory
 * is not. */
static int life_end_with(const struct broker *b, uint32_t slot, int dir, const char *id, bool soon,
                         struct err *e)
{
    struct slot_record record;
    int r;

    if (slot_read_record(dir, &record, NULL) < 0 || !str_eq(str_of(record.id), str_of(id)))
        return err_set(e, ENOENT, "it was removed already");
    r = soon ? life_kill_soon(b, &record, dir, e) : life_kill(b, slot, dir, e);
    if (r < 0)
        return r;
    if (life_has(dir, "layer"))
        return life_remove_parts(b, slot, dir, id, e);
    life_disown(b, dir);
    r = life_unname(b, id, slot, e);
    life_abandon(dir);
    return r < 0 ? r : 1;
}

static int life_end_taken(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e)
{
    return life_end_with(b, slot, dir, id, false, e);
}

static int life_end_soon_taken(struct broker *b, uint32_t slot, int dir, const char *id,
                               struct err *e)
{
    return life_end_with(b, slot, dir, id, true, e);
}

void life_abandon(int dir)
{
    (void)unlinkat(dir, "record", 0);
}

typedef int life_taken_fn(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e);

static int life_take(struct broker *b, uint32_t slot, int dir, const char *id, life_taken_fn *fn,
                     struct err *e)
{
    int r;

    if (flock(dir, LOCK_EX) < 0)
        return err_sys(e, errno, "lock slot %u", slot);
    r = life_is_current(b, slot, dir) ? fn(b, slot, dir, id, e)
                                      : err_set(e, ENOENT, "it was removed already");
    (void)flock(dir, LOCK_UN); /* parked children may hold copies of the descriptor */
    return r;
}

int life_destroy(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e)
{
    return life_take(b, slot, dir, id, life_destroy_taken, e);
}

/* After life_end_taken: hands the rest to the cleaner. */
static int life_leave(struct broker *b, uint32_t slot, int dir, int r, struct err *e)
{
    if (r <= 0 || leftover_put(b, slot))
        return r < 0 ? r : 0;
    r = life_destroy(b, slot, dir, NULL, e);
    return r == -ENOENT ? 0 : r; /* a sweep was faster */
}

int life_end(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e)
{
    return life_leave(b, slot, dir, life_take(b, slot, dir, id, life_end_taken, e), e);
}

int life_end_soon(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e)
{
    return life_leave(b, slot, dir, life_take(b, slot, dir, id, life_end_soon_taken, e), e);
}
