#include "execd/core/child.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fd.h"
#include "base/nesting.h"

/* A process that opens /dev/stdout opens the pipe by its /proc name, which requires ownership. If
 * the chown fails, only that does not work. */
static void child_own_output(uint32_t uid, uint32_t gid)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        (void)!fchown(fd, uid, gid);
}

int child_set_ids(const struct child_user *user)
{
    uint32_t uid = user->uid, gid = user->gid;

    if (!user->change)
        return 0;
    if (setgroups(user->group_count, user->groups) < 0 &&
        !(errno == EPERM && uid == getuid() && gid == getgid()))
        return -errno;
    if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    return 0;
}

int child_become(const struct child_user *user)
{
    if (user->change)
        child_own_output(user->uid, user->gid);
    return child_set_ids(user);
}

/* Of this thread only, unlike the function of the C library. */
static int thread_set_groups(size_t count, const gid_t *groups)
{
    return syscall(SYS_setgroups, count, groups) < 0 ? -errno : 0;
}

/* The groups first: changing them needs CAP_SETGID, which setfsuid() leaves alone. */
void child_fs_enter(const struct child_user *user, struct child_fs *ret)
{
    ret->changed = user->change;
    if (!user->change)
        return;
    ret->group_count = getgroups(CHILD_FS_GROUPS_MAX, ret->groups);
    if (ret->group_count >= 0 && thread_set_groups(user->group_count, user->groups) < 0)
        ret->group_count = -1;
    (void)setfsgid(user->gid);
    (void)setfsuid(user->uid);
}

void child_fs_leave(const struct child_fs *fs)
{
    if (!fs->changed)
        return;
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
    if (fs->group_count >= 0)
        (void)!thread_set_groups((size_t)fs->group_count, fs->groups);
}

int child_enter(const char *cwd)
{
    auto_fd dir = fd_open_at(AT_FDCWD, cwd, O_PATH | O_DIRECTORY, 0, PATH_BY_NAME, NULL);

    if (dir ==
        -ENOSYS) /* no openat2(2): a kernel too old for a broker to have passed host descriptors */
        return chdir(cwd) < 0 ? -errno : 0;
    if (dir < 0)
        return dir;
    return fchdir(dir) < 0 ? -errno : 0;
}

int child_settle(const struct child_place *place, const struct child_user *user, const char *cwd,
                 const char *name, struct proc_step *ret_step)
{
    int r;

    if (place->enter)
        return place->enter(place, user, cwd, name, ret_step);
    if (!user->change && !user->keep)
        user = &place->user;
    *ret_step = (struct proc_step){"limit the system calls of", name};
    r = place->limit ? nesting_forbid() : 0;
    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"limit the capabilities of", name};
    r = place->limit ? caps_limit(caps_sandbox) : 0;
    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"change to the user of", name};
    r = child_become(user);
    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"change directory to", cwd};
    return cwd ? child_enter(cwd) : 0;
}
