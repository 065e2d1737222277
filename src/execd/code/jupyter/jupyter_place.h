/* jupyter_place.h - where a kernel and we meet: a private folder with the connection file, and five
 * ports or sockets. Loop thread only; touches a few small files. */
#pragma once

#include "base/err.h"
#include "execd/code/jupyter/jupyter_message.h"
#include "net/sock.h"

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
    char dir[JUPYTER_DIR_MAX]; /* 0700; "": none */
    bool ipc;                  /* sockets in `dir`, else ports of 127.0.0.1 */
    uint16_t ports[JUPYTER_CHANNELS];
};

/* Makes the folder, below TMPDIR of `env` or another of the usual ones, and writes the connection
 * file (0600). Ports are free at this moment; nothing holds them. */
int jupyter_place_make(struct jupyter_place *p, const char *const *env, bool ipc,
                       const struct jupyter_session *session, const char *kernel_name,
                       struct err *e) MUST_USE;
void jupyter_place_remove(struct jupyter_place *p); /* twice is fine */

void jupyter_place_file(const struct jupyter_place *p, char ret[JUPYTER_FILE_MAX]);
void jupyter_place_addr(const struct jupyter_place *p, enum jupyter_channel channel,
                        struct sock_addr *ret);
