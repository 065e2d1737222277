#include "sandbox/unpack_start.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mount_api.h"
#include "sandbox/confined.h"
#include "sandbox/layer_ids.h"
#include "sandbox/userns.h"

enum {
    MEMORY_BYTES = 1 << 30, /* zstd's largest window, the queue, the times of directories */
    OPEN_FILES = 64,
    FD_PARK = 32, /* the first descriptor that no program is given */
    STEPS_MS_MAX = 30 * 1000,
};

int unpack_limits_check(const struct unpack_limits *l, struct err *e)
{
    const struct {
        const char *name;
        uint64_t value, max;
    } rows[] = {
        {"entries",     l->entries,     UNPACK_ENTRIES_MAX    },
        {"bytes",       l->bytes,       UNPACK_BYTES_MAX      },
        {"depth",       l->depth,       UNPACK_DEPTH_MAX      },
        {"xattr_bytes", l->xattr_bytes, UNPACK_XATTR_BYTES_MAX},
        {"ratio",       l->ratio,       UNPACK_RATIO_MAX      },
        {"time_ms",     l->time_ms,     UNPACK_TIME_MS_MAX    },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value == 0 || rows[i].value > rows[i].max)
            return err_set(e, EINVAL, "the limit %s must be from 1 to %llu", rows[i].name,
                           (unsigned long long)rows[i].max);
    return 0;
}

/* --- the child: system calls only --- */

struct child {
    const struct unpack_start *start;
    int userns, mount, sock, limits;
    int parent_sock; /* to be closed: the parent alone has it */
};

static int step_die(void *user, struct err *e)
{
    const struct child *c = user;

    fd_close(c->parent_sock);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return err_sys(e, errno, "die with the parent");
    /* A pid namespace hides whether the parent has died before. */
    return poll(&(struct pollfd){.fd = c->sock}, 1, 0) > 0 ? err_set(e, ESRCH, "the parent died")
                                                           : 0;
}

/* The directory becomes the root. */
static int step_root(void *user, struct err *e)
{
    const struct child *c = user;
    auto_fd place = confined_open_place(c->start->host, e);
    int r;

    if (place < 0)
        return place;
    r = mnt_attach(c->mount, place);
    return r < 0 ? err_sys(e, -r, "mount the directory") : confined_pivot(c->mount, e);
}

static int step_limits(void *user, struct err *e)
{
    const struct unpack_limits *l = &((const struct child *)user)->start->limits;
    const struct confined_limit rows[] = {
        {RLIMIT_AS,       MEMORY_BYTES             },
        {RLIMIT_CORE,     0                        },
        {RLIMIT_CPU,      l->time_ms / 1000 * 2 + 1}, /* two threads */
        {RLIMIT_FSIZE,    l->bytes                 },
        {RLIMIT_MSGQUEUE, 0                        },
    };

    return confined_limit(rows, ARRAY_LEN(rows), e);
}

/* Afterwards root only inside. Changing ids resets PR_SET_PDEATHSIG. */
static int step_user(void *user, struct err *e)
{
    const uint64_t keep = UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_DAC_OVERRIDE |
                          UINT64_C(1) << CAP_FOWNER | UINT64_C(1) << CAP_FSETID |
                          UINT64_C(1) << CAP_SETFCAP;
    const struct child *c = user;
    int r = confined_enter_user(c->userns, keep, e);

    if (r < 0)
        return r;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(e, errno, "hide the memory");
    return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? err_sys(e, errno, "die with the parent") : 0;
}

/* In two passes, so that none is overwritten. The standard files are closed: there is no /dev. */
static int step_exec(void *user, struct err *e)
{
    const struct child *c = user;
    int from[] = {c->start->blob, c->sock, c->limits, c->start->program};
    const char *const argv[] = {"opensandbox-unpack", NULL}, *const env[] = {NULL};
    int r;

    for (size_t i = 0; i < ARRAY_LEN(from); i++) {
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_PARK);
        if (from[i] < 0)
            return err_sys(e, errno, "park descriptors");
    }
    for (int i = 0; i < 3; i++)
        if (dup2(from[i], UNPACK_FD_BLOB + i) < 0)
            return err_sys(e, errno, "place descriptors");
    if (syscall(SYS_close_range, 0, UNPACK_FD_BLOB - 1, 0) < 0 ||
        syscall(SYS_close_range, UNPACK_FD_LIMITS + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return err_sys(e, errno, "close the others");
    /* Only now: above, all descriptors of a busy broker are still open. */
    r = confined_limit(&(struct confined_limit){RLIMIT_NOFILE, OPEN_FILES}, 1, e);
    if (r < 0)
        return r;
    (void)syscall(SYS_execveat, from[3], "", argv, env, AT_EMPTY_PATH);
    return err_sys(e, errno, "exec");
}

static const struct confined_step steps[] = {
    {"tie to the broker",    step_die   },
    {"mount root",           step_root  }, /* as real root ... */
    {"set limits",           step_limits},
    {"enter user namespace", step_user  }, /* ... to here */
    {"start",                step_exec  },
};

/* --- the parent --- */

/* A detached copy of the directory's mount, without what a layer must not have. */
static int target_clone(int target, struct err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                          MOUNT_ATTR_NOSYMFOLLOW};
    auto_fd mount = mnt_clone(target, "", AT_EMPTY_PATH);
    int r = mount < 0 ? mount : mnt_set(mount, &attr, AT_EMPTY_PATH);

    return r < 0 ? err_sys(e, -r, "clone the directory") : take_fd(&mount);
}

static int limits_send(const struct unpack_limits *limits, int *ret_read, struct err *e)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    if (write(ends[1], limits, sizeof(*limits)) != (ssize_t)sizeof(*limits)) {
        fd_close(ends[0]);
        fd_close(ends[1]);
        return err_set(e, EIO, "write the limits");
    }
    fd_close(ends[1]);
    *ret_read = ends[0];
    return 0;
}

int unpack_start(const struct unpack_start *s, struct proc *ret_proc, int *ret_sock, struct err *e)
{
    auto_fd userns = -EBADF, mount = -EBADF, limits = -EBADF;
    struct child c = {.start = s};
    int socks[2], r;

    if (fchown(s->target, LAYER_UID_FIRST, LAYER_UID_FIRST) < 0 || fchmod(s->target, 0755) < 0)
        return err_sys(e, errno, "give the directory away");
    r = userns = userns_make(LAYER_UID_FIRST, LAYER_UID_COUNT, e);
    if (r >= 0)
        r = mount = target_clone(s->target, e);
    if (r >= 0)
        r = limits_send(&s->limits, &limits, e);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(e, errno, "make sockets");
    c.userns = userns;
    c.mount = mount;
    c.limits = limits;
    c.sock = socks[1];
    c.parent_sock = socks[0];
    r = confined_start(
        &(struct confined){
            .namespaces = CLONE_NEWNET,
            .steps = steps,
            .step_count = ARRAY_LEN(steps),
            .user = &c,
            .steps_ms_max = STEPS_MS_MAX,
        },
        ret_proc, e);
    fd_close(socks[1]);
    if (r < 0)
        fd_close(socks[0]);
    else
        *ret_sock = socks[0];
    return r;
}
