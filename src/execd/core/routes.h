/* routes.h - execd's routes, and the state that their handlers share. */
#pragma once

#include "execd/core/interrupt.h"
#include "execd/core/trim.h"
#include "net/http_server.h"

struct child_user;
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

/* Memory for request bodies and their parsed form, for all requests together: two of the largest
 * (16 MiB, POST /files/replace), parsed. The broker gives execd 64 MiB, which leaves room to parse
 * one more body. */
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
    struct directory_watch *watches; /* all active ones */
    struct http_client *proxy;       /* for requests to ports of the sandbox */
    uint16_t port;                   /* execd's own; 0 for a unix socket */
    struct telemetry *telemetry;     /* NULL: not requested */
    struct ptys *ptys;
    struct list pty_clients;       /* their WebSockets */
    const char *access_token;      /* NULL or "": no token is required */
    bool log_use;                  /* log requests and commands, see use_log.h */
    const struct child_user *user; /* the usual one of processes, see child_place */
    const char *view; /* the workspace, in a process that serves only files; else NULL */
};

/* The user that processes and files of this request belong to, unless it says otherwise. */
static inline const struct child_user *usual_user(const struct http_req *req)
{
    const struct execd_api *api = req->server_user;

    return api->user;
}

extern const struct http_route execd_routes[];
extern const size_t execd_route_count;
/* The same table, with the file routes answered by usual_files(). The caller frees it. */
struct http_route *execd_routes_of_user(void) MUST_USE;

/* For http_server_conf: redirects a path with a trailing slash too many, checks the token, and
 * replies 404 to every path and method without a route. */
bool execd_on_request(struct http_req *req);
void execd_on_unrouted(struct http_req *req, unsigned allowed);
