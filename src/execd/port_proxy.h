/* port_proxy.h - /proxy/{port}/...: whatever listens on a port of the sandbox's loopback, by HTTP
 * and WebSocket.
 *
 * The path and query are passed on as they were written, and so are Host and the X-Forwarded rows
 * of the gateway in front. Where there is none of those, X-Forwarded-For is the client's address
 * (over TCP; a unix socket has none) and X-Forwarded-Proto is "http". Our own token stays here. */
#pragma once

struct http_req;

void port_proxy(struct http_req *req);         /* any method; the body streamed */
void port_proxy_no_port(struct http_req *req); /* /proxy/ alone */
