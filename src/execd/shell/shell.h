/* shell.h - one living shell: code goes in, output and exit codes come out, and everything else
 * stays: functions, variables, options, traps, the directory, jobs. Loop thread only.
 *
 *   down ──shell_start()──► starting ──► idle ──shell_run()──► busy ──its report──► draining ──►
 * idle ▲                          └── shell_run(): it waits          └──exit, exec, death──┐
 *    └───────────────────────────────────────────────────────────────────── draining ◄───┘
 *
 * A run is over when its code is, or its shell, whoever else holds the pipes: what is in them at
 * that moment is delivered, then the end. What jobs write between runs is dropped.
 *
 * Who runs is interrupted as by Ctrl-C. What is left of the run is killed some time later, and the
 * shell itself when even that does not bring it back. A shell that was started anew, for that or
 * after an exit, is in the directory and has the exported variables that its predecessor had after
 * its last run. Jobs outlive it. shell_free() ends all of them, save what made a session of its
 * own.
 *
 * The code travels in a file without a name, the status over a socket that no code of a client can
 * reach but by looking for it, and under a number that only the run has. */
#pragma once

#include "base/err.h"
#include "execd/core/child.h"
#include "execd/core/reaper.h"
#include "net/loop.h"

enum {
    SHELL_READ_BYTES = 32 << 10, /* what one call of on_output brings at most */
    SHELL_CANNOT_START = 255,    /* the exit code of what never ran */
};

enum shell_stream { SHELL_STDOUT, SHELL_STDERR, SHELL_STREAMS };

struct shell;

struct shell_end {
    int exit_code;   /* -1: a signal, an interrupt, a timeout */
    bool started;    /* the shell ran */
    bool timed_out;  /* we ended it for that */
    bool died;       /* the shell is down */
    char error[256]; /* "exit status 3", "timeout after 500ms: signal: interrupt"; "" = none */
};

struct shell_owner {
    /* Borrowed, SHELL_READ_BYTES at most. False: no more until shell_resume. */
    bool (*on_output)(void *user, enum shell_stream from, struct str data);
    /* The run is over; all of its output was given. Once per shell_run that returned 0, and never
     * from within it. The owner may run the next, or free the shell. */
    void (*on_end)(void *user, const struct shell_end *end);
    /* It went down while nothing ran, or never came up; `why` is "signal: killed" or a sentence.
     * May be NULL. The owner may free the shell. */
    void (*on_down)(void *user, const char *why);
};

struct shell_conf {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    const char *cwd; /* to begin with; NULL = ours */
    const struct shell_owner *owner;
    void *user;
};

struct shell_job {       /* borrowed for the call */
    struct str setup;    /* as made by shell_setup() */
    struct str code;     /* holds no NUL */
    uint64_t timeout_ms; /* 0 = none; counted from shell_run */
};

int shell_new(const struct shell_conf *conf, struct shell **ret, struct err *e) MUST_USE;
void shell_free(struct shell *s); /* NULL is fine; on_end does not come any more */

/* Starts the best shell on the PATH of `env`, complete and NULL-terminated; `only` names the one
 * program to look for, or is NULL. Returns at once. -ENOENT when there is none. */
int shell_start(struct shell *s, const char *const *env, const char *only, struct err *e) MUST_USE;
bool shell_is_up(const struct shell *s); /* or on its way */

/* -EBUSY while it runs something, -EPIPE when it is down: start it, and try again. */
int shell_run(struct shell *s, const struct shell_job *job, struct err *e) MUST_USE;
bool shell_is_busy(const struct shell *s);
void shell_pause(struct shell *s);     /* as if on_output had said no */
void shell_resume(struct shell *s);    /* may call on_output and on_end */
void shell_interrupt(struct shell *s); /* what runs; may call on_end */
/* To every process of it. The shell gets SIGHUP for any but SIGKILL: an interactive one ignores the
 * others. */
void shell_signal(struct shell *s, int signo);

/* Why there is nothing to run: a sentence for a client. */
#define SHELL_MISSING "neither bash nor sh is on PATH: install bash in the image"
