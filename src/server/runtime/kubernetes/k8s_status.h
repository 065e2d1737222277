/* k8s_status.h - what the objects of a sandbox say of it. Pure. */
#pragma once

#include <netinet/in.h>

#include "kube/object.h"
#include "server/runtime/kubernetes/k8s_names.h"
#include "server/runtime/runtime.h"

struct k8s_facts {
    enum runtime_state state;
    const char *reason; /* the API's word for it */
    char message[160];
    char address[INET6_ADDRSTRLEN]; /* of its pod; "" = none yet */
    char pod[K8S_NAME_MAX];         /* its first pod, if the object says so; "" = unknown */
    int64_t created_us, expires_us; /* expires: 0 = never */
    bool pause_failed, resume_failed;
};

/* Of a BatchSandbox. */
void k8s_facts_of_batch(const struct kube_object *o, struct k8s_facts *ret);
/* Of a Sandbox of agent-sandbox; `pod`: the newest of its pods, NULL = none. */
void k8s_facts_of_agent(const struct kube_object *o, const struct kube_object *pod,
                        struct k8s_facts *ret);

/* Appends the labels that are metadata of users, as JSON; nothing when there are none. */
int k8s_metadata_write(const struct kube_object *o, struct buf *out);
/* What a server needs to know of a sandbox that it did not make. Texts are copied to the arena. */
int k8s_describe(const struct kube_object *o, bool agent, struct arena *a,
                 struct runtime_description *ret, struct err *e);
/* Why a pod does not run, as a clause: "its image cannot be pulled (ErrImagePull): ..."; "" when
 * nothing is known. *ret_unschedulable: no node fits it. */
void k8s_pod_trouble(const struct kube_object *pod, char *out, size_t out_size,
                     bool *ret_unschedulable);
