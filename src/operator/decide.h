/* decide.h - the operator's decisions: observed state in, a plan of writes out. Pure: no
 * cluster, no
 * clock, no memory of earlier passes.
 *
 * Each decision can be taken again after any of its writes failed, or was done by a process that
 * died before it knew: it then asks for what is left. */
#pragma once

#include "operator/facts.h"
#include "operator/plan.h"

struct settings { /* from the command line */
    struct str committer_image, containerd_socket;
    struct str registry, push_secret, pull_secret;
    bool registry_insecure;
    int64_t commit_timeout_s;
};

/* --- tasks --- */

enum task_state { TASK_UNASKED, TASK_RUNNING, TASK_SUCCEED, TASK_FAILED, TASK_UNKNOWN, TASK_GONE };

struct task_view { /* the last answer of the task executor of one index */
    enum task_state state;
    struct str pod_uid; /* which answered */
    int64_t asked_us;   /* 0 = never */
    bool unreachable;   /* the last request failed */
};

/* What an executor's answer (an array of tasks) says of the task `name`. */
enum task_state task_state_of(const struct json *answer, struct str name);

/* --- BatchSandbox --- */

struct sandbox_in {
    const struct sandbox *sandbox;
    const struct pod *const *own; /* pods whose controller it is, in any state */
    size_t own_count;
    const struct pod *const *allocated; /* of sandbox->alloc, in its order; NULL = no such pod */
    const struct pool *const *allocated_pools; /* to which they belong; NULL = gone */
    const struct snapshot *snapshot;           /* <name>-pause; NULL = none */
    const struct json *whole_pod;              /* of plan.need_pod, once it was read */
    const struct task_view *tasks;             /* by index; task_count may be less than replicas */
    size_t task_count;
    const struct pool *const *pools; /* of the namespace: for automatic choice */
    size_t pool_count;
    const struct json *profiles; /* how to choose; NULL = the built-in profile */
    const struct settings *settings;
    int64_t now_us;
};

void sandbox_decide(const struct sandbox_in *in, struct plan *p);

/* --- Pool --- */

struct pool_pod {
    const struct pod *pod;
    bool claimed; /* a BatchSandbox has it, or is being given it */
    bool leaving; /* set by the decision: this plan deletes it */
};

struct pool_in {
    const struct pool *pool;
    struct pool_pod *pods; /* all whose controller it is; the decision sorts and marks them */
    size_t pod_count;
    const struct sandbox *const *sandboxes; /* with this poolRef, in any order */
    size_t sandbox_count;
    /* For each sandbox: its allocated pods, as in sandbox_in. */
    const struct pod *const *const *allocated;
    const bool *busy;     /* for each sandbox: a write of ours is under way, so leave it alone */
    size_t pods_expected; /* created by us and not yet seen */
    int64_t status_us;    /* when the status was written last; 0 = not by this process */
    int64_t now_us;
};

void pool_decide(struct pool_in *in, struct plan *p);

/* --- SandboxSnapshot --- */

struct snapshot_in {
    const struct snapshot *snapshot;
    const struct sandbox *sandbox; /* NULL: no such BatchSandbox */
    const struct pod *const *pods; /* of that sandbox, in index order */
    size_t pod_count;
    const struct json *whole_pod; /* of plan.need_pod */
    const struct job *commit, *unpause;
    const struct pod *commit_pod; /* a finished pod of the commit Job; NULL = none */
    const struct settings *settings;
    int64_t now_us;
};

void snapshot_decide(const struct snapshot_in *in, struct plan *p);

/* --- the choice of a pool --- */

/* The best pool for the sandbox, or NULL with the reason in *ret_why. */
const struct pool *assign_pool(const struct sandbox *s, const struct pool *const *pools,
                               size_t count, const struct json *profiles, struct str *ret_why,
                               struct arena *a);
