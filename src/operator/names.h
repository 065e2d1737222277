/* names.h - labels, annotations, finalizers and other names that the operator shares with the
 * cluster. */
#pragma once

#include "base/str.h"

#define GROUP         "sandbox.opensandbox.io"
#define GROUP_VERSION GROUP "/v1alpha1"

#define KIND_SANDBOX_NAME  "BatchSandbox"
#define KIND_POOL_NAME     "Pool"
#define KIND_SNAPSHOT_NAME "SandboxSnapshot"

#define LABEL_SANDBOX_NAME     "batch-sandbox.sandbox.opensandbox.io/name"
#define LABEL_POD_INDEX        "batch-sandbox.sandbox.opensandbox.io/pod-index"
#define LABEL_POOL_NAME        "sandbox.opensandbox.io/pool-name"
#define LABEL_POOL_REVISION    "sandbox.opensandbox.io/pool-revision"
#define LABEL_EVICT            "pool.opensandbox.io/evict"
#define LABEL_EVICTION_HANDLER "pool.opensandbox.io/eviction-handler"
#define LABEL_SNAPSHOT_NAME    "sandbox.opensandbox.io/sandbox-snapshot-name"
#define LABEL_NODE_ACCESS      "sandbox.opensandbox.io/privileged-node-access"

#define NOTE_ALLOC_STATUS   "sandbox.opensandbox.io/alloc-status"
#define NOTE_ALLOC_RELEASE  "sandbox.opensandbox.io/alloc-release"
#define NOTE_ALLOC_RELEASED "sandbox.opensandbox.io/alloc-released"
#define NOTE_ENDPOINTS      "sandbox.opensandbox.io/endpoints"
#define NOTE_RESTART_RECORD "sandbox.opensandbox.io/restart-record"
#define NOTE_RESTART_CONFIG "sandbox.opensandbox.io/restart-config"

#define FINALIZER_TASK     "batch-sandbox.sandbox.opensandbox.io/task-cleanup"
#define FINALIZER_POOL     "pool.sandbox.opensandbox.io/pool-allocation"
#define FINALIZER_SNAPSHOT "sandboxsnapshot.sandbox.opensandbox.io/cleanup"

#define POOL_ANY "*" /* spec.poolRef: choose a pool automatically */

enum {
    LABEL_VALUE_MAX = 63, /* also of a Job's name, which becomes a label of its pods */
    TASK_EXECUTOR_PORT = 5758,
    REPLICAS_MAX = 10000, /* of one BatchSandbox that we handle */
};
