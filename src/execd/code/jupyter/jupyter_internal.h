/* jupyter_internal.h - a running Jupyter kernel: jupyter.c has its process and connections,
 * jupyter_cell.c the messages. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "execd/code/jupyter/jupyter.h"
#include "execd/code/jupyter/jupyter_message.h"
#include "execd/code/jupyter/jupyter_place.h"
#include "execd/code/jupyter/zmtp_conn.h"
#include "execd/core/child_pipe.h"
#include "execd/core/child_proc.h"

enum {
    JUPYTER_WHY_MAX = 252,
    JUPYTER_LOST_MAX = 128,
    JUPYTER_NAME_MAX = 80,
    JUPYTER_LOG_BYTES = 1024
};

/* stdout and stderr of the kernel process itself, not output of cells. */
struct jupyter_log {
    struct child_pipe pipe;
    char tail[JUPYTER_LOG_BYTES];
    size_t n;
};

/* A text that the owner has not taken completely. */
struct jupyter_text {
    struct arena arena; /* holds the text */
    const char *type;
    struct str left;
};

/* The reply to a cell, kept until the cell is over. */
struct jupyter_reply {
    struct arena arena;
    const struct json *content; /* NULL: none, or lost */
};

struct jupyter {
    struct kernel kernel;
    struct loop *loop;
    const struct kernel_owner *owner; /* NULL once it is freed while the task is queued */
    void *user;
    char name[JUPYTER_NAME_MAX];
    bool interrupt_by_message;
    struct jupyter_session session;
    struct jupyter_place place;
    struct zmtp_conn *conns[JUPYTER_CHANNELS]; /* NULL once closed */
    struct child_proc child;
    struct jupyter_log log;
    struct loop_timer timer; /* of the start, then of the cell, its grace period, or the end */
    /* Asks again whether the kernel is ready; later interrupts a cell, or waits for its idle. */
    struct loop_timer soon;
    struct loop_task turn; /* callbacks that must not happen from within a call */

    /* Start-up. */
    char info_id[JUPYTER_ID_MAX]; /* of our last kernel_info_request */
    int info_asked;               /* replies to it before any message on iopub */
    bool heard;                   /* a message came on iopub: the subscription works */
    bool ready;                   /* accepts cells */

    /* The current cell. */
    bool busy;          /* there is one */
    struct buf request; /* until it can be sent */
    char id[JUPYTER_ID_MAX];
    uint64_t timeout_ms;
    uint64_t entered_ns; /* when the kernel began to run it; 0: not yet */
    bool interrupted;    /* an interrupt was requested */
    bool replied, idle;  /* both true: the cell is over */
    bool failed;         /* on_error was called */
    bool timed_out;
    struct jupyter_reply reply;
    struct jupyter_text text;

    bool paused, reaped;
    char lost[JUPYTER_LOST_MAX]; /* why a connection ended */
    char why[JUPYTER_WHY_MAX];   /* not empty: it is dead or dying */
};

/* --- jupyter.c --- */

void jupyter_break(struct jupyter *j, const char *why); /* kills it; its exit will be reported */
void jupyter_set_timer(struct jupyter *j, struct loop_timer *t, uint64_t ms,
                       void (*on_due)(struct loop_timer *));

/* --- jupyter_cell.c --- */

void jupyter_interrupt(struct jupyter *j); /* the cell */
void jupyter_on_ready(void *user, struct zmtp_conn *c);
void jupyter_on_message(void *user, struct zmtp_conn *c, const struct zmtp_reader *m);
int jupyter_run(struct kernel *k, struct str code, uint64_t timeout_ms, struct err *e);
void jupyter_cancel(struct jupyter *j);    /* ends a cell that was not sent yet as interrupted */
void jupyter_give_text(struct jupyter *j); /* as much as the owner takes */
void jupyter_forget_cell(struct jupyter *j);
