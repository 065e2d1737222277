/* A program's output in pieces, some flushed: whatever the pieces, joining what is given yields the
 * same lines, and no piece is empty or too long. The first byte sets the size of the pieces, the
 * second how often is flushed. */
#include "base/buf.h"
#include "execd/core/lines.h"
#include "fuzz.h"

enum { INPUT_MAX = 1 << 20 };

struct joined {
    struct buf text;
    bool begun;
};

static void joined_give(void *user, struct str text, bool continues)
{
    struct joined *j = user;

    FUZZ_CHECK(text.n > 0 && text.n <= LINES_PIECE_MAX);
    FUZZ_CHECK(!continues || j->begun);
    if (j->begun && !continues)
        FUZZ_CHECK(buf_add_char(&j->text, '\n') == 0);
    if (!str_eq(text, STR("\n")))
        FUZZ_CHECK(buf_add(&j->text, text) == 0);
    j->begun = true;
}

/* The input with LF for each end of a line, and without the last. */
static void normalise(struct str in, struct buf *out)
{
    for (size_t i = 0; i < in.n; i++) {
        if (in.p[i] == '\n' && i > 0 && in.p[i - 1] == '\r')
            continue;
        FUZZ_CHECK(buf_add_char(out, in.p[i] == '\r' ? '\n' : in.p[i]) == 0);
    }
    if (out->n > 0 && out->p[out->n - 1] == '\n')
        buf_cut(out, out->n - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_BUF(want, INPUT_MAX);
    struct joined got = {.begun = false};
    struct lines lines;
    struct str in;
    size_t step, flush;

    if (size < 2 || size > INPUT_MAX / 2)
        return 0;
    step = data[0] ? data[0] : INPUT_MAX;
    flush = data[1];
    in = str_make((const char *)data + 2, size - 2);
    buf_init(&got.text, INPUT_MAX);
    lines_init(&lines, joined_give, &got);
    for (size_t at = 0, turn = 1; at < in.n; at += step, turn++) {
        FUZZ_CHECK(lines_feed(&lines, str_make(in.p + at, min_size(step, in.n - at))) == 0);
        if (flush && turn % flush == 0)
            lines_flush(&lines);
    }
    lines_end(&lines);
    normalise(in, &want);
    FUZZ_CHECK(str_eq(buf_str(&want), buf_str(&got.text)));
    lines_done(&lines);
    buf_done(&got.text);
    return 0;
}
