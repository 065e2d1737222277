/* embedded.h - the runtime that needs only this machine: opensandbox-broker makes its sandboxes.
 *
 * The server's data directory has one directory per sandbox, `sandboxes/<id>`, with the socket its
 * execd listens on, `volumes/<claim>` and `claims/<claim>` for volumes that requests name, and
 * `snapshots/`, see embedded_layers.h. */
#pragma once

#include "server/runtime/runtime.h"

/* Where the files of an image come from. */
struct embedded_root {
    bool host;        /* the host's own /usr; else: */
    int dir;          /* an unpacked root */
    const char *path; /* of that */
};

struct embedded_path {
    const char *path;
    int fd; /* the directory */
};

struct embedded_conf {
    const char *broker;       /* path of its socket */
    pid_t broker_pid;         /* PID that must own the socket (SO_PEERCRED); 0 = any */
    const char *dir;          /* the server's data directory, writable */
    uint32_t ready;           /* sandboxes that the broker keeps ready */
    bool network;             /* reach the outside through the host; else loopback only */
    uint32_t dns[3];          /* IPv4, network order; 0 = unset */
    struct api_limits limits; /* of requests that set none */
    uint32_t pids;
    unsigned connections;                   /* kept open to the broker: one per worker */
    const struct embedded_path *host_paths; /* directories that may be mounted, and those below */
    size_t host_path_count;
    /* NULL when there is no such image. */
    const struct embedded_root *(*find_root)(void *user, struct str image);
    /* The one with that path; NULL when the configuration has none. */
    const struct embedded_root *(*find_dir)(void *user, struct str path);
    void *user;
    const struct config *config;    /* for images of the store */
    const unsigned char *vault_key; /* AEAD_KEY_BYTES, for vaults of egress; NULL = none */
    void (*on_decision)(void *user, const struct runtime_decision *decision); /* as in runtime.h */
    void *decision_user;
    struct loop *loop;
    struct pool *pool;
};

extern const struct runtime_kind embedded_runtime;

/* conf is copied; the caller keeps what it points to. Connects to the broker: -errno when none
 * answers within wait_ms. BLOCKS. */
int embedded_new(const struct embedded_conf *conf, uint32_t wait_ms, struct runtime **ret_runtime,
                 struct err *e);
