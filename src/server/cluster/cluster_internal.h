/* cluster_internal.h - shared by the files of cluster.h. */
#pragma once

#include "base/map.h"
#include "net/tls.h"
#include "server/cluster/cluster.h"

struct cluster {
    struct cluster_conf conf;
    struct store_cluster *store;
    struct tls_client *tls; /* NULL until a peer needs it */
    struct map peers;       /* of struct cluster_peer, by id */
    struct map holders;     /* of ids of peers, by key */
    struct buf secret;
    char fingerprint[STORE_FINGERPRINT_MAX];
    struct loop_timer timer;
    struct beat *beat;     /* the current one; NULL = none */
    uint64_t beaten_ns;    /* when the last successful one was begun */
    bool stopped, failing; /* failing: was logged */
    struct list finds;     /* under way */
};

/* --- cluster_peers.c --- */

/* What a worker learnt of a server. */
struct peer_news {
    char id[CLUSTER_ID_MAX], address[CLUSTER_ADDRESS_MAX], host[CLUSTER_ADDRESS_MAX];
    struct sock_addr addr;
    bool tls, live;
    bool reachable; /* its address could be resolved */
};
/* On a worker: BLOCKS for the address. */
void peer_news_read(struct peer_news *n, const struct store_place *place);
/* On the loop: NULL when it cannot be reached by what it says. */
struct cluster_peer *peer_update(struct cluster *c, const struct peer_news *n);
