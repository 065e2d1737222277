/* init.h - the life of a sandbox, seen from its first process: one entrypoint, every orphan, one
 * end.
 *
 *     starting --entrypoint runs--> running --it ends, or SIGTERM/SIGINT--> ending --> over
 *        \--it cannot run--> over               \--(grace is over)--> killing --/
 *
 * When the entrypoint ends the rest is asked to (SIGTERM) and soon made to. On SIGTERM or SIGINT
 * everyone gets that signal and has grace_ms. The exit report follows each step. At last, streams
 * have drain_ms to take their ends to their clients. */
#pragma once

#include "execd/core/log_file.h"
#include "execd/init/entry.h"
#include "execd/isolated/isolated.h"
#include "execd/metrics/metrics.h"

struct init_conf {
    int listen_fd; /* taken over */
    int exit_fd;   /* of the exit report; -EBADF = none. Stays the caller's, as the next */
    int log_fd;    /* of the entrypoint's log; -EBADF = none */
    uint32_t grace_ms;
    uint32_t drain_ms;    /* at the end, for streams to end in */
    bool forward_signals; /* SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH go to the entrypoint */
    bool log_use;         /* requests and commands, see use_log.h */
    struct log_file *log; /* to be kept small; NULL = none */
    int certificates_fd;  /* whence certificates_hear(); -EBADF = from nobody. Taken over */
    const char *access_token; /* clients must know it; NULL or "" = none */
    struct metrics_source metrics;
    struct isolated_conf isolated;
    struct entry_conf entry; /* its keep_fd is taken over */
};

/* Runs until the sandbox is over. Returns the status to exit with: the entrypoint's, 128 + the
 * signal that ended it, 127 when there is no such program, 126 when it cannot be run. As PID 1 it
 * reaps and ends every process; otherwise only what descends from it is reaped, and only the
 * entrypoint's process group is signalled. */
int init_run(const struct init_conf *conf);
