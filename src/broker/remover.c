/* remover.c - a process of each worker that removes what sandboxes leave, however much that is.
 *
 * A worker serves one request at a time, and a sandbox may hold millions of files: whoever owns it
 * would keep everybody else's requests waiting. So the worker does what is little, and leaves the
 * rest to this process, which it starts when there is something for it. So does the sweep at start.
 * It ends with who started it; what it did not get to is for the next sweep. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "broker/broker.h"

enum { SOCKET_FD = STDERR_FILENO + 1, SLOTS_FD, FIRST_FREE_FD, FD_PARK = 16, NICE = 10 };

/* The worker gave up its lock, or will in a moment. A sweep may be faster, and that is fine, too.
 */
static void remove_one(const struct broker *b, uint32_t slot)
{
    auto_fd dir = slot_open(&b->host, slot, NULL);
    struct err e = {0};

    if (dir < 0 || flock(dir, LOCK_EX) < 0 || !life_is_current(b, slot, dir))
        return;
    if (slot_remove(&b->host, slot, &e) < 0)
        log_event(LOG_WARN, "files of a sandbox cannot be removed", LOG_U64("slot", slot),
                  LOG_STR("error", e.msg));
}

/* Of the worker's descriptors it keeps these two: what others stand for must end when the worker
 * closes them. */
static int keep_descriptors(struct broker *b, int sock)
{
    int high_sock = fcntl(sock, F_DUPFD_CLOEXEC, FD_PARK);
    int high_slots = fcntl(b->host.slots, F_DUPFD_CLOEXEC, FD_PARK);

    if (high_sock < 0 || high_slots < 0 || dup2(high_sock, SOCKET_FD) < 0 ||
        dup2(high_slots, SLOTS_FD) < 0)
        return -errno;
    b->host.slots = SLOTS_FD;
    return syscall(SYS_close_range, FIRST_FREE_FD, ~0U, 0) < 0 ? -errno : 0;
}

static NORETURN void remover_main(struct broker *b, int sock)
{
    uint32_t slot;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "remover");
    if (getppid() != b->self.pid || keep_descriptors(b, sock) < 0)
        _exit(1);
    (void)setpriority(PRIO_PROCESS, 0, NICE); /* requests go first */
    while (recv(SOCKET_FD, &slot, sizeof(slot), 0) == (ssize_t)sizeof(slot))
        remove_one(b, slot);
    _exit(0);
}

static int remover_start(struct broker *b)
{
    auto_fd ours = -EBADF, its = -EBADF;
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    its = pair[1];
    pid = fork();
    if (pid == 0)
        remover_main(b, its);
    if (pid < 0)
        return -errno;
    b->remover = take_fd(&ours);
    return 0;
}

static int remover_tell(const struct broker *b, uint32_t slot)
{
    return send(b->remover, &slot, sizeof(slot), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int remover_take(struct broker *b, uint32_t slot)
{
    int r = b->remover < 0 ? -EPIPE : remover_tell(b, slot);

    if (r != -EPIPE && r != -ECONNRESET)
        return r;                   /* -EAGAIN: it has more than enough to do */
    fd_close(take_fd(&b->remover)); /* it is gone, or there was none */
    r = remover_start(b);
    return r < 0 ? r : remover_tell(b, slot);
}
