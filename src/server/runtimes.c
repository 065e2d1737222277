/* runtimes.c - the runtimes of this build. */
#include "server/runtime/embedded/embedded.h"

const struct runtime_kind *const runtime_kinds[] = {
    &embedded_runtime,
};
const size_t runtime_kind_count = ARRAY_LEN(runtime_kinds);
