/* object.h - one Kubernetes object: its JSON tree, and the metadata that every kind has.
 *
 * An object never changes. It is shared by counting references, from any thread: keep it with
 * kube_object_ref, give it back with kube_object_unref. Strings point into the object. */
#pragma once

#include <stdatomic.h>

#include "base/json.h"

/* A kind, as the API server's paths name it. Constants of the program. */
struct kube_kind {
    const char *group;   /* "" = the core group */
    const char *version; /* "v1" */
    const char *plural;  /* "pods" */
    const char *kind;    /* "Pod" */
    bool cluster_wide;   /* its objects have no namespace */
};

/* Kinds that several programs use. */
extern const struct kube_kind kube_pods, kube_secrets, kube_configmaps, kube_events, kube_services,
    kube_namespaces, kube_nodes, kube_claims /* persistentvolumeclaims */, kube_jobs, kube_leases,
    kube_runtime_classes, kube_token_reviews, kube_access_reviews /* subjectaccessreviews */,
    kube_crds, kube_batch_sandboxes, kube_pools, kube_snapshots;

struct kube_object {
    const struct json *root;
    struct str ns, name, uid;  /* ns is "" for a cluster-wide kind */
    struct str version;        /* metadata.resourceVersion */
    uint64_t revision;         /* the same as a number; 0 when it is none */
    int64_t generation;        /* 0 when absent */
    const struct json *labels; /* NULL when absent; so are the next */
    const struct json *annotations;
    bool deleting;    /* metadata.deletionTimestamp is set */
    size_t bytes;     /* of memory: all of it is one block */
    atomic_uint refs; /* private */
};

enum { KUBE_OBJECT_BYTES_MAX = 8 << 20 }; /* text of one object; etcd itself stops at 1.5 MiB */

/* Parses the text of one object. metadata.managedFields is dropped, also of the items of a list.
 * -EBADMSG when it is no JSON object, -EMSGSIZE past KUBE_OBJECT_BYTES_MAX, -ENOMEM. */
int kube_object_parse(struct str text, struct kube_object **ret, struct err *e);
/* The same of a part of another document, which is copied. */
int kube_object_copy(const struct json *tree, struct kube_object **ret, struct err *e);
struct kube_object *kube_object_ref(struct kube_object *o); /* returns o */
void kube_object_unref(struct kube_object *o);              /* NULL is fine */

static inline void kube_object_unrefp(struct kube_object **o)
{
    kube_object_unref(*o);
}
#define auto_object __attribute__((cleanup(kube_object_unrefp))) struct kube_object

/* The value at a path of members, "status.podIP"; NULL when a step is absent. A member whose name
 * has a dot needs json_get. kube_str gives "" for what is absent or no string; kube_i64 0. */
const struct json *kube_get(const struct json *v, const char *path);
struct str kube_str(const struct json *v, const char *path);
int64_t kube_i64(const struct json *v, const char *path);
bool kube_bool(const struct json *v, const char *path);
/* The value of a label or annotation; STR_NONE when there is none. */
struct str kube_label(const struct kube_object *o, struct str key);
struct str kube_annotation(const struct kube_object *o, struct str key);
/* The entry of a list of conditions with this type; NULL when there is none. */
const struct json *kube_condition(const struct json *conditions, struct str type);
/* metadata.ownerReferences: the one with controller=true; NULL when there is none. */
const struct json *kube_controller_of(const struct kube_object *o);
bool kube_has_finalizer(const struct kube_object *o, struct str finalizer);
