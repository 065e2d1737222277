/* sandboxes_internal.h - what sandboxes.c, ops.c and reconcile.c share. */
#pragma once

#include "base/map.h"
#include "server/core/sandboxes.h"

struct sandboxes {
    struct sandboxes_conf conf;
    struct map by_id;
    struct list order;     /* by creation, oldest first */
    _Atomic size_t stored; /* members that are visible */
    size_t busy;           /* operations that are not done */
    struct loop_timer reconcile;
    struct reconcile *reconciling; /* the round under way, or NULL */
};

/* An operation on its way. Workers read what stands before `fail` and write what stands from there
 * on; the loop does neither until they are done. */
struct op {
    struct pool_job job;
    struct list link; /* waits in its sandbox */
    struct sandbox *sb;
    const struct op_kind *kind;
    op_done_fn *done;
    void *user;
    struct arena arena; /* of what follows */
    struct api_create spec;
    struct api_patch patch;
    int64_t expires_us, expected_us; /* expected: the expiry it replaces; 0 = any */
    /* When the work is done, on the loop: true when more work will follow. May be NULL. */
    bool (*go_on)(struct op *op);
    struct loop_io started_io;       /* of create: waits for birth.started, */
    struct loop_timer started_timer; /* at most so long */
    bool settled;                    /* of create: the second half is done, or needless */
    bool start_ended;                /* of create: birth.started has ended */

    struct api_fail fail; /* status 0 = success */
    bool changed, removed, disk_full;
    bool unsure; /* it failed, and may come all the same */
    struct {     /* the status it has now, if changed */
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
    unsigned from;           /* STATE_BITs in which it may begin */
    const char *refuse_code; /* of the 409 otherwise */
    void (*work)(struct op *op);
    void (*apply)(struct op *op); /* on the loop, when it succeeded; may be NULL */
    const char *fail_code;        /* of a 500 */
};

#define STATE_ANY (STATE_BIT(SANDBOX_STATE_COUNT) - 1)
#define STATE_LIVE                                                                                 \
    (STATE_BIT(SANDBOX_PENDING) | STATE_BIT(SANDBOX_RUNNING) | STATE_BIT(SANDBOX_PAUSING) |        \
     STATE_BIT(SANDBOX_PAUSED) | STATE_BIT(SANDBOX_RESUMING))

/* A new member of the table, of which only id, strings and times are to be set. NULL when the table
 * is full. */
struct sandbox *sandbox_new(struct sandboxes *t, struct str id);
void sandbox_show(struct sandbox *sb);          /* its row is written; any thread */
void sandbox_drop(struct sandbox *sb);          /* out of the table; freed when no op is left */
void sandbox_release(struct sandbox *sb);       /* frees it if it may be */
void sandbox_attend(struct sandbox *sb);        /* ends it if its time is over, else its timer */
void sandbox_arm(struct sandbox *sb);           /* its timer, after a change of state or expiry */
void sandbox_retry(struct sandbox *sb);         /* its timer, after what it began has failed */
void sandbox_watch(struct sandbox *sb, int fd); /* takes it over; -EBADF stops watching */
void sandbox_set_status(struct sandbox *sb, enum sandbox_state state, const char *reason,
                        const char *message, int64_t now_us);

void sandboxes_op_ended(struct sandboxes *t);
char *sandbox_text(struct str s); /* as a C string; free() it */

void op_abandon(struct op *op); /* ends a create that waits for the entrypoint; else nothing */

void sandbox_expire(struct sandbox *sb); /* begins to end it, as it is due */
void sandbox_sync(struct sandbox *sb);   /* asks the runtime how it is */
