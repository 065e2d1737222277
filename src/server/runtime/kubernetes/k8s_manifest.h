/* k8s_manifest.h - the objects of a sandbox, as JSON for the API server. Pure: nothing here asks
 * the cluster. */
#pragma once

#include "api/create.h"
#include "base/json_write.h"
#include "server/config/config.h"
#include "server/runtime/kubernetes/k8s_names.h"

enum { K8S_MANIFEST_MAX = 4 << 20 };

/* What a sandbox is to be made of. */
struct k8s_plan {
    const struct config *config;
    const struct api_create *spec;
    struct str id, token;
    struct str owner;            /* who asks; "" = not recorded */
    struct str image;            /* of the request, or of its snapshot */
    const char *namespace;       /* of its objects */
    const char *runtime_class;   /* "" = the cluster's default */
    const struct json *template; /* of the administrator; NULL = none */
    int64_t expires_us;          /* 0 = never */
};

/* Whether the pod has an egress sidecar: for a network policy, or for the lists of the operator. */
bool k8s_plan_filters(const struct k8s_plan *p);
/* Whether the request fits what the provider can do. Fills f when it does not. */
int k8s_plan_check(const struct k8s_plan *p, bool agent, struct api_fail *f);

/* A BatchSandbox, in template mode or, with extensions.poolRef, of a pool. -EMSGSIZE. */
int k8s_batch_write(const struct k8s_plan *p, struct buf *out, struct err *e);
/* A Sandbox of agent-sandbox, of that version of its API: "v1alpha1", "v1beta1". */
int k8s_agent_write(const struct k8s_plan *p, const char *version, struct buf *out, struct err *e);

/* The secret with image.auth, owned by the sandbox's object. */
int k8s_secret_write(const struct k8s_plan *p, struct str owner_uid, struct buf *out,
                     struct err *e);
/* A claim for a volume with createIfNotExists. */
int k8s_claim_write(const struct k8s_plan *p, const struct api_volume *v, struct buf *out,
                    struct err *e);
struct runtime_snapshot;
int k8s_snapshot_write(const char *namespace, const struct runtime_snapshot *s,
                       struct str sandbox_object, struct buf *out, struct err *e);

/* Parts, for the tests and for each other. */
void k8s_pod_write(struct json_writer *w, const struct k8s_plan *p, bool agent);
void k8s_time_write(struct json_writer *w, struct str key, int64_t us);
