/* inflate.h - the bytes of a blob, uncompressed: gzip, zstd or plain, told by its first bytes. */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct inflate;

/* Reads from fd, which it borrows. */
int inflate_open(int fd, struct inflate **ret, struct err *e) MUST_USE;
void inflate_close(struct inflate *i); /* NULL is fine */
/* Fills the room as far as the blob has bytes: fewer only at its end. The number of bytes, or
 * -errno. */
ssize_t inflate_read(struct inflate *i, char *room, size_t bytes, struct err *e) MUST_USE;
/* Bytes read from the blob so far. */
uint64_t inflate_taken(const struct inflate *i);
