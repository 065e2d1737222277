/* shell_internal.h - the private state of a shell. */
#pragma once

#include "base/buf.h"
#include "execd/core/child_pipe.h"
#include "execd/core/child_proc.h"
#include "execd/shell/shell.h"
#include "execd/shell/shell_script.h"

enum { SHELL_PAST_MAX = 8 };

/* The pipe of one output. It lives as long as the shell object, and execd keeps both ends open, so
 * that jobs of a shell that went down can still write. */
struct shell_output {
    struct child_pipe pipe; /* due: still to deliver after the run ended */
    struct shell *shell;
    int end; /* the shell's */
};

/* The progress of ending a run. */
enum shell_stop { SHELL_STOP_NOT, SHELL_STOP_ASKED, SHELL_STOP_KILLED, SHELL_STOP_REPLACED };

struct shell {
    struct shell_conf conf;
    char *cwd; /* where the next shell starts; NULL = execd's own */
    struct shell_output outputs[SHELL_STREAMS];
    int code_fd, state_fd;      /* memfds */
    pid_t past[SHELL_PAST_MAX]; /* session ids of earlier shells that left jobs; 0 = free */

    /* The process. */
    const struct shell_kind *kind;
    struct child_proc child; /* pid 0: down */
    pid_t sid;               /* pid of the child, and id of the session it leads */
    pid_t pid;               /* of the shell: the same, or its only child; 0 = unknown */
    struct loop_io control;  /* -EBADF: none, or it was closed */
    int input;               /* standard input of the shell: lines of the loop */
    bool ready, syncing, trace;
    char sync_nonce[SHELL_NONCE_MAX];
    struct loop_timer watch; /* limit for its start and for its answer */

    /* The run. */
    bool busy, sent, over, paused;
    char nonce[SHELL_NONCE_MAX];
    uint64_t oom_kills; /* at the start of the run, see exit_text.h */
    struct shell_end end;
    struct loop_timer timeout, stopping;
    uint64_t timeout_ms, kill_ns, since_ticks;
    uint64_t replace_ns, patience_ns; /* UINT64_MAX before kill_ns */
    enum shell_stop stop;
    bool lost; /* the interrupt came before the code began to run, which may have begun since */
    uint64_t stop_ticks, look_ms; /* time of the stop; delay until the next check */
    uint64_t kill_ticks, ran_ms;  /* time of the first SIGKILL; CPU time of the shell at the stop */
    bool starved;                 /* it was replaced because it got no CPU time */
    unsigned looks;               /* checks so far, without the first quick ones */
};

/* --- shell.c --- */

int shell_say_code(struct shell *s) MUST_USE; /* the shell is ready: starts the waiting run */
void shell_run_over(struct shell *s, const struct proc_exit *how);

/* --- shell_process.c --- */

void shell_went_down(struct shell *s); /* drops the state of the process */
int shell_say(struct shell *s, char what, const char *nonce) MUST_USE;
int shell_keep_loop(const struct shell *s) MUST_USE; /* so that the shell can re-enter its loop */
void shell_sync(struct shell *s);
void shell_kill_all(struct shell *s); /* including jobs of earlier shells */

/* --- shell_output.c --- */

int shell_outputs_open(struct shell *s, struct err *e) MUST_USE;
void shell_outputs_close(struct shell *s);
void shell_outputs_watch(struct shell *s);
void shell_outputs_ignore(struct shell *s);
void shell_outputs_drop(struct shell *s);    /* discards what is in the pipes now */
void shell_outputs_measure(struct shell *s); /* what is in the pipes now becomes due */
bool shell_outputs_deliver(struct shell *s); /* true when nothing is due any more */

/* --- shell_stop.c --- */

void shell_stop_run(struct shell *s, bool timed_out);
/* When to check a stopping run again: after look_ms, or earlier if the next deadline is. */
uint64_t shell_stop_next_ns(const struct shell *s, uint64_t now_ns);
/* The error text of a run that was stopped. */
void shell_stop_text(const struct shell *s, const struct proc_exit *how, struct buf *out);
