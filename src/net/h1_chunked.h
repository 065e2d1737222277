/* h1_chunked.h - the chunked transfer coding (RFC 9112 7.1), in both directions.
 *
 * The decoder buffers nothing: it returns parts of its input and keeps only its state. Chunk
 * extensions and trailers are checked, counted and dropped. */
#pragma once

#include "net/h1.h"
#include <assert.h>

enum { H1_EXTENSION_BYTES_MAX = 4 << 10, H1_TRAILER_BYTES_MAX = 8 << 10, H1_CHUNK_HEADER_MAX = 18 };

struct h1_chunked {                          /* all zero before the first byte of a body */
    uint64_t left;                           /* bytes of the current chunk still to come */
    uint16_t extension_bytes, trailer_bytes; /* in the whole message */
    uint8_t state, digits;
};
static_assert(sizeof(struct h1_chunked) <= 32, "every connection carries one");

/* Decodes the next part of `in`, the bytes that follow those consumed before. H1_OK: *ret_data is
 * the next part of the body, or empty when h1_chunked_ended(). H1_AGAIN: all of `in` was consumed
 * and held no body bytes. Both set *ret_consumed, which includes that part; the caller continues
 * with the rest. After the end, the rest is the next message. Errors are final. */
enum h1_error h1_chunked_next(struct h1_chunked *c, struct str in, struct str *ret_data,
                              size_t *ret_consumed);
bool h1_chunked_ended(const struct h1_chunked *c);

/* Writes the size line of a chunk of n > 0 bytes and returns its length; not NUL-terminated. The
 * data and H1_CHUNK_END follow it; H1_LAST_CHUNK ends the body. */
size_t h1_chunk_header(char out[static H1_CHUNK_HEADER_MAX], size_t n);
#define H1_CHUNK_END  STR("\r\n")
#define H1_LAST_CHUNK STR("0\r\n\r\n")
