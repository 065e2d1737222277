/* h1_write.h - writes heads of HTTP/1.1 messages into a buf.
 *
 * All return 0, -EMSGSIZE or -ENOMEM of the buf, or -EINVAL for text that would not parse back as
 * the same field: a line break in a value would inject another header. Each call adds a whole line
 * or nothing; after an error the head is unusable. */
#pragma once

#include "base/buf.h"
#include "net/http.h"

int h1_write_status(struct buf *b, int status); /* -EINVAL outside 100..599 */
int h1_write_request_line(struct buf *b, struct str method, struct str target);

int h1_write_header(struct buf *b, struct str name, struct str value);
int h1_write_header_u64(struct buf *b, struct str name, uint64_t value);
int h1_write_end(struct buf *b); /* the empty line */
