/* k8s_internal.h - shared by the files of the Kubernetes runtime. */
#pragma once

#include "kube/blocking.h"
#include "kube/informer.h"
#include "net/pool.h"
#include "server/config/config.h"
#include "server/runtime/kubernetes/k8s_manifest.h"
#include "server/runtime/kubernetes/k8s_status.h"
#include "server/runtime/kubernetes/k8s_table.h"
#include "server/runtime/kubernetes/kubernetes.h"

enum { K8S_ANSWER_TEXT_MAX = 8 << 20 };

struct k8s {
    struct runtime base;
    const struct config *config;
    struct loop *loop;
    struct pool *pool; /* the server's */
    void (*on_news)(void *user);
    void *user;
    struct kube_config *kube;
    struct kube_client *client;             /* of the informers */
    struct kube_blocking *calls;            /* of the workers */
    struct kube_informer *sandboxes, *pods; /* pods: of agent-sandbox */
    struct kube_handler on_sandboxes, on_pods;
    struct kube_kind kind; /* of the sandboxes */
    bool agent;
    char namespace[K8S_LABEL_MAX];
    char runtime_class[K8S_NAME_MAX];
    struct arena arena;          /* of the template */
    const struct json *template; /* NULL = none */
    struct k8s_table table;
    struct loop_timer tick;    /* looks after creates that wait */
    pthread_mutex_t work_lock; /* protects task->of_runtime and the next */
    struct list snapshots;     /* those that are being made */
};

static inline struct k8s *k8s_of(struct runtime *r)
{
    return container_of(r, struct k8s, base);
}

/* --- kubernetes.c: requests, on workers --- */

/* The call, with errors as kube/error.h has them. ret may be NULL. */
int k8s_call(struct k8s *k, const struct kube_request *rq, struct kube_object **ret, struct err *e);
/* Changes the object of a sandbox by a merge patch; the answer is entered in the table. -ENOENT. */
int k8s_patch(struct k8s *k, struct str id, struct str patch, struct err *e);
/* Reads the object of a sandbox that the table does not know, and enters it. -ENOENT. */
int k8s_fetch(struct k8s *k, struct str id, struct err *e);
/* The name of a sandbox's object. */
void k8s_object_name(struct k8s *k, struct str id, char out[K8S_NAME_MAX]);

/* --- k8s_create.c --- */

int k8s_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f);
int k8s_check(struct runtime *r, struct runtime_create *c, struct api_fail *f);
int k8s_create(struct runtime *r, struct runtime_create *c, struct err *e);
void k8s_cancel(struct runtime *r, struct runtime_task *task);
/* For k8s_table.on_end. */
void k8s_create_end(void *user, struct k8s_wait *wait, int r, const struct err *e);
void k8s_create_tick(struct loop_timer *timer);
/* Ends all that wait: the server stops. */
void k8s_create_stop(struct k8s *k);

/* --- k8s_change.c --- */

int k8s_adopt(struct runtime *r, struct str id, int *ret_watch, struct runtime_status *ret,
              struct err *e);
int k8s_pause(struct runtime *r, struct str id, struct err *e);
int k8s_resume(struct runtime *r, struct str id, struct err *e);
int k8s_renew(struct runtime *r, struct str id, int64_t expires_us, struct err *e);
int k8s_relabel(struct runtime *r, struct str id, const struct api_patch *patch, struct err *e);
int k8s_describe_sandbox(struct runtime *r, struct arena *a, struct str id,
                         struct runtime_description *ret, struct err *e);
int k8s_remove(struct runtime *r, struct str id, struct err *e);
int k8s_list(struct runtime *r, runtime_visit_fn *visit, void *user, struct err *e);

/* --- k8s_look.c: diagnostics --- */

/* The pod of a sandbox, for the caller to unref. -ENOENT. */
int k8s_find_pod(struct k8s *k, struct str id, struct kube_object **ret, struct err *e);
int k8s_logs(struct runtime *r, struct str id, const struct runtime_log_query *query,
             struct buf *out, bool *ret_cut, struct err *e);
int k8s_report(struct runtime *r, struct str id, enum api_diag_kind kind, struct buf *out,
               struct err *e);
int k8s_usage(struct runtime *r, struct str id, struct runtime_usage *ret, struct err *e);

/* --- k8s_snapshots.c --- */

int k8s_snapshot(struct runtime *r, struct runtime_snapshot *s, struct err *e);
int k8s_snapshot_remove(struct runtime *r, struct str snapshot_id, struct err *e);
int k8s_snapshot_each(struct runtime *r, runtime_snapshot_visit_fn *visit, void *user,
                      struct err *e);
int k8s_snapshot_shared(struct runtime *r, struct str id, runtime_shared_visit_fn *visit,
                        void *user, struct err *e);
void k8s_snapshots_tick(struct k8s *k); /* loop thread: looks after those that are being made */
void k8s_snapshots_stop(struct k8s *k); /* loop thread: ends them */
/* The image that a snapshot restores. */
int k8s_snapshot_image(struct k8s *k, struct str snapshot_id, struct buf *out, struct err *e);
/* The same of a SandboxSnapshot: of container `sandbox`, or of the only one. */
int k8s_snapshot_image_of(const struct json *snapshot, struct str *ret, struct err *e);

/* --- k8s_pools.c --- */

int k8s_pools(struct runtime *r, enum runtime_pool_verb verb, const struct api_pool *pool,
              runtime_pool_visit_fn *visit, void *user, struct api_fail *f);
