/* code_port.h - a TCP port that signals that code can be run. Loop thread only.
 *
 * Official clients of code contexts consider a sandbox ready when 127.0.0.1:$JUPYTER_PORT (44771)
 * accepts connections: the original implementation runs a notebook server there. execd needs no
 * such server, so it accepts and closes at once. An image that sets JUPYTER_HOST has its own
 * server; then the port stays free. */
#pragma once

#include "net/sock.h"

/* If the port is taken or cannot be opened, this is only logged. */
void code_port_open(struct sock_listener *l, struct loop *loop, const char *const *env);
void code_port_close(struct sock_listener *l); /* may be zeroed */
