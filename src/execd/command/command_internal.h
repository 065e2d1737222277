/* command_internal.h - what a command is made of while it runs. */
#pragma once

#include "base/map.h"
#include "execd/command/command.h"
#include "execd/command/command_input.h"

enum {
    LEFTOVERS_MAX = 512, /* pipes held open by those whom ended commands left behind */
    SHELL_BYTES_MAX = 256,
};

struct commands {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    struct map by_id;
    struct list ended;     /* records, oldest first */
    struct list runs;      /* of struct run */
    struct list leftovers; /* of struct command_pipe, oldest first */
    size_t running, ended_count, leftover_count;
    size_t text_bytes;           /* of the ended */
    size_t held_bytes;           /* texts of the running ones, and input they did not read yet */
    bool log_failed;             /* said so once */
    struct telemetry *telemetry; /* NULL = none */
};

/* The reading end of a pipe. Lives until whoever writes to it is gone, also past its command. */
struct command_pipe {
    struct loop_io io; /* watched or not: a full client's must not even hear of its end */
    int fd;
    bool watched;
    struct commands *all;
    struct command *command; /* NULL: forgotten, and its output is dropped */
    enum command_stream which;
    size_t due;     /* bytes still to deliver, once the leader was reaped */
    bool left_over; /* among the leftovers */
    struct list link;
};

/* The writing end of a command's standard input. */
struct input {
    struct loop_io io;
    int fd; /* -EBADF: none, or closed */
    bool watched;
    bool stays_open; /* behind the text */
    char *text;      /* to be written first */
    size_t at, n;    /* how much of it was, and is */
    struct command_writer *writer;
};

/* What a command needs only while it runs. */
struct run {
    struct command *command;
    const struct command_ops *ops; /* NULL: nobody follows */
    void *user;
    struct reaper_child child;
    struct loop_io report; /* of the spawn; fd is -EBADF once it was read */
    struct loop_timer timeout;
    uint64_t timeout_ms;
    uint64_t oom_kills; /* when it began, see exit_text.h */
    struct input input;
    struct list link;
    bool paused;    /* whoever follows has enough for now */
    bool reaped;    /* the leader ended */
    bool timed_out; /* we killed it for that */
    char shell[SHELL_BYTES_MAX];
};

/* --- command.c --- */

/* Counts memory that a running command keeps; -EAGAIN when all together would keep too much. */
int commands_hold(struct commands *all, size_t bytes, struct err *e) MUST_USE;

/* --- command_input.c --- */

/* Makes the pipe, if there is to be one, and begins to fill it; *ret_end is the child's. */
int run_input_open(struct run *run, const struct command_spec *spec, int *ret_end, struct err *e);
void run_input_close(struct run *run); /* tells its writer; none is fine */

struct command_start {
    const struct child_place *place;
    const struct command_spec *spec;
};

/* --- command_pipe.c --- */

/* Makes a pipe whose reading end we watch; *ret_end is the child's. */
int command_pipe_open(struct command *c, enum command_stream which, int *ret_end, struct err *e);
void command_pipe_free(struct command_pipe *p);
/* Reads once, not more than is due. False when there is nothing more: the pipe may be gone then. */
bool command_pipe_read(struct command_pipe *p);
void command_pipe_ignore(struct command_pipe *p);
/* Where even watching fails nobody can read it any more, and whoever writes must not wait for ever:
 * then the pipe is gone. */
void command_pipe_watch_or_free(struct command_pipe *p);
/* The command is over, and someone it left behind still holds the pipe. */
void command_pipe_leave_over(struct command_pipe *p);
