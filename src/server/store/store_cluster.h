/* store_cluster.h - what servers that share a store in PostgreSQL tell each other: which servers
 * there are, which of them holds what, and which are gone. A connection of its own, without a lock.
 *
 * A server is a row with its address and a lease, which it renews; when the lease ended is decided
 * by the database's clock alone. Every call blocks, and is for workers (any thread). */
#pragma once

#include "server/store/store.h"

struct store_cluster;

int store_cluster_open(const struct store_postgres *conf, struct store_cluster **ret,
                       struct err *e);
void store_cluster_close(struct store_cluster *c); /* NULL is fine */

/* Writes the server's row anew. */
int store_cluster_register(struct store_cluster *c, struct str address, uint32_t lease_s,
                           struct err *e);
/* Renews the lease: 0 when the others have given this server up. */
int store_cluster_beat(struct store_cluster *c, uint32_t lease_s, struct err *e);

/* The server that holds something. */
struct store_place {
    struct str holder;
    struct str address; /* "" = the holder is not registered */
    bool live;          /* its lease lasts */
};

typedef void store_server_fn(void *user, const struct store_place *server);
int store_cluster_servers(struct store_cluster *c, store_server_fn *visit, void *user,
                          struct err *e);

/* Visits the row of a sandbox, of any holder; 0 when there is none. `total`: how many rows there
 * are in all that a call asks for. visit must not call the store. */
typedef int store_place_fn(void *user, const struct store_sandbox *row,
                           const struct store_place *place, uint64_t total);
int store_cluster_find(struct store_cluster *c, struct str id, store_place_fn *visit, void *user,
                       struct err *e);
/* The same for the record of another holder, and for a mark of store_share; `row` is NULL. */
int store_cluster_find_record(struct store_cluster *c, struct str kind, struct str id,
                              store_place_fn *visit, void *user, struct err *e);
int store_cluster_find_mark(struct store_cluster *c, struct str mark, store_place_fn *visit,
                            void *user, struct err *e);
/* Visits rows of the others, newest first; not those that wait in a pool. */
struct store_cluster_query {
    struct str tenant; /* "" = all */
    unsigned states;   /* STATE_BITs */
    uint64_t limit;
};
int store_cluster_others(struct store_cluster *c, const struct store_cluster_query *query,
                         store_place_fn *visit, void *user, struct err *e);

/* If the lease of a server ended more than `after_s` ago: takes its row away, and moves its
 * sandboxes to this holder. Those that were to be there become Failed with `status`; persistent
 * ones stay, as their files do. Visits what was moved. */
int store_cluster_give_up(struct store_cluster *c, struct str server, uint32_t after_s,
                          const struct store_status *status, store_visit_fn *visit, void *user,
                          struct err *e);

/* A text that changes when a tenant or an API key does. */
enum { STORE_FINGERPRINT_MAX = 96 };
int store_cluster_fingerprint(struct store_cluster *c, char ret[STORE_FINGERPRINT_MAX],
                              struct err *e);
/* Forgets marks that were made before. */
int store_cluster_prune(struct store_cluster *c, int64_t before_us, struct err *e);
