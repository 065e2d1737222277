/* kubernetes.h - the runtime of a Kubernetes cluster: an object for each sandbox, which an operator
 * makes pods of: a BatchSandbox of ours, or a Sandbox of agent-sandbox.
 *
 * The cluster is what is true: several servers may share it, and what one of them makes, changes or
 * deletes, or an administrator by kubectl, the others see. The server's store is a copy of it, with
 * what the cluster has no place for. */
#pragma once

#include "server/runtime/runtime.h"

extern const struct runtime_kind kubernetes_runtime;
