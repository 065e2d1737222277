/* http_proxy.h - forwards a request to another server and its answer back, streaming both ways.
 *
 * Headers pass untouched and in order, but for those that belong to one connection only; duplicates
 * and percent codes survive. A client that reads slowly slows the backend down, and the reverse. A
 * backend that breaks off shows as a broken transfer. Upgrades (WebSocket) become a relay. A client
 * that closes its side has a second left to get its answer: most that do so are gone. */
#pragma once

#include "base/list.h"
#include "net/http_client.h"
#include "net/http_server.h"

enum { HTTP_PROXY_ROWS_ADDED_MAX = 8 };

/* Upgraded connections outlive their requests, and server and client know nothing of them. Whoever
 * forwards keeps them here, and cuts them before the loop ends. */
struct http_tunnels {
    struct list all;
    size_t count;
};
void http_tunnels_init(struct http_tunnels *t);
void http_tunnels_cut(struct http_tunnels *t); /* they are gone at the end of the turn */

struct http_proxy_target {
    const struct sock_addr *addr;
    /* Asked when addr refuses to connect; NULL = none. All text here then lives as long as the
     * request. */
    const struct sock_addr *addr_else;
    struct str target;                 /* "/path?query" to ask the backend for */
    struct str host;                   /* STR_NONE keeps the client's */
    const struct http_header *headers; /* added; the client's rows of the same name are dropped */
    size_t header_count;
    const struct str *drop; /* names of headers that must not pass, such as our own API key */
    size_t drop_count;
    uint32_t head_ms;             /* for the backend to begin its answer; 0 = for ever */
    uint32_t relay_idle_ms;       /* of an upgraded connection; 0 = for ever */
    struct http_tunnels *tunnels; /* for upgraded connections; NULL = nobody's, until they end */

    /* The head of the answer (101 too) before it is sent: may drop rows, and add as many as
     * HTTP_PROXY_ROWS_ADDED_MAX; their text lives as long as the request. May be NULL. */
    void (*on_answer)(void *user, struct http_req *req, int status, struct http_headers *rows);
    /* There will be no answer: replies, in place of our own 502 or 504. `why` is our side's story
     * and may name addresses. May be NULL. */
    void (*on_fail)(void *user, struct http_req *req, int status, const struct err *why);
    /* The backend broke off within its answer, of which `tail` is the end, two bytes at most: may
     * end the reply in words of its own instead of a broken transfer. May be NULL. */
    void (*on_cut)(void *user, struct http_req *req, struct str tail);
    /* The last of a request that is not upgraded, once for each, however it ended. May be NULL. */
    void (*on_end)(void *user);
    void *user; /* of all of them */
};

/* From the handler of a ROUTE_STREAM_BODY row, before anything is replied; answers in every case
 * (502 when the backend cannot be reached, 504 when it is late). Takes req->ops and req->user. The
 * target is copied as far as needed. */
void http_proxy_forward(struct http_req *req, struct http_client *client,
                        const struct http_proxy_target *target);
