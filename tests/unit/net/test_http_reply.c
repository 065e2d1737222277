#include "net/http_server.h"

#include "test.h"

TEST(http_reply, adds_headers_before_the_head)
{
    struct http_req req = {.reply_state = HTTP_REPLY_NONE};

    buf_init(&req.reply_headers, 4096);
    CHECK_EQ(http_reply_header(&req, STR("X-A"), STR("b c")), 0);
    CHECK_EQ(http_reply_header(&req, STR("X-Empty"), STR("")), 0);
    CHECK_SPAN(buf_str(&req.reply_headers), "X-A: b c\r\nX-Empty: \r\n");
    buf_done(&req.reply_headers);
}

TEST(http_reply, refuses_headers_that_would_break_the_message)
{
    static const struct {
        struct str name, value;
    } rows[] = {
        {STR_INIT("X-A"),     STR_INIT("b\r\nSet-Cookie: c")},
        {STR_INIT("X-A"),     STR_INIT("b\nc")              },
        {STR_INIT("X-A"),     STR_INIT("b\rc")              },
        {STR_INIT("X-A"),     STR_INIT("b\0c")              },
        {STR_INIT("X-A"),     STR_INIT("\x7f")              },
        {STR_INIT("X-A\r\n"), STR_INIT("b")                 },
        {STR_INIT("X-A: c"),  STR_INIT("b")                 },
        {STR_INIT("X A"),     STR_INIT("b")                 },
        {STR_INIT(""),        STR_INIT("b")                 },
    };
    struct http_req req = {.reply_state = HTTP_REPLY_NONE};

    buf_init(&req.reply_headers, 4096);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_EQ(http_reply_header(&req, rows[i].name, rows[i].value), -EINVAL);
    CHECK_EQ(req.reply_headers.n, 0);
    buf_done(&req.reply_headers);
}

TEST(http_reply, bounds_its_headers)
{
    struct http_req req = {.reply_state = HTTP_REPLY_NONE};
    int r = 0, count = 0;

    buf_init(&req.reply_headers, 4096);
    while (r == 0 && count++ < 1000)
        r = http_reply_header(&req, STR("X-A"), STR("0123456789"));
    CHECK_EQ(r, -EMSGSIZE);
    buf_done(&req.reply_headers);
}
