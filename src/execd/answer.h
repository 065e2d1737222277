/* answer.h - replies and request bodies in the form of the execution API. Loop thread only. */
#pragma once

#include "base/json_bind.h"
#include "net/http_server.h"

#define ANSWER_JSON STR("application/json; charset=utf-8")
#define ANSWER_TEXT STR("text/plain; charset=utf-8")

enum { ANSWER_MESSAGE_BYTES_MAX = 8 << 10 }; /* of an error; the rest is cut */

void answer_empty(struct http_req *req); /* 200 and Content-Length: 0 */
void answer_json(struct http_req *req, int status, struct str json);
/* {"code":...,"message":...} */
void answer_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Reads a JSON object into *ret by table, as lenient as clients expect: names in any case, unknown
 * ones ignored, the last of two counts, invalid UTF-8 becomes U+FFFD. -EBADMSG and a sentence when
 * it does not fit, -ENOMEM when the arena is full. */
int answer_read_body(const struct http_req *req, struct arena *a, const struct json_table *table,
                     void *ret, struct err *e) MUST_USE;
