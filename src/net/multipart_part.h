/* multipart_part.h - the headers of one part of a form, and the boundary in its Content-Type.
 *
 * Pure parsing for multipart.h; RFC 7578 and RFC 2046 as real clients use them. Malformed text is
 * -EBADMSG, a reached limit -EMSGSIZE, with a message in *e. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    MULTIPART_BOUNDARY_MAX = 70,
    MULTIPART_HEADERS_MAX = 32, /* per part */
};

struct multipart_header {
    struct str name, value; /* as sent, folded lines joined, white space trimmed */
};

/* Absent is p == NULL; present and empty is n == 0. Names are bytes as the client sent them,
 * usually but not always UTF-8, without NUL, CR and LF. */
struct multipart_part {
    struct str name;         /* form field; absent unless the part is form-data with a name */
    struct str filename;     /* filename* if valid, else filename; with directories */
    struct str content_type; /* as sent */
    struct multipart_header headers[MULTIPART_HEADERS_MAX];
    size_t header_count;
};

/* Parses a header block: lines that end in CRLF, the last one empty. Decoded names are appended to
 * the block, and all of *ret_part borrows from *block until it changes. -ENOMEM when it cannot grow
 * to twice its size. */
int multipart_part_parse(struct buf *block, struct multipart_part *ret_part,
                         struct err *e) MUST_USE;

/* Finds the boundary in a Content-Type value, which must be multipart/form-data, and copies it as a
 * C string. */
int multipart_boundary_parse(struct str content_type, char ret_boundary[MULTIPART_BOUNDARY_MAX + 1],
                             struct err *e) MUST_USE;
