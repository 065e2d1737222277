/* kernel.h - what runs the cells of one code context: a built-in driver or a Jupyter kernel.
 * Loop thread only.
 *
 *     starting --ready--> idle --kernel_run()--> busy --on_done--> idle
 *         \___________________\___________________\--on_death--> dead
 *
 * A kernel is one process. It takes one cell at a time; whoever asks for another meanwhile is told
 * so by its owner. A cell given while it starts is run when it is ready. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "execd/core/child.h"
#include "execd/core/reaper.h"
#include "net/loop.h"

struct kernel;

enum { KERNEL_GRACE_MS = 10 * 1000 };

enum kernel_end {
    KERNEL_OK,      /* the cell ran to its end */
    KERNEL_FAILED,  /* on_error said how */
    KERNEL_TIMEOUT, /* its time was up; on_error did not come */
};

/* Told to the owner, never from within run(), start() or pause(). Texts are lent. Values of a
 * bundle are strings, or JSON for the MIME types that are (application/json and ...+json). The
 * owner may pause(), run() or interrupt() from within; free() only from within on_death. */
struct kernel_owner {
    void (*on_stream)(void *user, const char *type, struct str text); /* "stdout", "stderr" */
    void (*on_result)(void *user, uint64_t count, const struct json *bundle);
    /* display() and its kind. `id` is empty without one; update: it replaces what had that id. */
    void (*on_display)(void *user, struct str id, bool update, const struct json *bundle);
    void (*on_error)(void *user, struct str name, struct str value, const struct json *traceback);
    void (*on_done)(void *user, enum kernel_end end); /* once per cell, after all of the above */
    /* The process is gone, whatever it was doing; comes instead of on_done. The kernel may then be
     * freed, not before. `why` is a sentence. */
    void (*on_death)(void *user, const char *why);
    void (*on_ready)(void *user); /* it is no longer unsure (struct kernel); may be NULL */
};

struct kernel_conf {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    const char *const *env; /* NULL-terminated: of the process, complete */
    const char *cwd;        /* exists; NULL = ours */
    const char *spec; /* kernel_jupyter: the name of a kernelspec; NULL: any of the language */
    const struct kernel_owner *owner;
    void *user;
};

/* One way to run a language. */
struct kernel_ops {
    /* Starts the process and returns at once. -ENOTSUP for a language it never runs; -ENOENT and a
     * sentence that says what to install when the image lacks it. */
    int (*start)(const struct kernel_conf *conf, struct str language, struct kernel **ret,
                 struct err *e);
    /* timeout_ms 0: none. -EBUSY while a cell runs, -EPIPE when it is dead. */
    int (*run)(struct kernel *k, struct str code, uint64_t timeout_ms, struct err *e);
    int (*interrupt)(struct kernel *k); /* as Ctrl-C; nothing runs: nothing happens */
    /* Whoever follows has enough, or has room again: while paused nothing is told but a death, and
     * little is read, so that the process waits. Begins unpaused; also between cells. */
    void (*pause)(struct kernel *k, bool on);
    void (*free)(struct kernel *k); /* ends its processes, at once; NULL is fine; no more calls */
    /* How long a cell that must end may take after interrupt(); then its owner frees the kernel.
     * 0: the kernel itself kills what does not end. */
    uint32_t grace_ms;
};

/* The first member of every implementation. */
struct kernel {
    const struct kernel_ops *ops;
    const char *name; /* what clients see: "driver", "shell", "jupyter:SPEC"; lives as it does */
    /* Only its process can tell whether the image has all it needs: on_ready or on_death comes. */
    bool unsure;
};

extern const struct kernel_ops
    kernel_driver; /* driver.h: python, javascript, typescript, java, go */
extern const struct kernel_ops kernel_shell;   /* shell_kernel.h: bash */
extern const struct kernel_ops kernel_jupyter; /* jupyter.h: any kernelspec of the image */
