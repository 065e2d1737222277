/* pause.c - freezing sandboxes, for users and for snapshots.
 *
 * A snapshot holds the sandbox: the file <slot>/hold names the process that makes it, and whether a
 * user wants it paused after that. A hold is written before the sandbox is frozen and removed after
 * it was thawed, so that a process that finds the hold of a dead one can undo it. All of this
 * happens under the lock of the slot's directory, which keeps the number from being reused. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"

#define HOLD_NAME "hold"

enum { HOLD_MAGIC = 0x4f53424e };

struct hold {
    uint32_t magic;
    uint32_t paused; /* by a user */
    struct slot_owner owner;
};

static bool hold_read(int dir, struct hold *ret)
{
    auto_fd fd = openat(dir, HOLD_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 && read(fd, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret) &&
           ret->magic == HOLD_MAGIC;
}

static int hold_write(int dir, const struct hold *hold, struct err *e)
{
    auto_fd fd = openat(dir, HOLD_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, hold, sizeof(*hold)) != (ssize_t)sizeof(*hold))
        return err_sys(e, errno ? errno : EIO, "note that it is held");
    return 0;
}

static bool is_current(const struct broker *b, const struct slot_record *record, int dir)
{
    return life_is_current(b, record->slot, dir) && slot_owner_alive(&record->owner);
}

static int lock(const struct broker *b, const struct slot_record *record, int dir, struct err *e)
{
    if (flock(dir, LOCK_EX) < 0)
        return err_sys(e, errno, "lock slot %u", record->slot);
    if (is_current(b, record, dir))
        return 0;
    (void)flock(dir, LOCK_UN);
    return err_set(e, ESRCH, "sandbox '%s' has ended", record->id);
}

static bool is_frozen(const struct cgroup *groups)
{
    struct cgroup_stat stat = {0};

    return cgroup_stat(groups, &stat, NULL) == 0 && stat.frozen;
}

static int thaw(const struct cgroup *groups, int dir, struct err *e)
{
    int r = cgroup_freeze(groups, false, BROKER_FREEZE_MS_MAX, e);

    if (r == 0)
        (void)unlinkat(dir, HOLD_NAME, 0);
    return r;
}

int pause_set(const struct broker *b, const struct slot_record *record, int dir, bool paused,
              struct err *e)
{
    struct cgroup groups = cgroup_at(b->host.cgroups, record->slot);
    struct hold hold;
    int r = lock(b, record, dir, e);

    if (r < 0)
        return r;
    if (hold_read(dir, &hold) && slot_owner_alive(&hold.owner)) {
        hold.paused = paused; /* frozen now, and as asked for when the snapshot is done */
        r = hold_write(dir, &hold, e);
    } else {
        r = paused ? cgroup_freeze(&groups, true, BROKER_FREEZE_MS_MAX, e) : thaw(&groups, dir, e);
        if (r == 0 && paused) {
            (void)unlinkat(dir, HOLD_NAME, 0);
            (void)cgroup_reclaim(&groups, NULL); /* where the kernel supports it */
        }
    }
    (void)flock(dir, LOCK_UN);
    return r;
}

bool pause_is_set(const struct broker *b, const struct slot_record *record, int dir)
{
    struct cgroup groups = cgroup_at(b->host.cgroups, record->slot);
    struct hold hold;

    if (!is_frozen(&groups))
        return false;
    if (!hold_read(dir, &hold))
        return true;
    if (!slot_owner_alive(&hold.owner))
        pause_heal(b, record, dir);
    return hold.paused;
}

void pause_heal(const struct broker *b, const struct slot_record *record, int dir)
{
    struct cgroup groups = cgroup_at(b->host.cgroups, record->slot);
    struct hold hold;

    if (!hold_read(dir, &hold) || slot_owner_alive(&hold.owner))
        return;
    /* Without a wait, as a worker does this between requests. An operation that holds the lock
     * looks at the hold itself, and so does the next one. */
    if (flock(dir, LOCK_EX | LOCK_NB) < 0)
        return;
    if (!is_current(b, record, dir)) {
        (void)flock(dir, LOCK_UN);
        return;
    }
    if (hold_read(dir, &hold) && !slot_owner_alive(&hold.owner)) {
        if (!hold.paused)
            (void)thaw(&groups, dir, NULL);
        else
            (void)unlinkat(dir, HOLD_NAME, 0);
    }
    (void)flock(dir, LOCK_UN);
}

/* What a dead process held was frozen by it, not by a user, unless its hold says so. */
static int hold_taken(const struct broker *b, const struct slot_record *record, int dir,
                      struct err *e)
{
    struct cgroup groups = cgroup_at(b->host.cgroups, record->slot);
    struct hold hold;
    int r;

    if (!hold_read(dir, &hold))
        hold = (struct hold){.magic = HOLD_MAGIC, .paused = is_frozen(&groups)};
    else if (slot_owner_alive(&hold.owner))
        return err_set(e, EBUSY, "another snapshot of '%s' is being made", record->id);
    if (slot_owner_of(getpid(), &hold.owner) < 0)
        return err_set(e, ESRCH, "cannot read our own start time from /proc");
    r = hold_write(dir, &hold, e);
    if (r == 0)
        r = cgroup_freeze(&groups, true, BROKER_FREEZE_MS_MAX, e);
    if (r < 0)
        (void)unlinkat(dir, HOLD_NAME, 0);
    return r;
}

int pause_hold(const struct broker *b, const struct slot_record *record, int dir, struct err *e)
{
    int r = lock(b, record, dir, e);

    if (r < 0)
        return r;
    r = hold_taken(b, record, dir, e);
    (void)flock(dir, LOCK_UN);
    return r;
}

int pause_release(const struct broker *b, const struct slot_record *record, int dir, struct err *e)
{
    struct cgroup groups = cgroup_at(b->host.cgroups, record->slot);
    struct hold hold;
    int r = lock(b, record, dir, e);

    if (r < 0)
        return r;
    r = hold_read(dir, &hold) && hold.paused ? 0 : thaw(&groups, dir, e);
    if (r == 0 && unlinkat(dir, HOLD_NAME, 0) < 0 && errno != ENOENT)
        r = err_sys(e, errno, "let go of it");
    (void)flock(dir, LOCK_UN);
    return r;
}
