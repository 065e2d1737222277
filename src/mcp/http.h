/* http.h - MCP over streamable HTTP: one POST for each message, answered by JSON or a stream.
 *
 * Sessions are those of revisions with a handshake; newer requests stand alone. Only this machine
 * is listened to unless a token guards the way in, and web pages of other origins are refused. */
#pragma once

#include "mcp/mcp.h"

/* Until *stop. */
int http_serve(struct mcp *m, const bool *stop, struct err *e);
