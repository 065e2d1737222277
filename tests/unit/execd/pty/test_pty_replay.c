#include "execd/pty/pty_replay.h"

#include "base/buf.h"
#include "base/fault.h"
#include "test.h"

static void add(struct pty_replay *r, const char *text)
{
    pty_replay_add(r, str_of(text));
}

/* What is kept from a number on, as one text. */
static uint64_t get(const struct pty_replay *r, int64_t since, struct buf *out)
{
    struct str pieces[2];
    uint64_t at = pty_replay_get(r, since, pieces);

    buf_clear(out);
    CHECK_EQ(buf_add(out, pieces[0]), 0);
    CHECK_EQ(buf_add(out, pieces[1]), 0);
    return at;
}

TEST(pty_replay, numbers_bytes_from_the_first_on)
{
    AUTO_BUF(out, 100);
    struct pty_replay r;

    pty_replay_init(&r);
    CHECK_EQ(get(&r, 0, &out), 0);
    CHECK_EQ(out.n, 0);
    add(&r, "hello ");
    add(&r, "world");
    CHECK_EQ(get(&r, 0, &out), 0);
    CHECK_STR(out.p, "hello world");
    CHECK_EQ(get(&r, -1, &out), 0);
    CHECK_EQ(get(&r, 6, &out), 6);
    CHECK_STR(out.p, "world");
    CHECK_EQ(get(&r, 11, &out), 11);
    CHECK_EQ(out.n, 0);
    CHECK_EQ(get(&r, 12, &out), 11); /* nobody printed that yet */
    CHECK_EQ(get(&r, INT64_MAX, &out), 11);
    pty_replay_drop(&r);
}

TEST(pty_replay, grows_with_the_output_and_no_further)
{
    static char piece[32 << 10];
    struct pty_replay r;

    pty_replay_init(&r);
    CHECK_EQ(r.cap, 0);
    add(&r, "x");
    CHECK(r.cap <= 4 << 10);
    for (int i = 0; i < 100; i++)
        pty_replay_add(&r, str_make(piece, sizeof(piece)));
    CHECK_EQ(r.cap, PTY_REPLAY_BYTES_MAX);
    CHECK_EQ(pty_replay_kept(&r), PTY_REPLAY_BYTES_MAX);
    pty_replay_drop(&r);
    CHECK(!r.p && pty_replay_kept(&r) == 0);
    CHECK_EQ(r.written, 1 + 100 * sizeof(piece));
}

/* Byte k is k % 251, so every place of the ring tells which byte it holds. */
TEST(pty_replay, keeps_the_newest_in_order_whatever_the_pieces)
{
    AUTO_BUF(out, 2 * PTY_REPLAY_BYTES_MAX);
    static char piece[32 << 10];
    struct pty_replay r;
    uint64_t k = 0, at;
    unsigned seed = 7;

    pty_replay_init(&r);
    for (int turn = 0; turn < 300; turn++) {
        size_t n = (seed = seed * 1103515245 + 12345) / 65536 % sizeof(piece) + 1;

        for (size_t i = 0; i < n; i++, k++)
            piece[i] = (char)(k % 251);
        pty_replay_add(&r, str_make(piece, n));
        if (turn % 20)
            continue;
        at = get(&r, 0, &out);
        CHECK_EQ(at + out.n, k);
        CHECK(at == 0 || out.n == PTY_REPLAY_BYTES_MAX);
        for (size_t i = 0; i < out.n; i++)
            CHECK_EQ((unsigned char)out.p[i], (at + i) % 251);
    }
    CHECK(k > 3 * (uint64_t)PTY_REPLAY_BYTES_MAX);
    pty_replay_drop(&r);
}

TEST(pty_replay, goes_on_numbering_after_a_drop)
{
    AUTO_BUF(out, 100);
    struct pty_replay r;

    pty_replay_init(&r);
    add(&r, "lost");
    pty_replay_drop(&r);
    CHECK_EQ(get(&r, 0, &out), 4);
    CHECK_EQ(out.n, 0);
    add(&r, "kept");
    CHECK_EQ(get(&r, 0, &out), 4);
    CHECK_STR(out.p, "kept");
    pty_replay_drop(&r);
}
