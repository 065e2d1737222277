/* Input: two rules, each a byte of length and its text, a byte for the size of pieces, then a text.
 * Pieces of any size give the same result, and it differs from the text where a rule is found. */
#include "egress/vault/rewrite.h"

#include "fuzz.h"

enum { RULES = 2, OUT_MAX = 1 << 20 };

static void run(const struct rewrite *r, struct str text, size_t piece, struct buf *out)
{
    struct rewrite_stream s;

    rewrite_begin(&s, r);
    do {
        size_t n = min_size(piece, text.n);

        FUZZ_CHECK(rewrite_next(&s, str_make(text.p, n), n == text.n, out) == 0);
        text = str_skip(text, n);
    } while (text.n);
    rewrite_end(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = str_make((const char *)data, size);
    struct rewrite_rule rules[RULES];
    struct secret_arena memory;
    AUTO_BUF(whole, OUT_MAX);
    AUTO_BUF(pieces, OUT_MAX);
    struct rewrite *r;
    size_t piece;

    if (size > 4096)
        return 0;
    for (size_t i = 0; i < RULES; i++) {
        size_t n = in.n ? 1 + (unsigned char)in.p[0] % 16 : 0;

        if (in.n < n + 2)
            return 0;
        rules[i] = (struct rewrite_rule){str_make(in.p + 1, n), STR("*"), i};
        in = str_skip(in, n + 1);
    }
    piece = 1 + (unsigned char)in.p[0] % 32;
    in = str_skip(in, 1);
    secret_init(&memory, 1 << 20);
    r = rewrite_new(&memory, rules, RULES);
    FUZZ_CHECK(r);
    run(r, in, SIZE_MAX, &whole);
    run(r, in, piece, &pieces);
    FUZZ_CHECK(str_eq(buf_str(&whole), buf_str(&pieces)));
    FUZZ_CHECK(!rewrite_find(r, in) == str_eq(buf_str(&whole), in) ||
               str_eq(rules[0].find, STR("*")) || str_eq(rules[1].find, STR("*")));
    secret_done(&memory);
    return 0;
}
