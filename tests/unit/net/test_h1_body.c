#include "net/h1_body.h"

#include "base/buf.h"
#include "test.h"

/* Feeds `in` until the body ends or the input does; returns the input not used. */
static struct str read_all(struct h1_body_reader *b, struct str in, struct buf *ret_body)
{
    while (in.n && !h1_body_ended(b)) {
        struct str piece;
        size_t used;
        enum h1_error error = h1_body_next(b, in, &piece, &used);

        CHECK(error == H1_OK || error == H1_AGAIN);
        if (error == H1_OK)
            CHECK_EQ(buf_add(ret_body, piece), 0);
        in = str_skip(in, used);
    }
    return in;
}

TEST(h1_body, ends_where_its_framing_says)
{
    static const struct {
        struct h1_framing framing;
        const char *in, *body, *rest;
        bool ended;
    } rows[] = {
        {{.body = H1_BODY_NONE},                    "GET",                     "",      "GET", true },
        {{.body = H1_BODY_LENGTH},                  "GET",                     "",      "GET", true },
        {{.body = H1_BODY_LENGTH, .body_bytes = 5}, "helloGET",                "hello", "GET", true },
        {{.body = H1_BODY_LENGTH, .body_bytes = 6}, "hello",                   "hello", "",    false},
        {{.body = H1_BODY_CHUNKED},                 "2\r\nhe\r\n0\r\n\r\nGET", "he",    "GET", true },
        {{.body = H1_BODY_CHUNKED},                 "5\r\nhe",                 "he",    "",    false},
        {{.body = H1_BODY_CLOSE},                   "GET",                     "GET",   "",    false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h1_body_reader b;
        AUTO_BUF(body, 100);
        struct str rest;

        h1_body_begin(&b, &rows[i].framing);
        rest = read_all(&b, str_of(rows[i].in), &body);
        CHECK_STR(body.p, rows[i].body);
        CHECK_STR(rest.p, rows[i].rest);
        CHECK_EQ(h1_body_ended(&b), rows[i].ended);
    }
}

TEST(h1_body, forgets_the_message_before)
{
    struct h1_body_reader b;
    AUTO_BUF(body, 100);

    h1_body_begin(&b, &(struct h1_framing){.body = H1_BODY_CHUNKED});
    read_all(&b, STR("1\r\na\r\n0\r\n\r\n"), &body);
    CHECK(h1_body_ended(&b));
    h1_body_begin(&b, &(struct h1_framing){.body = H1_BODY_CHUNKED});
    CHECK(!h1_body_ended(&b));
    read_all(&b, STR("1\r\nb\r\n0\r\n\r\n"), &body);
    CHECK(h1_body_ended(&b));
    CHECK_STR(body.p, "ab");
}
