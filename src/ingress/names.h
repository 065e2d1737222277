/* names.h - addresses of hosts, looked up by other threads and remembered for a few seconds.
 *
 * One for each worker. Loop thread only. */
#pragma once

#include "base/map.h"
#include "net/http_wait.h"
#include "net/pool.h"
#include "net/sock.h"

enum {
    NAMES_KEPT_MAX = 16 * 1024,
    NAMES_JOBS_MAX = 256,
    NAMES_KEEP_MS = 5000,
    NAMES_NONE_MS = 500
};

struct names {
    struct loop *loop;
    struct pool *pool;
    struct map kept; /* of struct kept_name */
    size_t jobs;
};

void names_init(struct names *n, struct loop *loop, struct pool *pool);
void names_done(struct names *n); /* no job may be under way */

/* 0 and *ret, with this port; -EAGAIN: it must be asked for; -ENOENT: it has no address. */
int names_find(struct names *n, const char *host, uint16_t port, struct sock_addr *ret);
void names_ask(struct names *n, struct str host, http_wait_done_fn *done, void *done_user);
