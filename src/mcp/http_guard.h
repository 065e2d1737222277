/* http_guard.h - which HTTP requests are served: origin, host and token are checked, and whether
 * the headers agree with the message in the body. */
#pragma once

#include "mcp/mcp.h"
#include "net/http_server.h"

/* Token, origin, host. False when it has replied. */
bool guard_pass(struct http_req *req, const struct options *o);
bool guard_is_local(const struct sock_addr *a);
bool guard_accepts_stream(const struct http_req *req);
/* Of a request that stands alone: MCP-Protocol-Version, Mcp-Method and Mcp-Name repeat what is in
 * the message, for proxies to read. */
int guard_check_headers(const struct http_req *req, const struct rpc_message *message,
                        const struct json *version, struct err *e) MUST_USE;
