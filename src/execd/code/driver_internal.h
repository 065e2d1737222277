/* driver_internal.h - a language's interpreter while it lives. */
#pragma once

#include "base/buf.h"
#include "base/utf8.h"
#include "execd/code/driver.h"

enum {
    DRIVER_LINE_BYTES_MAX = 16 << 20, /* of an event */
    DRIVER_READ_BYTES = 32 << 10,
    DRIVER_START_MS_MAX = 300 * 1000, /* that of go is compiled first */
    DRIVER_GRACE_MS = 1000,           /* from the SIGINT of a timeout to the SIGKILL */
    DRIVER_ID_MAX = 32 + 1,
    DRIVER_PROGRAM_MAX = 256,
    DRIVER_WHY_MAX = DRIVER_PROGRAM_MAX + 256,
};

enum driver_pipe_kind { DRIVER_STDOUT, DRIVER_STDERR, DRIVER_EVENTS, DRIVER_PIPES };

/* The reading end of a pipe. */
struct driver_pipe {
    struct loop_io io;
    struct driver *driver;
    int fd; /* -EBADF once it ended */
    bool watched;
    size_t due;                   /* bytes to pass on before the event that waits, or at its end */
    char cut[UTF8_BYTES_MAX - 1]; /* a character that has not come whole yet */
    size_t cut_bytes;
};

struct driver {
    struct kernel kernel;
    struct loop *loop;
    const struct kernel_owner *owner;
    void *user;
    const struct driver_language *language;
    struct reaper_child child;
    struct loop_io report; /* of the spawn; fd is -EBADF once it was read */
    struct driver_pipe pipes[DRIVER_PIPES];
    struct loop_io requests;
    int requests_fd; /* -EBADF when it cannot be written any more */
    bool requests_watched;
    struct buf request; /* until all of it is written */
    size_t sent;        /* of it */
    struct buf lines;   /* events: a part of one, or several */
    size_t looked;      /* so much of `lines` holds no end of a line */
    bool drained;       /* what was printed before the first event of `lines` was passed on */
    struct loop_task resume;
    struct loop_timer timer; /* of the start, then of the cell, then of its grace */
    uint64_t count;          /* of cells */

    /* The cell. */
    char id[DRIVER_ID_MAX];
    uint64_t timeout_ms;
    bool busy, begun, failed;
    bool interrupt_due; /* as soon as it begins */
    bool timed_out;

    bool ready;               /* takes requests */
    bool paused, reaped;      /* by its owner; the process ended */
    bool broken;              /* broke the protocol, or our patience: it is being killed */
    char why[DRIVER_WHY_MAX]; /* it is dead or dying */
    char program[DRIVER_PROGRAM_MAX];
};

/* --- driver_events.c --- */

/* Whether a whole event waits in d->lines. */
bool driver_has_event(struct driver *d);
/* Takes that event and tells the owner. -errno and a sentence for what no driver says. */
int driver_take_event(struct driver *d, struct err *e);

/* --- driver.c --- */

void driver_begun(struct driver *d);
void driver_send(struct driver *d); /* the rest of the request, as far as it goes */
