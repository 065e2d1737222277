/* fuzz_h1_chunked.c - decoding in one go equals decoding in pieces. The first byte of the input
 * says how long the pieces are, the rest is the body. */
#include "fuzz.h"

#include "base/buf.h"
#include "net/h1_chunked.h"

struct outcome {
    enum h1_error error;
    size_t consumed;
    struct buf body;
};

/* Feeds pieces of 1 to 1 + `spread` bytes; SIZE_MAX - 1 feeds all at once. */
static void decode(struct str in, size_t spread, struct outcome *out)
{
    struct h1_chunked c = {0};
    size_t piece = 0;

    *out = (struct outcome){.error = H1_AGAIN};
    buf_init(&out->body, 1 << 20);
    while (out->error == H1_AGAIN && out->consumed < in.n) {
        size_t n = min_size(spread < 256 ? 1 + piece++ % (1 + spread) : in.n, in.n - out->consumed);
        size_t end = out->consumed + n;

        do {
            struct str data, rest = str_make(in.p + out->consumed, end - out->consumed);
            size_t used;

            out->error = h1_chunked_next(&c, rest, &data, &used);
            if (out->error > H1_AGAIN)
                return;
            FUZZ_CHECK(used <= rest.n && data.p >= rest.p && data.p + data.n == rest.p + used);
            FUZZ_CHECK(buf_add(&out->body, data) == 0);
            out->consumed += used;
        } while (out->error == H1_OK && !h1_chunked_ended(&c));
        FUZZ_CHECK(out->error == H1_OK || out->consumed == end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, pieces;
    struct str in;

    if (size == 0)
        return 0;
    in = str_make((const char *)data + 1, size - 1);
    decode(in, SIZE_MAX - 1, &whole);
    decode(in, data[0], &pieces);
    FUZZ_CHECK(whole.error == pieces.error);
    FUZZ_CHECK(whole.error != H1_OK || whole.consumed == pieces.consumed);
    FUZZ_CHECK(str_eq(buf_str(&whole.body), buf_str(&pieces.body)));
    buf_done(&whole.body);
    buf_done(&pieces.body);
    return 0;
}
