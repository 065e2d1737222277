/* remover.c - a process that removes what sandboxes leave, however much that is.
 *
 * A worker serves one request at a time, and a sandbox may hold millions of files: whoever owns it
 * would keep everybody else's requests waiting. So workers and sweeps do what is little, and wake
 * this process for the rest. It is told nothing but that: it looks for slots that are nobody's and
 * then into the trash, so nothing is forgotten when it dies, and the first process starts another.
 */
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
    (void)eventfd_write(b->remover, 1); /* fails only after 2^64 of them that nobody has read */
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
    (void)setpriority(PRIO_PROCESS, 0, NICE); /* requests go first */
    fd_close(take_fd(&b->remover));           /* we are it: all is removed here */
    r = broker_sweep_slots(b, e);
    emptied = trash_empty(b, r < 0 ? NULL : e);
    return r < 0 ? r : emptied;
}
