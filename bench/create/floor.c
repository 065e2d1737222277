/* floor.c - what the kernel alone needs for a sandbox, by bare system calls.
 *
 * usage: create_floor [--net] COUNT ROOT
 * Per round: clone3 with new namespaces, an id map, a tmpfs, an overlay of ROOT and the tmpfs,
 * /proc, pivot_root, exec of ROOT's /noop, up to the first byte it writes. Prints the rounds as a
 * JSON array of milliseconds. No program that makes sandboxes on demand can be faster. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"

enum { ROUNDS_MAX = 100000 };

#define NAMESPACES                                                                                 \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP)

/* The child shares nothing with anyone: its number says where it failed. */
static void need(bool ok, int line)
{
    if (ok)
        return;
    dprintf(STDERR_FILENO, "create_floor: line %d: %s\n", line, strerror(errno));
    _exit(1);
}

#define NEED(call) need((call) >= 0, __LINE__)

static int write_file(const char *path, const char *text)
{
    auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

static void child_mount(const char *root)
{
    char options[128];
    int lower = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC); /* it may be below /tmp */

    NEED(lower);
    (void)snprintf(options, sizeof(options),
                   "lowerdir=/proc/self/fd/%d,upperdir=/tmp/u,workdir=/tmp/w", lower);
    NEED(mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL));
    NEED(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, NULL));
    NEED(mkdir("/tmp/u", 0755));
    NEED(mkdir("/tmp/w", 0755));
    NEED(mkdir("/tmp/r", 0755));
    NEED(mount("overlay", "/tmp/r", "overlay", MS_NOSUID | MS_NODEV, options));
    NEED(mount("proc", "/tmp/r/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
    NEED(chdir("/tmp/r"));
    NEED(syscall(SYS_pivot_root, ".", "."));
    NEED(umount2(".", MNT_DETACH));
}

static void child(const char *root, int out)
{
    char *const argv[] = {(char[]){"noop"}, NULL};

    NEED(write_file("/proc/self/uid_map", "0 0 1"));
    NEED(write_file("/proc/self/setgroups", "deny"));
    NEED(write_file("/proc/self/gid_map", "0 0 1"));
    child_mount(root);
    NEED(dup2(out, STDOUT_FILENO));
    NEED(execv("/noop", argv));
}

/* Nanoseconds from clone3 to the first byte. */
static uint64_t round_trip(uint64_t flags, const char *root)
{
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    uint64_t began, ended;
    int pair[2], status;
    char byte;
    long pid;

    NEED(pipe2(pair, O_CLOEXEC));
    began = time_mono_ns();
    pid = syscall(SYS_clone3, &args, sizeof(args));
    NEED(pid);
    if (pid == 0)
        child(root, pair[1]);
    fd_close(pair[1]);
    if (read(pair[0], &byte, 1) != 1)
        exit(1); /* it has said why */
    ended = time_mono_ns();
    fd_close(pair[0]);
    NEED(waitpid((pid_t)pid, &status, 0));
    return ended - began;
}

int main(int argc, char **argv)
{
    bool net = argc > 1 && strcmp(argv[1], "--net") == 0;
    uint64_t count;

    if (argc != 3 + net || str_to_u64_range(str_of(argv[1 + net]), 1, ROUNDS_MAX, &count) < 0) {
        fprintf(stderr, "usage: create_floor [--net] COUNT ROOT\n");
        return 2;
    }
    for (uint64_t i = 0; i < count; i++)
        printf("%s%.4f", i ? ", " : "[",
               (double)round_trip(net ? NAMESPACES | CLONE_NEWNET : NAMESPACES, argv[2 + net]) /
                   1e6);
    puts("]");
    return 0;
}
