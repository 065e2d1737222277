/* shell_internal.h - what a living shell is made of. */
#pragma once

#include "base/buf.h"
#include "execd/shell/shell.h"
#include "execd/shell/shell_script.h"

enum { SHELL_PAST_MAX = 8 };

/* The pipe of one output. It lives as long as the shell object, and both ends are ours, so that
 * jobs of a shell that went down write on. */
struct shell_output {
    struct loop_io io;
    struct shell *shell;
    int ends[2]; /* ours to read, and theirs */
    size_t due;  /* bytes still to deliver once the run is over */
    bool watched;
};

/* How far ending a run has got. */
enum shell_stop { SHELL_STOP_NOT, SHELL_STOP_ASKED, SHELL_STOP_KILLED, SHELL_STOP_REPLACED };

struct shell {
    struct shell_conf conf;
    char *cwd; /* where a successor begins; NULL = where we are */
    struct shell_output outputs[SHELL_STREAMS];
    int code_fd, state_fd;      /* memory files */
    pid_t past[SHELL_PAST_MAX]; /* session numbers of predecessors that left jobs; 0 = free */

    /* The process. */
    const struct shell_kind *kind;
    struct reaper_child child; /* pid 0: down */
    pid_t sid;                 /* its number, also of the session that it leads */
    pid_t pid;                 /* of the shell: the same, or its only child; 0 = not known yet */
    struct loop_io report;     /* of the spawn; -EBADF once it was read */
    struct loop_io control;    /* -EBADF: none, or it was closed */
    int input;                 /* of the shell: lines that are the loop */
    bool ready, syncing, trace;
    char sync_nonce[SHELL_NONCE_MAX];
    struct loop_timer watch; /* that it starts, or answers, in time */

    /* The run. */
    bool busy, sent, over, paused;
    char nonce[SHELL_NONCE_MAX];
    uint64_t oom_kills; /* when the run began, see exit_text.h */
    struct shell_end end;
    struct loop_timer timeout, stopping;
    uint64_t timeout_ms, kill_ns, since_ticks;
    uint64_t replace_ns, patience_ns; /* UINT64_MAX before kill_ns */
    enum shell_stop stop;
    bool lost; /* the interrupt came before the run began, which it may have done since */
    uint64_t stop_ticks, look_ms; /* when it was to stop, and how long until the next look */
    uint64_t kill_ticks, ran_ms; /* the first SIGKILL; what the shell had run when it was to stop */
    bool starved;                /* it was replaced for want of time */
    unsigned looks;              /* since then, not counting the first quick ones */
};

/* --- shell.c --- */

int shell_say_code(struct shell *s) MUST_USE; /* the shell is ready for what waits */
void shell_run_over(struct shell *s, const struct proc_exit *how);

/* --- shell_process.c --- */

void shell_went_down(struct shell *s); /* forgets the process and what belongs to it */
int shell_say(struct shell *s, char what, const char *nonce) MUST_USE;
int shell_keep_loop(const struct shell *s) MUST_USE; /* so that there is one to come back to */
void shell_sync(struct shell *s);
void shell_kill_all(struct shell *s); /* and those of the past */

/* --- shell_output.c --- */

int shell_outputs_open(struct shell *s, struct err *e) MUST_USE;
void shell_outputs_close(struct shell *s);
void shell_outputs_watch(struct shell *s);
void shell_outputs_ignore(struct shell *s);
void shell_outputs_drop(struct shell *s);    /* what is in the pipes now is nobody's */
void shell_outputs_measure(struct shell *s); /* what is in the pipes now is due */
bool shell_outputs_deliver(struct shell *s); /* true when nothing is due any more */

/* --- shell_stop.c --- */

void shell_stop_run(struct shell *s, bool timed_out);
/* When one that is stopping is looked at again: after look_ms, but what is due is not late. */
uint64_t shell_stop_next_ns(const struct shell *s, uint64_t now_ns);
/* What an end says of a run that was stopped. */
void shell_stop_text(const struct shell *s, const struct proc_exit *how, struct buf *out);
