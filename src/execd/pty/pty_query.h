/* pty_query.h - finds the requests in a program's output that a terminal answers by typing: its
 * kind, the cursor's position, colours. Sent a second time they would be answered a second time,
 * and the answer read as input by a program that expects none. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { PTY_QUERY_BYTES_MAX = 1024 }; /* longer sequences are taken for something else */

/* Overwrites the requests among the bytes `from` to `end` - 1 with NUL, which terminals ignore, so
 * that all other bytes keep their places. An ESC becomes CAN, which like it ends a sequence before
 * it. Byte k is at ring[k % cap]; end - from <= cap. A sequence that does not end before `end`
 * stays. */
void pty_query_blank(char *ring, size_t cap, uint64_t from, uint64_t end);
