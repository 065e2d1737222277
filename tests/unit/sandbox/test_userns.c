#include "sandbox/userns.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mount_api.h"
#include "test.h"

enum { FIRST = 0x6ff00000, COUNT = 65536 };

static int made(void)
{
    struct err e = {0};
    int fd;

    if (geteuid() != 0)
        test_skip("ids are given by root");
    fd = userns_make(FIRST, COUNT, &e);
    if (fd < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return fd;
}

TEST(userns, maps_its_range_of_ids)
{
    int fd = made();

    CHECK_EQ(waitpid(-1, NULL, 0), -1); /* no child that it made is left */
    CHECK_EQ(setns(fd, CLONE_NEWUSER), 0);
    CHECK_EQ(syscall(SYS_setresuid, COUNT - 1, 0, 0), 0);
    CHECK_EQ(syscall(SYS_setresuid, COUNT, -1, -1), -1);
    CHECK_EQ(errno, EINVAL);
}

/* In a mount namespace of its own, of which nothing shows elsewhere. */
static void protect_proc_sys(void)
{
    struct mount_attr alone = {.propagation = 1UL << 18}; /* MS_PRIVATE */
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    auto_fd root = -EBADF, place = -EBADF, copy = -EBADF;

    CHECK_EQ(unshare(CLONE_NEWNS), 0);
    root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ(mnt_set(root, &alone, AT_EMPTY_PATH | AT_RECURSIVE), 0);
    place = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    copy = mnt_clone(place, "", AT_EMPTY_PATH);
    CHECK(copy >= 0);
    CHECK_EQ(mnt_set(copy, &read_only, AT_EMPTY_PATH), 0);
    CHECK_EQ(mnt_attach(copy, place), 0);
}

TEST(userns, names_what_cannot_be_written)
{
    struct err e = {0};

    if (geteuid() != 0)
        test_skip("mounts are made by root");
    protect_proc_sys();
    CHECK_EQ(userns_make(FIRST, COUNT, &e), -EROFS);
    CHECK(strstr(e.msg, "/proc/sys/user"));
    CHECK_EQ(waitpid(-1, NULL, __WALL), -1);
}

/* Without any filter, and with every capability in it. */
TEST(userns, is_the_last_of_its_kind)
{
    static const struct {
        uint64_t flag;
        int code;
    } rows[] = {
        {CLONE_NEWUSER,   ENOSPC},
        {CLONE_NEWCGROUP, ENOSPC},
        {CLONE_NEWTIME,   ENOSPC},
        {CLONE_NEWUTS,    0     },
    };
    int fd = made();

    CHECK_EQ(setns(fd, CLONE_NEWUSER), 0);
    CHECK_EQ(syscall(SYS_setresuid, 0, 0, 0), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct clone_args args = {.flags = rows[i].flag, .exit_signal = SIGCHLD};
        long pid = syscall(SYS_clone3, &args, sizeof(args));
        int code = pid < 0 ? errno : 0;

        if (pid == 0)
            _exit(0);
        if (code != rows[i].code)
            test_fail(__FILE__, __LINE__, "flag %#llx: errno %d", (unsigned long long)rows[i].flag,
                      code);
    }
}
