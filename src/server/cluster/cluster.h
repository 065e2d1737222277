/* cluster.h - this server as one of several that share a store in PostgreSQL.
 *
 * Each server holds the sandboxes that it made: it alone runs and changes them, and its row in the
 * database says where it is. A holder that stays away for too long is given up: another server
 * takes its rows over. Until then they never change hands, so an answer of "which server holds
 * this" may be kept. Loop thread only. */
#pragma once

#include "net/pool.h"
#include "net/sock.h"
#include "server/core/sandboxes.h"
#include "server/store/store_cluster.h"
#include "server/tenants/tenants.h"

struct cluster;

enum {
    CLUSTER_ID_MAX = 40,
    CLUSTER_ADDRESS_MAX = 256,
    CLUSTER_PEERS_MAX = 256,
    CLUSTER_SECRET_MAX = 256,
    CLUSTER_KEY_MAX = 200,
};

struct cluster_conf {
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct store_postgres place; /* of the store; borrowed */
    struct sandboxes *sandboxes;
    struct tenants *tenants;
    const char *address;         /* where the others reach this server: a URL */
    const char *secret;          /* what servers prove themselves by; "" = one kept in the store */
    const char *ca_file;         /* of https addresses; "" = the system's authorities */
    uint32_t lease_s, give_up_s; /* give_up: 0 = never */
    /* This server must stop: the others have given it up, or may have. */
    void (*on_given_up)(void *user, const char *why);
    void *user;
};

/* Registers the server: call it before the store is loaded. BLOCKS. */
int cluster_new(const struct cluster_conf *conf, struct cluster **ret, struct err *e);
void cluster_start(struct cluster *c); /* renews the lease from now on */
void cluster_stop(struct cluster *c);  /* no more; NULL is fine */
void cluster_free(struct cluster *c);  /* after the workers; NULL is fine */

struct store_cluster *cluster_store(struct cluster *c); /* for workers */
struct str cluster_secret(const struct cluster *c);
struct str cluster_id(const struct cluster *c);

/* Another server. */
struct cluster_peer {
    char id[CLUSTER_ID_MAX];
    char address[CLUSTER_ADDRESS_MAX];
    char host[CLUSTER_ADDRESS_MAX]; /* of the address, for TLS */
    struct sock_addr addr;
    struct stream_security *tls; /* NULL = plain HTTP */
    bool live;
};
struct cluster_peer *cluster_peer_at(struct cluster *c, struct str id); /* NULL = not known */
/* Visits them: `size_t at = 0; while ((peer = cluster_peer_next(c, &at)))`. */
struct cluster_peer *cluster_peer_next(struct cluster *c, size_t *at);

/* --- which server holds something ---
 *
 * A key is a letter and an id: */
enum cluster_kind {
    CLUSTER_SANDBOX = 'b',
    CLUSTER_SNAPSHOT = 's',
    CLUSTER_MARK = 'm', /* of an Idempotency-Key */
};

/* The peer that holds it, if that is known and the peer lives; else NULL. */
struct cluster_peer *cluster_held(struct cluster *c, struct str key);
void cluster_forget(struct cluster *c, struct str key);

struct cluster_found {
    int r;     /* 1 found, 0 there is none, -errno */
    bool here; /* this server holds it */
    bool live; /* its holder's lease lasts */
    char holder[CLUSTER_ID_MAX];
    /* Of a sandbox: whose it is, and as what a client sees it whose holder does not answer. */
    char tenant[PRINCIPAL_TENANT_MAX];
    struct buf json;
    struct err err;
};
/* Called once, on the loop; also when workers end early, with r = -ECANCELED. */
typedef void cluster_found_fn(void *user, struct cluster_found *found);
void cluster_find(struct cluster *c, struct str key, cluster_found_fn *done, void *user);

/* Turns a row into what a client sees while the row's holder is away; on a worker. */
struct api_sandbox cluster_view(const struct store_sandbox *row, bool live);
#define CLUSTER_AWAY_REASON "SERVER_AWAY"

/* --- cluster_header.c: proof of a forwarded request's principal --- */

/* Carries the principal that a server has found, and a MAC over it, the request and its
 * receiver. */
#define CLUSTER_HEADER      "OpenSandbox-Cluster"
/* Of answers: the receiver does not hold what the request is about. */
#define CLUSTER_MISS_HEADER "OpenSandbox-Cluster-Miss"

struct cluster_request {
    struct str method, target, id; /* id: of the request */
};
enum { CLUSTER_HEADER_MAX = 768, CLUSTER_HEADER_AGE_S = 300 };
/* -EINVAL when the principal does not fit. */
int cluster_header_write(struct str secret, struct str from, struct str to,
                         const struct cluster_request *request, const struct principal *by,
                         int64_t now_s, struct buf *out);
/* -EACCES unless it was written for this receiver and request, at most CLUSTER_HEADER_AGE_S ago. */
int cluster_header_read(struct str secret, struct str to, const struct cluster_request *request,
                        struct str value, int64_t now_s, struct principal *ret);
