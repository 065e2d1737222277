/* facts.h - what the operator needs to know of the objects of the cluster.
 *
 * An object of the API server is read once, when it arrives, into one of these structs; decisions
 * look only at them. Reading is pure: tree in, facts out. Strings are borrowed from the tree,
 * which
 * must outlive the facts; the rest is in the arena of the struct. What is absent or malformed
 * reads
 * as if it were empty; an annotation that cannot be read is reported by `malformed`, and never
 * ends
 * the process. */
#pragma once

#include "base/json.h"

enum { FACTS_BYTES_MAX = 8 * 1024 * 1024 };

struct names { /* of pods, in order */
    struct str *rows;
    size_t count;
};
bool names_have(const struct names *list, struct str name);

/* What all kinds have. */
struct meta {
    struct str ns, name, uid, version; /* version: metadata.resourceVersion */
    int64_t generation;
    int64_t created_us, deleting_us;              /* deleting_us: 0 = not being deleted */
    struct str owner_uid, owner_kind, owner_name; /* of the controller; STR_NONE = none */
};

struct pod {
    struct arena arena;
    struct meta meta;
    struct str node, ip, phase;
    struct str revision;       /* label pool-revision */
    struct str pool_name;      /* label pool-name */
    struct str job_message;    /* termination message of the first container that ended */
    struct str failure_reason; /* STR_NONE: it has not failed */
    struct str failure_message;
    struct str running;        /* JSON object: names of running containers to their ids */
    struct str restart_record; /* annotation; STR_NONE = none */
    int64_t index;             /* label pod-index, or the number at the end of its name; -1 */
    int64_t ready_us;          /* when it became (not) ready */
    uint32_t containers, restarts;
    bool ready;    /* Running, condition Ready, not being deleted */
    bool evict;    /* label evict */
    bool finished; /* phase Failed or Succeeded: it will not run again */
};
struct pod *pod_read(const struct json *object, struct err *e); /* NULL with e set */
void pod_free(struct pod *p);
/* Whether it can still become or be somebody's pod. */
bool pod_is_live(const struct pod *p);

enum pause_wish { PAUSE_UNSAID, PAUSE_YES, PAUSE_NO };

struct sandbox { /* a BatchSandbox */
    struct arena arena;
    struct meta meta;
    const struct json *object;   /* all of it */
    int64_t replicas, expire_us; /* expire_us: 0 = never */
    struct str pool_ref;         /* "" = own pods */
    enum pause_wish pause;
    bool has_template, has_tasks, release_when_done;
    bool has_task_finalizer, has_pool_finalizer;
    struct names alloc, release, released; /* the three annotations */
    bool malformed;                        /* one of them cannot be read */
    struct str alloc_text;                 /* alloc-status as written */
    struct str endpoints;                  /* annotation as written; STR_NONE = never */
    struct str phase;                      /* of status; "" before the first write */
    int64_t pause_observed;                /* status.pauseObservedGeneration */
};
struct sandbox *sandbox_read(const struct json *object, struct err *e);
void sandbox_free(struct sandbox *s);
static inline bool sandbox_is_pooled(const struct sandbox *s)
{
    return s->pool_ref.n > 0;
}
/* Whether the pod is, or may be, in use by it: allocated and not yet taken back. */
bool sandbox_claims(const struct sandbox *s, struct str pod);
/* Its condition of that type, or NULL. */
const struct json *sandbox_condition(const struct sandbox *s, struct str type);

enum recycle { RECYCLE_DELETE, RECYCLE_RESTART, RECYCLE_NOOP };

struct int_or_percent {
    int64_t value;
    bool percent;
};
/* Rounded up; at least 1. */
int64_t int_or_percent_of(struct int_or_percent v, int64_t total);

struct pool {
    struct arena arena;
    struct meta meta;
    const struct json *object;
    const struct json *template; /* NULL: missing */
    int64_t buffer_min, buffer_max, pool_min, pool_max;
    struct int_or_percent scale_unavailable, update_unavailable;
    enum recycle recycle;
    struct str revision; /* of its template: 16 hexadecimal digits */
    struct str restart_config;
    struct str problem; /* why it cannot be served; STR_NONE = it can */
};
struct pool *pool_facts_read(const struct json *object, struct err *e);
void pool_facts_free(struct pool *p);

struct snapshot { /* a SandboxSnapshot */
    struct arena arena;
    struct meta meta;
    const struct json *object;
    struct str sandbox_name, phase;
    bool has_finalizer;
};
struct snapshot *snapshot_read(const struct json *object, struct err *e);
void snapshot_free(struct snapshot *s);

struct job {
    struct arena arena;
    struct meta meta;
    struct str snapshot; /* label */
    bool succeeded, failed;
    struct str failure; /* message of its condition Failed */
};
struct job *job_read(const struct json *object, struct err *e);
void job_free(struct job *j);
