#include "sandbox/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

static int run(int fd)
{
    const char *const argv[] = {"true", NULL}, *const env[] = {NULL};
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)syscall(SYS_execveat, fd, "", argv, env, AT_EMPTY_PATH);
        _exit(126);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(program, copy_runs_and_is_for_running_only)
{
    struct err e = {0};
    auto_fd fd = program_copy("/bin/true", &e);
    struct stat st;

    CHECK(fd >= 0);
    CHECK_EQ(run(fd), 0);
    CHECK_EQ(fstat(fd, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0111);
}

TEST(program, copy_cannot_be_changed_by_root_either)
{
    struct err e = {0};
    auto_fd fd = program_copy("/bin/true", &e), again = -EBADF;
    char link[64];

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "x", 1), -1);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    again = open(link, O_WRONLY | O_CLOEXEC);
    if (again < 0)
        return; /* an ordinary user may not even open it */
    CHECK_EQ(write(again, "x", 1), -1);
    CHECK_EQ(errno, EPERM);
    CHECK_EQ(ftruncate(again, 0), -1);
}

TEST(program, names_what_it_cannot_copy)
{
    struct err e = {0};

    CHECK_EQ(program_copy("/no/such/execd", &e), -ENOENT);
    CHECK_EQ(program_copy("/etc", &e), -ENOEXEC);
    CHECK(strstr(e.msg, "'/etc'"));
    CHECK_EQ(program_copy("/dev/null", &e), -ENOEXEC);
}
