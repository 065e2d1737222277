/* sweep.c - finds and removes leftovers of sandboxes and brokers that ended.
 *
 * Under the exclusive lock no slot is being claimed and no sandbox named, so that these are
 * leftovers: a slot without a complete record, a slot made ahead by a dead broker, a sandbox
 * without its PID 1 (if asked), and cgroups, veths and names without a slot. As it takes long to
 * destroy a slot, that is decided under this lock and done under the slot's own. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"
#include "broker/disks.h"

enum { KILL_MS_MAX = 10 * 1000 };

struct sweep {
    struct broker *b;
    bool dead_too;
    int removed;
    int error; /* the first one; the sweep continues after it */
    struct err *e;
};

static void sweep_note(struct sweep *s, int r)
{
    if (r < 0 && s->error == 0)
        s->error = r;
    s->removed += r >= 0;
}

static int sweep_lock(struct sweep *s)
{
    if (flock(s->b->host.lock, LOCK_EX) == 0)
        return 0;
    sweep_note(s, err_sys(s->error ? NULL : s->e, errno, "lock the slots"));
    return -1;
}

static void sweep_unlock(struct sweep *s)
{
    (void)flock(s->b->host.lock, LOCK_UN);
}

/* Whether a slot has no owner. Without the lock, one without a record may just be being claimed.
 * Once without an owner, a slot stays so until it is removed. */
static bool is_nobodys(const struct sweep *s, int dir, struct slot_record *ret)
{
    *ret = (struct slot_record){0};
    return slot_read_record(dir, ret, NULL) < 0 ||
           (!slot_owner_alive(&ret->owner) && (ret->state != SLOT_LIVE || s->dead_too));
}

/* Another process may be destroying the slot. The remover waits for it, as it has the time. Others
 * wake the remover instead, as that process may be dying. */
static void sweep_slot(void *user, uint32_t slot)
{
    struct sweep *s = user;
    auto_fd dir = slot_open(&s->b->host, slot, NULL);
    struct slot_record record;
    bool ours;
    int r;

    if (dir < 0)
        return;
    if (!is_nobodys(s, dir, &record)) {
        if (record.state == SLOT_LIVE)
            pause_heal(s->b, &record, dir);
        return;
    }
    if (sweep_lock(s) < 0)
        return;
    ours = is_nobodys(s, dir, &record);
    sweep_unlock(s);
    if (!ours)
        return;
    if (s->b->remover >= 0 && flock(dir, LOCK_EX | LOCK_NB) < 0) {
        remover_wake(s->b);
        return;
    }
    r = life_destroy(s->b, slot, dir, record.id, s->error ? NULL : s->e);
    if (r != -ENOENT)
        sweep_note(s, r);
}

static bool slot_exists(const struct sweep *s, uint32_t slot)
{
    auto_fd dir = slot_open(&s->b->host, slot, NULL);

    return dir >= 0;
}

/* cgroups are removed before their slot: those without a slot are leftovers, and the lock keeps the
 * number from being claimed. */
static void sweep_cgroup(void *user, uint32_t slot)
{
    struct sweep *s = user;
    struct cgroup groups = cgroup_at(s->b->host.cgroups, slot);
    struct err *e = s->error ? NULL : s->e;
    int r;

    if (sweep_lock(s) < 0)
        return;
    if (!slot_exists(s, slot)) {
        r = cgroup_kill(&groups, -EBADF, KILL_MS_MAX, e);
        sweep_note(s, r < 0 && r != -ENOENT ? r : cgroup_remove(s->b->host.cgroups, slot, e));
    }
    sweep_unlock(s);
}

static void sweep_veth(void *user, uint32_t slot)
{
    struct sweep *s = user;

    if (sweep_lock(s) < 0)
        return;
    if (!slot_exists(s, slot))
        sweep_note(s, netns_release(&s->b->host.net, slot, s->error ? NULL : s->e));
    sweep_unlock(s);
}

/* Removes names whose slot is gone or has another sandbox. Other names are removed with their slot:
 * until then, a request to remove the id finds the slot. */
static void sweep_names(struct sweep *s)
{
    int fd = openat(s->b->host.ids, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        sweep_note(s, err_sys(s->error ? NULL : s->e, errno, "list the names"));
        fd_close(fd);
        return;
    }
    if (sweep_lock(s) < 0) {
        closedir(dir);
        return;
    }
    for (struct dirent *d; (d = readdir(dir));) {
        struct slot_record record;
        int slot_dir = -EBADF;

        if (d->d_name[0] == '.')
            continue;
        if (life_find_any(s->b, d->d_name, &record, &slot_dir, NULL) == 0)
            fd_close(slot_dir);
        else if (unlinkat(s->b->host.ids, d->d_name, 0) == 0)
            s->removed++;
    }
    sweep_unlock(s);
    closedir(dir);
}

static void sweep_trash(struct sweep *s)
{
    int r = trash_sweep(s->b, s->error ? NULL : s->e);

    if (r < 0)
        sweep_note(s, r);
    else
        s->removed += r;
}

int broker_sweep_all(struct broker *b, bool dead_too, struct err *e)
{
    struct sweep s = {.b = b, .dead_too = dead_too, .e = e};
    int r = slot_each(&b->host, sweep_slot, &s, e);

    if (r == 0)
        r = cgroup_each_slot(b->host.cgroups, sweep_cgroup, &s, e);
    if (r == 0)
        r = netns_each_slot(&b->host.net, sweep_veth, &s, e);
    if (r == 0)
        sweep_names(&s);
    if (r == 0)
        sweep_trash(&s);
    if (r == 0 && sweep_lock(&s) == 0) {
        s.removed += disks_sweep(b);
        sweep_unlock(&s);
    }
    return r < 0 ? r : s.error ? s.error : s.removed;
}

int broker_sweep_slot(struct broker *b, uint32_t slot, struct err *e)
{
    struct sweep s = {.b = b, .e = e};

    sweep_slot(&s, slot);
    return s.error;
}

int broker_sweep_slots(struct broker *b, struct err *e)
{
    struct sweep s = {.b = b, .e = e};
    int r = slot_each(&b->host, sweep_slot, &s, e);

    return r < 0 ? r : s.error;
}
