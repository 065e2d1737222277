#include "server/gateway/renew_queue.h"

#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/redis.h"
#include "net/tls.h"

enum {
    WAIT_S = 5, /* of one BRPOP */
    CALL_MS = 3 * WAIT_S * 1000,
    PAUSE_MS = 1000,
    AGE_MAX_S = 300,
    ARENA_BYTES_MAX = 256 * 1024,
};

struct renew_queue {
    struct renew_queue_conf conf;
    struct redis *redis;
    struct tls_client *tls;
    struct loop_timer again;
    struct log_limit log_limit;
    bool freed;
};

int renew_intent_parse(struct arena *a, struct str text, int64_t now_us, struct str *ret_id)
{
    struct json *root;
    struct str when;
    int64_t observed_us;

    if (json_parse(a, text, NULL, &root, NULL) < 0 ||
        json_to_str(json_get(root, STR("sandbox_id")), ret_id) < 0 || ret_id->n == 0 ||
        json_to_str(json_get(root, STR("observed_at")), &when) < 0 ||
        time_parse(when, &observed_us, NULL) < 0)
        return -EBADMSG;
    return observed_us < now_us - AGE_MAX_S * TIME_US_PER_S ? -ETIME : 0;
}

static void ask(struct renew_queue *q);

static void on_again(struct loop_timer *t)
{
    ask(container_of(t, struct renew_queue, again));
}

static void pause_for(struct renew_queue *q, struct str why)
{
    if (log_limit_pass(&q->log_limit, time_mono_ns()))
        log_event(LOG_WARN, "renew intents cannot be read", LOG_STR("why", why),
                  LOG_U64("left_out", log_limit_take(&q->log_limit)));
    loop_timer_after(q->conf.loop, &q->again, PAUSE_MS, on_again);
}

/* The reply of BRPOP: the key and a text, or null. */
static void take(struct renew_queue *q, struct resp reply)
{
    AUTO_ARENA(arena, ARENA_BYTES_MAX);
    struct resp key, text;
    struct str id;
    int r;

    if (!resp_next(&reply.text, &key) || !resp_next(&reply.text, &text))
        return;
    r = renew_intent_parse(&arena, text.text, time_wall_us(), &id);
    if (r == 0)
        q->conf.on_access(q->conf.user, id);
    else
        log_event(LOG_DEBUG, "a renew intent was dropped",
                  LOG_STR("why", r == -ETIME ? "it is too old" : "it is malformed"));
}

static void on_reply(void *user, const struct resp *reply, const char *why)
{
    struct renew_queue *q = user;

    if (q->freed)
        return;
    if (!reply || reply->type != RESP_ARRAY) {
        pause_for(q, reply ? reply->text : str_of(why));
        return;
    }
    if (reply->text.p)
        take(q, *reply);
    ask(q);
}

static void ask(struct renew_queue *q)
{
    const struct str words[] = {STR("BRPOP"), str_of(q->conf.key), STR("5")};

    if (redis_call(q->redis, words, ARRAY_LEN(words), on_reply, q) < 0)
        pause_for(q, STR("Redis cannot be reached"));
}

int renew_queue_new(const struct renew_queue_conf *conf, struct renew_queue **ret, struct err *e)
{
    struct renew_queue *q = mem_new(struct renew_queue);
    struct redis_conf redis = {.pool = conf->pool, .call_ms = CALL_MS};
    int r = redis_dsn_parse(str_of(conf->dsn), &redis.dsn, e);

    q->conf = *conf;
    if (r == 0 && redis.dsn.tls) {
        r = tls_client_new(&(struct tls_client_conf){.and_system = true}, &q->tls, e);
        redis.tls = r < 0 ? NULL : tls_client_security(q->tls);
    }
    if (r == 0)
        r = redis_new(conf->loop, &redis, &q->redis, e);
    if (r < 0) {
        tls_client_free(q->tls);
        free(q);
        return err_wrap(e, r, "renew_intent.redis.dsn");
    }
    ask(q);
    *ret = q;
    return 0;
}

void renew_queue_free(struct renew_queue *q)
{
    if (!q)
        return;
    q->freed = true;
    loop_timer_stop(q->conf.loop, &q->again);
    redis_free(q->redis);
    loop_settle(q->conf.loop);
    tls_client_free(q->tls);
    free(q);
}
