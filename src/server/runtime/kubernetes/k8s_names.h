/* k8s_names.h - names of Kubernetes objects, labels and annotations. Pure. */
#pragma once

#include "base/str.h"

#define K8S_PREFIX            "opensandbox.io/" /* reserved for us; not for metadata of users */
#define K8S_LABEL_ID          K8S_PREFIX "id"
#define K8S_LABEL_MANUAL      K8S_PREFIX "manual-cleanup"
#define K8S_LABEL_SNAPSHOT    K8S_PREFIX "snapshot-id"
#define K8S_LABEL_SCOPE       K8S_PREFIX "snapshot-scope"
#define K8S_LABEL_SOURCE      K8S_PREFIX "source-sandbox-id"
#define K8S_NOTE_EGRESS_TOKEN K8S_PREFIX "egress-auth-token"
#define K8S_NOTE_SECURE_TOKEN K8S_PREFIX "secure-access-token"
#define K8S_NOTE_RENEW        K8S_PREFIX "access-renew-extend-seconds"
#define K8S_NOTE_EXTENSION    K8S_PREFIX "extensions."
/* Ours: the token of a sandbox without secureAccess, for other replicas of the server, its creator,
 * and its entrypoint as requested. */
#define K8S_NOTE_TOKEN        K8S_PREFIX "proxy-token"
#define K8S_NOTE_OWNER        K8S_PREFIX "created-by"
#define K8S_NOTE_NAME         K8S_PREFIX "snapshot-name"
#define K8S_NOTE_HIDDEN       K8S_PREFIX "hidden"
#define K8S_NOTE_ENTRYPOINT   K8S_PREFIX "entrypoint"
#define K8S_EXTENSION_PREFIX  "opensandbox.extensions."

#define K8S_GROUP          "sandbox.opensandbox.io"
#define K8S_NOTE_ENDPOINTS K8S_GROUP "/endpoints"
#define K8S_NOTE_ALLOCATED K8S_GROUP "/alloc-status"
#define K8S_LABEL_BATCH    "batch-sandbox." K8S_GROUP "/name"
#define K8S_AGENT_GROUP    "agents.x-k8s.io"

#define K8S_CONTAINER    "sandbox"
#define K8S_BIN_DIR      "/opt/opensandbox"
#define K8S_BIN_VOLUME   "opensandbox-bin"
#define K8S_RULES_VOLUME "opensandbox-egress-rules"

enum {
    K8S_NAME_MAX = 253 + 1,
    K8S_LABEL_MAX = 63 + 1,
    K8S_EXECD_PORT = 44772,
    K8S_EGRESS_PORT = 18080,
};

/* A sandbox id as a DNS-1035 label: the name of an object of agent-sandbox. */
void k8s_label_name(struct str id, char out[K8S_LABEL_MAX]);
/* "osb-snap-" and 32 hexadecimal digits: those of a UUID, else the first of SHA-256(id). */
void k8s_snapshot_name(struct str snapshot_id, char out[K8S_LABEL_MAX]);
/* "opensandbox-image-auth-ID". */
void k8s_secret_name(struct str id, char out[K8S_NAME_MAX]);
/* The key of a registry in .dockerconfigjson: the first part of the image's name if it is a host,
 * else Docker Hub. */
struct str k8s_registry_of(struct str image);
