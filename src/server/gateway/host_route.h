/* host_route.h - a port of a sandbox as a host of its own: {port}-{id}.DOMAIN.
 *
 * Applications with absolute links break below /sandboxes/{id}/proxy/{port}/; at a host of their
 * own they work, and the browser keeps sandboxes apart as different origins. Browsers resolve every
 * name below "localhost" to this machine.
 *
 * A browser cannot send our headers with a page. It signs in by a URL with the parameter
 * HOST_ROUTE_ACCESS, whose value is the sandbox's token or a signed route; the answer moves it into
 * a cookie of this host. All functions here only read, except where they say so. */
#pragma once

#include "net/http_server.h"

#define HOST_ROUTE_ACCESS "opensandbox_access" /* the parameter and the cookie */

struct host_route {
    struct str port; /* digits */
    struct str sandbox_id;
};

/* Whether `host`, a Host header with or without a port, is of the form above. With an empty domain
 * none is. */
bool host_route_parse(struct str host, struct str domain, struct host_route *ret);

/* Makes a request to such a host one to /sandboxes/{id}/proxy/{port}/..., for the router. Others
 * stay as they are. -ENOMEM when the request has no memory for it. */
int host_route_apply(struct http_req *req, struct str domain);

/* The value of our cookie; STR_NONE without one, and for a request that a page of another origin
 * sends: a cookie comes with those, too. */
struct str host_route_cookie(const struct http_req *req);
/* Removes our cookie from the request, and keeps those of the application. */
void host_route_drop_cookie(struct http_req *req);

/* The value of our parameter in a query; STR_NONE = it has none. */
struct str host_route_access(struct str query);
/* Sends the browser to the same address without the parameter, with the cookie. `rest` is the path
 * that it asked for, without the query. */
void host_route_sign_in(struct http_req *req, struct str rest, struct str access);
