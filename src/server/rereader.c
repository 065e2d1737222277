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
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/mem.h"

enum { ANSWER_S = 5, END_MS = 1000, END_LOOK_MS = 5 };

struct question {
    uint64_t number;
};

struct answer {
    uint64_t number; /* that of the question */
    struct err err;  /* set when no descriptor is attached */
};

/* --- in the process --- */

/* Follows no symbolic link and refuses a file with several hard links: either may have been put at
 * the path since, to reach another file of root. */
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
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
        return err_set(e, EINVAL, "'%s' is no plain file of one name", path);
    return take_fd(&fd);
}

/* Answers until the server closes its end. */
static void answer(int sock, const char *path)
{
    for (;;) {
        int fds[FD_SEND_MAX];
        size_t n, count = 0;
        struct question q;
        struct answer a = {0};
        auto_fd file = -EBADF;

        if (fd_recv(sock, &q, sizeof(q), &n, fds, &count) < 0)
            return;
        while (count > 0)
            fd_close(fds[--count]);
        if (n != sizeof(q))
            return;
        a.number = q.number;
        file = open_plain(path, &a.err);
        if (fd_send(sock, &a, sizeof(a), &file, file >= 0) < 0)
            return;
    }
}

/* Blocks all signals: those meant for the server, as from a terminal, end this through the
 * server. */
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

/* Makes descriptors above 2: the process keeps standard input, output and error, even where one of
 * them was closed before. */
static int make_ends(int ends[2])
{
    int low[2];
    int r = 0;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, low) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (ends[i] < 0)
            r = -errno;
    }
    for (int i = 0; i < 2; i++) {
        fd_close(low[i]);
        if (r < 0)
            fd_close(ends[i]);
    }
    return r;
}

/* Sets timeouts for both directions: sending blocks too, once many questions are unanswered. */
static int be_patient(int sock)
{
    const struct timeval patience = {.tv_sec = ANSWER_S};

    if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
        setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
        return -errno;
    return 0;
}

int rereader_start(const char *path, struct rereader *ret, struct err *e)
{
    auto_free char *real = realpath(path, NULL);
    int ends[2] = {-EBADF, -EBADF};
    pid_t pid;
    int r;

    if (!real)
        return err_sys(e, errno, "find '%s'", path);
    r = make_ends(ends);
    if (r < 0)
        return err_sys(e, -r, "make a pair of sockets");
    r = be_patient(ends[0]);
    pid = r < 0 ? -1 : fork();
    if (pid == 0) {
        fd_close(ends[0]);
        be_reader(ends[1], real);
    }
    if (r == 0 && pid < 0)
        r = -errno;
    fd_close(ends[1]);
    if (r < 0) {
        fd_close(ends[0]);
        return err_sys(e, -r, "start a process that reads '%s' again", path);
    }
    *ret = (struct rereader){.sock = ends[0], .pid = pid};
    return 0;
}

static bool has_ended(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = END_LOOK_MS * 1000000};

    for (int ms = 0; ms < END_MS; ms += END_LOOK_MS) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

/* shutdown() reaches the process even if another process holds our end. A server that dropped root
 * cannot kill it, and then leaves it to init instead of waiting. */
void rereader_stop(struct rereader *r)
{
    if (r->sock >= 0)
        (void)shutdown(r->sock, SHUT_RDWR);
    fd_close(r->sock);
    if (r->pid > 0 && !has_ended(r->pid) && kill(r->pid, SIGKILL) == 0)
        (void)waitpid(r->pid, NULL, 0);
    *r = REREADER_NONE;
}

/* Receives the answer to the last question. Each question gets at most one. */
static int take_answer(const struct rereader *r, struct answer *ret, int *ret_file)
{
    for (uint64_t i = 0; i < r->asked; i++) {
        int fds[FD_SEND_MAX];
        size_t n = 0, count = 0;
        struct answer a;
        int got = fd_recv(r->sock, &a, sizeof(a), &n, fds, &count);
        bool mine = got == 0 && n == sizeof(a) && a.number == r->asked;

        if (got < 0)
            return got;
        *ret_file = mine && count > 0 ? fds[--count] : -EBADF;
        while (count > 0)
            fd_close(fds[--count]);
        if (n != sizeof(a))
            return -EPIPE;
        if (mine) {
            *ret = a;
            return 0;
        }
    }
    return -EPROTO;
}

int rereader_open(struct rereader *r, struct err *e)
{
    const struct question q = {++r->asked};
    struct answer a = {0};
    int file = -EBADF;
    int res = fd_send(r->sock, &q, sizeof(q), NULL, 0);

    if (res == 0)
        res = take_answer(r, &a, &file);
    if (res < 0)
        return err_sys(e, -res, "ask for the file to be opened");
    if (file >= 0)
        return file;
    a.err.msg[sizeof(a.err.msg) - 1] = '\0';
    return err_set(e, a.err.code ? a.err.code : EPROTO, "%s", a.err.msg);
}
