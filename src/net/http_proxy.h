/* http_proxy.h - forwards a request to another server and its answer back, streaming both ways.
 *
 * Headers pass untouched and in order, but for those that belong to one connection only; duplicates
 * and percent codes survive. A client that reads slowly slows the backend down, and the reverse. A
 * backend that breaks off shows as a broken transfer. Upgrades (WebSocket) become a relay. */
#pragma once

#include "net/http_client.h"
#include "net/http_server.h"

struct http_proxy_target {
    const struct sock_addr *addr;
    struct str target;                 /* "/path?query" to ask the backend for */
    struct str host;                   /* STR_NONE keeps the client's */
    const struct http_header *headers; /* added; the client's rows of the same name are dropped */
    size_t header_count;
    const struct str *drop; /* names of headers that must not pass, such as our own API key */
    size_t drop_count;
    uint32_t head_ms;       /* for the backend to begin its answer; 0 = for ever */
    uint32_t relay_idle_ms; /* of an upgraded connection; 0 = for ever */
};

/* From the handler of a ROUTE_STREAM_BODY row, before anything is replied; answers in every case
 * (502 when the backend cannot be reached, 504 when it is late). Takes req->ops and req->user. The
 * target is copied as far as needed. */
void http_proxy_forward(struct http_req *req, struct http_client *client,
                        const struct http_proxy_target *target);
