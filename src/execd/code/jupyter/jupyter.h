/* jupyter.h - kernel_jupyter (kernel.h): a Jupyter kernel as a child process, connected over ZMTP.
 *
 * Python kernels based on ipykernel use unix sockets in a private directory. Other kernels use
 * ports of 127.0.0.1, since some support nothing else. docs/internals/execd.md has the details. */
#pragma once

#include "execd/code/kernel.h"

enum {
    JUPYTER_START_MS_MAX = 60 * 1000, /* from the start to the first reply */
    JUPYTER_GRACE_MS = 1000,          /* from the interrupt at a timeout to SIGKILL */
    JUPYTER_REQUEST_BYTES_MAX = 24 << 20,
    JUPYTER_PIECE_BYTES = 32 << 10, /* of text per call of on_stream */
};
