/* unpack_start.h - starts the program that unpacks a layer, where it can reach nothing else.
 *
 * It has namespaces of its own (user, pid, mount, net, ipc, uts, cgroup); its root directory is the
 * directory to fill; its ids are those of layer_ids.h. It has five capabilities over its own user
 * namespace, to set owners, modes and attributes, and limits on memory, files and time. */
#pragma once

#include "base/proc.h"
#include "sandbox/host.h"
#include "sandbox/unpack.h"

struct unpack_start {
    const struct host *host;
    int program; /* see program.h */
    int blob;    /* open for reading */
    int target;  /* an empty directory, open for reading, in this mount namespace */
    struct unpack_limits limits;
};

/* Gives the directory to the reserved ids and starts the program. *ret_sock: where it reports. It
 * is killed when the calling process ends. */
int unpack_start(const struct unpack_start *s, struct proc *ret_proc, int *ret_sock, struct err *e);
