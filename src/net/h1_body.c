#include "net/h1_body.h"

#include <assert.h>

void h1_body_begin(struct h1_body_reader *b, const struct h1_framing *framing)
{
    *b = (struct h1_body_reader){.kind = framing->body, .left = framing->body_bytes};
}

enum h1_error h1_body_next(struct h1_body_reader *b, struct str in, struct str *ret_data,
                           size_t *ret_consumed)
{
    assert(!h1_body_ended(b));
    if (b->kind == H1_BODY_CHUNKED)
        return h1_chunked_next(&b->chunked, in, ret_data, ret_consumed);
    if (b->kind == H1_BODY_LENGTH) {
        in.n = min_size(in.n, b->left);
        b->left -= in.n;
    }
    *ret_data = in;
    *ret_consumed = in.n;
    return H1_OK;
}

bool h1_body_ended(const struct h1_body_reader *b)
{
    switch (b->kind) {
    case H1_BODY_NONE:
        return true;
    case H1_BODY_LENGTH:
        return b->left == 0;
    case H1_BODY_CHUNKED:
        return h1_chunked_ended(&b->chunked);
    case H1_BODY_CLOSE:
        return false;
    }
    return false;
}
