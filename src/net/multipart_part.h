/* multipart_part.h - the headers of one part of a form, and the boundary in its Content-Type.
 *
 * Pure parsing for multipart.h; RFC 7578 and RFC 2046 as written by real clients. Malformed text is
 * -EBADMSG, a limit that was met -EMSGSIZE, with a sentence in *e. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    MULTIPART_BOUNDARY_MAX = 70,
    MULTIPART_HEADERS_MAX = 32, /* of one part */
};

struct multipart_header {
    struct str name, value; /* as sent, folded lines joined, white space trimmed */
};

/* Absent is p == NULL; present and empty is n == 0. Names are bytes as the client sent them, mostly
 * but not surely UTF-8, without NUL, CR and LF. */
struct multipart_part {
    struct str name;         /* form field; absent unless the part is form-data with a name */
    struct str filename;     /* filename* when decodable, else filename; directories are kept */
    struct str content_type; /* as sent */
    struct multipart_header headers[MULTIPART_HEADERS_MAX];
    size_t header_count;
};

/* Reads a header block: lines that end in CRLF, the last of them empty. Decoded names are added
 * behind the block, and all of *ret_part borrows from *block until it changes. -ENOMEM when it
 * cannot grow to twice its size. */
int multipart_part_parse(struct buf *block, struct multipart_part *ret_part,
                         struct err *e) MUST_USE;

/* Finds the boundary in the value of a Content-Type header, which must be multipart/form-data, and
 * copies it as a C string. */
int multipart_boundary_parse(struct str content_type, char ret_boundary[MULTIPART_BOUNDARY_MAX + 1],
                             struct err *e) MUST_USE;
