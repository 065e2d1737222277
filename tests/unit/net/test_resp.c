#include "net/resp.h"

#include "test.h"

TEST(resp, reads_every_kind_of_reply)
{
    struct resp r;

    CHECK_EQ(resp_read(STR("+OK\r\n+more"), &r), 5);
    CHECK_EQ(r.type, RESP_SIMPLE);
    CHECK_SPAN(r.text, "OK");
    CHECK_EQ(resp_read(STR("-ERR no\r\n"), &r), 9);
    CHECK_EQ(r.type, RESP_ERROR);
    CHECK_EQ(resp_read(STR(":-12\r\n"), &r), 6);
    CHECK_EQ(r.number, -12);
    CHECK_EQ(resp_read(STR("$3\r\na\r\n\r\n"), &r), 9);
    CHECK_SPAN(r.text, "a\r\n");
    CHECK_EQ(resp_read(STR("$-1\r\n"), &r), 5);
    CHECK(!r.text.p);
    CHECK_EQ(resp_read(STR("*-1\r\n"), &r), 5);
    CHECK(r.type == RESP_ARRAY && !r.text.p);
}

TEST(resp, reads_arrays_in_arrays)
{
    struct str in = STR("*3\r\n:1\r\n*2\r\n+a\r\n$1\r\nb\r\n*0\r\n");
    struct resp r, item;

    CHECK_EQ(resp_read(in, &r), in.n);
    CHECK_EQ(r.number, 3);
    for (size_t n = 0; n < in.n; n++)
        CHECK_EQ(resp_read(str_make(in.p, n), &item), 0);
    CHECK(resp_next(&r.text, &item) && item.type == RESP_INTEGER);
    CHECK(resp_next(&r.text, &item) && item.type == RESP_ARRAY);
    CHECK(resp_next(&r.text, &item) && item.type == RESP_ARRAY && item.number == 0);
    CHECK(!resp_next(&r.text, &item));
}

TEST(resp, refuses_what_is_no_reply_and_what_is_too_much)
{
    static const char *const bad[] = {"x",
                                      "+a\n\r\n",
                                      ":x\r\n",
                                      "$-2\r\n",
                                      "*-2\r\n",
                                      "$1\r\nabc",
                                      "*99999\r\n",
                                      "$9999999\r\n",
                                      "+a\rb",
                                      "\n",
                                      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"};
    struct resp r;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (resp_read(str_of(bad[i]), &r) >= 0)
            test_fail(__FILE__, __LINE__, "row %zu was read", i);
}

TEST(resp, writes_requests)
{
    AUTO_BUF(out, 64);
    const struct str words[] = {STR("LPUSH"), STR("k"), STR("")};

    CHECK_EQ(resp_write(&out, words, 3), 0);
    CHECK_STR(out.p, "*3\r\n$5\r\nLPUSH\r\n$1\r\nk\r\n$0\r\n\r\n");
    CHECK_EQ(resp_write(&out, words, 3), 0);
    CHECK_EQ(resp_write(&out, words, 3), -EMSGSIZE);
    CHECK_EQ(out.n, 56);
}
