/* driver_internal.h - a running interpreter of a language. */
#pragma once

#include "base/buf.h"
#include "base/utf8.h"
#include "execd/code/driver.h"
#include "execd/core/child_pipe.h"
#include "execd/core/child_proc.h"

enum {
    DRIVER_LINE_BYTES_MAX = 16 << 20, /* of one event */
    DRIVER_READ_BYTES = 32 << 10,
    DRIVER_START_MS_MAX = 300 * 1000, /* the driver of go is compiled first */
    DRIVER_GRACE_MS = 1000,           /* from SIGINT at a timeout to SIGKILL */
    DRIVER_ID_MAX = 32 + 1,
    DRIVER_PROGRAM_MAX = 256,
    DRIVER_WHY_MAX = DRIVER_PROGRAM_MAX + 256,
};

enum driver_pipe_kind { DRIVER_STDOUT, DRIVER_STDERR, DRIVER_EVENTS, DRIVER_PIPES };

/* The read end of a pipe. */
struct driver_pipe {
    struct child_pipe pipe; /* due: to pass on before the pending event, or at the end */
    struct driver *driver;
    char cut[UTF8_BYTES_MAX - 1]; /* an incomplete UTF-8 character */
    size_t cut_bytes;
};

struct driver {
    struct kernel kernel;
    struct loop *loop;
    const struct kernel_owner *owner;
    void *user;
    const struct driver_language *language;
    struct child_proc child;
    struct driver_pipe pipes[DRIVER_PIPES];
    struct loop_io requests;
    int requests_fd; /* -EBADF when it can no longer be written */
    bool requests_watched;
    struct buf request; /* until it is written completely */
    size_t sent;        /* bytes of it already written */
    struct buf lines;   /* received events: a part of one, or several */
    size_t looked;      /* this many bytes of `lines` contain no line end */
    bool drained;       /* output before the first event of `lines` was passed on */
    struct loop_task resume;
    struct loop_timer timer; /* of the start, then of the cell, then of its grace period */
    uint64_t count;          /* number of cells */

    /* The current cell. */
    char id[DRIVER_ID_MAX];
    uint64_t timeout_ms;
    bool busy, begun, failed;
    bool interrupt_due; /* to be sent as soon as the cell begins */
    bool timed_out;

    bool ready;               /* accepts requests */
    bool paused, reaped;      /* by its owner; the process ended */
    bool broken;              /* violated the protocol or a time limit: it is being killed */
    char why[DRIVER_WHY_MAX]; /* not empty: it is dead or dying */
    char program[DRIVER_PROGRAM_MAX];
};

/* --- driver_events.c --- */

/* True if d->lines contains a complete event. */
bool driver_has_event(struct driver *d);
/* Takes that event and reports it to the owner. -errno and a message if the driver violated the
 * protocol. */
int driver_take_event(struct driver *d, struct err *e);

/* --- driver.c --- */

void driver_begun(struct driver *d);
void driver_send(struct driver *d); /* writes as much of the rest of the request as possible */
