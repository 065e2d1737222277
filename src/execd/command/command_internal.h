/* command_internal.h - the private state of running commands. */
#pragma once

#include "base/map.h"
#include "execd/command/command.h"
#include "execd/command/command_input.h"
#include "execd/core/child_pipe.h"
#include "execd/core/child_proc.h"

enum { LEFTOVERS_MAX = 512 }; /* pipes that ended commands' processes still hold open */

struct commands {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    struct map by_id;
    struct list ended;     /* records, oldest first */
    struct list runs;      /* of struct run */
    struct list leftovers; /* of struct command_pipe, oldest first */
    size_t running, ended_count, leftover_count;
    size_t text_bytes;           /* of ended commands */
    size_t held_bytes;           /* texts and unread input of running commands */
    bool log_failed;             /* the failure was logged, once */
    struct telemetry *telemetry; /* NULL = none */
};

/* The reading end of a pipe. Lives until its last writer is gone, which may be after its command.
 */
struct command_pipe {
    struct child_pipe pipe; /* not watched while the follower is full */
    struct commands *all;
    struct command *command; /* NULL: record freed, output is dropped */
    enum command_stream which;
    bool left_over; /* in commands.leftovers */
    struct list link;
};

/* The writing end of a command's standard input. */
struct input {
    struct loop_io io;
    int fd; /* -EBADF: none, or closed */
    bool watched;
    bool stays_open; /* after the text was written */
    char *text;      /* written first */
    size_t at, n;    /* bytes written, and length */
    struct command_writer *writer;
};

/* State that exists only while the command runs. */
struct run {
    struct command *command;
    const struct command_ops *ops; /* NULL: no follower */
    void *user;
    struct child_proc child;
    struct loop_timer timeout;
    uint64_t timeout_ms;
    uint64_t oom_kills; /* at its start, see exit_text.h */
    struct input input;
    struct list link;
    bool paused;    /* the follower accepts no output now */
    bool reaped;    /* the leader ended */
    bool timed_out; /* killed because of its timeout */
};

/* --- command.c --- */

/* Counts memory that a running command keeps; -EAGAIN when the total would exceed
 * COMMANDS_HELD_BYTES_MAX. */
int commands_hold(struct commands *all, size_t bytes, struct err *e) MUST_USE;

/* --- command_input.c --- */

/* Creates the input pipe, if one is wanted, and begins to fill it; *ret_end is the child's end. */
int run_input_open(struct run *run, const struct command_spec *spec, int *ret_end, struct err *e);
void run_input_close(struct run *run); /* notifies its writer; no-op without input */

struct command_start {
    const struct child_place *place;
    const struct command_spec *spec;
};

/* --- command_pipe.c --- */

/* Creates a pipe and watches its reading end; *ret_end is the child's end. */
int command_pipe_open(struct command *c, enum command_stream which, int *ret_end, struct err *e);
void command_pipe_free(struct command_pipe *p);
/* Reads once, at most what is due. False when nothing more is there; the pipe may be freed then. */
bool command_pipe_read(struct command_pipe *p);
/* Watches the pipe. On failure frees it: it could not be read any more, and its writers must not
 * block for ever. */
void command_pipe_watch_or_free(struct command_pipe *p);
/* The command has ended, but another process may still hold the pipe: keep reading it. */
void command_pipe_leave_over(struct command_pipe *p);
