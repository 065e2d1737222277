/* http_server_internal.h - shared by the files of the HTTP server. */
#pragma once

#include "base/list.h"
#include "base/time.h"
#include "net/h1_body.h"
#include "net/h1_write.h"
#include "net/http_server.h"

enum {
    HTTP_DISCARD_BYTES_MAX = 256 * 1024, /* of an unwanted body, read to keep the connection */
    HTTP_DISCARD_MS = 2000,              /* for all of these bytes */
    HTTP_HEAD_RECV_BYTES = 16 * 1024,    /* received at a time between two requests */
    HTTP_ARENA_BYTES_MAX = 1 << 20,      /* of one request: head, parameters, what handlers add */
    HTTP_REPLY_HEADERS_MAX = 32 * 1024,
    HTTP_CHUNK_BYTES_MAX = 0xffff, /* limit to which small writes share a chunk */
    HTTP_SPARE_ARENAS = 32,
    HTTP_SPARE_ARENA_BYTES_MAX = 32 * 1024,
};

struct http_server {
    struct loop *loop;
    struct http_server_conf conf;
    struct router *router;
    struct list listeners; /* of struct http_listener */
    struct list idle; /* connections without a request that waits for its answer: silent, in the
                         middle of a head, or closing; the longest first */
    struct list busy; /* all others */
    bool listening;   /* false: at the limit, new connections wait in the backlog */
    struct loop_yield make_room;
    size_t connections, idle_count, admitted;
    uint64_t accepted, requests;
    uint64_t held; /* bytes of collected bodies and http_req_hold */
    char date_line[sizeof("Date: \r\n") + TIME_HTTP_MAX - 1];
    uint64_t date_until_ns; /* when that line is out of date */
    struct arena spare[HTTP_SPARE_ARENAS];
    size_t spare_count;
    bool draining;
    struct loop_timer drain_timer, linger_timer;
    struct loop_task drain_task;
    void (*on_drained)(void *user);
    void *drained_user;
};

struct http_conn {
    struct stream stream;
    struct http_server *server;
    struct sock_addr peer; /* kept for logs after the socket is closed */
    struct list link;      /* in server->idle or server->busy */
    struct loop_timer timer;
    struct loop_task task; /* handles a reply that was made outside our callbacks */
    struct h1_scan scan;
    struct h1_body_reader body;
    struct http_req *req;        /* being read or answered */
    struct str ahead;            /* during on_data: the input after the current part */
    void *user;                  /* of http_server_guest, as the next */
    void (*on_gone)(void *user); /* NULL = none */
    bool idle, head_begun, dead;
};

/* http_server.c */
void http_conn_deadline(struct http_conn *c, uint32_t ms); /* 0 = none */
void http_conn_mark_idle(struct http_conn *c, bool idle);
void http_conn_gone(struct http_conn *c); /* unlinks and frees */
struct arena http_arena_take(struct http_server *s);
void http_arena_give(struct http_server *s, struct arena *a);

/* http_conn.c */
int http_conn_start(struct http_conn *c, int fd, struct stream_security *tls, struct str tls_host,
                    struct err *e);
void http_conn_settle_soon(struct http_conn *c); /* body or reply may be complete */
/* Whether to close the connection instead of reading the rest of the body: it is long, the client
 * waits for 100 Continue, or the request is refused and its body has not arrived yet. */
bool http_req_body_in_the_way(const struct http_req *req);
void http_req_answered(struct http_req *req); /* no longer counts as admitted */

/* http_reply.c */
void http_reply_continue(struct http_req *req); /* 100 Continue */
void http_reply_file_sent(struct http_req *req);
