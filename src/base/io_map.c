/* io_map.c - copying from a mapped file that may be truncated meanwhile.
 *
 * The kernel raises SIGBUS on the thread that reads past the end of a mapped file. A thread that
 * copies stores a jump buffer for the handler, which runs on the same thread; the handler jumps
 * only for an address within the mapping being read. It passes any other SIGBUS to the previous
 * handler. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/io.h"

struct io_map_guard {
    sigjmp_buf escape;
    const char *from, *to; /* the mapping being read */
};

/* The copy this thread is doing, NULL outside. Read by the signal handler. */
static _Thread_local struct io_map_guard *volatile io_map_current;

/* Written once, before the first mapping exists. */
static struct sigaction io_map_previous;
static int io_map_install_error;
static pthread_once_t io_map_once = PTHREAD_ONCE_INIT;

/* Passes the signal on. The default is to die of it: with the default restored, the faulting read
 * repeats and kills the process. */
static void io_map_chain(int sig, siginfo_t *info, void *context)
{
    if (io_map_previous.sa_flags & SA_SIGINFO) {
        io_map_previous.sa_sigaction(sig, info, context);
    } else if (io_map_previous.sa_handler != SIG_DFL && io_map_previous.sa_handler != SIG_IGN) {
        io_map_previous.sa_handler(sig);
    } else {
        struct sigaction dfl = {.sa_handler = SIG_DFL};

        (void)sigaction(sig, &dfl, NULL);
        if (info->si_code <= 0) /* sent by a process: no read will repeat */
            (void)raise(sig);
    }
}

static void io_map_on_bus(int sig, siginfo_t *info, void *context)
{
    struct io_map_guard *guard = io_map_current;
    const char *at = info->si_addr;

    if (guard && info->si_code > 0 && at >= guard->from && at < guard->to)
        siglongjmp(guard->escape, 1);
    io_map_chain(sig, info, context);
}

static void io_map_install(void)
{
    /* SA_NODEFER: the handler leaves by a jump that does not restore the signal mask, so that a
     * copy needs no system calls. */
    struct sigaction act = {.sa_sigaction = io_map_on_bus,
                            .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

    if (sigaction(SIGBUS, &act, &io_map_previous) < 0)
        io_map_install_error = errno;
}

int io_map_open(int fd, size_t bytes_max, struct io_map *ret_map)
{
    struct stat st;
    void *p;

    pthread_once(&io_map_once, io_map_install);
    if (io_map_install_error)
        return -io_map_install_error;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if ((uint64_t)st.st_size > bytes_max)
        return -EFBIG;
    if (st.st_size == 0) {
        *ret_map = (struct io_map){NULL, 0};
        return 0;
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    *ret_map = (struct io_map){p, (size_t)st.st_size};
    return 0;
}

int io_map_copy(const struct io_map *map, size_t offset, void *out, size_t n)
{
    struct io_map_guard guard;

    if (offset > map->n || n > map->n - offset)
        return -ERANGE;
    if (n == 0)
        return 0;
    guard.from = map->p;
    guard.to = map->p + map->n;
    if (sigsetjmp(guard.escape, 0) != 0) {
        io_map_current = NULL;
        return -EIO;
    }
    io_map_current = &guard;
    memcpy(out, map->p + offset, n);
    __asm__ volatile("" : : : "memory"); /* the copy ends before the guard does */
    io_map_current = NULL;
    return 0;
}

void io_map_close(struct io_map *map)
{
    if (!map)
        return;
    if (map->p)
        (void)munmap((void *)map->p, map->n);
    *map = (struct io_map){NULL, 0};
}
