/* sandbox_internal.h - parts of the BatchSandbox decision. */
#pragma once

#include "operator/decide.h"
#include "operator/doc.h"

struct members { /* the pods that serve a sandbox, by index; NULL = none at that index */
    const struct pod **rows;
    size_t count;
};

/* sandbox_pods.c */
int members_find(const struct sandbox_in *in, struct plan *p, struct members *ret);
void pods_create(const struct sandbox_in *in, const struct members *m, struct plan *p);
void pods_delete_surplus(const struct sandbox_in *in, struct plan *p);
void pods_delete_all(const struct sandbox_in *in, struct plan *p);
/* True when the annotation must be written; then the patch is in the plan. */
bool endpoints_write(const struct sandbox_in *in, const struct members *m, struct plan *p);

/* A merge patch of the object: {"metadata":{"resourceVersion":...}}, to be filled. With the
 * version, a change in between fails it. */
struct json *patch_begin(struct plan *p, const struct meta *meta, bool if_unchanged);
struct write *patch_end(struct plan *p, enum object_kind kind, const struct meta *meta,
                        struct json *patch);
void patch_note(struct plan *p, struct json *patch, const char *key, struct str value);
void patch_note_names(struct plan *p, struct json *patch, const char *key,
                      const struct names *names);
/* metadata.finalizers of the object with some added (NULL-terminated) and some taken away. */
void patch_finalizers(struct plan *p, struct json *patch, const struct json *object,
                      const char *const *add, const char *const *drop);
struct str note_text(struct plan *p, const struct names *names); /* {"pods":[...]} */

/* sandbox_release.c */
/* Pods that must be given back: steps towards that are added to the plan. */
void release_run(const struct sandbox_in *in, struct plan *p);
void deletion_run(const struct sandbox_in *in, struct plan *p);

/* sandbox_tasks.c */
struct task_counts {
    int64_t running, succeed, failed, pending, unknown;
};
void tasks_run(const struct sandbox_in *in, const struct members *m, struct plan *p,
               struct task_counts *ret);
/* Asks executors to drop all tasks. True when none is left. */
bool tasks_stop(const struct sandbox_in *in, const struct members *m, struct plan *p,
                bool *ret_given_up);

/* The same of one, before its pod serves another sandbox. */
bool task_is_dropped(const struct sandbox_in *in, size_t index, const struct pod *pod,
                     struct plan *p, bool *ret_unreachable);

/* sandbox_status.c */
enum { CONDITIONS_MAX = 8, CONDITION_TEXT_MAX = 400 };
struct condition {
    const char *type, *reason;
    struct str message;
};
struct status {
    struct str phase;
    int64_t replicas, allocated, ready, pause_observed;
    struct task_counts tasks;
    struct condition conditions[CONDITIONS_MAX];
    size_t condition_count;
};
/* What the pods say; phases of pausing stay as they are. */
void status_of(const struct sandbox_in *in, const struct members *m, struct plan *p,
               struct status *ret);
void status_condition(struct status *s, const char *type, const char *reason, struct str message);
/* Keeps a condition that the object has. */
void status_keep(struct status *s, const struct sandbox *from, const char *type);
/* Adds the write unless nothing would change. */
void status_write(const struct sandbox_in *in, const struct status *s, struct plan *p);

/* sandbox_pause.c */
/* True when pausing or resuming decides this pass. */
bool pause_run(const struct sandbox_in *in, const struct members *m, struct plan *p);
struct str snapshot_name_of(struct plan *p, struct str sandbox);
