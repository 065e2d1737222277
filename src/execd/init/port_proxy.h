/* port_proxy.h - /proxy/{port}/...: forwards HTTP and WebSocket to a port of the sandbox's
 * loopback.
 *
 * Path, query and Host are forwarded unchanged. Forwarding headers, unless the client is the
 * gateway:
 * - X-Forwarded-For becomes "origin, client address". The origin is the header's first entry, else
 *   X-Real-IP, else the client's address and port.
 * - X-Forwarded-Proto becomes "http"; X-Forwarded-Host is removed.
 *
 * Headers of the gateway are kept. It is recognized by its unix socket, whose peer has no address.
 * Our own access token is never forwarded.
 *
 * Two ports are refused, as in the gateway: that of egress control, which could otherwise be
 * reached through /proxy/44772/proxy/18080, and execd's own, where a path could lead through execd
 * repeatedly. */
#pragma once

struct http_req;

void port_proxy(struct http_req *req);         /* any method; the body is streamed */
void port_proxy_no_port(struct http_req *req); /* /proxy/ without a port */
