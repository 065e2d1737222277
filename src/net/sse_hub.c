/* sse_hub.c - one event stream to many clients, each at its own pace.
 *
 *   events:   oldest --> ... --> newest        only events that a client still waits for
 *               |          |
 *   waiting:   c7 c9       c2                  clients, at the event they need next
 *   current:   c1 c3 c4 c5 c6 c8               clients that were sent everything
 *
 * Publishing writes to the current clients; one whose queue is full moves to the event's waiting
 * list, and on_drain advances it. The oldest event always has a client waiting, so the bytes from
 * oldest to newest are the lag of the slowest client. When they exceed the limit, the clients that
 * wait at the oldest event are cut until they do not. No callback is called while a list is walked:
 * on_close of the request reports a client's end at the end of the turn. */
#include <assert.h>
#include <errno.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/sse_internal.h"

/* A formatted event, shared by all clients that wait for it. */
struct hub_event {
    struct list link;    /* in hub->events */
    struct list waiting; /* of struct hub_client */
    uint64_t born_ns;
    size_t n;
    char bytes[];
};

/* Lives in the arena of its request. */
struct hub_client {
    struct sse_hub *hub; /* NULL once the hub is gone */
    struct http_req *req;
    struct list link;     /* in hub->current, an event's waiting, or hub->leaving */
    struct hub_event *at; /* the event it waits for; NULL when it is current */
    enum sse_leave why;
    bool leaving;
};

struct sse_hub {
    struct loop *loop;
    struct sse_hub_conf conf;
    size_t lag_bytes_max;
    struct list events;  /* oldest first */
    struct list current; /* clients */
    struct list leaving; /* cut; their on_close has not come yet */
    struct loop_timer lag_timer, ping_timer;
    struct sse_hub_stats stats;
};

static struct hub_event *event_of(struct list *link)
{
    return container_of(link, struct hub_event, link);
}

static struct hub_client *client_of(struct list *link)
{
    return container_of(link, struct hub_client, link);
}

/* --- events --- */

static size_t event_cost(const struct hub_event *ev)
{
    return sizeof(*ev) + ev->n;
}

static void hub_add_event(struct sse_hub *hub, struct hub_event *ev)
{
    list_push(&hub->events, &ev->link);
    hub->stats.lag_bytes += event_cost(ev);
}

static void hub_on_lag_due(struct loop_timer *t);

static void hub_arm_lag_timer(struct sse_hub *hub)
{
    if (!hub->conf.lag_ms_max || list_empty(&hub->events))
        loop_timer_stop(hub->loop, &hub->lag_timer);
    else
        loop_timer_set(hub->loop, &hub->lag_timer,
                       event_of(hub->events.next)->born_ns + hub->conf.lag_ms_max * TIME_NS_PER_MS,
                       hub_on_lag_due);
}

/* Frees the oldest events while no client waits at them. */
static void hub_trim(struct sse_hub *hub)
{
    while (!list_empty(&hub->events)) {
        struct hub_event *oldest = event_of(hub->events.next);

        if (!list_empty(&oldest->waiting))
            break;
        hub->stats.lag_bytes -= event_cost(oldest);
        list_remove(&oldest->link);
        assert(hub->events.next != &oldest->link); /* for static analysis */
        free(oldest);
    }
    hub_arm_lag_timer(hub);
}

/* --- clients --- */

/* Makes a client wait at `ev`, or makes it current when `ev` is NULL. */
static void client_move(struct hub_client *c, struct hub_event *ev)
{
    struct sse_hub *hub = c->hub;

    hub->stats.lagging += (size_t)(ev != NULL) - (size_t)(c->at != NULL);
    c->at = ev;
    list_move(ev ? &ev->waiting : &hub->current, &c->link);
}

/* Writes to a lagging client what fits. Events in its queue no longer count for the list. */
static void client_feed(struct hub_client *c)
{
    struct sse_hub *hub = c->hub;
    struct list *at = &c->at->link;

    while (at != &hub->events &&
           http_reply_write_all(c->req, str_make(event_of(at)->bytes, event_of(at)->n)) == 0)
        at = at->next;
    client_move(c, at == &hub->events ? NULL : event_of(at));
    hub_trim(hub);
}

static void client_on_drain(struct http_req *req)
{
    struct hub_client *c = req->user;

    if (c->at && !c->leaving)
        client_feed(c);
}

/* Removes a client from the fan-out. It stays listed until its request ends. */
static void client_detach(struct hub_client *c)
{
    client_move(c, NULL);
    list_move(&c->hub->leaving, &c->link);
    c->leaving = true;
    c->hub->stats.clients--;
}

static void client_drop(struct hub_client *c, enum sse_leave why)
{
    client_detach(c);
    c->why = why;
    if (why == SSE_LEFT_LAG)
        c->hub->stats.dropped_lag++;
    else
        c->hub->stats.dropped_lag_time++;
    http_reply_cut(c->req, why == SSE_LEFT_LAG ? ENOBUFS : ETIMEDOUT);
}

static void client_on_close(struct http_req *req, int error UNUSED)
{
    struct hub_client *c = req->user;
    struct sse_hub *hub = c->hub;

    if (!hub)
        return;
    if (!c->leaving) {
        client_detach(c);
        hub->stats.left++;
        hub_trim(hub);
    }
    list_remove(&c->link);
    if (hub->conf.on_leave)
        hub->conf.on_leave(hub->conf.user, req, c->why);
}

static const struct http_req_ops client_ops = {
    .on_drain = client_on_drain,
    .on_close = client_on_close,
};

void sse_hub_join(struct sse_hub *hub, struct http_req *req)
{
    struct hub_client *c = arena_new(&req->arena, struct hub_client);

    if (!c) {
        http_reply_error(req, 507, NULL, "no memory left for this request");
        return;
    }
    sse_reply_head(req);
    if (req->head.method == HTTP_HEAD) { /* no body will follow */
        http_reply_end(req, 0);
        return;
    }
    http_reply_queue_max(req, SSE_HUB_QUEUE_BYTES);
    *c = (struct hub_client){.hub = hub, .req = req};
    list_push(&hub->current, &c->link);
    req->ops = &client_ops;
    req->user = c;
    hub->stats.clients++;
    hub->stats.joined++;
}

/* --- policy --- */

static void hub_drop_oldest(struct sse_hub *hub, enum sse_leave why)
{
    struct hub_event *oldest = event_of(hub->events.next);

    assert(!list_empty(&hub->events) && !list_empty(&oldest->waiting));
    LIST_EACH(&oldest->waiting, at)
    client_drop(client_of(at), why);
    hub_trim(hub);
}

static void hub_on_lag_due(struct loop_timer *t)
{
    struct sse_hub *hub = container_of(t, struct sse_hub, lag_timer);

    hub_drop_oldest(hub, SSE_LEFT_LAG_TIME); /* re-arms the timer for the next oldest event */
}

static void hub_on_ping(struct loop_timer *t);

static void hub_arm_ping(struct sse_hub *hub)
{
    if (hub->conf.ping_ms)
        loop_timer_after(hub->loop, &hub->ping_timer, hub->conf.ping_ms, hub_on_ping);
    else
        loop_timer_stop(hub->loop, &hub->ping_timer);
}

/* Sends a keep-alive to the current clients; the others have unread events. */
static void hub_on_ping(struct loop_timer *t)
{
    struct sse_hub *hub = container_of(t, struct sse_hub, ping_timer);

    LIST_EACH(&hub->current, at)
    (void)http_reply_write_all(client_of(at)->req, STR(":\n\n"));
    hub_arm_ping(hub);
}

/* --- publishing --- */

static int event_new(struct sse_hub *hub, struct str bytes, struct hub_event **ret_ev)
{
    struct hub_event *ev;

    if (bytes.n + sizeof(*ev) > hub->lag_bytes_max)
        return -EMSGSIZE;
    ev = mem_try_realloc(NULL, sizeof(*ev) + bytes.n);
    if (!ev)
        return -ENOMEM;
    *ev = (struct hub_event){.born_ns = loop_now_ns(hub->loop), .n = bytes.n};
    list_init(&ev->waiting);
    memcpy(ev->bytes, bytes.p, bytes.n);
    *ret_ev = ev;
    return 0;
}

static int hub_publish_bytes(struct sse_hub *hub, struct str bytes)
{
    struct hub_event *ev;
    int r = event_new(hub, bytes, &ev);

    if (r < 0)
        return r;
    /* Make room first, so that the limit always holds. */
    while (hub->stats.lag_bytes + event_cost(ev) > hub->lag_bytes_max)
        hub_drop_oldest(hub, SSE_LEFT_LAG);
    hub_add_event(hub, ev);
    LIST_EACH(&hub->current, at)
    {
        struct hub_client *c = client_of(at);

        if (http_reply_write_all(c->req, str_make(ev->bytes, ev->n)) == -EAGAIN)
            client_move(c, ev);
    }
    hub->stats.published++;
    hub_trim(hub);
    hub->stats.lag_bytes_peak = max_size(hub->stats.lag_bytes_peak, hub->stats.lag_bytes);
    hub_arm_ping(hub);
    return 0;
}

/* Publishes the event formatted into the borrowed buffer, with result r. */
static int hub_publish_borrowed(struct sse_hub *hub, struct buf *b, int r)
{
    if (r == 0)
        r = hub_publish_bytes(hub, buf_str(b));
    loop_buf_return(hub->loop, b);
    return r;
}

static struct buf *hub_borrow(struct sse_hub *hub, struct buf *b)
{
    buf_init(b, SSE_EVENT_BYTES_MAX);
    loop_buf_borrow(hub->loop, b);
    return b;
}

int sse_hub_publish_event(struct sse_hub *hub, const struct sse_event *ev)
{
    struct buf b;

    return hub_publish_borrowed(hub, &b, sse_format(hub_borrow(hub, &b), ev));
}

int sse_hub_publish_bare(struct sse_hub *hub, struct str line)
{
    struct buf b;

    return hub_publish_borrowed(hub, &b, sse_format_bare(hub_borrow(hub, &b), line));
}

int sse_hub_publish(struct sse_hub *hub, struct str event, struct str data)
{
    return sse_hub_publish_event(hub, &(struct sse_event){.name = event, .data = data});
}

/* --- the hub --- */

int sse_hub_new(struct loop *loop, size_t lag_bytes_max, struct sse_hub **ret_hub)
{
    struct sse_hub *hub;

    if (lag_bytes_max <= sizeof(struct hub_event))
        return -EINVAL;
    hub = mem_new(struct sse_hub);
    hub->loop = loop;
    hub->lag_bytes_max = lag_bytes_max;
    list_init(&hub->events);
    list_init(&hub->current);
    list_init(&hub->leaving);
    *ret_hub = hub;
    return 0;
}

void sse_hub_configure(struct sse_hub *hub, const struct sse_hub_conf *conf)
{
    hub->conf = *conf;
    hub_arm_lag_timer(hub);
    hub_arm_ping(hub);
}

/* The request continues without the hub. */
static void client_forget(struct hub_client *c)
{
    list_remove(&c->link);
    c->hub = NULL;
    c->req->ops = NULL;
}

void sse_hub_free(struct sse_hub *hub)
{
    if (!hub)
        return;
    while (!list_empty(&hub->events))
        hub_drop_oldest(hub, SSE_LEFT_LAG);
    LIST_EACH(&hub->leaving, at)
    client_forget(client_of(at));
    LIST_EACH(&hub->current, at)
    {
        struct hub_client *c = client_of(at);

        client_forget(c);
        http_reply_end(c->req, 0);
    }
    loop_timer_stop(hub->loop, &hub->lag_timer);
    loop_timer_stop(hub->loop, &hub->ping_timer);
    free(hub);
}

void sse_hub_stats(const struct sse_hub *hub, struct sse_hub_stats *ret)
{
    *ret = hub->stats;
}
