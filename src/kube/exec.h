/* exec.h - a command in a container of a pod, over WebSocket (v5.channel.k8s.io, else v4). Loop
 * thread only. */
#pragma once

#include "kube/client.h"

struct kube_exec;

enum { KUBE_EXEC_ARGS_MAX = 64 };

struct kube_exec_spec {
    struct str ns, pod, container; /* container: "" = the default one */
    const char *const *argv;       /* NULL at its end */
    bool has_stdin;
    uint32_t timeout_ms; /* for all of it; 0 = 60 s */
    /* stream: 1 = stdout, 2 = stderr. May be NULL. */
    void (*on_output)(void *user, int stream, struct str data);
    /* Exactly once, never from within kube_exec_start. error is NULL when the command ran: then
     * exit_code is its own. Otherwise it could not start, or the connection broke. */
    void (*on_end)(void *user, int exit_code, const struct kube_error *error);
    void *user;
};

int kube_exec_start(struct kube_client *c, const struct kube_exec_spec *spec,
                    struct kube_exec **ret, struct err *e);
/* -EAGAIN while the queue is full. v4 cannot end stdin: -EOPNOTSUPP for kube_exec_end_input. */
int kube_exec_write(struct kube_exec *x, struct str data);
int kube_exec_end_input(struct kube_exec *x);
void kube_exec_cancel(struct kube_exec *x); /* no callback; the connection is closed */
