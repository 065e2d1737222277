/* others_events.c - what happens to sandboxes of other servers, for the watchers of this one.
 *
 * From each other server comes a stream of GET /v1/events, which has the events of that server
 * alone: none goes around. One that breaks goes on after the last event that came; where that is
 * not possible, the watchers here get EVENT_RESET. Of the loop. */
#include <errno.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/http_client.h"
#include "server/cluster/cluster.h"
#include "server/http/server_internal.h"

enum {
    LOOK_MS = 500,        /* between looks at which servers there are */
    HEAD_MS = 10 * 1000,  /* from the request to the head of the answer */
    QUIET_MS = 45 * 1000, /* without a byte: three pings are missing, so the way is cut */
    LINE_BYTES_MAX = EVENT_JSON_MAX + 256,
    ROWS_MAX = 3,
    /* A stream ends as its server begins to stop: that connection is not for forwarded requests. */
    GROUP = 1,
};

static const struct str target = STR_INIT("/v1/events");
static const struct str request_id = STR_INIT("events-of-a-server");

struct others_events {
    struct server *server;
    struct loop_timer timer;
    struct list streams;
};

struct stream_of {
    struct list link;
    struct others_events *owner;
    char peer[CLUSTER_ID_MAX];
    struct http_call *call; /* NULL = none */
    uint64_t deadline;      /* of the next byte */
    struct buf line;        /* what came of it */
    bool skipping;          /* the rest of a line that is too long */
    bool ok;                /* the head was 200 */
    bool reset;             /* the event that comes is EVENT_RESET */
    bool said;              /* that it fails was logged */
    char last[EVENT_ID_MAX];
};

/* --- what comes --- */

/* A line of what sse.h writes: each event has one line of data. */
static void take_line(struct stream_of *so, struct str line)
{
    struct events *events = so->owner->server->events;

    if (str_starts(line, STR("event: ")))
        so->reset = str_eq(str_skip(line, 7), STR(EVENT_RESET));
    else if (str_starts(line, STR("id: ")))
        (void)!str_copy(so->last, sizeof(so->last), str_skip(line, 4));
    else if (str_starts(line, STR(": ")) && line.n > 2) /* the id of the newest, at the beginning */
        (void)!str_copy(so->last, sizeof(so->last), str_skip(line, 2));
    else if (str_starts(line, STR("data: ")) && so->reset)
        events_relay_reset(events);
    else if (str_starts(line, STR("data: ")))
        (void)!events_relay(events, str_skip(line, 6));
}

static ssize_t on_body(struct http_call *call, struct str piece)
{
    struct stream_of *so = call->user;
    struct str rest = piece;

    so->deadline = deadline_in_ms(QUIET_MS);
    while (so->ok && rest.n) {
        size_t end = str_find(rest, '\n');

        if (!so->skipping && buf_add(&so->line, str_make(rest.p, end)) < 0)
            so->skipping = true;
        if (end == rest.n)
            break;
        if (!so->skipping)
            take_line(so, buf_str(&so->line));
        buf_clear(&so->line);
        so->skipping = false;
        rest = str_skip(rest, end + 1);
    }
    return (ssize_t)piece.n;
}

/* What happened before the first stream of a server is not known. */
static void on_head(struct http_call *call)
{
    struct stream_of *so = call->user;

    so->deadline = deadline_in_ms(QUIET_MS);
    so->ok = call->head.status == 200;
    so->said &= !so->ok;
    if (so->ok && !so->last[0])
        events_relay_reset(so->owner->server->events);
}

static void say(struct stream_of *so, const char *why)
{
    if (!so->said)
        log_event(LOG_WARN, "the events of another server do not come, asking again",
                  LOG_STR("server", so->peer), LOG_STR("reason", why));
    so->said = true;
}

static void on_end(struct http_call *call, int error)
{
    struct stream_of *so = call->user;

    so->call = NULL;
    if (error)
        say(so, call->err.msg);
    else if (!so->ok)
        say(so, "it refuses them");
}

/* --- the streams --- */

static void open_stream(struct stream_of *so, const struct cluster_peer *peer)
{
    static const struct http_call_ops ops = {
        .on_head = on_head, .on_body = on_body, .on_end = on_end};
    struct server *s = so->owner->server;
    const struct cluster_request request = {STR("GET"), target, request_id};
    AUTO_BUF(proof, CLUSTER_HEADER_MAX);
    struct http_header rows[ROWS_MAX];
    struct err e = {0};
    size_t n = 0;

    buf_clear(&so->line);
    so->skipping = so->ok = so->reset = false;
    so->deadline = DEADLINE_NEVER; /* the head has one */
    if (cluster_header_write(cluster_secret(s->cluster), cluster_id(s->cluster), str_of(peer->id),
                             &request, &principal_server, time_wall_us() / TIME_US_PER_S,
                             &proof) < 0)
        return;
    rows[n++] = (struct http_header){STR(CLUSTER_HEADER), buf_str(&proof)};
    rows[n++] = (struct http_header){STR(GUARD_ID_HEADER), request_id};
    if (so->last[0])
        rows[n++] = (struct http_header){STR("Last-Event-ID"), str_of(so->last)};
    if (http_call_start(forwarding_client(s->forwarding),
                        &(struct http_call_spec){
                            .addr = &peer->addr,
                            .tls = peer->tls,
                            .tls_host = str_of(peer->host),
                            .group = GROUP,
                            .method = HTTP_GET,
                            .target = target,
                            .host = str_of(peer->host),
                            .headers = rows,
                            .header_count = n,
                            .head_ms = HEAD_MS,
                            .ops = &ops,
                            .user = so,
                        },
                        &so->call, &e) < 0)
        say(so, e.msg);
}

static void close_call(struct stream_of *so)
{
    if (so->call)
        http_call_cancel(so->call);
    so->call = NULL;
}

static void free_stream(struct stream_of *so)
{
    close_call(so);
    list_remove(&so->link);
    buf_done(&so->line);
    free(so);
}

static struct stream_of *stream_of(struct others_events *oe, const struct cluster_peer *peer)
{
    struct stream_of *so;

    LIST_EACH(&oe->streams, at)
    {
        so = container_of(at, struct stream_of, link);
        if (strcmp(so->peer, peer->id) == 0)
            return so;
    }
    so = mem_new(struct stream_of);
    so->owner = oe;
    memcpy(so->peer, peer->id, sizeof(so->peer));
    buf_init(&so->line, LINE_BYTES_MAX);
    list_push(&oe->streams, &so->link);
    return so;
}

static void look(struct loop_timer *timer)
{
    struct others_events *oe = container_of(timer, struct others_events, timer);
    struct server *s = oe->server;
    struct cluster_peer *peer;
    size_t next = 0;

    LIST_EACH(&oe->streams, at)
    {
        struct stream_of *so = container_of(at, struct stream_of, link);

        if (!cluster_peer_at(s->cluster, str_of(so->peer)))
            free_stream(so);
        else if (so->call && deadline_passed(so->deadline))
            close_call(so);
    }
    while (!s->stopping && (peer = cluster_peer_next(s->cluster, &next))) {
        struct stream_of *so = stream_of(oe, peer);

        if (!so->call && peer->live)
            open_stream(so, peer);
    }
    loop_timer_set(s->loop, &oe->timer, deadline_in_ms(LOOK_MS), look);
}

void others_events_start(struct server *s)
{
    struct others_events *oe = mem_new(struct others_events);

    oe->server = s;
    list_init(&oe->streams);
    s->others_events = oe;
    loop_timer_set(s->loop, &oe->timer, deadline_in_ms(LOOK_MS), look);
}

void others_events_stop(struct server *s)
{
    struct others_events *oe = s->others_events;

    if (!oe)
        return;
    loop_timer_stop(s->loop, &oe->timer);
    LIST_EACH(&oe->streams, at)
    {
        free_stream(container_of(at, struct stream_of, link));
    }
    free(oe);
    s->others_events = NULL;
}
