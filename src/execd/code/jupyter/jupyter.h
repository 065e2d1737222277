/* jupyter.h - kernel_jupyter (kernel.h): a Jupyter kernel as a child process, spoken to over ZMTP.
 *
 * A python kernel of the family of ipykernel meets us on sockets in a private folder, any other on
 * ports of 127.0.0.1, as some of them know nothing else. docs/internals/execd.md tells the rest. */
#pragma once

#include "execd/code/kernel.h"

enum {
    JUPYTER_START_MS_MAX = 60 * 1000, /* from the start to the first answer */
    JUPYTER_GRACE_MS = 1000,          /* from the interrupt of a timeout to the SIGKILL */
    JUPYTER_REQUEST_BYTES_MAX = 24 << 20,
    JUPYTER_PIECE_BYTES = 32 << 10, /* of text, to the owner at a time */
};
