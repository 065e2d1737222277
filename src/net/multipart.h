/* multipart.h - parses a streamed multipart/form-data body in constant memory.
 *
 * Pure: no I/O. Part content is passed on in pieces borrowed from the input. The parser keeps only
 * the headers of the current part (at most twice part_header_bytes_max) and how much of a boundary
 * the last input ended with. */
#pragma once

#include "net/multipart_part.h"
#include <sys/types.h>

/* Callbacks, in this order: (part_begin part_data* part_end)* form_end. A negative result stops the
 * form: multipart_feed returns it, then and in later calls. */
struct multipart_ops {
    int (*part_begin)(void *ctx, const struct multipart_part *part); /* *part: until part_end */
    ssize_t (*part_data)(void *ctx, struct str piece); /* returns bytes taken; fewer means full */
    int (*part_end)(void *ctx);
    int (*form_end)(void *ctx);
};

struct multipart_limits {         /* 0 means the default */
    size_t parts_max;             /* 1000 */
    size_t part_header_bytes_max; /* 8 KiB, per part */
    size_t preamble_bytes_max;    /* 8 KiB before the first boundary */
};

struct multipart { /* the fields are private */
    const struct multipart_ops *ops;
    void *ctx;
    struct multipart_limits limits;
    int failed; /* the negative errno to repeat; 0 = no error */
    uint8_t stage;
    bool saw_cr, in_part, full;
    uint8_t delimiter_n;           /* length of CRLF "--" boundary */
    uint8_t held_from, held_until; /* delimiter[from..until) is withheld input */
    size_t part_count, preamble_bytes;
    struct buf head;
    struct multipart_part part;
    uint8_t steps[256], last_step;              /* shift table of the delimiter search */
    char delimiter[MULTIPART_BOUNDARY_MAX + 7]; /* CRLF "--" boundary "--" NUL */
};

/* Prepares to parse the body of a request with this Content-Type value. -EBADMSG when it is not a
 * form with a boundary; then multipart_done is not needed. limits may be NULL; ops and ctx are
 * borrowed. */
int multipart_init(struct multipart *m, struct str content_type, const struct multipart_ops *ops,
                   void *ctx, const struct multipart_limits *limits, struct err *e) MUST_USE;
void multipart_done(struct multipart *m);

/* Parses `bytes` and returns how many it took. Fewer than bytes.n means that part_data was full:
 * feed again from the first byte not taken, once there is room. -EBADMSG for a malformed form,
 * -EMSGSIZE past a limit, -ENOMEM, or the result of a callback (*e is then set by the callback). */
ssize_t multipart_feed(struct multipart *m, struct str bytes, struct err *e) MUST_USE;

/* Call it at the end of the body: 0 when the closing boundary was read, else an error. */
int multipart_end(const struct multipart *m, struct err *e) MUST_USE;
