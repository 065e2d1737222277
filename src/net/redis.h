/* redis.h - a client of Redis on one loop: one connection, requests in a pipeline.
 *
 * Connects at the first request, and again, after a pause that grows, when the connection broke. A
 * request has redis_conf.call_ms from the moment it is given; while Redis cannot be reached,
 * requests fail. Loop thread only. */
#pragma once

#include "base/err.h"
#include "net/loop.h"
#include "net/pool.h"
#include "net/resp.h"
#include "net/stream.h"

enum {
    REDIS_TEXT_MAX = 256,
    REDIS_WAITING_MAX = 1024, /* requests without a reply */
    REDIS_CALL_MS = 5000,
};

/* Where a DSN leads. */
struct redis_dsn {
    bool tls;
    bool is_path; /* `host` is the path of a unix socket */
    char host[REDIS_TEXT_MAX];
    uint16_t port;
    char user[REDIS_TEXT_MAX]; /* "" = none */
    char password[REDIS_TEXT_MAX];
    uint32_t db;
};

/* redis://[user:password@]host[:port][/db], the same with rediss:// for TLS, and
 * unix://[user:password@]/path[?db=N]. User and password may have percent codes. -EINVAL. */
int redis_dsn_parse(struct str text, struct redis_dsn *ret, struct err *e);

struct redis;

struct redis_conf {
    struct redis_dsn dsn;
    /* For rediss: tls_client_security; outlives the client. */
    struct stream_security *tls;
    struct pool *pool; /* looks the host's name up; ends before the client is freed */
    uint32_t call_ms;  /* 0 = REDIS_CALL_MS */
};

/* Exactly once for each request that was taken. reply: NULL when there is none, and `why` says why;
 * an error of Redis is a reply. Both valid during the call. */
typedef void redis_done_fn(void *user, const struct resp *reply, const char *why);

int redis_new(struct loop *loop, const struct redis_conf *conf, struct redis **ret, struct err *e);
void redis_free(struct redis *r); /* requests end with "the client was closed"; NULL is fine */

/* done may be NULL. -EAGAIN: REDIS_WAITING_MAX requests wait. -EHOSTUNREACH: Redis could not be
 * reached a moment ago, and the next attempt is not due. -EMSGSIZE, -ENOMEM. */
int redis_call(struct redis *r, const struct str *words, size_t count, redis_done_fn *done,
               void *user);
size_t redis_waiting(const struct redis *r); /* requests without a reply */
