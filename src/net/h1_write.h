/* h1_write.h - heads of HTTP/1.1 messages, written into a buf.
 *
 * All return 0, -EMSGSIZE or -ENOMEM of the buf, or -EINVAL for text that would not be read back as
 * the same field: a line break in a value is somebody else's header. After an error the head is
 * unusable as a whole; each call adds a whole line or nothing. */
#pragma once

#include "base/buf.h"
#include "net/http.h"

int h1_write_status(struct buf *b, int status); /* -EINVAL outside 100..599 */
int h1_write_request_line(struct buf *b, struct str method, struct str target);

int h1_write_header(struct buf *b, struct str name, struct str value);
int h1_write_header_u64(struct buf *b, struct str name, uint64_t value);
int h1_write_end(struct buf *b); /* the empty line */

enum { HTTP_DATE_BYTES = 29 };

/* Writes "Sun, 06 Nov 1994 08:49:37 GMT", not NUL-terminated. Seconds since 1970; those outside the
 * years 1970 to 9999 are taken as the nearest inside. */
void h1_format_date(char out[static HTTP_DATE_BYTES], int64_t unix_s);

/* The Date line, formatted once a second. All zero at first; one per thread. */
struct h1_date_cache {
    int64_t unix_s;
    size_t line_bytes;
    char line[40];
};

/* "Date: ...\r\n", valid until the next call with this cache. */
struct str h1_date_line(struct h1_date_cache *cache, int64_t unix_s);
