/* remover.c - a process that removes what sandboxes leave, in any amount.
 *
 * A worker serves one request at a time, and a sandbox may hold millions of files: removing them
 * would block all other requests. So workers and sweeps remove small amounts, and wake this process
 * for the rest. The wake-up carries no data: it looks for slots without an owner and then into the
 * trash. So nothing is forgotten when it dies, and the first process starts it again. */
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "broker/broker.h"

enum { NICE = 10 };

int remover_open(struct broker *b, struct err *e)
{
    b->remover = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return b->remover < 0 ? err_sys(e, errno, "make an eventfd") : 0;
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

int remover_run(struct broker *b, struct err *e)
{
    int r, emptied;

    (void)prctl(PR_SET_NAME, "remover");
    (void)setpriority(PRIO_PROCESS, 0, NICE); /* requests have priority */
    fd_close(take_fd(&b->remover));           /* this is the remover: remove all of it here */
    r = broker_sweep_slots(b, e);
    emptied = trash_empty(b, r < 0 ? NULL : e);
    return r < 0 ? r : emptied;
}
