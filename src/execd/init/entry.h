/* entry.h - the entrypoint process and its output. The sandbox ends when this process ends. */
#pragma once

#include "base/proc.h"
#include "execd/core/child.h"
#include "execd/core/child_pipe.h"
#include "execd/init/entry_log.h"

struct entry_conf {
    const char *const *argv;  /* NULL-terminated, not empty; argv[0] is looked up in PATH */
    struct child_place place; /* its user is that of the entrypoint, too */
    bool keep_output;         /* it inherits our stdout and stderr, and nothing is logged */
    int keep_fd;              /* a descriptor it inherits under the same number; 0 = none */
};

struct entry_pipe {
    struct child_pipe pipe;
    struct entry *entry;
};

struct entry {
    struct loop *loop;
    struct entry_log *log;
    struct proc proc; /* pid 0: no process */
    struct entry_pipe pipes[2];
    bool log_failed; /* the failure was logged; log it only once */
};

/* Starts the entrypoint in a new session (setsid) and sends its output to `log`. Blocks until
 * exec() has succeeded or failed. */
int entry_start(struct entry *en, struct loop *loop, struct entry_log *log,
                const struct entry_conf *conf, struct err *e) MUST_USE;

/* Call after the process was reaped. Reads what is left in its pipes, without waiting for more. */
void entry_ended(struct entry *en);
/* Reads the pipes a last time and closes them. May be called on a zeroed struct that was never
 * started. */
void entry_done(struct entry *en);
