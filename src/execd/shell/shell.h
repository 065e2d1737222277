/* shell.h - one long-lived shell: it executes code and reports output and exit codes, and keeps its
 * functions, variables, options, traps, directory and jobs. Loop thread only.
 *
 *   down ─shell_start()─► starting ─► idle ─shell_run()─► busy ─its report─► draining ─► idle
 *    ▲                       └─ a shell_run() waits         └─exit, exec, death─► draining ─┐
 *    └──────────────────────────────────────────────────────────────────────────────────────┘
 *
 * A run ends with its code or with its shell, even if other processes still hold the pipes: the
 * bytes in the pipes at that moment are delivered, then the end. Output of jobs between runs is
 * dropped.
 *
 * A run is interrupted as by Ctrl-C. Its remaining processes are killed some time later, and the
 * shell itself if it still does not return. A shell that is restarted, for that reason or after an
 * exit, has the directory and the exported variables that its predecessor had after its last run.
 * Jobs outlive the shell. shell_free() ends all of them, except those that called setsid.
 *
 * The code is passed in a memfd. The status comes over a socket that is closed while client code
 * runs (only a search through /proc would find it), with a nonce that only the run has. */
#pragma once

#include "base/err.h"
#include "execd/core/child.h"
#include "execd/core/reaper.h"
#include "net/loop.h"

enum {
    SHELL_READ_BYTES = 32 << 10, /* the most that one on_output call passes */
    SHELL_CANNOT_START = 255,    /* the exit code of a run that never ran */
};

enum shell_stream { SHELL_STDOUT, SHELL_STDERR, SHELL_STREAMS };

struct shell;

struct shell_end {
    int exit_code;   /* -1: a signal, an interrupt, a timeout */
    bool started;    /* the shell ran */
    bool timed_out;  /* ended because of its timeout */
    bool died;       /* the shell is down */
    char error[256]; /* "exit status 3", "timeout after 500ms: signal: interrupt"; "" = none */
};

struct shell_owner {
    /* `data` is borrowed, at most SHELL_READ_BYTES. False: no more calls until shell_resume. */
    bool (*on_output)(void *user, enum shell_stream from, struct str data);
    /* The run has ended and all of its output was delivered. Called once per shell_run that
     * returned 0, and never from within it. The owner may start the next run or free the shell. */
    void (*on_end)(void *user, const struct shell_end *end);
    /* The shell went down while nothing ran, or never started; `why` is "signal: killed" or a
     * message. May be NULL. The owner may free the shell. */
    void (*on_down)(void *user, const char *why);
};

struct shell_conf {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    const char *cwd; /* the initial directory; NULL = execd's own */
    const struct shell_owner *owner;
    void *user;
};

struct shell_job {       /* borrowed for the call */
    struct str setup;    /* from shell_setup() */
    struct str code;     /* contains no NUL */
    uint64_t timeout_ms; /* from shell_run on; 0 = none */
};

int shell_new(const struct shell_conf *conf, struct shell **ret, struct err *e) MUST_USE;
void shell_free(struct shell *s); /* NULL is fine; on_end is not called any more */

/* Starts the preferred shell (shell_kinds) on the PATH of `env`, which is complete and
 * NULL-terminated; `only` names the one program to look for, or is NULL. Does not block. -ENOENT
 * when none is found. */
int shell_start(struct shell *s, const char *const *env, const char *only, struct err *e) MUST_USE;
bool shell_is_up(const struct shell *s); /* or starting */

/* -EBUSY during another run, -EPIPE when the shell is down: start it and try again. */
int shell_run(struct shell *s, const struct shell_job *job, struct err *e) MUST_USE;
bool shell_is_busy(const struct shell *s);
void shell_pause(struct shell *s);     /* as if on_output had returned false */
void shell_resume(struct shell *s);    /* may call on_output and on_end */
void shell_interrupt(struct shell *s); /* interrupts the run; may call on_end */
/* Signals every process of the shell. The shell itself gets SIGHUP instead of any signal but
 * SIGKILL: an interactive shell ignores the others. */
void shell_signal(struct shell *s, int signo);

/* The message for a client when no shell is found. */
#define SHELL_MISSING "neither bash nor sh is on PATH: install bash in the image"
