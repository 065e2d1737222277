/* routes.h - what execd answers to, with what, and what its handlers work on. */
#pragma once

#include "execd/interrupt.h"
#include "execd/metrics_api.h"
#include "net/http_server.h"

struct commands;
struct http_client;

struct execd_api { /* server_user of every request */
    struct commands *commands;
    struct interrupts interrupts;
    struct metrics_source metrics;
    struct metrics_memory metrics_memory;
    struct http_client *proxy; /* to the ports of the sandbox */
    const char *access_token;  /* NULL or "": everyone may ask */
};

extern const struct http_route execd_routes[];
extern const size_t execd_route_count;

/* For http_server_conf: the token first, and then 404 for every path and method without a row. */
bool execd_on_request(struct http_req *req);
void execd_on_unrouted(struct http_req *req, unsigned allowed);
