/* http_proxy.h - forwards a request to another server and streams the answer back.
 *
 * Headers pass unchanged and in order, duplicates and percent codes included; only hop-by-hop
 * headers are dropped. A slow client slows the backend down, and the reverse. When the backend
 * breaks off, the client sees a broken transfer. Upgrades (WebSocket) become a relay. After a
 * client closed its sending side, the answer must come within a second: most such clients are
 * gone. */
#pragma once

#include "base/list.h"
#include "net/http_client.h"
#include "net/http_server.h"

enum { HTTP_PROXY_ROWS_ADDED_MAX = 8 };

/* Upgraded connections outlive their requests; neither server nor client tracks them. The
 * forwarding program keeps them here and cuts them before the loop ends. */
struct http_tunnels {
    struct list all;
    size_t count;
};
void http_tunnels_init(struct http_tunnels *t);
void http_tunnels_cut(struct http_tunnels *t); /* they end at the end of the turn */
/* Those to backends of that group end once what these sent before is passed on. */
void http_tunnels_end_group(struct http_tunnels *t, uint64_t group);

/* Changes a body as it passes: appends to `out` what the next piece becomes. The last call has
 * last = true, and may have an empty `in`. -errno breaks the transfer. */
struct http_proxy_filter {
    int (*run)(void *user, struct str in, bool last, struct buf *out); /* NULL = none */
    void *user;
};

struct http_proxy_target {
    const struct sock_addr *addr;
    struct stream_security *tls; /* as in http_call_spec, as the next */
    struct str tls_host;
    uint64_t group;
    /* Used when addr refuses the connection; NULL = none. All text here then lives as long as the
     * request. */
    const struct sock_addr *addr_else;
    struct str target;                 /* "/path?query" to request from the backend */
    struct str host;                   /* STR_NONE keeps the client's Host */
    const struct http_header *headers; /* added; replace the client's of the same name */
    size_t header_count;
    const struct str *drop; /* names of headers to drop, such as our own API key */
    size_t drop_count;
    struct str body; /* in place of the request's, which the caller has taken whole; STR_NONE */
    /* A request with a filter is chunked, as its length is not known. */
    struct http_proxy_filter request_filter;
    bool request_keeps_length;                /* the filter does not */
    struct http_proxy_filter response_filter; /* keeps the length */
    bool secret;                              /* as in http_call_spec */
    uint32_t head_ms;             /* for the backend to begin its answer; 0 = no limit */
    uint32_t relay_idle_ms;       /* of an upgraded connection; 0 = no limit */
    struct http_tunnels *tunnels; /* for upgraded connections; NULL = not tracked */

    /* Called first with the head of the answer, or with status 0 and NULL when the backend refused
     * the connection. True: the callee takes the request back, and answers it by itself, later or
     * from here, also by another http_proxy_forward; this answer is discarded, and on_end came.
     * Only for a request without a body, or with `body`. May be NULL. */
    bool (*on_take_back)(void *user, struct http_req *req, int status,
                         const struct http_headers *rows);
    /* Called with the head of the answer (101 too) before it is sent. May drop rows and add up to
     * HTTP_PROXY_ROWS_ADDED_MAX; their text lives as long as the request. May be NULL. */
    void (*on_answer)(void *user, struct http_req *req, int status, struct http_headers *rows);
    /* There will be no answer: sends a reply instead of our own 502 or 504. `why` is an internal
     * message and may name addresses. May be NULL. */
    void (*on_fail)(void *user, struct http_req *req, int status, const struct err *why);
    /* The backend broke off within its answer; `tail` is the end of it, at most two bytes. May end
     * the reply with its own text instead of a broken transfer. May be NULL. */
    void (*on_cut)(void *user, struct http_req *req, struct str tail);
    /* An upgrade begins, and its request ends; what is returned is the argument of on_tunnel_end,
     * which comes once, at the end of the upgraded connection. May be NULL, both. */
    void *(*on_tunnel)(void *user, struct http_req *req);
    void (*on_tunnel_end)(void *tunnel_user);
    /* The last callback of a request that is not upgraded, exactly once. May be NULL. */
    void (*on_end)(void *user);
    void *user; /* argument of all callbacks */
};

/* Call it from the handler of a ROUTE_STREAM_BODY row, before any reply. Always answers the request
 * (502 when the backend is unreachable, 504 when it is late). Takes req->ops and req->user. Copies
 * what it needs of the target. */
void http_proxy_forward(struct http_req *req, struct http_client *client,
                        const struct http_proxy_target *target);
