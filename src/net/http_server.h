/* http_server.h - an HTTP/1.1 server on one loop: routes, streamed bodies both ways, back-pressure.
 *
 * A request lives from its head until both its body and its reply are complete, or its connection
 * is lost. A handler answers at once or keeps the request and answers later, from the same thread.
 *
 *     static void hello(struct http_req *req)
 *     {
 *         http_reply(req, 200, STR("text/plain"), STR("hello\n"));
 *     }
 *
 * Rows with ROUTE_STREAM_BODY get their handler called at the head; it sets req->ops and takes the
 * body in pieces. All others get the complete body, bounded by the row, in req->body; the server
 * frees it when the handler returns. One total bounds what all connections hold in this way. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "net/h1.h"
#include "net/loop.h"
#include "net/router.h"
#include "net/sock.h"
#include "net/stream.h"

struct http_conn;
struct http_server;

/* A collected body of up to this size is not part of the total (held_bytes_max): large bodies
 * cannot keep ordinary requests out, and connections_max bounds the sum of small ones. */
enum { HTTP_BODY_FREE_BYTES = 8 * 1024 };

/* What a handler that goes on after it returned wants to hear. Any may be NULL. */
struct http_req_ops {
    /* A piece of the body (borrowed). Returns bytes taken; fewer stops the client until
     * http_req_resume. -errno gives up: the connection is closed without a clean end. */
    ssize_t (*on_body)(struct http_req *req, struct str piece);
    void (*on_body_end)(struct http_req *req); /* the body is complete */
    void (*on_drain)(struct http_req *req);    /* http_reply_write has room again */
    /* The client sent all of its request and closed its side. It may be gone, or still read: from
     * here the two look alike until something is sent. Without this it gets its answer. */
    void (*on_hangup)(struct http_req *req);
    /* The request is over: exactly once, also after a complete reply. error: 0 when the reply was
     * completed, else a positive errno. req and its arena are gone afterwards. */
    void (*on_close)(struct http_req *req, int error);
};

struct http_req {
    struct h1_request head; /* method, path, query, headers */
    struct h1_framing framing;
    const struct http_route *route;
    struct str body;    /* complete, on rows without ROUTE_STREAM_BODY; until the handler returns */
    struct arena arena; /* lives as long as the request; bounded */
    const struct http_req_ops *ops;
    void *user;        /* the handler's */
    void *server_user; /* of http_server_conf */
    uint64_t begin_ns;
    int status;           /* of the reply; 0 before */
    uint64_t reply_bytes; /* body bytes of the reply so far */
    bool say_keep_alive;  /* write "Connection: keep-alive" where HTTP/1.1 implies it */
    struct str id;        /* what it goes by in logs: for on_request to set, in the arena */
    bool admitted;        /* counts in http_server_stats until it is answered: see http_req_admit */

    /* The rest is the server's. */
    struct http_conn *conn;
    struct route_param params[ROUTE_PARAMS_MAX];
    size_t param_count;
    struct buf body_buf;      /* the body being collected, or what on_body did not take */
    uint64_t held;            /* bytes of this request in the server's total */
    struct buf reply_headers; /* added by http_reply_header */
    uint64_t reply_left;
    struct {                 /* the last chunk of the reply, which grows until it is sent */
        uint64_t begin, end; /* with its header, counted in bytes of the connection */
        uint32_t bytes;      /* of data; 0 = there is none */
    } chunk;
    int file_fd, error;
    void (*on_upgrade)(void *user, struct stream_parts *parts, int error);
    enum http_body_state {
        HTTP_BODY_COLLECT, /* into body_buf */
        HTTP_BODY_STREAM,  /* to ops->on_body */
        HTTP_BODY_DISCARD, /* nobody wants it */
        HTTP_BODY_DONE,
    } body_state;
    enum http_reply_state {
        HTTP_REPLY_NONE,
        HTTP_REPLY_LENGTH, /* reply_left bytes to come */
        HTTP_REPLY_CHUNKED,
        HTTP_REPLY_CLOSE,  /* ends with the connection (HTTP/1.0) */
        HTTP_REPLY_SILENT, /* HEAD, 204, 304: complete with its head */
        HTTP_REPLY_FILE,   /* the stream sends it */
        HTTP_REPLY_DONE,
    } reply_state;
    bool keep_alive, in_callback, continue_due, patient;
};

struct http_server_conf {
    const struct http_route *routes;
    size_t route_count;
    void *user; /* becomes req->server_user */

    /* Before routing, for authentication and request ids: false when it has replied. May be NULL.
     */
    bool (*on_request)(struct http_req *req);
    /* Before the answer to what is no request, or to one whose rest is not: may add headers, and
     * must not look at the head. May be NULL. */
    void (*on_refuse)(struct http_req *req);
    /* In place of our own 404, 405 and OPTIONS replies, where no row fits. `allowed` are the
     * methods of the path, 0 when there is no such path. May be NULL. */
    void (*on_unrouted)(struct http_req *req, unsigned allowed);
    /* After each request, for logs and metrics. May be NULL. */
    void (*on_done)(struct http_req *req, int error);

    pid_t peer_pid; /* the only process that may connect, by unix sockets; 0 = any */

    /* 0 means the default named beside it. */
    struct h1_limits head;   /* h1_default_limits */
    uint64_t body_bytes_max; /* 1 MiB; for rows that collect the body and name no limit */
    uint64_t held_bytes_max; /* 64 MiB; of collected bodies and http_req_hold, all together */
    /* 10,000. Above it the connection that has waited longest without a request to be answered is
     * closed: an idle one, one in the middle of a head, or one that is closing. */
    uint32_t connections_max;
    uint32_t head_ms;  /* 10 s from the first byte of a request to the end of its head */
    uint32_t body_ms;  /* 30 s between two pieces of a body; collected bodies: in all */
    uint32_t idle_ms;  /* 30 s between requests */
    uint32_t stall_ms; /* 30 s during which the client takes nothing of a reply */
};

int http_server_new(struct loop *loop, const struct http_server_conf *conf,
                    struct http_server **ret_server, struct err *e);
/* Cuts every connection. Runs callbacks of requests in flight, so free what they use afterwards. */
void http_server_free(struct http_server *s);

/* Owns the listening descriptor from here on, also on failure. */
int http_server_listen(struct http_server *s, int fd, struct err *e);

/* Stops listening, closes idle connections, lets requests finish for up to grace_ms, then cuts the
 * rest. on_drained comes once, from the loop. */
void http_server_drain(struct http_server *s, uint32_t grace_ms, void (*on_drained)(void *user),
                       void *user);

struct http_server_stats {
    uint64_t accepted, requests;
    size_t connections;
    size_t idle;     /* of those, without a request that waits for its answer */
    size_t admitted; /* requests of http_req_admit whose reply has not ended */
};
void http_server_stats(const struct http_server *s, struct http_server_stats *ret);

/* --- the request --- */

struct str http_req_param(const struct http_req *req,
                          const char *name); /* raw; STR_NONE if unknown */
struct str http_req_header(const struct http_req *req,
                           struct str name); /* first; STR_NONE if none */
/* Who connected; still known when the connection is closed. */
const struct sock_addr *http_req_peer(const struct http_req *req);
struct loop *http_req_loop(const struct http_req *req);
/* The row that would answer, were this its path; NULL = none. */
const struct http_route *http_req_route_at(const struct http_req *req, struct str path);
/* For on_request: counts the request as admitted until its reply is complete. */
void http_req_admit(struct http_req *req);
void http_req_resume(struct http_req *req); /* on_body may be called again */
/* Counts what a handler keeps of a collected body after it returned (such as the parsed JSON) in
 * the server's total, until the request is over. A second call replaces the first. Up to
 * HTTP_BODY_FREE_BYTES count as nothing. -EAGAIN: it does not fit, and this was replied (503). */
int http_req_hold(struct http_req *req, uint64_t bytes) MUST_USE;
/* Lifts body_ms and stall_ms for this request: where it is passed on to somebody else, it is not
 * for us to say how long a pause may be. */
void http_req_be_patient(struct http_req *req);

/* --- the reply --- */

/* Adds a header before the head is sent. -EINVAL for what would break the message. */
int http_reply_header(struct http_req *req, struct str name, struct str value);

/* A complete reply. The body is copied. The type may be empty when there is no body. */
void http_reply(struct http_req *req, int status, struct str type, struct str body);
/* {"code":...,"message":...} with a code such as "NOT_FOUND"; NULL takes the status' own. */
void http_reply_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* A reply in pieces: the head now, then writes, then one end. Where no body may follow (HEAD, 204,
 * 304) the reply is complete with its head. */
void http_reply_begin(struct http_req *req, int status, struct str type, uint64_t length);
/* The same with another server's head: its reason and rows as they are, Content-Length among them,
 * but no connection or transfer-coding rows. Nothing else is added. */
void http_reply_begin_as(struct http_req *req, int status, struct str reason,
                         const struct http_headers *headers, uint64_t length);
/* Bytes taken; 0 = full: wait for on_drain. More than was promised is -EINVAL; -EPIPE when nobody
 * will read it: the connection is lost, or the reply has no body. on_close follows. */
ssize_t http_reply_write(struct http_req *req, struct str data);
/* Takes it whole or not at all: 0, or -EAGAIN when it does not fit now. When on_drain comes it will
 * fit, whatever its size. Fails as http_reply_write does. */
int http_reply_write_all(struct http_req *req, struct str data);
/* Takes it whole, also past "full": for a producer whose bursts are bounded, and who asks
 * http_reply_is_full between them. Fails as http_reply_write does. */
int http_reply_push(struct http_req *req, struct str data);
bool http_reply_is_full(struct http_req *req); /* then on_drain will come */
/* Makes this reply "full" at so many queued bytes instead of STREAM_HIGH_BYTES: what a client that
 * stops reading may cost. */
void http_reply_queue_max(struct http_req *req, uint32_t queue_bytes_max);
/* error != 0, or fewer bytes than promised, cuts the connection: a broken transfer must not look
 * like a clean end. */
void http_reply_end(struct http_req *req, int error);
/* Gives a reply up at once: the client sees a reset, and what was queued for it is gone. on_close
 * comes at the end of the turn with `error`, a positive errno. */
void http_reply_cut(struct http_req *req, int error);

/* Replies with an open file by sendfile: honours Range, If-Modified-Since, If-Unmodified-Since and
 * HEAD; adds Accept-Ranges, Last-Modified, Content-Range. Takes over fd. */
void http_reply_file(struct http_req *req, int fd, struct str type);

/* Takes the connection out of HTTP, for WebSockets and tunnels. Nothing was replied yet; the new
 * owner sends the 101 itself. on_upgrade comes at the end of the turn with the parts (error 0), or
 * with the reason (a positive errno) when the connection broke before; req is gone by then. */
void http_req_upgrade(struct http_req *req,
                      void (*on_upgrade)(void *user, struct stream_parts *parts, int error),
                      void *user);
