/* renew_queue.h - reads the renew intents of gateways from a list in Redis: sandboxes in use, which
 * on_access extends as if the request had come through this server.
 *
 * An intent that is malformed, or older than 300 s, is dropped. Redis may be away: the queue tries
 * again once a second. Loop thread only. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "net/loop.h"
#include "net/pool.h"

struct renew_queue;

struct renew_queue_conf {
    struct loop *loop;
    struct pool *pool; /* looks up the name in the DSN */
    const char *dsn;   /* as in redis.h */
    const char *key;
    void (*on_access)(void *user, struct str sandbox_id);
    void *user;
};

/* -EINVAL for a DSN that is none. */
int renew_queue_new(const struct renew_queue_conf *conf, struct renew_queue **ret, struct err *e);
void renew_queue_free(struct renew_queue *q); /* NULL is fine */

/* The sandbox of an intent's text, in the arena, at wall-clock time now_us. -EBADMSG, or -ETIME for
 * one that is too old. Pure. */
int renew_intent_parse(struct arena *a, struct str text, int64_t now_us, struct str *ret_id);
