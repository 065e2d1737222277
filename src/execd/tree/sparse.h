/* sparse.h - writes a new file piece by piece and leaves holes instead of blocks of zeros. */
#pragma once

#include "base/str.h"

struct sparse {    /* all zero is the start of a file */
    uint64_t at;   /* offset of the next byte */
    uint64_t hole; /* zeros before it that were not written */
};

/* Both need a regular file that was empty at the start. 0, or -errno. */
int sparse_write(struct sparse *s, int fd, struct str piece) MUST_USE;
int sparse_end(struct sparse *s, int fd) MUST_USE; /* sets the size if zeros end the file */
