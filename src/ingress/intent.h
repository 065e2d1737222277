/* intent.h - tells the lifecycle server, through a list in Redis, which sandboxes are in use.
 *
 * Workers note accesses, from any thread; at most one in `min_interval_s` of each sandbox goes into
 * a bounded queue. The control loop pushes them. What cannot be pushed is dropped and counted. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/map.h"
#include "net/redis.h"

enum {
    INTENT_QUEUE_MAX = 8192,
    INTENT_MARKS_MAX = 256 * 1024,
    INTENT_URI_MAX = 2048,
    INTENT_TEXT_MAX = 16 * 1024,
};

struct intents_conf {
    struct loop *loop;
    struct redis_conf redis;
    const char *key;
    uint64_t length_max;    /* 0 = any */
    int64_t min_interval_s; /* <= 0: every access */
};

struct intents_stats {
    uint64_t noted, throttled, dropped, pushed, failed;
};

struct intents {
    struct intents_conf conf;
    struct redis *redis;
    pthread_mutex_t lock;
    struct map marks; /* of uint64_t: when the sandbox's last one was noted */
    uint64_t sweep_ns;
    char *queue[INTENT_QUEUE_MAX]; /* a ring of JSON texts */
    size_t first, count;
    bool posted; /* `push` is on its way to the loop */
    struct loop_task push;
    struct intents_stats stats;
    struct log_limit log_limit;
    size_t pushing; /* requests to Redis under way */
    bool busy;      /* push_some runs, or must not */
};

int intents_start(struct intents *i, const struct intents_conf *conf, struct err *e);
void intents_stop(struct intents *i);
/* Whether all that was noted is pushed or dropped. Loop thread. */
bool intents_idle(struct intents *i);

/* Any thread. uri: the forwarded path, STR_NONE = none. */
void intents_note(struct intents *i, struct str id, uint16_t port, struct str uri, uint64_t now_ns);
void intents_stats(struct intents *i, struct intents_stats *ret);

/* The text of an event at wall-clock time `us`. Fails as buf_add() does. */
int intent_write(struct buf *out, struct str id, uint16_t port, struct str uri, int64_t us);
