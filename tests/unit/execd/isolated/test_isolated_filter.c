#include "execd/isolated/isolated_filter.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* What `body` answers in a child behind the filter; -1 when it did not get there. By _exit: at a
 * plain exit a leak checker would want to trace. */
static int confined(int (*body)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || isolated_filter_install() < 0 ? 255
                                                                                          : body());
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) != 255 ? WEXITSTATUS(status) : -1;
}

/* With arguments that the kernel would answer otherwise. */
static const struct {
    const char *what;
    int code;
    long number, args[2];
} refusals[] = {
    {"unshare",           EPERM,  SYS_unshare,           {0}                      },
    {"setns",             EPERM,  SYS_setns,             {-1}                     },
    {"mount",             EPERM,  SYS_mount,             {0}                      },
    {"umount2",           EPERM,  SYS_umount2,           {0}                      },
    {"pivot_root",        EPERM,  SYS_pivot_root,        {0}                      },
    {"chroot",            EPERM,  SYS_chroot,            {0}                      },
    {"open_tree",         EPERM,  SYS_open_tree,         {-1}                     },
    {"fspick",            EPERM,  SYS_fspick,            {-1}                     },
    {"mount_setattr",     EPERM,  SYS_mount_setattr,     {-1}                     },
    {"clone(user)",       EPERM,  SYS_clone,             {CLONE_NEWUSER | SIGCHLD}},
    {"clone(mnt)",        EPERM,  SYS_clone,             {CLONE_NEWNS | SIGCHLD}  },
    {"clone3",            ENOSYS, SYS_clone3,            {0}                      },
    {"ptrace",            EPERM,  SYS_ptrace,            {-1}                     },
    {"process_vm_readv",  EPERM,  SYS_process_vm_readv,  {-1}                     },
    {"process_vm_writev", EPERM,  SYS_process_vm_writev, {-1}                     },
    {"pidfd_getfd",       EPERM,  SYS_pidfd_getfd,       {-1}                     },
    {"io_uring_setup",    ENOSYS, SYS_io_uring_setup,    {1}                      },
    {"bpf",               EPERM,  SYS_bpf,               {0}                      },
    {"keyctl",            EPERM,  SYS_keyctl,            {-1}                     },
    {"open_by_handle_at", EPERM,  SYS_open_by_handle_at, {-1}                     },
    {"userfaultfd",       EPERM,  SYS_userfaultfd,       {-1}                     },
    {"finit_module",      EPERM,  SYS_finit_module,      {-1}                     },
    {"sethostname",       EPERM,  SYS_sethostname,       {0, -1}                  },
#ifdef __x86_64__
    {"iopl",              EPERM,  SYS_iopl,              {0}                      },
    {"x32 getpid",        ENOSYS, 0x40000000,            {0}                      },
#endif
};

/* The first row that was not refused as it should be, counted from 1. */
static int try_refusals(void)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        if (syscall(refusals[i].number, refusals[i].args[0], refusals[i].args[1], 0, 0) != -1 ||
            errno != refusals[i].code)
            return (int)i + 1;
    return 0;
}

TEST(isolated_filter, refuses_each_call_of_its_list)
{
    int row = confined(try_refusals);

    CHECK(row >= 0);
    if (row > 0)
        test_fail(__FILE__, __LINE__, "%s", refusals[row - 1].what);
}

/* With arguments that the kernel itself refuses, but not as a filter would. */
static int try_the_rest(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return 1;
    if (syscall(SYS_openat2, -1, "x", NULL, 0) != -1 || errno != EINVAL)
        return 2;
    if (syscall(SYS_pidfd_open, -1, 0) != -1 || errno != EINVAL)
        return 3;
    return syscall(SYS_close_range, 5, 4, 0) != -1 || errno != EINVAL ? 4 : 0;
}

TEST(isolated_filter, lets_the_rest_through)
{
    CHECK_EQ(confined(try_the_rest), 0);
}

TEST(isolated_filter, has_a_digest)
{
    char one[ISOLATED_FILTER_DIGEST_MAX], two[ISOLATED_FILTER_DIGEST_MAX];

    isolated_filter_digest(one);
    isolated_filter_digest(two);
    CHECK_EQ(strlen(one), 64);
    CHECK_STR(one, two);
}
