/* embedded.h - the runtime that needs nothing but this machine: sandboxes by opensandbox-broker.
 *
 * The server's own directory has one directory per sandbox, `sandboxes/<id>`, with the socket its
 * execd answers at; and `volumes/<claim>` for volumes that requests name. */
#pragma once

#include "server/runtime/runtime.h"

/* Where the files of an image come from. */
struct embedded_root {
    bool host; /* the host's own /usr; else: */
    int dir;   /* an unpacked root */
};

struct embedded_path {
    const char *path;
    int fd; /* the directory */
};

struct embedded_conf {
    const char *broker;       /* its socket */
    pid_t broker_pid;         /* whose socket that must be; 0 = anybody's */
    const char *dir;          /* the server's own, writable */
    uint32_t ready;           /* sandboxes the broker is to keep ready */
    bool network;             /* out through the host; else loopback only */
    uint32_t dns[3];          /* IPv4, network order; 0 = unset */
    struct api_limits limits; /* of requests that name none */
    uint32_t pids;
    unsigned connections; /* to the broker, kept open: as many as there are workers */
    const struct embedded_path *host_paths; /* that may be mounted, and what lies below */
    size_t host_path_count;
    /* NULL when there is no such image. */
    const struct embedded_root *(*find_root)(void *user, struct str image);
    void *user;
};

/* conf is copied, what it points to stays the caller's. Connects: -errno when no broker answers
 * within wait_ms. BLOCKS. */
int embedded_new(const struct embedded_conf *conf, uint32_t wait_ms, struct runtime **ret_runtime,
                 struct err *e);
