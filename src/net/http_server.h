/* http_server.h - an HTTP/1.1 server on one loop: routes, streamed bodies both ways, back-pressure.
 *
 * A request lives from its head until both its body and its reply are complete, or its connection
 * is lost. A handler answers at once or keeps the request and answers later, from the same thread.
 *
 *   static void hello(struct http_req *req)
 *   {
 *       http_reply(req, 200, STR("text/plain"), STR("hello\n"));
 *   }
 *
 * On rows with ROUTE_STREAM_BODY the handler is called at the head; it sets req->ops and takes the
 * body in pieces. On all others it gets the complete body, limited by the row, in req->body; the
 * server frees it when the handler returns. One limit applies to the collected bodies of all
 * connections together. */
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

/* A collected body of up to this size does not count towards held_bytes_max: large bodies cannot
 * keep ordinary requests out, and connections_max bounds the sum of small ones. */
enum { HTTP_BODY_FREE_BYTES = 8 * 1024 };

/* Callbacks for a handler that continues after it returned. Any may be NULL. */
struct http_req_ops {
    /* A piece of the body (borrowed). Returns bytes taken; fewer stops the client until
     * http_req_resume. -errno closes the connection without a clean end. */
    ssize_t (*on_body)(struct http_req *req, struct str piece);
    void (*on_body_end)(struct http_req *req); /* the body is complete */
    void (*on_drain)(struct http_req *req);    /* http_reply_write has room again */
    /* The client sent all of its request and closed its sending side (EPOLLRDHUP). It may be gone
     * or still reading; only sending something tells. Without this callback it gets its answer. */
    void (*on_hangup)(struct http_req *req);
    /* The request is over: exactly once, also after a complete reply. error: 0 when the reply was
     * completed, else a positive errno. req and its arena are freed afterwards. */
    void (*on_close)(struct http_req *req, int error);
};

struct http_req {
    struct h1_request head; /* method, path, query, headers */
    struct h1_framing framing;
    const struct http_route *route;
    struct str body;    /* complete unless ROUTE_STREAM_BODY; until the handler returns */
    struct arena arena; /* lives as long as the request; limited */
    const struct http_req_ops *ops;
    void *user;        /* for the handler */
    void *server_user; /* http_server_conf.user */
    uint64_t begin_ns;
    int status;            /* of the reply; 0 before */
    uint64_t reply_bytes;  /* body bytes of the reply so far */
    bool say_keep_alive;   /* send "Connection: keep-alive" also where HTTP/1.1 implies it */
    struct str id;         /* its id in logs: on_request sets it, in the arena */
    const void *principal; /* who sent it: on_request sets it, in the arena; may be NULL */
    void *trace;           /* of its trace: on_request sets it, in the arena; may be NULL */
    void *kept;            /* of the handler, in the arena, across waits */
    bool forwarded;        /* on_request: another server of ours sent it, and has checked it */
    bool secret;           /* its arena holds secrets, and is overwritten at its end */
    bool admitted; /* counts in http_server_stats until it is answered: see http_req_admit */

    /* The remaining fields are private to the server. */
    struct http_conn *conn;
    struct route_param params[ROUTE_PARAMS_MAX];
    size_t param_count;
    struct buf body_buf;      /* the body being collected, or the part on_body did not take */
    uint64_t held;            /* bytes of this request in the server's held total */
    struct buf reply_headers; /* added by http_reply_header */
    uint64_t reply_left;
    struct {                 /* the last chunk of the reply, which grows until it is sent */
        uint64_t begin, end; /* with its header, as byte offsets in the connection's output */
        uint32_t bytes;      /* of data; 0 = no chunk */
    } chunk;
    int file_fd, error;
    void (*on_upgrade)(void *user, struct stream_parts *parts, int error);
    enum http_body_state {
        HTTP_BODY_COLLECT, /* into body_buf */
        HTTP_BODY_STREAM,  /* to ops->on_body */
        HTTP_BODY_DISCARD, /* not wanted */
        HTTP_BODY_DONE,
    } body_state;
    enum http_reply_state {
        HTTP_REPLY_NONE,
        HTTP_REPLY_LENGTH, /* reply_left more bytes */
        HTTP_REPLY_CHUNKED,
        HTTP_REPLY_CLOSE,  /* ends with the connection (HTTP/1.0) */
        HTTP_REPLY_SILENT, /* HEAD, 204, 304: complete after its head */
        HTTP_REPLY_FILE,   /* sent by stream_send_file */
        HTTP_REPLY_DONE,
    } reply_state;
    bool keep_alive, in_callback, continue_due, patient;
};

struct http_server_conf {
    const struct http_route *routes;
    size_t route_count;
    void *user; /* becomes req->server_user */

    /* Called before routing, for authentication and request ids: false when it has replied. May be
     * NULL. */
    bool (*on_request)(struct http_req *req);
    /* Called before the handler of a row, when a body that is collected for it is complete: false
     * when it has replied. May be NULL. */
    bool (*on_handle)(struct http_req *req);
    /* When that handler has returned, if it was called. May be NULL. */
    void (*on_handled)(struct http_req *req);
    /* Called before the answer to a malformed request head or body: may add headers, must not read
     * the head. May be NULL. */
    void (*on_refuse)(struct http_req *req);
    /* Replaces our own 404, 405 and OPTIONS replies, where no row matches. `allowed` has the
     * methods of the path, 0 when there is no such path. May be NULL. */
    void (*on_unrouted)(struct http_req *req, unsigned allowed);
    /* After each request, for logs and metrics. May be NULL. */
    void (*on_done)(struct http_req *req, int error);

    pid_t peer_pid; /* the only process that may connect, by unix sockets; 0 = any */
    /* Every connection begins with this handshake, within head_ms (tls_server_security); NULL =
     * plain HTTP. */
    struct stream_security *tls;

    /* 0 means the default given in the comment. */
    struct h1_limits head;   /* h1_default_limits */
    uint64_t body_bytes_max; /* 1 MiB; for rows that collect the body and have no limit */
    uint64_t held_bytes_max; /* 64 MiB; collected bodies and http_req_hold of all connections */
    /* 10,000. Above it, the server closes the connection that has waited longest without a request
     * to answer: an idle one, one in the middle of a head, or one that is closing. */
    uint32_t connections_max;
    /* 10 s from the first byte of a request to the end of its head; before that, the same from the
     * connection to the first byte, a TLS handshake included */
    uint32_t head_ms;
    uint32_t body_ms;  /* 30 s between two pieces of a body; collected bodies: in all */
    uint32_t idle_ms;  /* 30 s between requests */
    uint32_t stall_ms; /* 30 s during which the client reads nothing of a reply */
    /* How long connections without a request stay open once http_server_drain was called: a client
     * may have sent one just before. 0, the default: not at all. */
    uint32_t linger_ms;
};

int http_server_new(struct loop *loop, const struct http_server_conf *conf,
                    struct http_server **ret_server, struct err *e);
/* Cuts every connection. Runs the callbacks of open requests, so free what they use afterwards. */
void http_server_free(struct http_server *s);

/* Takes over the listening descriptor, also on failure. */
int http_server_listen(struct http_server *s, int fd, struct err *e);
/* The same for a channel of sock_channel_start; on_note gets messages without a connection, and the
 * server's conf.user. */
int http_server_listen_channel(struct http_server *s, int fd,
                               void (*on_note)(void *user, struct str note), struct err *e);

/* A connection that the caller accepted, and knows more of than the server. */
struct http_server_guest {
    struct stream_security *tls; /* its handshake goes first; NULL = plain HTTP */
    struct str tls_host;         /* for tls: the name to answer as */
    struct sock_addr peer;
    void *user;                  /* http_req_conn_user of its requests */
    void (*on_gone)(void *user); /* the last callback of the connection; may be NULL */
};
/* Serves the connection as if the server had accepted it. Takes over fd; on failure it is closed
 * and on_gone does not come. */
int http_server_adopt(struct http_server *s, int fd, const struct http_server_guest *guest,
                      struct err *e);

/* Closes all connections at once; the server goes on. */
void http_server_cut_all(struct http_server *s);
/* Closes the connections for whose http_server_guest.user it returns true. */
void http_server_cut(struct http_server *s, bool (*which)(void *conn_user, void *user), void *user);

/* Stops listening, closes idle connections (after conf.linger_ms), lets requests finish for up to
 * grace_ms, then cuts the others. on_drained comes once, from the loop. */
void http_server_drain(struct http_server *s, uint32_t grace_ms, void (*on_drained)(void *user),
                       void *user);

struct http_server_stats {
    uint64_t accepted, requests;
    size_t connections;
    size_t idle;     /* of these, without a request that waits for its answer */
    size_t admitted; /* requests of http_req_admit without a complete reply */
};
void http_server_stats(const struct http_server *s, struct http_server_stats *ret);

/* --- the request --- */

struct str http_req_param(const struct http_req *req,
                          const char *name); /* not decoded; STR_NONE if unknown */
struct str http_req_header(const struct http_req *req,
                           struct str name); /* the first; STR_NONE if none */
/* The peer's address; still valid after the connection was closed. */
const struct sock_addr *http_req_peer(const struct http_req *req);
bool http_req_is_secure(const struct http_req *req); /* it came over TLS */
struct loop *http_req_loop(const struct http_req *req);
/* Of a connection that came by http_server_adopt; else NULL. */
void *http_req_conn_user(const struct http_req *req);
/* The connection itself: to read its facts. */
const struct stream *http_req_stream(const struct http_req *req);
/* Closes the connection after this reply, which has not begun. */
void http_req_close_after(struct http_req *req);
/* The row that `path` would match; NULL = none. */
const struct http_route *http_req_route_at(const struct http_req *req, struct str path);
/* For on_request: if only the path without the slash at its end has a row, redirects there, with
 * get_status for GET and 307 for other methods, and returns true. */
bool http_redirect_slash(struct http_req *req, int get_status);
/* For on_handle: counts the request as admitted until its reply is complete. */
void http_req_admit(struct http_req *req);
void http_req_resume(struct http_req *req); /* on_body may be called again */
/* Counts what a handler keeps of a collected body after it returned (such as parsed JSON) towards
 * held_bytes_max until the request is over. A second call replaces the first. Up to
 * HTTP_BODY_FREE_BYTES count as nothing. -EAGAIN: it does not fit, and 503 was replied. */
int http_req_hold(struct http_req *req, uint64_t bytes) MUST_USE;
/* Lifts body_ms and stall_ms for this request: a proxy leaves it to the other ends how long a pause
 * may be. */
void http_req_be_patient(struct http_req *req);

/* --- the reply --- */

/* Adds a header before the head is sent. -EINVAL for text that would break the message. */
int http_reply_header(struct http_req *req, struct str name, struct str value);

/* Sends a complete reply. The body is copied. The type may be empty when there is no body. */
void http_reply(struct http_req *req, int status, struct str type, struct str body);
/* {"code":...,"message":...} with a code such as "NOT_FOUND"; NULL derives it from the status. */
void http_reply_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Begins a reply in pieces: the head now, then writes, then one end. Where no body may follow
 * (HEAD, 204, 304) the reply is complete after its head. */
void http_reply_begin(struct http_req *req, int status, struct str type, uint64_t length);
/* The same with another server's head: its reason and headers unchanged, Content-Length among them,
 * without connection and transfer-coding headers. Nothing else is added. */
void http_reply_begin_as(struct http_req *req, int status, struct str reason,
                         const struct http_headers *headers, uint64_t length);
/* Returns bytes taken; 0 = full: wait for on_drain. -EINVAL for more bytes than announced; -EPIPE
 * when the connection is lost or the reply has no body. on_close follows. */
ssize_t http_reply_write(struct http_req *req, struct str data);
/* Writes all of it or nothing: 0, or -EAGAIN when it does not fit now; after on_drain it will fit,
 * whatever its size. Other errors as http_reply_write. */
int http_reply_write_all(struct http_req *req, struct str data);
/* Writes all of it, even when full: for a producer with bounded bursts that checks
 * http_reply_is_full between them. Fails as http_reply_write does. */
int http_reply_push(struct http_req *req, struct str data);
bool http_reply_is_full(struct http_req *req); /* if true, on_drain will come */
/* Makes this reply "full" at this many queued bytes instead of STREAM_HIGH_BYTES: limits the memory
 * for a client that stops reading. */
void http_reply_queue_max(struct http_req *req, uint32_t queue_bytes_max);
/* error != 0, or fewer bytes than promised, cuts the connection: a broken transfer must not look
 * like a clean end. */
void http_reply_end(struct http_req *req, int error);
/* Aborts a reply at once: the client sees a reset, and queued output is lost. on_close comes at the
 * end of the turn with `error`, a positive errno. */
void http_reply_cut(struct http_req *req, int error);

/* Replies with an open file by sendfile: handles Range, If-Modified-Since, If-Unmodified-Since and
 * HEAD; adds Accept-Ranges, Last-Modified, Content-Range. Takes over fd. */
void http_reply_file(struct http_req *req, int fd, struct str type);

/* Takes the connection out of HTTP, for WebSockets and tunnels. No reply may have begun; the new
 * owner sends the 101 itself. on_upgrade comes at the end of the turn with the parts (error 0), or
 * with a positive errno when the connection broke before; req is freed by then. */
void http_req_upgrade(struct http_req *req,
                      void (*on_upgrade)(void *user, struct stream_parts *parts, int error),
                      void *user);
