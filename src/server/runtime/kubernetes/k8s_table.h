/* k8s_table.h - the sandboxes of the cluster as their objects were last seen: fed by an informer
 * and by the answers to our own writes, read by everything else. Any thread.
 *
 * An object that is being deleted counts as gone. One that this server deleted does not come back
 * by a late event. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/id.h"
#include "base/map.h"
#include "net/pool.h"
#include "server/runtime/kubernetes/k8s_status.h"

enum { K8S_SANDBOXES_MAX = 200 * 1000, K8S_REMOVED_MAX = 64 * 1024 };

/* A create that waits for its sandbox. */
struct k8s_wait {
    struct list link;
    struct runtime_create *create;
    uint64_t deadline_ns;
    struct pool_job job; /* the caller's */
    void *owner;
    char id[ID_UUID_MAX], object[K8S_NAME_MAX];
    char why[200]; /* of the job: why it is not there yet */
    bool unschedulable;
    bool allocated;        /* it has an address: at the deadline that is enough */
    atomic_bool cancelled; /* what task.of_runtime points to */
};

struct k8s_table {
    pthread_mutex_t lock;
    struct map by_id;   /* struct k8s_entry */
    struct map removed; /* ids of what this server deleted, until its last event came */
    struct list waits;
    bool agent; /* the objects are of agent-sandbox */
    /* Told without the lock, on the thread of the change. */
    void (*on_end)(void *user, struct k8s_wait *wait, int r, const struct err *e);
    void *user;
};

void k8s_table_init(struct k8s_table *t);
void k8s_table_done(struct k8s_table *t);

/* An object was seen. Older versions of one that is known are ignored. True when it is of a sandbox
 * that was neither known nor expected. */
bool k8s_table_apply(struct k8s_table *t, struct kube_object *o);
/* A pod of agent-sandbox was seen; `gone`: for the last time. */
void k8s_table_apply_pod(struct k8s_table *t, struct kube_object *pod, bool gone);
void k8s_table_drop(struct k8s_table *t, struct kube_object *last); /* its last event came */

/* This server is about to make it: it is none of another's. */
void k8s_table_expect(struct k8s_table *t, struct str id);
/* This server deleted it. */
void k8s_table_forget(struct k8s_table *t, struct str id);

/* -ENOENT when there is none. */
int k8s_table_get(struct k8s_table *t, struct str id, struct k8s_facts *ret);
/* The same; *ret_watch is the caller's: it becomes readable when the facts change, or when another
 * asks for a watch. */
int k8s_table_watch(struct k8s_table *t, struct str id, struct k8s_facts *ret, char **ret_metadata,
                    int *ret_watch);
/* The object, for the caller to unref; NULL = none. */
struct kube_object *k8s_table_object(struct k8s_table *t, struct str id);
/* The newest of its pods, the same way; of agent-sandbox only. */
struct kube_object *k8s_table_pod(struct k8s_table *t, struct str id);
void k8s_table_each(struct k8s_table *t, runtime_visit_fn *visit, void *user);
size_t k8s_table_count(struct k8s_table *t);

/* Begins to wait: on_end comes once it runs, fails, or is gone. */
void k8s_table_wait(struct k8s_table *t, struct k8s_wait *wait);
/* Takes it out, if it still waits: true, and on_end does not come. */
bool k8s_table_wait_end(struct k8s_table *t, struct k8s_wait *wait);
/* Takes out one whose deadline has passed or that was cancelled; NULL = none. */
struct k8s_wait *k8s_table_wait_late(struct k8s_table *t);
bool k8s_table_waits(struct k8s_table *t);
