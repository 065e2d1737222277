/* init.h - the main loop of a sandbox's first process: it starts the entrypoint, reaps orphans and
 * ends the sandbox.
 *
 *     starting --entrypoint runs--> running --it ends, or SIGTERM/SIGINT--> ending --> over
 *        \--it cannot run--> over               \--(grace is over)--> killing --/
 *
 * When the entrypoint ends, all other processes get SIGTERM and soon after SIGKILL. On SIGTERM or
 * SIGINT, all processes get that signal and have grace_ms to end. The exit report is updated at
 * each step. At the end, open streams have drain_ms to deliver their last data to their clients. */
#pragma once

#include "execd/init/entry.h"
#include "execd/isolated/isolated.h"
#include "execd/log/log_file.h"
#include "execd/metrics/metrics.h"

struct init_conf {
    int listen_fd; /* ownership passes to init_run() */
    bool channel;  /* listen_fd passes connections, and notes of src/sandbox/oci.h */
    int exit_fd;   /* of the exit report; -EBADF = none. The caller closes it */
    int log_fd;    /* of the entrypoint's log; -EBADF = none. The caller closes it */
    uint32_t grace_ms;
    uint32_t drain_ms;    /* time for open streams to finish at the end */
    bool forward_signals; /* SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH go to the entrypoint */
    bool log_use;         /* log requests and commands, see use_log.h */
    struct log_file *log; /* init_run() checks its size; NULL = none */
    int certificates_fd;  /* for certificates_hear(); -EBADF = none. init_run() closes it */
    const char *access_token; /* clients must send it; NULL or "" = none */
    struct metrics_source metrics;
    struct isolated_conf isolated;
    const char *cwd;         /* made if missing, as engines do, and then execd's own; NULL = stay */
    struct entry_conf entry; /* init_run() closes its keep_fd */
};

/* Runs until the sandbox is over. Returns the exit status: that of the entrypoint, 128 + the signal
 * that killed it, 127 if the program does not exist, 126 if it cannot be run. As PID 1 it reaps and
 * ends every process. Otherwise it reaps only its descendants and signals only the entrypoint's
 * process group. */
int init_run(const struct init_conf *conf);
