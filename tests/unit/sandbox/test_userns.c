#include "sandbox/userns.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

    CHECK_EQ(waitpid(-1, NULL, 0), -1); /* nobody is left of its making */
    CHECK_EQ(setns(fd, CLONE_NEWUSER), 0);
    CHECK_EQ(syscall(SYS_setresuid, COUNT - 1, 0, 0), 0);
    CHECK_EQ(syscall(SYS_setresuid, COUNT, -1, -1), -1);
    CHECK_EQ(errno, EINVAL);
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
