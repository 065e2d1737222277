/* sandboxes_internal.h - what sandboxes.c, ops.c and reconcile.c share. */
#pragma once

#include "base/map.h"
#include "server/core/sandboxes.h"

struct sandboxes {
    struct sandboxes_conf conf;
    struct map by_id;
    struct list order;     /* in order of creation, oldest first */
    _Atomic size_t stored; /* number of visible sandboxes */
    size_t busy;           /* number of operations that have not ended */
    struct loop_timer reconcile;
    struct reconcile *reconciling; /* the current round, or NULL */
};

/* A queued or running operation. The worker reads the fields before `fail`, and writes those from
 * `fail` on; the loop uses neither until the worker is done. */
struct op {
    struct pool_job job;
    struct list link; /* in the queue of its sandbox */
    struct sandbox *sb;
    const struct op_kind *kind;
    op_done_fn *done;
    void *user;
    struct arena arena; /* memory of spec and patch */
    struct api_create spec;
    struct api_patch patch;
    int64_t expires_us, expected_us; /* expected: the expiry it replaces; 0 = any */
    /* Called on the loop when the work is done; true when more work follows. May be NULL. */
    bool (*go_on)(struct op *op);
    struct loop_io started_io;       /* of create: waits for birth.started */
    struct loop_timer started_timer; /* limits that wait */
    bool settled;                    /* of create: the second half is done, or not needed */
    bool start_ended;                /* of create: birth.started reached end of file */

    struct api_fail fail; /* status 0 = success */
    bool changed, removed, disk_full;
    bool unsure; /* it failed, but may still take effect */
    struct {     /* the new status, if changed */
        enum sandbox_state state;
        const char *reason;
        struct err err;
        int64_t now_us;
    } now;
    struct str metadata;
    int watch; /* -EBADF = none */
    struct runtime_birth birth;
    struct err why; /* of create: why it failed; code 0 = it did not */
};

struct op_kind {
    const char *name;
    unsigned from;           /* STATE_BITs of states it may start in */
    const char *refuse_code; /* error code of the 409 in other states */
    void (*work)(struct op *op);
    void (*apply)(struct op *op); /* called on the loop after success; may be NULL */
    const char *fail_code;        /* error code of a 500 */
};

#define STATE_ANY (STATE_BIT(SANDBOX_STATE_COUNT) - 1)
#define STATE_LIVE                                                                                 \
    (STATE_BIT(SANDBOX_PENDING) | STATE_BIT(SANDBOX_RUNNING) | STATE_BIT(SANDBOX_PAUSING) |        \
     STATE_BIT(SANDBOX_PAUSED) | STATE_BIT(SANDBOX_RESUMING))

/* Adds a sandbox to the table; the caller sets id, strings and times only. NULL when the table is
 * full. */
struct sandbox *sandbox_new(struct sandboxes *t, struct str id);
void sandbox_show(struct sandbox *sb);    /* call when its row is stored; any thread */
void sandbox_drop(struct sandbox *sb);    /* removes it from the table; freed after its last op */
void sandbox_release(struct sandbox *sb); /* frees it if nothing uses it */
void sandbox_attend(struct sandbox *sb);  /* ends it if it is due, else sets its timer */
void sandbox_arm(struct sandbox *sb);     /* sets its timer, after a change of state or expiry */
void sandbox_retry(struct sandbox *sb);   /* sets its timer, after its operation failed */
void sandbox_watch(struct sandbox *sb, int fd); /* takes ownership of fd; -EBADF stops watching */
void sandbox_set_status(struct sandbox *sb, enum sandbox_state state, const char *reason,
                        const char *message, int64_t now_us);

void sandboxes_op_ended(struct sandboxes *t);
char *sandbox_text(struct str s); /* copy as a C string; free() it */

void op_abandon(struct op *op); /* stops a create's wait for the entrypoint; else nothing */

void sandbox_expire(struct sandbox *sb); /* starts to end it, as it is due */
void sandbox_sync(struct sandbox *sb);   /* asks the runtime for its state */
