/* routes.h - execd's routes, and what their handlers share: its parts, by pointer. */
#pragma once

#include "execd/core/interrupt.h"
#include "execd/core/trim.h"
#include "net/http_server.h"

struct commands;
struct contexts;
struct directory_watch;
struct http_client;
struct identities;
struct isolated_all;
struct metrics_memory;
struct metrics_source;
struct ptys;
struct sessions;
struct telemetry;
struct uploads;

/* Of request bodies and what is made of them, for all requests together: two of the largest (16
 * MiB, POST /files/replace), parsed. The broker gives execd 64 MiB, and one more body may be
 * parsed. */
enum { EXECD_HELD_BYTES_MAX = 36 << 20 };

#define EXECD_TOKEN_HEADER "X-EXECD-ACCESS-TOKEN"

struct execd_api { /* server_user of every request */
    struct commands *commands;
    struct sessions *sessions;
    struct contexts *contexts;
    struct interrupts interrupts;
    struct trim trim;
    struct isolated_all *isolated;
    struct identities *identities;
    const struct metrics_source *metrics;
    struct metrics_memory *metrics_memory;
    struct directory_watch *watches; /* all that go on */
    struct uploads *uploads;
    struct http_client *proxy;   /* to the ports of the sandbox */
    uint16_t port;               /* where execd listens; 0 for a unix socket */
    struct telemetry *telemetry; /* NULL: nobody asks for it */
    struct ptys *ptys;
    struct list pty_clients;  /* their WebSockets */
    const char *access_token; /* NULL or "": everyone may ask */
    bool log_use;             /* requests and commands, see use_log.h */
    const char *view;         /* of a process that serves only files: its workspace; else NULL */
};

extern const struct http_route execd_routes[];
extern const size_t execd_route_count;

/* For http_server_conf: a slash too many, the token, and then 404 for every path and method without
 * a row. */
bool execd_on_request(struct http_req *req);
void execd_on_unrouted(struct http_req *req, unsigned allowed);
