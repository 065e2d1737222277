/* code_port.h - a port that tells that code can be run. Loop thread only.
 *
 * Official clients of code contexts hold a sandbox for ready when something accepts connections at
 * 127.0.0.1:$JUPYTER_PORT (44771): the notebook server that the original needs. We need none, so we
 * accept, and close at once. An image that sets JUPYTER_HOST brings that server, and gets the port.
 */
#pragma once

#include "net/sock.h"

/* Where the port is taken, or cannot be had, nothing happens but a line in the log. */
void code_port_open(struct sock_listener *l, struct loop *loop, const char *const *env);
void code_port_close(struct sock_listener *l); /* zeroed is fine */
