/* router.h - finds the row of a route table that matches a request. Immutable once made.
 *
 * A path consists of literal segments, "{name}" for exactly one non-empty segment, and a last
 * segment "*" for the rest, which may be empty: /sandboxes/{id}/proxy/{port} and then "*". Per
 * segment, a literal is preferred to "{name}", and "{name}" to "*". A request may write a literal
 * with percent codes; "%2F" is never a separator, and dot segments are ordinary ones. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "net/http.h"

struct http_req;
struct router;

enum {
    ROUTE_STREAM_BODY = 1 << 0, /* the handler is called at the head and takes the body in pieces */
    ROUTE_PARAMS_MAX = 8,
};

struct http_route {
    unsigned methods; /* HTTP_BIT()s; GET also answers HEAD, unless another row does */
    const char *path;
    unsigned flags;
    void (*handler)(struct http_req *req);
    uint64_t body_bytes_max; /* 0 = the server's default; for streamed bodies 0 = no limit */
    /* Not NULL: this row stands for the rows of a group, and `path` is a prefix of their paths, ""
     * too. With a handler, it answers all of them, with the flags and the limit of this row;
     * otherwise each row keeps its own. Methods are those of the group. */
    const struct http_route_group *group;
};

struct http_route_group {
    const struct http_route *routes; /* none of them with a group of its own */
    size_t count;
};

struct route_param {
    struct str name;  /* "id"; "*" for the rest */
    struct str value; /* not decoded */
};

struct route_match {
    const struct http_route *route; /* NULL: no such path, or not with this method */
    unsigned allowed;               /* methods of the path; 0 = no such path */
    struct route_param params[ROUTE_PARAMS_MAX];
    size_t param_count;
};

/* The table is borrowed and must outlive the router. -EINVAL names a row that is malformed or has
 * the path and method of another row. Of a group, the router finds rows of its own with the whole
 * path. */
int router_new(const struct http_route *routes, size_t count, struct router **ret, struct err *e);
void router_free(struct router *r);

void router_find(const struct router *r, enum http_method method, struct str path,
                 struct route_match *ret);

/* Appends the table as text: a line "GET /path" for each method of each row, "* /path" for a row
 * that accepts any method (HTTP_OTHER too). Fails as buf_add() does. */
int routes_print(const struct http_route *routes, size_t count, struct buf *out) MUST_USE;
