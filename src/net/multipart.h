/* multipart.h - reads a multipart/form-data body as it streams by, in constant memory.
 *
 * Pure: no I/O. Part content is handed on in pieces borrowed from the input; kept are only the
 * headers of the current part (at most twice part_header_bytes_max) and how much of a boundary the
 * last input ended with. */
#pragma once

#include "net/multipart_part.h"
#include <sys/types.h>

/* What the reader tells, in this order: (part_begin part_data* part_end)* form_end. A negative
 * answer stops the form: multipart_feed returns it, then and ever after. */
struct multipart_ops {
    int (*part_begin)(void *ctx, const struct multipart_part *part); /* *part: until part_end */
    ssize_t (*part_data)(void *ctx, struct str piece); /* bytes taken; fewer means full, await */
    int (*part_end)(void *ctx);
    int (*form_end)(void *ctx);
};

struct multipart_limits {         /* 0 means the default */
    size_t parts_max;             /* 1000 */
    size_t part_header_bytes_max; /* 8 KiB, for each part */
    size_t preamble_bytes_max;    /* 8 KiB before the first boundary */
};

struct multipart { /* fields are the reader's own */
    const struct multipart_ops *ops;
    void *ctx;
    struct multipart_limits limits;
    int failed; /* the negative errno to repeat; 0 while all is well */
    uint8_t stage;
    bool saw_cr, in_part, full;
    uint8_t delimiter_n;           /* length of CRLF "--" boundary */
    uint8_t held_from, held_until; /* delimiter[from..until) is withheld input */
    size_t part_count, preamble_bytes;
    struct buf head;
    struct multipart_part part;
    uint8_t steps[256], last_step;              /* of the search for the delimiter */
    char delimiter[MULTIPART_BOUNDARY_MAX + 7]; /* CRLF "--" boundary "--" NUL */
};

/* Prepares to read the body announced by a Content-Type value. -EBADMSG when it is not a form with
 * a boundary; there is nothing to undo then. limits may be NULL; ops and ctx are borrowed. */
int multipart_init(struct multipart *m, struct str content_type, const struct multipart_ops *ops,
                   void *ctx, const struct multipart_limits *limits, struct err *e) MUST_USE;
void multipart_done(struct multipart *m);

/* Reads on and returns how many bytes it took. Fewer than bytes.n means that part_data was full:
 * feed again, from the first byte not taken, once there is room. -EBADMSG for a malformed form,
 * -EMSGSIZE for one past a limit, -ENOMEM, or what an op answered (*e is then left to the op). */
ssize_t multipart_feed(struct multipart *m, struct str bytes, struct err *e) MUST_USE;

/* To be asked when the body has ended: 0 when the closing boundary was read, or an error. */
int multipart_end(const struct multipart *m, struct err *e) MUST_USE;
