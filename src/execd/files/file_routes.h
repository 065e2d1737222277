/* file_routes.h - the routes for files and directories, and their handlers. */
#pragma once

#include "net/router.h"

struct execd_api;
struct http_req;

enum { FILE_BODY_BYTES_MAX = 16 << 20 }; /* of a JSON body; replacement texts may be long */

extern const struct http_route_group file_routes;
extern const struct http_route_group archive_routes; /* directories as tar archives */

void files_info(struct http_req *req);        /* GET /files/info?path=...&path=... */
void files_delete(struct http_req *req);      /* DELETE /files?path=... */
void files_permissions(struct http_req *req); /* POST /files/permissions */
void files_move(struct http_req *req);        /* POST /files/mv */
void files_search(struct http_req *req);      /* GET /files/search?path=&pattern= */
void files_replace(struct http_req *req);     /* POST /files/replace?verbose= */
void files_upload(struct http_req *req);      /* POST /files/upload, with streamed body */
void files_download(struct http_req *req);    /* GET /files/download?path=&offset=&limit= */

void directories_list(struct http_req *req);     /* GET /directories/list?path=&depth= */
void directories_make(struct http_req *req);     /* POST /directories */
void directories_delete(struct http_req *req);   /* DELETE /directories?path=... */
void directories_download(struct http_req *req); /* GET /directories/download?path= */
void directories_watch(struct http_req *req);    /* GET /directories/watch?path=&recursive= */
void directories_upload(struct http_req *req);   /* POST /directories/upload?path=&owners= */

/* Sends `why` as the last event to every client that watches a directory, and ends its stream. */
void directories_watch_end_all(struct execd_api *api, const char *why);
/* The same for a stream whose writing process is gone; `tail` is the end of what it wrote. */
void directories_watch_cut(struct http_req *req, struct str tail, const char *why);
