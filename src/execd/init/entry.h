/* entry.h - the entrypoint: the process whose life is the sandbox's, and its output. */
#pragma once

#include "base/proc.h"
#include "execd/core/child.h"
#include "execd/init/entry_log.h"
#include "net/loop.h"

struct entry_conf {
    const char *const *argv; /* NULL-terminated, not empty; argv[0] is looked up in PATH */
    const char *cwd;         /* NULL = ours */
    uint32_t uid, gid;       /* EXECD_KEEP_ID = ours */
    struct child_place place;
    bool keep_output; /* it writes where we do, and nothing is logged */
    int keep_fd;      /* a descriptor it inherits, under the same number; 0 = none */
};

struct entry_pipe {
    struct loop_io io; /* fd is -EBADF once it ended */
    struct entry *entry;
};

struct entry {
    struct loop *loop;
    struct entry_log *log;
    struct proc proc; /* pid 0: no process */
    struct entry_pipe pipes[2];
    bool log_failed; /* said so once */
};

/* Starts it in a session of its own, its output going to `log`. Blocks until the program runs or
 * the reason why it does not is known. */
int entry_start(struct entry *en, struct loop *loop, struct entry_log *log,
                const struct entry_conf *conf, struct err *e) MUST_USE;

/* The process was reaped: takes in what it left in its pipes, without waiting for more. */
void entry_ended(struct entry *en);
/* Takes in what is there once more, and closes. Never started is fine, when it is all zero. */
void entry_done(struct entry *en);
