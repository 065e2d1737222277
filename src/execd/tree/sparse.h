/* sparse.h - writes a new file piece by piece and leaves holes where there are only zeros. */
#pragma once

#include "base/str.h"

struct sparse {    /* zeroed is the start of a file */
    uint64_t at;   /* where the next byte goes */
    uint64_t hole; /* zeros before it that were not written */
};

/* Both are for a regular file that was empty at the start: 0, or -errno. */
int sparse_write(struct sparse *s, int fd, struct str piece) MUST_USE;
int sparse_end(struct sparse *s, int fd) MUST_USE; /* zeros at the end count, too */
