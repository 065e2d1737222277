/* jupyter_place.h - how to reach a kernel: a private directory with the connection file, and five
 * ports or sockets. Loop thread only; accesses a few small files. */
#pragma once

#include "base/err.h"
#include "execd/code/jupyter/jupyter_message.h"
#include "net/sock.h"

struct child_user;

enum jupyter_channel {
    JUPYTER_SHELL,
    JUPYTER_IOPUB,
    JUPYTER_STDIN,
    JUPYTER_CONTROL,
    JUPYTER_HEARTBEAT,
    JUPYTER_CHANNELS,
};

enum { JUPYTER_DIR_MAX = 88, JUPYTER_FILE_MAX = JUPYTER_DIR_MAX + sizeof("/connection.json") };

struct jupyter_place {
    char dir[JUPYTER_DIR_MAX]; /* mode 0700; "": none */
    bool ipc;                  /* sockets in `dir`, else ports of 127.0.0.1 */
    uint16_t ports[JUPYTER_CHANNELS];
};

/* Creates the directory, below $TMPDIR of `env` or another usual one, and writes the connection
 * file (0600), both as `user` (child_fs_enter). The ports are free at this moment, but not
 * reserved. */
int jupyter_place_make(struct jupyter_place *p, const char *const *env, bool ipc,
                       const struct child_user *user, const struct jupyter_session *session,
                       const char *kernel_name, struct err *e) MUST_USE;
void jupyter_place_remove(struct jupyter_place *p); /* may be called twice */

void jupyter_place_file(const struct jupyter_place *p, char ret[JUPYTER_FILE_MAX]);
void jupyter_place_addr(const struct jupyter_place *p, enum jupyter_channel channel,
                        struct sock_addr *ret);
