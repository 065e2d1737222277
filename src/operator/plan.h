/* plan.h - what a decision wants done: writes, in order, and when to look again.
 *
 * A plan is data. Decisions fill it and touch nothing else, so that they can be tested without a
 * cluster; apply.h carries it out. Writes of one step run side by side, steps one after
 * another; the
 * first failure ends the plan, and the object is decided on anew. */
#pragma once

#include "base/arena.h"
#include "base/json.h"

enum { PLAN_BYTES_MAX = 32 * 1024 * 1024 };

enum object_kind { OBJECT_SANDBOX, OBJECT_POOL, OBJECT_SNAPSHOT, OBJECT_POD, OBJECT_JOB };

enum write_verb {
    WRITE_CREATE,
    WRITE_PATCH,        /* a JSON merge patch */
    WRITE_PATCH_STATUS, /* the same of the subresource status */
    WRITE_DELETE,       /* only the object with this uid */
    WRITE_TASKS,        /* POST /setTasks of the task executor at `address` */
    WRITE_EXEC,         /* a command in a container of the pod `name` */
};

struct write {
    enum write_verb verb;
    enum object_kind kind;
    unsigned step;
    struct str ns, name;  /* name: "" for generateName */
    struct str uid;       /* of WRITE_DELETE */
    struct str body;      /* JSON; of WRITE_EXEC an array of arguments */
    struct str address;   /* of WRITE_TASKS: the pod's IP */
    struct str container; /* of WRITE_EXEC */
    int64_t index;        /* of WRITE_TASKS: which task */
    struct str *granted;  /* of WRITE_PATCH: names of pods that it allocates */
    size_t granted_count;
    struct write *next;
};

struct event {
    bool warning;
    const char *reason;
    struct str message;
    struct event *next;
};

struct plan {
    struct arena arena;
    struct write *writes, **tail;
    struct event *events, **event_tail;
    size_t write_count;
    unsigned step;       /* of the writes that follow */
    int64_t again_us;    /* wall clock: look again then; 0 = only when something changes */
    struct str need_pod; /* decide again with this pod's whole object at hand */
    bool failed;         /* out of memory, or a template that cannot be used */
    struct err err;
};

void plan_init(struct plan *p);
void plan_done(struct plan *p);
#define auto_plan __attribute__((cleanup(plan_done))) struct plan

/* Adds a write and returns it for more fields; never NULL: past the limit the plan is `failed`. */
struct write *plan_write(struct plan *p, enum write_verb verb, enum object_kind kind, struct str ns,
                         struct str name);
void plan_next_step(struct plan *p);
void plan_event(struct plan *p, bool warning, const char *reason, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void plan_again_at(struct plan *p, int64_t us); /* the earliest of all calls counts */
void plan_fail(struct plan *p, const struct err *e);

/* The body of a write as the text of a tree; a NULL tree fails the plan. */
void plan_body(struct plan *p, struct write *w, const struct json *tree);
