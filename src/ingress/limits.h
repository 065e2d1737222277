/* limits.h - what one source may do: open connections, requests in a second, wrong secrets.
 *
 * A source is an IPv4 address, or the first 64 bits of an IPv6 address. One table for all threads,
 * behind a mutex; it is bounded, and forgets sources that were quiet for longest. */
#pragma once

#include <pthread.h>

#include "base/map.h"
#include "net/sock.h"

enum { LIMITS_SOURCES_MAX = 64 * 1024, LIMITS_NETS_MAX = 64 };

struct limits_conf {
    uint32_t connections; /* at the same time; 0 = any number */
    uint32_t rate;        /* requests in a second; 0 = any number */
    uint32_t burst;       /* of requests; 0 = the rate */
    uint32_t failures;    /* wrong secrets in a minute; 0 = any number */
};

struct limits {
    struct limits_conf conf;
    pthread_mutex_t lock;
    struct map sources; /* of struct source */
};

struct limits_key {
    uint8_t bytes[16];
};

void limits_init(struct limits *l, const struct limits_conf *conf);
void limits_done(struct limits *l);

struct limits_key limits_key_of(const struct sock_addr *addr);

/* A connection came, or went: false when the source has too many. */
bool limits_connect(struct limits *l, const struct limits_key *key);
void limits_disconnect(struct limits *l, const struct limits_key *key);
/* A request came: false when the source sends too many. */
bool limits_request(struct limits *l, const struct limits_key *key, uint64_t now_ns);
/* Whether the source may show a secret; and that a shown one was wrong. */
bool limits_may_try(struct limits *l, const struct limits_key *key, uint64_t now_ns);
void limits_failed(struct limits *l, const struct limits_key *key, uint64_t now_ns);

/* Networks, such as those of proxies whose X-Forwarded-For is believed. */
struct limits_nets {
    struct limits_net {
        uint8_t bytes[16]; /* an IPv4 network as ::ffff:0:0/96 */
        unsigned bits;
    } at[LIMITS_NETS_MAX];
    size_t count;
};
/* "10.0.0.0/8,fd00::/8,127.0.0.1". -EINVAL. */
int limits_nets_parse(struct str text, struct limits_nets *ret, struct err *e);
bool limits_nets_have(const struct limits_nets *nets, const struct sock_addr *addr);
