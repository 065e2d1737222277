#include "net/h1_write.h"

#include "test.h"

TEST(h1_write, writes_a_response_head)
{
    AUTO_BUF(b, 4096);

    CHECK_EQ(h1_write_status(&b, 404), 0);
    CHECK_EQ(h1_write_header(&b, STR("Server"), STR("")), 0);
    CHECK_EQ(h1_write_header(&b, STR("X"), STR("a\tb \xc3\xa9")), 0);
    CHECK_EQ(h1_write_header_u64(&b, STR("Content-Length"), 0), 0);
    CHECK_EQ(h1_write_header_u64(&b, STR("Big"), UINT64_MAX), 0);
    CHECK_EQ(h1_write_end(&b), 0);
    CHECK_STR(b.p, "HTTP/1.1 404 Not Found\r\nServer: \r\nX: a\tb \xc3\xa9\r\nContent-Length: 0\r\n"
                   "Big: 18446744073709551615\r\n\r\n");
}

TEST(h1_write, writes_statuses_without_a_phrase)
{
    AUTO_BUF(b, 4096);

    CHECK_EQ(h1_write_status(&b, 299), 0);
    CHECK_STR(b.p, "HTTP/1.1 299 \r\n");
    CHECK_EQ(h1_write_status(&b, 99), -EINVAL);
    CHECK_EQ(h1_write_status(&b, 600), -EINVAL);
    CHECK_EQ(h1_write_status(&b, -200), -EINVAL);
}

TEST(h1_write, refuses_line_breaks_that_would_add_a_header)
{
    AUTO_BUF(b, 4096);

    CHECK_EQ(h1_write_header(&b, STR("A"), STR("b\r\nSet-Cookie: c")), -EINVAL);
    CHECK_EQ(h1_write_header(&b, STR("A"), STR("b\nC: d")), -EINVAL);
    CHECK_EQ(h1_write_header(&b, STR("A"), STR("b\r")), -EINVAL);
    CHECK_EQ(h1_write_header(&b, STR("A"), STR("b\0")), -EINVAL);
    CHECK_EQ(h1_write_header(&b, STR("A: b\r\nC"), STR("d")), -EINVAL);
    CHECK_EQ(h1_write_header(&b, STR("A "), STR("d")), -EINVAL);
    CHECK_EQ(h1_write_header(&b, STR(""), STR("d")), -EINVAL);
    CHECK_EQ(h1_write_request_line(&b, STR("GET"), STR("/ HTTP/1.1\r\nA: b")), -EINVAL);
    CHECK_EQ(h1_write_request_line(&b, STR("GET"), STR("/a b")), -EINVAL);
    CHECK_EQ(h1_write_request_line(&b, STR("GET"), STR("")), -EINVAL);
    CHECK_EQ(h1_write_request_line(&b, STR("GET /x"), STR("/")), -EINVAL);
    CHECK_EQ(h1_write_request_line(&b, STR(""), STR("/")), -EINVAL);
    CHECK_STR(b.p, "");
    CHECK_EQ(h1_write_request_line(&b, STR("PURGE"), STR("/a?b")), 0);
    CHECK_STR(b.p, "PURGE /a?b HTTP/1.1\r\n");
}

TEST(h1_write, adds_whole_lines_or_nothing)
{
    AUTO_BUF(b, 10);

    CHECK_EQ(h1_write_header(&b, STR("A"), STR("12345")), 0);
    CHECK_EQ(h1_write_header(&b, STR("A"), STR("1")), -EMSGSIZE);
    CHECK_STR(b.p, "A: 12345\r\n");
    buf_clear(&b);
    CHECK_EQ(h1_write_status(&b, 200), -EMSGSIZE);
    CHECK_EQ(h1_write_request_line(&b, STR("GET"), STR("/")), -EMSGSIZE);
    CHECK_STR(b.p, "");
}
