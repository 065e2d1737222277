/* h1_body.h - reads a message's body, with any framing (RFC 9112 6.3). */
#pragma once

#include "net/h1_chunked.h"

struct h1_body_reader {
    enum h1_body kind;
    uint64_t left; /* H1_BODY_LENGTH: bytes still to come */
    struct h1_chunked chunked;
};

void h1_body_begin(struct h1_body_reader *b, const struct h1_framing *framing);

/* Reads the next part of `in`, with the results of h1_chunked_next(), until h1_body_ended(). */
enum h1_error h1_body_next(struct h1_body_reader *b, struct str in, struct str *ret_data,
                           size_t *ret_consumed);
bool h1_body_ended(const struct h1_body_reader *b); /* never for H1_BODY_CLOSE */
