#include "server/rereader.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/mem.h"

enum { ANSWER_S = 5 };

/* --- in the process --- */

/* A link put in the path since may lead to any of root's files: it is not followed. */
static int open_plain(const char *path, struct err *e)
{
    auto_fd fd = -EBADF;
    struct open_how how = {
        .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS,
    };
    struct stat st;

    fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, EINVAL, "'%s' is no regular file", path);
    return take_fd(&fd);
}

/* Until the server closes its end. */
static void answer(int sock, const char *path)
{
    for (;;) {
        int fds[FD_SEND_MAX];
        size_t n, count = 0;
        struct err e = {0};
        auto_fd file = -EBADF;
        char byte;

        if (fd_recv(sock, &byte, sizeof(byte), &n, fds, &count) < 0 || n == 0)
            return;
        while (count > 0)
            fd_close(fds[--count]);
        file = open_plain(path, &e);
        if (fd_send(sock, &e, sizeof(e), &file, file >= 0) < 0)
            return;
    }
}

/* Signals that are meant for the server, such as those of a terminal, end it by way of the server.
 */
static _Noreturn void be_reader(int sock, const char *path)
{
    sigset_t all;
    int mine = sock == 3 ? 3 : dup3(sock, 3, O_CLOEXEC);

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)prctl(PR_SET_NAME, "opensandbox-rr");
    if (mine != 3 || close_range(4, ~0U, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        caps_limit((uint64_t)1 << CAP_DAC_READ_SEARCH) < 0)
        _exit(EXIT_FAILURE);
    answer(mine, path);
    _exit(EXIT_SUCCESS);
}

/* --- in the server --- */

int rereader_start(const char *path, struct rereader *ret, struct err *e)
{
    auto_free char *real = realpath(path, NULL);
    const struct timeval patience = {.tv_sec = ANSWER_S};
    int ends[2];
    pid_t pid;

    if (!real)
        return err_sys(e, errno, "find '%s'", path);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(e, errno, "make a pair of sockets");
    pid = fork();
    if (pid == 0)
        be_reader(ends[1], real);
    fd_close(ends[1]);
    if (pid < 0 || setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0) {
        fd_close(ends[0]);
        return err_sys(e, errno, "start a process that reads '%s' again", path);
    }
    *ret = (struct rereader){ends[0], pid};
    return 0;
}

void rereader_stop(struct rereader *r)
{
    fd_close(r->sock);
    if (r->pid > 0)
        (void)waitpid(r->pid, NULL, 0);
    *r = REREADER_NONE;
}

int rereader_open(const struct rereader *r, struct err *e)
{
    int fds[FD_SEND_MAX];
    size_t n = 0, count = 0;
    struct err answer = {0};
    int sent = fd_send(r->sock, "", 1, NULL, 0);
    int got = sent < 0 ? sent : fd_recv(r->sock, &answer, sizeof(answer), &n, fds, &count);

    if (got < 0 || n != sizeof(answer))
        return err_sys(e, got < 0 ? -got : EPIPE, "ask for the file to be opened");
    if (count == 1)
        return fds[0];
    while (count > 0)
        fd_close(fds[--count]);
    answer.msg[sizeof(answer.msg) - 1] = '\0';
    return err_set(e, answer.code ? answer.code : EPROTO, "%s", answer.msg);
}
