#include "server/runtime/docker/events.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/tls.h"
#include "server/runtime/docker/docker_internal.h"

enum {
    LINE_MAX_BYTES = 1 << 20,
    EVENT_ARENA_MAX = 4 << 20,
    RETRY_MS_MIN = 50,
    RETRY_MS_MAX = 3000,
};

struct docker_events {
    struct docker *docker;
    struct http_client *client;
    struct tls_client *tls;
    struct http_call *call; /* NULL = none */
    struct loop_timer retry;
    uint32_t retry_ms;
    struct buf text;      /* what came of a line */
    bool skipping;        /* the rest of a line that was too long */
    struct pool_job look; /* for what was missed */
    bool looking, look_again, stopped, said;
    atomic_bool up;
};

/* --- events --- */

bool docker_event_read(struct str line, char *out, size_t out_size)
{
    static const struct str matter[] = {STR_INIT("die"), STR_INIT("destroy"),
                                        STR_INIT("remove"), /* Podman's word for destroy */
                                        STR_INIT("pause"), STR_INIT("unpause")};
    AUTO_ARENA(arena, EVENT_ARENA_MAX);
    const struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST, .replace_invalid = true};
    const struct json *attributes;
    struct json *tree = NULL;
    struct str action, id;

    if (json_parse(&arena, line, &limits, &tree, NULL) < 0 ||
        json_to_str(json_get(tree, STR("Action")), &action) < 0)
        return false;
    attributes = json_get(json_get(tree, STR("Actor")), STR("Attributes"));
    if (json_to_str(json_get(attributes, STR(LABEL_ID)), &id) < 0 &&
        json_to_str(json_get(attributes, STR(LABEL_SIDECAR_FOR)), &id) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(matter); i++)
        if (str_eq(action, matter[i]))
            return str_copy(out, out_size, id) == 0 && id.n > 0;
    return false;
}

static void take_line(struct docker_events *ev, struct str line)
{
    char id[ID_UUID_MAX];

    struct docker *d = ev->docker;

    if (docker_event_read(line, id, sizeof(id)) && boxes_wake(&d->boxes, str_of(id)) && d->on_news)
        d->on_news(d->user);
}

static ssize_t on_body(struct http_call *call, struct str piece)
{
    struct docker_events *ev = call->user;
    struct str rest = piece;

    while (rest.n) {
        size_t end = str_find(rest, '\n');
        struct str part = str_make(rest.p, end);

        if (!ev->skipping && buf_add(&ev->text, part) < 0) {
            ev->skipping = true;
            buf_clear(&ev->text);
        }
        if (end == rest.n)
            break;
        if (!ev->skipping)
            take_line(ev, buf_str(&ev->text));
        buf_clear(&ev->text);
        ev->skipping = false;
        rest = str_skip(rest, end + 1);
    }
    return (ssize_t)piece.n;
}

/* --- what was missed --- */

static void look(struct docker_events *ev);

static void on_listed(void *user, struct str id, enum runtime_state state)
{
    /* A paused one may have been paused meanwhile; whether the table knows is found out anew. */
    if (state == RUNTIME_RUNNING)
        (void)!map_add(user, id, user);
}

static void look_work(struct pool_job *job)
{
    struct docker_events *ev = container_of(job, struct docker_events, look);
    struct runtime *rt = &ev->docker->base;
    struct err e = {0};
    auto_map running;

    map_init(&running, BOXES_MAX, NULL);
    if (rt->ops->list(rt, on_listed, &running, &e) < 0)
        return; /* the stream breaks too, and comes back later; else the reconciler looks */
    boxes_wake_others(&ev->docker->boxes, &running);
}

static void look_done(struct pool_job *job, int error)
{
    struct docker_events *ev = container_of(job, struct docker_events, look);

    ev->looking = false;
    if (ev->look_again && !error)
        look(ev);
}

static void look(struct docker_events *ev)
{
    ev->look_again = ev->looking;
    if (ev->looking || ev->stopped)
        return;
    ev->looking =
        pool_submit(ev->docker->pool, &ev->look, ev->docker->loop, look_work, look_done, 0) == 0;
}

/* --- the stream --- */

static void connect_stream(struct docker_events *ev);

static void on_retry(struct loop_timer *timer)
{
    connect_stream(container_of(timer, struct docker_events, retry));
}

static void retry_later(struct docker_events *ev, const char *why)
{
    if (!ev->said)
        log_event(LOG_WARN, "the event stream of the Docker engine has ended, asking again",
                  LOG_STR("engine", engine_host(ev->docker->engine)), LOG_STR("reason", why));
    ev->said = true;
    loop_timer_after(ev->docker->loop, &ev->retry, ev->retry_ms, on_retry);
    ev->retry_ms = ev->retry_ms * 2 > RETRY_MS_MAX ? RETRY_MS_MAX : ev->retry_ms * 2;
}

static void on_head(struct http_call *call)
{
    struct docker_events *ev = call->user;

    if (call->head.status != 200)
        return;
    if (ev->said)
        log_event(LOG_INFO, "the Docker engine sends events again");
    ev->said = false;
    atomic_store(&ev->up, true);
    ev->retry_ms = RETRY_MS_MIN;
    look(ev);
}

static void on_end(struct http_call *call, int error)
{
    struct docker_events *ev = call->user;

    ev->call = NULL;
    atomic_store(&ev->up, false);
    buf_clear(&ev->text);
    ev->skipping = false;
    if (!ev->stopped)
        retry_later(ev, error ? call->err.msg : "the engine ended it");
}

static const struct http_call_ops call_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end};

static void connect_stream(struct docker_events *ev)
{
    struct docker *d = ev->docker;
    auto_free char *target = mem_alloc(ENGINE_TARGET_MAX), *owner = mem_alloc(ENGINE_TARGET_MAX);
    AUTO_BUF(query, ENGINE_TARGET_MAX);
    struct http_call_spec spec = {.method = HTTP_GET, .ops = &call_ops, .user = ev};
    struct err e = {0};
    int r;

    (void)snprintf(owner, ENGINE_TARGET_MAX, LABEL_OWNER "=%s", d->owner);
    r = buf_addf(&query, "/events?");
    if (r == 0)
        r = docker_add_filters(&query,
                               (const char *const[]){"type", "container", "label", owner, NULL});
    if (r == 0)
        r = engine_fill_spec(d->engine, query.p, ev->tls ? tls_client_security(ev->tls) : NULL,
                             target, &spec);
    if (r == 0)
        r = http_call_start(ev->client, &spec, &ev->call, &e);
    if (r < 0)
        retry_later(ev, e.code ? e.msg : "the request is too long");
}

bool docker_events_are_up(const struct docker_events *ev)
{
    return atomic_load(&ev->up);
}

int docker_events_start(struct docker *d, struct docker_events **ret, struct err *e)
{
    struct docker_events *ev = mem_new(struct docker_events);
    int r;

    ev->docker = d;
    ev->retry_ms = RETRY_MS_MIN;
    buf_init(&ev->text, LINE_MAX_BYTES);
    r = engine_tls_new(d->engine, &ev->tls, e);
    if (r == 0)
        r = http_client_new(d->loop, &(struct http_client_conf){.kept_max = 1}, &ev->client, e);
    if (r < 0) {
        docker_events_free(ev);
        return r;
    }
    connect_stream(ev);
    *ret = ev;
    return 0;
}

void docker_events_stop(struct docker_events *ev)
{
    if (!ev || ev->stopped)
        return;
    ev->stopped = true;
    loop_timer_stop(ev->docker->loop, &ev->retry);
    if (ev->call)
        http_call_cancel(take_ptr(&ev->call));
}

void docker_events_free(struct docker_events *ev)
{
    if (!ev)
        return;
    docker_events_stop(ev);
    http_client_free(ev->client);
    tls_client_free(ev->tls);
    buf_done(&ev->text);
    free(ev);
}
