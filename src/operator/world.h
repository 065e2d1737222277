/* world.h - what the operator knows of the cluster: facts of its objects, and which pod is whose.
 *
 * Everything here is rebuilt from the cluster: from lists and watches, and from the answers to our
 * own writes, which arrive sooner. Of two versions of an object the newer counts. Loop thread
 * only. */
#pragma once

#include "base/map.h"
#include "kube/object.h"
#include "operator/decide.h"
#include "operator/work.h"

enum { WORLD_OBJECTS_MAX = 1 << 20, WORLD_LOST_MAX = 1024, WORLD_UID_MAX = 64 };

struct pod_entry {
    struct kube_object *object; /* `facts` refer to it */
    struct pod *facts;
    struct list of_owner;           /* link of owner.pods */
    struct sandbox_entry *receiver; /* a write that allocates it is under way or in doubt */
};

struct sandbox_entry {
    struct kube_object *object;
    struct sandbox *facts;
    struct work work;
    struct list of_pool; /* link of pool_entry.sandboxes */
    unsigned writes;     /* of ours under way */
    struct task_view *tasks;
    size_t task_count;
    /* A grant whose outcome is unknown: its pods stay reserved until the sandbox has another
     * version, which fails the write for good, or the API server has surely forgotten it. */
    uint64_t doubt_until_ns; /* 0 = none */
    char doubt_version[64];  /* of the sandbox when that grant was sent */
};

struct pool_entry {
    struct kube_object *object;
    struct pool *facts; /* NULL: only sandboxes refer to it, or it is gone */
    struct work work;
    struct list sandboxes; /* with this poolRef */
    size_t sandbox_count;
    size_t pods_expected; /* creations under way */
    int64_t status_us;
};

struct snapshot_entry {
    struct kube_object *object;
    struct snapshot *facts;
    struct work work;
};

struct job_entry {
    struct kube_object *object;
    struct job *facts;
};

struct owner { /* pods by the uid of their controller */
    struct list pods;
    size_t count;
};

struct world {
    struct map sandboxes, pools, snapshots, pods, jobs; /* by "namespace/name" */
    struct map owners;                                  /* by uid */
    struct map claims; /* "namespace/pod" to the sandbox_entry whose alloc-status names it */
    struct queues *queues;
    size_t malformed;                         /* sandboxes whose claims cannot be read */
    uint64_t duplicates;                      /* pods that two sandboxes claimed: must stay 0 */
    char lost[WORLD_LOST_MAX][WORLD_UID_MAX]; /* uids of pods and Jobs that went, a ring */
    size_t lost_at;
    struct json *profiles; /* of the ConfigMap; NULL = built-in */
    struct arena profiles_arena;
};

void world_init(struct world *w, struct queues *queues);
void world_done(struct world *w);

/* A version of an object, from a watch or from an answer. */
void world_see_sandbox(struct world *w, struct kube_object *o);
void world_see_pool(struct world *w, struct kube_object *o);
void world_see_snapshot(struct world *w, struct kube_object *o);
void world_see_pod(struct world *w, struct kube_object *o);
void world_see_job(struct world *w, struct kube_object *o);
void world_see_profiles(struct world *w, const struct kube_object *o); /* NULL = deleted */
/* It is gone. One of another uid that has the name by now stays. */
void world_lose_sandbox(struct world *w, const struct kube_object *o);
void world_lose_pool(struct world *w, const struct kube_object *o);
void world_lose_snapshot(struct world *w, const struct kube_object *o);
void world_lose_pod(struct world *w, const struct kube_object *o);
void world_lose_job(struct world *w, const struct kube_object *o);

struct sandbox_entry *world_sandbox(const struct world *w, struct str ns, struct str name);
struct pool_entry *world_pool(const struct world *w, struct str ns, struct str name);
struct snapshot_entry *world_snapshot(const struct world *w, struct str ns, struct str name);
struct pod_entry *world_pod(const struct world *w, struct str ns, struct str name);
struct job_entry *world_job(const struct world *w, struct str ns, struct str name);
struct owner *world_owner(const struct world *w, struct str uid); /* NULL = it has no pods */

/* The sandbox that has the pod; NULL = none that is known. */
struct sandbox_entry *world_holder(const struct world *w, struct str ns, struct str pod);
/* Whether the pod may not be given away: a sandbox claims it, or may be about to. */
bool world_pod_is_claimed(const struct world *w, const struct pod_entry *p);

/* Whether a pod or Job of that uid went not long ago. */
bool world_has_lost(const struct world *w, struct str uid);
/* Frees the pods of a grant that was in doubt. */
void world_end_doubt(struct world *w, struct sandbox_entry *s);

/* Wakes what depends on a pod: its owner, the sandbox that has it. */
void world_wake_pod(struct world *w, const struct pod_entry *p);
