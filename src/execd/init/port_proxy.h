/* port_proxy.h - /proxy/{port}/...: whatever listens on a port of the sandbox's loopback, by HTTP
 * and WebSocket.
 *
 * The path and query are passed on as they were written, and so is Host. X-Forwarded-For becomes
 * where the way began (the first entry there is, else X-Real-IP, else the client's address and
 * port) and the client's address, X-Forwarded-Proto "http", and X-Forwarded-Host goes; but what the
 * gateway in front said stays, which is who has no address, over a unix socket. Our own token stays
 * here.
 *
 * Two ports are refused, as the gateway refuses them: that of egress control, which would else be
 * reached through /proxy/44772/proxy/18080, and execd's own, where a path could lead through execd
 * again and again. */
#pragma once

struct http_req;

void port_proxy(struct http_req *req);         /* any method; the body streamed */
void port_proxy_no_port(struct http_req *req); /* /proxy/ alone */
