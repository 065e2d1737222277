/* host.h - the embedded runtime's part of the host: directories, and the broker that the server
 * started. */
#pragma once

#include "base/proc.h"
#include "server/runtime/embedded/roots.h"

struct embedded_host {
    struct roots *roots; /* the newest set; workers read it */
    struct proc broker;  /* started by us, or none */
    struct loop_child broker_watch;
    int tie; /* the broker ends when this is closed */
    void (*on_lost)(void *user);
    void *user;
};

/* Waits for a broker of ours to end. NULL is fine. */
void embedded_host_free(struct embedded_host *h);

/* As in runtime.h. */
void embedded_reload(struct runtime *r, const struct config *config);
