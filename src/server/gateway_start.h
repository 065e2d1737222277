/* gateway_start.h - starts the gateway, and answers what it asks: whose a key is, where a sandbox
 * is, whether it may be reached. Loop thread only. */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct server;

int server_start_gateway(struct server *s, struct err *e);

/* Applies a configuration that was read again. */
void server_reload_gateway(struct server *s);

/* A request reached the sandbox: renews it, if configured. `user` is the server. */
void server_on_access(void *user, struct str sandbox_id);
