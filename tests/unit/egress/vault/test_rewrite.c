#include "egress/vault/rewrite.h"
#include "test.h"

enum { OUT_MAX = 1 << 20 };

struct fixture {
    struct secret_arena memory;
    struct rewrite *rewrite;
    struct buf out;
};

static void begin(struct fixture *f, const struct rewrite_rule *rules, size_t count)
{
    secret_init(&f->memory, 1 << 20);
    f->rewrite = rewrite_new(&f->memory, rules, count);
    CHECK(f->rewrite != NULL);
    buf_init(&f->out, OUT_MAX);
}

static void end(struct fixture *f)
{
    buf_done(&f->out);
    secret_done(&f->memory);
}

/* The text in pieces of n bytes. */
static void run_pieces(struct fixture *f, struct str text, size_t n)
{
    struct rewrite_stream s;

    buf_clear(&f->out);
    rewrite_begin(&s, f->rewrite);
    while (text.n) {
        size_t k = min_size(n, text.n);

        CHECK_EQ(rewrite_next(&s, str_make(text.p, k), false, &f->out), 0);
        text = str_skip(text, k);
    }
    CHECK_EQ(rewrite_next(&s, STR(""), true, &f->out), 0);
    rewrite_end(&s);
}

TEST(rewrite, replaces_in_pieces_of_any_size)
{
    static const struct rewrite_rule rules[] = {
        {STR_INIT("s3cr3t-42"), STR_INIT("[X]"),                  0},
        {STR_INIT("password"),  STR_INIT("<longer than before>"), 1},
    };
    struct str text = STR("ss3cr3t-42s3cr3t-4password pass words3cr3t-42");
    struct fixture f;

    begin(&f, rules, ARRAY_LEN(rules));
    for (size_t n = 1; n <= text.n; n++) {
        run_pieces(&f, text, n);
        CHECK_STR(f.out.p, "s[X]s3cr3t-4<longer than before> pass word[X]");
    }
    end(&f);
}

TEST(rewrite, prefers_the_longest_rule_also_across_pieces)
{
    static const struct rewrite_rule rules[] = {
        {STR_INIT("key"),      STR_INIT("a"), 0},
        {STR_INIT("key-long"), STR_INIT("b"), 1},
    };
    struct fixture f;

    begin(&f, rules, ARRAY_LEN(rules));
    for (size_t n = 1; n <= 20; n++) {
        run_pieces(&f, STR("key-long key-lon key"), n);
        CHECK_STR(f.out.p, "b a-lon a");
    }
    end(&f);
}

TEST(rewrite, handles_rules_of_one_byte_and_no_rules)
{
    static const struct rewrite_rule one[] = {
        {STR_INIT("x"), STR_INIT("yy"), 0}
    };
    struct fixture f;

    begin(&f, one, 1);
    run_pieces(&f, STR("axbxx"), 2);
    CHECK_STR(f.out.p, "ayybyyyy");
    end(&f);
    begin(&f, one, 0);
    run_pieces(&f, STR("axbxx"), 2);
    CHECK_STR(f.out.p, "axbxx");
    end(&f);
}

TEST(rewrite, refuses_an_empty_rule)
{
    static const struct rewrite_rule empty[] = {
        {STR_INIT(""), STR_INIT("y"), 0}
    };
    struct secret_arena a;

    secret_init(&a, 1 << 20);
    CHECK(rewrite_new(&a, empty, 1) == NULL);
    secret_done(&a);
}

TEST(rewrite, finds_the_first_rule)
{
    static const struct rewrite_rule rules[] = {
        {STR_INIT("first"),  STR_INIT(""), 7},
        {STR_INIT("second"), STR_INIT(""), 8},
    };
    struct fixture f;

    begin(&f, rules, ARRAY_LEN(rules));
    CHECK_EQ(rewrite_find(f.rewrite, STR("a secon second first"))->tag, 8);
    CHECK(rewrite_find(f.rewrite, STR("firs secon")) == NULL);
    end(&f);
}

/* The simplest possible implementation, on random texts over a small alphabet. */
TEST(rewrite, agrees_with_a_plain_search)
{
    static const struct rewrite_rule rules[] = {
        {STR_INIT("abab"),     STR_INIT("1"),   0},
        {STR_INIT("aabb"),     STR_INIT("22"),  0},
        {STR_INIT("ababbaab"), STR_INIT("333"), 0},
        {STR_INIT("bbb"),      STR_INIT(""),    0},
    };
    struct fixture f;

    begin(&f, rules, ARRAY_LEN(rules));
    srandom(7);
    for (int round = 0; round < 2000; round++) {
        AUTO_BUF(text, 256);
        AUTO_BUF(want, 1024);
        size_t at = 0;

        for (long i = random() % 100; i > 0; i--)
            CHECK_EQ(buf_add_char(&text, "ab"[random() % 2]), 0);
        while (at < text.n) {
            const struct rewrite_rule *best = NULL;

            for (size_t i = 0; i < ARRAY_LEN(rules); i++)
                if (str_starts(str_make(text.p + at, text.n - at), rules[i].find) &&
                    (!best || best->find.n < rules[i].find.n))
                    best = &rules[i];
            CHECK_EQ(buf_add(&want, best ? best->put : str_make(text.p + at, 1)), 0);
            at += best ? best->find.n : 1;
        }
        run_pieces(&f, buf_str(&text), 1 + (size_t)random() % 9);
        CHECK_STR(f.out.p, want.p);
    }
    end(&f);
}
