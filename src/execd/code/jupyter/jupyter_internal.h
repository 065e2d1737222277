/* jupyter_internal.h - a Jupyter kernel while it lives: jupyter.c has its process and connections,
 * jupyter_cell.c what is said over them. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "execd/code/jupyter/jupyter.h"
#include "execd/code/jupyter/jupyter_message.h"
#include "execd/code/jupyter/jupyter_place.h"
#include "execd/code/jupyter/zmtp_conn.h"

enum {
    JUPYTER_WHY_MAX = 252,
    JUPYTER_LOST_MAX = 128,
    JUPYTER_NAME_MAX = 80,
    JUPYTER_LOG_BYTES = 1024
};

/* What the kernel itself prints, on either of its standard streams: not the output of cells. */
struct jupyter_log {
    struct loop_io io; /* fd is -EBADF once it ended */
    char tail[JUPYTER_LOG_BYTES];
    size_t n;
};

/* A text that its owner has not taken whole yet. */
struct jupyter_text {
    struct arena arena; /* what it lies in */
    const char *type;
    struct str left;
};

/* What the reply to a cell said, kept until the cell is over. */
struct jupyter_reply {
    struct arena arena;
    const struct json *content; /* NULL: none, or lost */
};

struct jupyter {
    struct kernel kernel;
    struct loop *loop;
    const struct kernel_owner *owner; /* NULL once it is freed, while the task is due */
    void *user;
    char name[JUPYTER_NAME_MAX];
    bool interrupt_by_message;
    struct jupyter_session session;
    struct jupyter_place place;
    struct zmtp_conn *conns[JUPYTER_CHANNELS]; /* NULL once closed */
    struct reaper_child child;
    struct loop_io report; /* of the spawn; fd is -EBADF once it was read */
    struct jupyter_log log;
    struct loop_timer timer; /* of the start, then of the cell, its grace, or of the end */
    /* Asks again whether it is ready; of a cell, interrupts it, or waits for its idle. */
    struct loop_timer soon;
    struct loop_task turn; /* what must not be told from within a call */

    /* The start. */
    char info_id[JUPYTER_ID_MAX]; /* of our last question */
    int info_asked;               /* how often it was answered without a word on iopub */
    bool heard;                   /* something came on iopub: we are subscribed */
    bool ready;                   /* takes cells */

    /* The cell. */
    bool busy;          /* there is one */
    struct buf request; /* it, until it can be sent */
    char id[JUPYTER_ID_MAX];
    uint64_t timeout_ms;
    uint64_t entered_ns; /* when the kernel took it up; 0: not yet */
    bool interrupted;    /* asked to be */
    bool replied, idle;  /* it is over with both */
    bool failed;         /* on_error came */
    bool timed_out;
    struct jupyter_reply reply;
    struct jupyter_text text;

    bool paused, reaped;
    char lost[JUPYTER_LOST_MAX]; /* why a connection ended */
    char why[JUPYTER_WHY_MAX];   /* it is dead or dying */
};

/* --- jupyter.c --- */

void jupyter_break(struct jupyter *j, const char *why); /* no more of it: its exit will be told */
void jupyter_set_timer(struct jupyter *j, struct loop_timer *t, uint64_t ms,
                       void (*on_due)(struct loop_timer *));

/* --- jupyter_cell.c --- */

void jupyter_interrupt(struct jupyter *j); /* the cell */
void jupyter_on_ready(void *user, struct zmtp_conn *c);
void jupyter_on_message(void *user, struct zmtp_conn *c, const struct zmtp_reader *m);
int jupyter_run(struct kernel *k, struct str code, uint64_t timeout_ms, struct err *e);
void jupyter_cancel(struct jupyter *j);    /* a cell that was not sent yet: told as interrupted */
void jupyter_give_text(struct jupyter *j); /* as far as the owner takes it */
void jupyter_forget_cell(struct jupyter *j);
