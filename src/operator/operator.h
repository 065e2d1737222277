/* operator.h - the controllers of BatchSandbox, Pool and SandboxSnapshot. Loop thread only. */
#pragma once

#include "kube/client.h"
#include "kube/informer.h"
#include "kube/recorder.h"
#include "operator/options.h"
#include "operator/world.h"

enum informer_row {
    WATCH_SANDBOXES,
    WATCH_POOLS,
    WATCH_SNAPSHOTS,
    WATCH_OWN_PODS,  /* label of a BatchSandbox */
    WATCH_POOL_PODS, /* label of a Pool */
    WATCH_JOB_PODS,  /* label of a SandboxSnapshot */
    WATCH_JOBS,
    WATCH_PROFILES,
    WATCH_COUNT,
};

struct operator;

struct watch {
    struct kube_handler handler;
    struct operator* op;
    struct kube_informer *informer;
    void (*see)(struct world *w, struct kube_object *o);
    void (*lose)(struct world *w, const struct kube_object *o);
};

struct operator_stats {
    uint64_t writes, conflicts, write_failures, execs, task_calls, task_failures;
    uint64_t grants; /* pods given to sandboxes */
};

struct operator
{
    struct loop *loop;
    struct options *options;
    struct settings settings;
    struct kube_client *client;
    struct http_client *http; /* to task executors */
    struct kube_recorder *recorders[QUEUE_COUNT];
    struct queues queues;
    struct world world;
    struct watch watches[WATCH_COUNT];
    struct loop_timer settle;
    struct operator_stats stats;
    bool leading, settled;
};

int operator_start(struct operator* op, struct err *e);
void operator_lead(struct operator* op); /* this process leads: begin, once all lists are there */
bool operator_is_synced(const struct operator* op);
void operator_stop(struct operator* op);

/* run.c: a pass for one object. */
void operator_run(struct work *w);
void operator_free_dead(struct work *w);

/* apply.c: carries a plan out and ends the pass; takes the plan over (its arena). */
void operator_apply(struct operator* op, struct work *w, struct plan *p, struct kube_object *about);
/* A version of an object from an answer of the API server; is_new: it was created by that. */
void operator_see(struct operator* op, enum object_kind kind, bool is_new, struct kube_object *o);

/* tasks.c: POST /setTasks. on_done: the state of the task, or unreachable. */
int operator_set_tasks(struct operator* op, const struct write *write, struct str task,
                       void (*on_done)(void *user, enum task_state state, bool reached),
                       void *user);
