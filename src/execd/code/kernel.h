/* kernel.h - interface of what runs the cells of one code context: a built-in driver or a Jupyter
 * kernel. Loop thread only.
 *
 *     starting --ready--> idle --kernel_run()--> busy --on_done--> idle
 *         \___________________\___________________\--on_death--> dead
 *
 * A kernel is one process. It runs one cell at a time; the owner rejects further ones meanwhile. A
 * cell given during the start runs when the kernel is ready. */
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
    KERNEL_FAILED,  /* on_error reported how */
    KERNEL_TIMEOUT, /* its time was up; on_error was not called */
};

/* Callbacks to the owner, never from within run(), start() or pause(). Strings are borrowed. Values
 * of a bundle are strings, or JSON for JSON MIME types (application/json and ...+json). From
 * within, the owner may call pause(), run() or interrupt(); free() only from within on_death. */
struct kernel_owner {
    void (*on_stream)(void *user, const char *type, struct str text); /* "stdout", "stderr" */
    void (*on_result)(void *user, uint64_t count, const struct json *bundle);
    /* display() and similar. `id` is empty if there is none; update: replaces the display with that
     * id. */
    void (*on_display)(void *user, struct str id, bool update, const struct json *bundle);
    void (*on_error)(void *user, struct str name, struct str value, const struct json *traceback);
    void (*on_done)(void *user, enum kernel_end end); /* once per cell, after all of the above */
    /* The process ended, in any state; called instead of on_done. Only now the kernel may be freed.
     * `why` is a sentence. */
    void (*on_death)(void *user, const char *why);
    void (*on_ready)(void *user); /* `unsure` of struct kernel became false; may be NULL */
};

struct kernel_conf {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    const char *const *env; /* environment of the process, complete, NULL-terminated */
    const char *cwd;        /* must exist; NULL = execd's own */
    const char *spec;       /* kernel_jupyter: name of a kernelspec; NULL: any of the language */
    const struct kernel_owner *owner;
    void *user;
};

/* One implementation. */
struct kernel_ops {
    /* Starts the process and returns at once. -ENOTSUP for a language it never runs; -ENOENT and a
     * message that says what to install if the image lacks it. */
    int (*start)(const struct kernel_conf *conf, struct str language, struct kernel **ret,
                 struct err *e);
    /* timeout_ms 0: none. -EBUSY while a cell runs, -EPIPE if it is dead. */
    int (*run)(struct kernel *k, struct str code, uint64_t timeout_ms, struct err *e);
    int (*interrupt)(struct kernel *k); /* like Ctrl-C; does nothing if nothing runs */
    /* The owner has no room, or room again. While paused, the only callback is on_death, and little
     * is read, so that the process blocks. Initially not paused; may also be called between
     * cells. */
    void (*pause)(struct kernel *k, bool on);
    void (*free)(struct kernel *k); /* kills its processes; NULL is fine; no more callbacks */
    /* Time for a cell to end after interrupt(); then the owner frees the kernel. 0: the kernel
     * itself kills what does not end. */
    uint32_t grace_ms;
};

/* The first member of every implementation. */
struct kernel {
    const struct kernel_ops *ops;
    const char *name; /* shown to clients: "driver", "shell", "jupyter:SPEC"; freed with it */
    /* Only the process can tell whether the image has all it needs: on_ready or on_death
     * follows. */
    bool unsure;
};

/* driver.h: python, javascript, typescript, java, go */
extern const struct kernel_ops kernel_driver;
extern const struct kernel_ops kernel_shell;   /* shell_kernel.c: bash */
extern const struct kernel_ops kernel_jupyter; /* jupyter.h: any kernelspec of the image */
