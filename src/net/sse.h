/* sse.h - server-sent events over HTTP, to one client or fanned out to many. Loop thread only.
 *
 * - struct sse: the reply to one request as a stream of events, at the pace of its client
 * - struct sse_hub: one source, many clients. Each event is formatted once; a client that lags too
 *   far is dropped, and no client waits for another.
 *
 * An event is one write and one HTTP chunk, in the standard form (event:, id:, data: lines) or in
 * the bare form: a single line and a blank line. */
#pragma once

#include "net/http_server.h"

enum {
    SSE_EVENT_BYTES_MAX = 16 << 20, /* limit of one formatted event; more is -EMSGSIZE */
    SSE_HUB_QUEUE_BYTES = 16 * 1024 /* output queue of a hub's client */
};

/* --- formatting --- */

/* Empty members are left out, except data. */
struct sse_event {
    struct str name;
    struct str id;
    struct str data; /* any text; split into lines at LF, CR and CRLF */
};

/* All append one event or nothing: -EINVAL for a line break or NUL in name, id, comment or bare
 * line, and for an empty bare line; else the result of buf_add. */
int sse_format(struct buf *out, const struct sse_event *ev);
int sse_format_bare(struct buf *out, struct str line);
int sse_format_comment(struct buf *out, struct str text); /* clients ignore it; for keep-alive */

/* --- one client --- */

struct sse;

/* Any may be NULL. */
struct sse_ops {
    void (*on_drain)(struct sse *s); /* room again after -EAGAIN */
    void (*on_ping)(struct sse *s);  /* send a keep-alive; NULL sends an empty comment */
    /* The client closed its sending side and may be gone (http_req_ops). on_ping comes next. May be
     * NULL. */
    void (*on_hangup)(struct sse *s);
    /* The stream is over: exactly once. error: 0 after a complete reply, else a positive errno.
     * s->req is freed afterwards, and s may be freed. */
    void (*on_close)(struct sse *s, int error);
};

struct sse {
    struct http_req *req;
    const struct sse_ops *ops;
    struct loop_timer ping;
    uint32_t ping_ms;
    bool begun, ended; /* head sent; end sent */
};

/* Makes the reply an event stream; takes req->ops and req->user. Nothing is sent before the first
 * event: until then http_reply_error(s->req, ...) still works, and on_close follows it. */
void sse_begin(struct sse *s, struct http_req *req, const struct sse_ops *ops);
/* Calls on_ping at this interval, 0 for never, from the first event, or from now if that was sent.
 * Also when the client closes its sending side, to learn at once whether it is gone. */
void sse_set_ping(struct sse *s, uint32_t interval_ms);

/* 0, or -EAGAIN when the client lags by more than its queue holds (http_reply_queue_max): nothing
 * was taken, on_drain will come. After the end, or when the client is gone, events are dropped;
 * only sending shows that a client is gone, hence the pings. */
int sse_send(struct sse *s, const struct sse_event *ev);
int sse_send_bare(struct sse *s, struct str line);
int sse_send_comment(struct sse *s, struct str text);
int sse_send_bytes(struct sse *s, struct str bytes); /* verbatim; not an event by itself */

/* Like sse_send_bytes, but however far the client lags: for bounded bursts, between which the
 * caller checks sse_is_full. When that is true, on_drain will come. */
int sse_push_bytes(struct sse *s, struct str bytes);
bool sse_is_full(struct sse *s);

/* Ends the stream: 0 cleanly, else so that the client sees a broken transfer. Before the first
 * event an error is answered with a plain 500. */
void sse_end(struct sse *s, int error);

/* --- many clients ---
 *
 * A client that keeps up has nothing queued here. One that lags waits at an event of a shared list;
 * an event is freed when no client waits at it or before it. So the list is as long as the lag of
 * the slowest client, and limiting that limits everything: lag_bytes_max in total, and per client
 * its request plus SSE_HUB_QUEUE_BYTES (or one event, if that is larger). */

struct sse_hub;

enum sse_leave {
    SSE_LEFT,          /* its connection ended */
    SSE_LEFT_LAG,      /* dropped: lagged by more than lag_bytes_max */
    SSE_LEFT_LAG_TIME, /* dropped: waited for an event older than lag_ms_max */
};

struct sse_hub_conf {
    uint32_t lag_ms_max; /* 0 = only the server's stall_ms applies */
    uint32_t ping_ms;    /* a comment after this long without an event; 0 = none */
    /* A client is gone, for any reason. Called from the loop, never within a call to the hub; may
     * do anything but free the hub. */
    void (*on_leave)(void *user, struct http_req *req, enum sse_leave why);
    void *user;
};

struct sse_hub_stats {
    size_t clients, lagging; /* current values */
    size_t lag_bytes;        /* of the slowest client, current value */
    size_t lag_bytes_peak;
    uint64_t joined, published, left;
    uint64_t dropped_lag, dropped_lag_time; /* dropped by the hub; not in `left` */
};

/* Creates a hub; a client that lags more than `lag_bytes_max` is dropped. */
int sse_hub_new(struct loop *loop, size_t lag_bytes_max, struct sse_hub **ret_hub);
/* Accepts NULL. Ends every client: cleanly if it was sent every event, else as a broken transfer.
 * on_leave is not called. */
void sse_hub_free(struct sse_hub *hub);
void sse_hub_configure(struct sse_hub *hub, const struct sse_hub_conf *conf); /* copied */

/* Answers the request with the head now and every later event. Takes req->ops and req->user. */
void sse_hub_join(struct sse_hub *hub, struct http_req *req);

/* Sends an event to every client. -EINVAL as sse_format, -EMSGSIZE for an event larger than
 * lag_bytes_max, -ENOMEM: then no client gets it. Events published in one turn of the loop are sent
 * at its end, so a burst of more than lag_bytes_max drops every client. */
int sse_hub_publish(struct sse_hub *hub, struct str event, struct str data);
int sse_hub_publish_event(struct sse_hub *hub, const struct sse_event *ev);
int sse_hub_publish_bare(struct sse_hub *hub, struct str line);

void sse_hub_stats(const struct sse_hub *hub, struct sse_hub_stats *ret);
