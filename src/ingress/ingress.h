/* ingress.h - the parts of opensandbox-ingress, and what its threads share.
 *
 *   control loop (main thread)   signals, new connections, watch of the cluster, Redis, metrics
 *   workers                      a loop each: connections of clients and to sandboxes
 *
 * The control loop accepts and gives each connection to the worker that has fewest; it stays there.
 * Workers share the table of places, the limits and the queue of renew intents, each behind its own
 * lock; everything else in `struct ingress` does not change while workers run. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "ingress/access.h"
#include "ingress/finder.h"
#include "ingress/intent.h"
#include "ingress/limits.h"
#include "ingress/metrics.h"
#include "ingress/names.h"
#include "ingress/options.h"
#include "ingress/place.h"
#include "ingress/servers.h"
#include "net/http_proxy.h"
#include "net/http_server.h"
#include "net/http_wait.h"
#include "net/tls.h"

struct ingress;
struct watch;
struct worker;

/* --- discovery: a row for each --provider-type --- */

struct provider {
    const char *name;
    bool
        on_servers; /* sandboxes are behind lifecycle servers; else in the cluster that is watched */
    /* Begins to watch, on the control loop; sets g->watch. NULL = nothing to watch. */
    int (*start)(struct ingress *g, struct err *e);
    /* What is known of a sandbox; PLACE_LATER: `ask` finds out, and then it is known. */
    void (*find)(struct worker *w, struct str id, struct place *ret);
    void (*ask)(struct worker *w, struct str id, http_wait_done_fn *done, void *done_user);
};
const struct provider *provider_find(const char *name);
void provider_names(struct buf *out); /* "batchsandbox, agent-sandbox, servers" */

/* --- watch.c --- */

int watch_start_batch(struct ingress *g, struct err *e);
int watch_start_agent(struct ingress *g, struct err *e);
void watch_stop(struct watch *w);            /* NULL is fine */
bool watch_is_synced(const struct watch *w); /* the first list is complete */
int64_t watch_lag_s(const struct watch *w);  /* -1 without a watch */
/* Why the first list is not there yet; "" = not known. */
void watch_problem(const struct watch *w, char *out, size_t size);

/* --- the process --- */

struct ingress {
    struct options options;
    struct access_keys keys; /* as read at start; workers have copies */
    struct limits limits;
    struct limits_nets trusted;
    struct servers servers;
    struct places places;
    const struct provider *provider;
    struct watch *watch;
    struct intents *intents; /* NULL = none are published */
    struct pool *pool;       /* looks names up */
    struct loop *loop;       /* the control loop */
    struct worker *workers;
    size_t worker_count;
    atomic_bool draining;
    atomic_size_t connections;
    char id_prefix[16]; /* of request ids */
};

/* --- workers --- */

/* A connection on its way to a worker, and as long as it lives. */
struct arrival {
    struct loop_task task;
    struct worker *worker;
    int fd;
    struct sock_addr peer;
    struct limits_key source;
};

struct worker {
    struct ingress *ingress;
    pthread_t thread;
    bool started;
    struct loop *loop;
    struct http_server *server;
    struct http_client *client;     /* to sandboxes, and to servers */
    struct tls_server *tls;         /* NULL = plain HTTP */
    struct tls_client **server_tls; /* by the server's index; NULL = plain */
    struct server_calls calls;
    struct access_keys keys;
    struct http_tunnels tunnels;
    struct finder finder;
    struct names names;
    struct http_waits lookups, name_lookups, wakes;
    struct list wakings;      /* struct waking */
    struct list live;         /* struct visit: forwarded requests without an end */
    struct list tunnels_open; /* struct tunnel_note */
    struct loop_timer note;   /* intents of long connections */
    struct loop_task drain, reload, stop;
    struct loop_timer drained_poll;
    uint64_t drain_deadline_ns;
    bool drained, stopping;
    atomic_bool ended; /* the thread has nothing more to do */
    atomic_size_t connections;
    struct metrics metrics;
    uint64_t request_number;
    uint64_t sample_begin_ns, sampled; /* of the access log */
};

int worker_start(struct worker *w, struct ingress *g, struct err *e);
/* From the control loop. */
void worker_give(struct worker *w, struct arrival *a);
void worker_drain(struct worker *w);
void worker_reload(struct worker *w);
void worker_join(struct worker *w); /* after it ended, or to end it now; frees what it has */

/* --- serve.c: one request, on its worker --- */

struct visit {
    struct worker *worker;
    struct http_req *req;
    struct list link; /* in worker->live */
    struct limits_key source;
    struct route route;
    struct place place;
    struct str rest;   /* what the sandbox is asked for, without the query */
    uint64_t first_ns; /* of the first attempt to connect */
    struct loop_timer again;
    unsigned lookups; /* how often it was looked up */
    uint8_t retries;  /* after a server's refusal */
    bool parsed, found, forwarded, woken, websocket, is_trusted, reread;
    char client[INET6_ADDRSTRLEN]; /* for the log, if no header says it */
};

/* Of an upgraded connection, which outlives its request. */
struct tunnel_note {
    struct list link;
    struct worker *worker;
    struct limits_key source;
    char id[ROUTE_ID_MAX + 1];
    uint16_t port;
};

bool serve_on_request(struct http_req *req);
void serve_on_unrouted(struct http_req *req, unsigned allowed);
void serve_on_done(struct http_req *req, int error);
void serve_request(struct http_req *req);
/* Continuations of requests that waited: for http_waits. */
void serve_again(void *owner, struct http_req *req, const char *why);
void serve_woken(void *owner, struct http_req *req, const char *why);
void serve_late(void *owner, struct http_req *req);
/* "OpenSandbox Ingress: reason" as text. */
void serve_refuse(struct http_req *req, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* --- forward.c: the request to the sandbox, and its answer --- */

void forward(struct visit *v);
/* The peer, or the client that a trusted proxy in front names. */
void forward_source(struct visit *v);

/* --- wake.c: resumes a paused sandbox, and waits until it runs --- */

void wake_start(struct worker *w, struct str id, http_wait_done_fn *done, void *done_user);
void wake_done(struct worker *w); /* after the client of the worker was freed */

/* --- admin.c: metrics and health, on the control loop --- */

struct admin;
int admin_start(struct ingress *g, struct admin **ret, struct sock_addr *ret_addr, struct err *e);
void admin_stop(struct admin *a);
