#include "egress/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "test.h"

static bool reads(const char *path)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd >= 0;
}

TEST(confine, leaves_only_the_files_of_sandboxes)
{
    char dir[] = "/tmp/confine-XXXXXX";
    auto_fd data = -EBADF, box = -EBADF;
    struct confine_files files = {0};
    struct err e = {0};
    int ends[2], r, pid;
    char c;

    CHECK(mkdtemp(dir));
    data = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ(mkdirat(data, "sandboxes", 0700), 0);
    CHECK_EQ(mkdirat(data, "sandboxes/box", 0700), 0);
    CHECK_EQ(io_write_file_atomic(data, "key", STR("k"), 0600, &e), 0);
    files.sandboxes = openat(data, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(reads("/etc/passwd"));
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid = fork(); /* not PR_SET_PDEATHSIG: that signal is refused as well */
    CHECK(pid >= 0);
    if (pid == 0) {
        close(ends[1]);
        while (read(ends[0], &c, 1) > 0)
            ;
        (void)unlinkat(data, "key", 0); /* what its parent may not any more */
        (void)unlinkat(data, "sandboxes/box", AT_REMOVEDIR);
        (void)unlinkat(data, "sandboxes", AT_REMOVEDIR);
        _exit(rmdir(dir));
    }
    r = egress_confine_files(&files, &e);
    if (r == 0) {
        CHECK(!reads("/etc/passwd"));
        CHECK(openat(data, "key", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
        CHECK(unlinkat(data, "key", 0) < 0 && errno == EACCES);
        CHECK(openat(data, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EACCES);
        CHECK(kill(pid, 0) < 0 || syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 6);
    }
    box = openat(files.sandboxes, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(box >= 0);
    for (int i = 0; i < 2; i++) /* makes, then replaces */
        CHECK_EQ(io_write_file_atomic(box, "egress.json", STR("{}"), 0600, &e), 0);
    CHECK_EQ(unlinkat(box, "egress.json", 0), 0);
    CHECK(!access("/proc/stat", R_OK) && reads("/proc/stat"));
    CHECK(r >= 0);
}

TEST(confine, leaves_no_way_to_the_broker_or_to_other_processes)
{
    char name[] = "true";
    char *const argv[] = {name, NULL};
    struct err e = {0};
    int fd;

    CHECK_EQ(egress_confine(&e), 0);
    CHECK(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) < 0 && errno == EPERM);
    CHECK(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) < 0 && errno == EPERM);
    CHECK(execv("/bin/true", argv) < 0 && errno == EPERM);
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 && errno == EPERM);
    CHECK(syscall(SYS_pidfd_open, getppid(), 0) < 0 && errno == EPERM);
    CHECK(syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EPERM);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    close(fd);
    _exit(0); /* not by exit(): LeakSanitizer would have to trace this process */
}
