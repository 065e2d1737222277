/* contexts.h - code contexts: a kernel each, its cells, its end and its next life. Loop thread
 * only.
 *
 *     alive --its process ends--> dead --the next cell--> alive
 *
 * A context runs one cell at a time, and its follower hears what the cell tells. When the follower
 * leaves, the cell is interrupted and what it still tells is dropped; the next cell waits for its
 * end. What is printed between cells is dropped, too. */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "execd/code/kernel.h"

enum {
    CONTEXTS_MAX = 128,
    CONTEXT_KERNEL_MAX = 128, /* of the name of a kernel, NUL included */
    CONTEXT_WHY_MAX = 512,
    CONTEXT_REVIVAL_MAX = CONTEXT_WHY_MAX + 256,
};

struct contexts; /* the table of all */
struct telemetry;

/* How the start of a context ended; `why` is NULL when it is ready, and else what is wrong, and the
 * context is gone when this returns. */
typedef void context_settled_fn(void *user, const char *why);

/* A cell that waits for the end of one whose follower left, or may have left. */
struct context_next {
    struct buf code;
    uint64_t timeout_ms;
    const struct kernel_owner *follower; /* NULL: there is none */
    void *user;
};

/* All read-only for others. */
struct context {
    char id[ID_UUID_MAX];
    const char *language;
    const char *cwd;                 /* NULL = none was asked for */
    char kernel[CONTEXT_KERNEL_MAX]; /* what runs it: "driver", "shell", "jupyter:SPEC" */
    bool busy;
    bool dead;                 /* its process ended */
    char why[CONTEXT_WHY_MAX]; /* a sentence about that */

    /* The rest is ours. */
    struct contexts *all;
    struct arena memory;
    const char *wanted; /* kind of kernel, "" = any */
    const char *spec;   /* of the kernel; NULL = any */
    const char *const *env;
    bool is_default; /* of its language */
    struct kernel *running;
    const struct kernel_owner *follower; /* NULL: nobody */
    void *user;
    uint64_t begin_ns;       /* of what runs */
    uint64_t oom_kills;      /* when it, or its kernel, began: see exit_text.h */
    bool failed;             /* it told an error */
    bool doubtful;           /* its follower may have left */
    bool abandoned;          /* its follower left: it was interrupted, and must end */
    struct loop_timer grace; /* then its process is killed */
    struct context_next next;
    context_settled_fn *settled; /* who waits for its start; NULL: nobody */
    void *settled_user;
};

/* Copied. */
struct context_spec {
    struct str language;
    struct str kernel; /* "" = the best there is; "driver", "shell", "jupyter", "jupyter:SPEC" */
    const char *cwd;   /* exists; NULL = ours */
    const char *const *env; /* NULL-terminated, complete */
    bool is_default;
};

void contexts_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct contexts **ret);
void contexts_free(struct contexts *all); /* NULL is fine; ends their processes, tells nobody */
void contexts_observe(struct contexts *all, struct telemetry *t); /* it hears of every end */
/* Whoever follows a cell is told that it died, and why. */
void contexts_end_cells(struct contexts *all, const char *why);

/* Makes a context and starts its kernel, without waiting for it. -ENOENT with a sentence that says
 * what to install, -ENOTSUP for a language nobody knows, -EINVAL for such a kernel, -EAGAIN when
 * there are too many. */
int context_new(struct contexts *all, const struct context_spec *spec, struct context **ret,
                struct err *e) MUST_USE;
/* Whether a new context may still turn out to lack something of the image. Then `settled` is called
 * once, never from within; with NULL nobody waits any more. */
bool context_await(struct context *c, context_settled_fn *settled, void *user);
/* Ends its processes. Whoever follows its cell is told that it died. */
void context_free(struct context *c);

struct context *contexts_find(const struct contexts *all, struct str id); /* NULL = unknown */
/* The default of a language, as that kernel; NULL when there is none yet. */
struct context *contexts_default(const struct contexts *all, struct str language,
                                 struct str kernel);
/* Walks all, oldest first; *at begins at 0. The one returned may be freed. */
struct context *contexts_next(const struct contexts *all, size_t *at);

/* Starts the kernel of a dead context again: 1 when it did, 0 when it lives. Fails as context_new.
 */
int context_revive(struct context *c, struct err *e) MUST_USE;
/* What the client of the first cell after that is told. */
void context_revival_text(const struct context *c, char text[CONTEXT_REVIVAL_MAX]);
/* Runs a cell; `follower` hears what becomes of it, never from within this call: first output, in
 * the end one of on_done and on_death. -EBUSY while another runs; but one cell may wait for the end
 * of another that is doubtful or abandoned. timeout_ms 0: none. */
int context_run(struct context *c, struct str code, uint64_t timeout_ms,
                const struct kernel_owner *follower, void *user, struct err *e) MUST_USE;
void context_pause(struct context *c, bool on); /* the follower has enough, or room again */
/* The follower may be gone: if so, context_leave() follows. */
void context_doubt(struct context *c, const void *user);
/* The follower is gone and hears no more. Its cell is interrupted, and its process killed when it
 * does not end within grace_ms of its kernel; a cell that still waits is dropped. */
void context_leave(struct context *c, const void *user);
/* As Ctrl-C, for the cell that runs and the one that waits; nothing runs: nothing happens. */
void context_interrupt(struct context *c);
