/* runtimes.c - the runtimes of this build. */
#include "server/runtime/docker/docker.h"
#include "server/runtime/embedded/embedded.h"
#include "server/runtime/kubernetes/kubernetes.h"

const struct runtime_kind *const runtime_kinds[] = {
    &embedded_runtime,
    &docker_runtime,
    &kubernetes_runtime,
};
const size_t runtime_kind_count = ARRAY_LEN(runtime_kinds);
