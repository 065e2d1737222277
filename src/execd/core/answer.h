/* answer.h - sends replies and parses request bodies in the form of the execution API. Loop thread
 * only. */
#pragma once

#include "base/json_bind.h"
#include "base/json_write.h"
#include "net/http_server.h"

#define ANSWER_JSON STR("application/json; charset=utf-8")
#define ANSWER_TEXT STR("text/plain; charset=utf-8")

enum { ANSWER_MESSAGE_BYTES_MAX = 16 << 10 }; /* of an error message; longer ones are cut */

void answer_empty(struct http_req *req); /* 200 and Content-Length: 0 */
void answer_json(struct http_req *req, int status, struct str json);
void answer_written(struct http_req *req, int status,
                    struct json_writer *w); /* ends the JSON; 500 if that fails */
/* {"code":...,"message":...} */
void answer_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* Reports a file system error r (a -errno): 404 FILE_NOT_FOUND "file not found. <detail>" for
 * -ENOENT, else 500 RUNTIME_ERROR "error accessing file: <detail>". */
void answer_fs(struct http_req *req, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* 400 INVALID_REQUEST_BODY "error parsing request, MAYBE invalid body format. <detail>" */
void answer_bad_body(struct http_req *req, const char *detail);
/* 400 INVALID_REQUEST_BODY "invalid request, validation error <detail>" */
void answer_invalid_body(struct http_req *req, const char *detail);

/* The path parameter "id", percent-decoded. An invalid encoding is returned unchanged, so that the
 * lookup of the id fails. */
struct str answer_id(struct http_req *req);
/* The decoded value of a query parameter, or "" when it is absent. */
int answer_query(struct http_req *req, struct str name, struct str *ret) MUST_USE;
/* The same for a required parameter: replies 400 MISSING_QUERY and returns false when it is absent.
 */
bool answer_query_need(struct http_req *req, struct str name, struct str *ret);

/* Reads a JSON object into *ret by table, as lenient as clients expect. Names match in any case,
 * unknown names are ignored, the last duplicate wins, null counts as absent (as "" in a map),
 * invalid UTF-8 becomes U+FFFD, and text after the object is not read. -EBADMSG and a message when
 * a value does not fit the table, -ENOMEM when the arena is full. */
int answer_read_json(struct str text, struct arena *a, const struct json_table *table, void *ret,
                     struct err *e) MUST_USE;
/* The same with the body of a request. */
int answer_read_body(const struct http_req *req, struct arena *a, const struct json_table *table,
                     void *ret, struct err *e) MUST_USE;
/* The same for an optional body: an empty or blank one leaves *ret unchanged. */
int answer_read_optional(const struct http_req *req, struct arena *a,
                         const struct json_table *table, void *ret, struct err *e) MUST_USE;
