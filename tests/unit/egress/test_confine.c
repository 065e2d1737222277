#include "egress/confine.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test.h"

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
}
