/* cluster_peers.c - the other servers: their addresses, and whether they live. */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/url.h"
#include "server/cluster/cluster_internal.h"

void peer_news_read(struct peer_news *n, const struct store_place *place)
{
    struct url url;

    *n = (struct peer_news){.live = place->live};
    if (str_copy(n->id, sizeof(n->id), place->holder) < 0 ||
        str_copy(n->address, sizeof(n->address), place->address) < 0 ||
        url_split(place->address, &url, NULL) < 0 ||
        str_copy(n->host, sizeof(n->host), url.host) < 0)
        return;
    n->tls = url.scheme == URL_HTTPS;
    n->reachable = sock_resolve(n->host, url.port, &n->addr, NULL) == 0;
}

struct cluster_peer *cluster_peer_at(struct cluster *c, struct str id)
{
    return map_get(&c->peers, id);
}

struct cluster_peer *cluster_peer_next(struct cluster *c, size_t *at)
{
    void *peer = NULL;

    return map_next(&c->peers, at, NULL, &peer) ? peer : NULL;
}

static struct stream_security *security(struct cluster *c)
{
    struct tls_client_conf conf = {.ca_file = c->conf.ca_file[0] ? c->conf.ca_file : NULL};
    struct err e = {0};

    if (!c->tls && tls_client_new(&conf, &c->tls, &e) < 0) {
        log_event(LOG_ERROR, "cannot use TLS to other servers", LOG_STR("error", e.msg));
        return NULL;
    }
    return tls_client_security(c->tls);
}

struct cluster_peer *peer_update(struct cluster *c, const struct peer_news *n)
{
    struct cluster_peer *peer = cluster_peer_at(c, str_of(n->id));
    struct stream_security *tls;

    if (!n->reachable || !n->id[0] || str_eq(str_of(n->id), cluster_id(c)))
        return NULL;
    tls = n->tls ? security(c) : NULL;
    if (n->tls && !tls) { /* nothing is sent there in the clear instead */
        (void)map_remove(&c->peers, str_of(n->id));
        return NULL;
    }
    if (!peer) {
        peer = mem_new(struct cluster_peer);
        if (map_add(&c->peers, str_of(n->id), peer) < 0) {
            free(peer);
            return NULL;
        }
        memcpy(peer->id, n->id, sizeof(peer->id));
    }
    if (peer->live != n->live)
        log_event(n->live ? LOG_INFO : LOG_WARN,
                  n->live ? "another server is there" : "another server is away",
                  LOG_STR("server", n->id), LOG_STR("address", n->address));
    peer->live = n->live;
    memcpy(peer->address, n->address, sizeof(peer->address));
    memcpy(peer->host, n->host, sizeof(peer->host));
    peer->addr = n->addr;
    peer->tls = tls;
    return peer;
}
