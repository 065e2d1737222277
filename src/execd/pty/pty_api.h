/* pty_api.h - the routes of terminal sessions. */
#pragma once

#include "net/http_server.h"

enum { PTY_BODY_BYTES_MAX = 1 << 20 };

void post_pty(struct http_req *req);
void get_pty(struct http_req *req);
void delete_pty(struct http_req *req);
void get_pty_ws(struct http_req *req);
