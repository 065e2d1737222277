/* httpd_ws.h - the WebSocket routes of the test server. */
#pragma once

#include "base/list.h"
#include "net/ws.h"

struct httpd_ws {
    struct http_client *client; /* of /ws/dial */
    struct ws_conf conf;
    struct list open;                      /* of struct peer */
    void (*on_closed)(struct httpd_ws *w); /* set once closing has begun */
};

/* Handlers cast req->server_user to it: it must be the first member there. */
void httpd_ws_echo(struct http_req *req);  /* sends every message back */
void httpd_ws_flood(struct http_req *req); /* ?N: MiB in messages of 64 KiB, then a close */
/* Replies to each message with its size. ?N: accepts N bytes at a time. */
void httpd_ws_sink(struct http_req *req);
void httpd_ws_close(struct http_req *req); /* ?CODE: closes at once, with the reason "bye" */
/* ?ADDRESS/PATH: connects there, expects echoes, and replies with a JSON report. */
void httpd_ws_dial(struct http_req *req);

void httpd_ws_init(struct httpd_ws *w);
/* Closes all with code 1001; on_closed is called after the last, perhaps at once. */
void httpd_ws_close_all(struct httpd_ws *w, void (*on_closed)(struct httpd_ws *));
void httpd_ws_done(struct httpd_ws *w, struct loop *loop);
