/* remover.c - two processes that remove what sandboxes and volumes leave, in any amount.
 *
 * A worker serves one request at a time, and a sandbox may hold millions of files: removing them
 * would block all other requests. So workers and sweeps remove small amounts, and wake these
 * processes for the rest: the remover looks for slots without an owner, the eraser looks into the
 * trash. The wake-up carries no data, so nothing is forgotten when one dies, and the first process
 * starts it again. */
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
