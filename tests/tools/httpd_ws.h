/* httpd_ws.h - the WebSocket routes of the test server. */
#pragma once

#include "base/list.h"
#include "net/ws.h"

struct httpd_ws {
    struct http_client *client; /* of /ws/dial */
    struct ws_conf conf;
    struct list open;                      /* of struct peer */
    void (*on_closed)(struct httpd_ws *w); /* set once the end began */
};

/* Handlers take it from req->server_user, of which it is the first member. */
void httpd_ws_echo(struct http_req *req);  /* sends every message back */
void httpd_ws_flood(struct http_req *req); /* ?N: MiB in messages of 64 KiB, then a close */
/* Counts in pieces and answers each message with its bytes. ?N: takes N bytes at a time. */
void httpd_ws_sink(struct http_req *req);
void httpd_ws_close(struct http_req *req); /* ?CODE: closes at once, with the reason "bye" */
/* ?ADDRESS/PATH: connects there, expects echoes, and reports in JSON. */
void httpd_ws_dial(struct http_req *req);

void httpd_ws_init(struct httpd_ws *w);
/* 1001 to all; on_closed comes when the last is gone, perhaps at once. */
void httpd_ws_close_all(struct httpd_ws *w, void (*on_closed)(struct httpd_ws *));
void httpd_ws_done(struct httpd_ws *w, struct loop *loop);
