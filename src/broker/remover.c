/* remover.c - processes that remove what sandboxes and volumes leave.
 *
 * The end of a sandbox is answered when its processes are killed and its name is free. Its cgroups,
 * veth and files go later, by the cleaner, which gets the numbers of such slots by a pipe. The pipe
 * holds LEFTOVERS_MAX of them: when it is full, the worker removes a slot before it answers. A
 * number that is lost is found by the sweep that follows a killed process, or the next start.
 *
 * A worker serves one request at a time, and a sandbox may hold millions of files: removing them
 * would block all other requests. So workers and sweeps remove small amounts, and wake these
 * processes for the rest: the remover looks for slots without an owner, the eraser looks into the
 * trash. The wake-up carries no data, so nothing is forgotten when one dies, and the first process
 * starts it again. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"

enum {
    NICE = 10,
    LEFTOVERS_MAX = 64,
    LEFTOVERS_PIPE_BYTES = 4096, /* the least the kernel gives a pipe */
    CLEANER_MS = 1000,           /* it ends after this long without work */
};

/* So large that the pipe is full with LEFTOVERS_MAX of them. */
struct leftover {
    uint32_t slot;
    uint8_t padding[LEFTOVERS_PIPE_BYTES / LEFTOVERS_MAX - sizeof(uint32_t)];
};

int remover_open(struct broker *b, struct err *e)
{
    b->remover = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->remover < 0)
        return err_sys(e, errno, "make an eventfd");
    if (pipe2(b->leftovers, O_CLOEXEC | O_NONBLOCK) < 0 ||
        fcntl(b->leftovers[1], F_SETPIPE_SZ, LEFTOVERS_PIPE_BYTES) < 0)
        return err_sys(e, errno, "make a pipe");
    return 0;
}

void remover_wake(const struct broker *b)
{
    (void)eventfd_write(b->remover, 1); /* fails only after 2^64 unread wake-ups */
}

bool remover_is_wanted(const struct broker *b)
{
    eventfd_t ignored;

    return eventfd_read(b->remover, &ignored) == 0;
}

bool leftover_put(const struct broker *b, uint32_t slot)
{
    struct leftover l = {.slot = slot};

    return b->leftovers[1] >= 0 && write(b->leftovers[1], &l, sizeof(l)) == (ssize_t)sizeof(l);
}

static void begin(struct broker *b, const char *name)
{
    (void)prctl(PR_SET_NAME, name);
    (void)setpriority(PRIO_PROCESS, 0, NICE); /* requests have priority */
    fd_close(take_fd(&b->remover));           /* leave nothing to another process */
}

int remover_run(struct broker *b, struct err *e)
{
    begin(b, "remover");
    return broker_sweep_slots(b, e);
}

int eraser_run(struct broker *b, struct err *e)
{
    begin(b, "eraser");
    return trash_empty(b, e);
}

/* Unlike the others, it leaves slots with many files to the remover, and those whose processes do
 * not end in time. */
int cleaner_run(struct broker *b, struct err *e)
{
    struct pollfd p = {.fd = b->leftovers[0], .events = POLLIN};
    struct leftover l;
    int error = 0;

    (void)prctl(PR_SET_NAME, "cleaner");
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    while (poll(&p, 1, CLEANER_MS) > 0)
        while (read(b->leftovers[0], &l, sizeof(l)) == (ssize_t)sizeof(l)) {
            int r = broker_sweep_slot(b, l.slot, error ? NULL : e);

            if (r == -ETIMEDOUT || r == -EBUSY)
                remover_wake(b);
            error = error ? error : r;
        }
    return error;
}
