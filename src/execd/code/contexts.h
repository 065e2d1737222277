/* contexts.h - code contexts: each has a kernel, which runs its cells and can be restarted. Loop
 * thread only.
 *
 *     alive --its process ends--> dead --the next cell--> alive
 *
 * A context runs one cell at a time and passes its events to the cell's follower. When the follower
 * leaves, the cell is interrupted and its further events are dropped; the next cell waits for its
 * end. Output between cells is dropped, too. */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "base/trace.h"
#include "execd/code/kernel.h"

enum {
    CONTEXTS_MAX = 128,
    CONTEXT_KERNEL_MAX = 128, /* name of a kernel, including NUL */
    CONTEXT_WHY_MAX = 512,
    CONTEXT_REVIVAL_MAX = CONTEXT_WHY_MAX + 256,
};

struct contexts; /* the table of all contexts */
struct telemetry;

/* Reports how the start of a context ended. `why` is NULL if it is ready. Otherwise it is the
 * reason, and the context is freed after this returns. */
typedef void context_settled_fn(void *user, const char *why);

/* A cell that waits for the end of another one whose follower left, or may have left. */
struct context_next {
    struct buf code;
    uint64_t timeout_ms;
    const struct kernel_owner *follower; /* NULL: no cell waits */
    void *user;
};

/* Read-only for other files. */
struct context {
    char id[ID_UUID_MAX];
    const char *language;
    const char *cwd;                 /* NULL = none was requested */
    char kernel[CONTEXT_KERNEL_MAX]; /* what runs it: "driver", "shell", "jupyter:SPEC" */
    bool busy;
    bool dead;                 /* its process ended */
    char why[CONTEXT_WHY_MAX]; /* why it ended, as a sentence */

    /* The remaining fields are private to contexts.c. */
    struct contexts *all;
    struct arena memory;
    const char *wanted; /* kind of kernel, "" = any */
    const char *spec;   /* kernelspec; NULL = any */
    const char *const *env;
    bool is_default; /* the default context of its language */
    struct kernel *running;
    const struct kernel_owner *follower; /* of the running cell; NULL: none */
    void *user;
    uint64_t begin_ns;       /* start of the running cell */
    struct trace_span span;  /* of the request that began it; all 0 = none */
    uint64_t oom_kills;      /* count when the cell or its kernel started: see exit_text.h */
    bool failed;             /* the cell reported an error */
    bool doubtful;           /* its follower may have left */
    bool abandoned;          /* its follower left: it was interrupted, and must end */
    struct loop_timer grace; /* when it expires, the process is killed */
    struct context_next next;
    context_settled_fn *settled; /* waits for its start; NULL: none */
    void *settled_user;
};

/* All strings are copied. */
struct context_spec {
    struct str language;
    struct str kernel; /* "" = the best available; "driver", "shell", "jupyter", "jupyter:SPEC" */
    const char *cwd;   /* must exist; NULL = execd's own */
    const char *const *env; /* complete, NULL-terminated */
    bool is_default;
};

void contexts_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct contexts **ret);
void contexts_free(struct contexts *all); /* kills all processes, no callbacks; NULL is fine */
void contexts_observe(struct contexts *all, struct telemetry *t); /* `t` counts all cells */
/* Followers of cells get on_death with `why`. */
void contexts_end_cells(struct contexts *all, const char *why);

/* Creates a context and starts its kernel, without waiting for it. -ENOENT with a message that says
 * what to install, -ENOTSUP for an unknown language, -EINVAL for an unknown kernel, -EAGAIN: too
 * many contexts. */
int context_new(struct contexts *all, const struct context_spec *spec, struct context **ret,
                struct err *e) MUST_USE;
/* True if it is not known yet whether the image has all that a new context needs. Then `settled` is
 * called once, never from within. NULL cancels it. */
bool context_await(struct context *c, context_settled_fn *settled, void *user);
/* Kills its processes. A follower of its cell gets on_death. */
void context_free(struct context *c);

struct context *contexts_find(const struct contexts *all, struct str id); /* NULL = unknown */
/* The default context of a language and kernel; NULL if there is none yet. */
struct context *contexts_default(const struct contexts *all, struct str language,
                                 struct str kernel);
/* Iterates over all, oldest first; *at starts at 0. The one returned may be freed. */
struct context *contexts_next(const struct contexts *all, size_t *at);

/* Restarts the kernel of a dead context: 1 if it did, 0 if it is alive. Fails like
 * context_new(). */
int context_revive(struct context *c, struct err *e) MUST_USE;
/* The message to the client of the first cell after that. */
void context_revival_text(const struct context *c, char text[CONTEXT_REVIVAL_MAX]);
/* Runs a cell. `follower` gets its events, never from within this call: output first, finally
 * either on_done or on_death. -EBUSY while another runs, except that one cell may wait for the end
 * of a cell that is doubtful or abandoned. timeout_ms 0: none. */
int context_run(struct context *c, struct str code, uint64_t timeout_ms,
                const struct kernel_owner *follower, void *user, struct err *e) MUST_USE;
void context_pause(struct context *c, bool on); /* the follower has no room, or room again */
/* The follower may have left; if so, context_leave() follows. */
void context_doubt(struct context *c, const void *user);
/* The follower left and gets no more events. Its cell is interrupted; if it does not end within the
 * kernel's grace_ms, its process is killed. A cell that still waits is dropped. */
void context_leave(struct context *c, const void *user);
/* Like Ctrl-C, for the running cell and the waiting one. Does nothing if there is none. */
void context_interrupt(struct context *c);
