/* file_reply.h - what the routes of files and directories answer with: JSON, and errors that name a
 * code. */
#pragma once

#include "net/http_server.h"

extern const struct str file_json_type; /* of every JSON answer */

/* {"code":...,"message":...}. A message of any length. */
void file_reply_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* What the file system said (r, a -errno) about a detail: 404 FILE_NOT_FOUND "file not found. ..."
 * for -ENOENT, and 500 RUNTIME_ERROR "error accessing file: ..." for the rest. */
void file_reply_fs(struct http_req *req, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* 200 without a body, and without a type. */
void file_reply_ok(struct http_req *req);

/* The decoded value of a query parameter, or "" when there is none. */
int file_query(struct http_req *req, struct str name, struct str *ret) MUST_USE;
/* The same for one that must be there: replies 400 MISSING_QUERY and is false when it is not. */
bool file_query_need(struct http_req *req, struct str name, struct str *ret);

/* "error parsing request, MAYBE invalid body format. <detail>" */
void file_reply_bad_body(struct http_req *req, const char *detail);
