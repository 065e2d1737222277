#include "base/buf.h"
#include "egress/intercept/hello.h"
#include "test.h"

/* Bytes of a ClientHello, built from its parts. */
static void add_u(struct buf *b, unsigned v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        CHECK_EQ(buf_add_char(b, (char)(v >> (8 * i))), 0);
}

static void add_ext(struct buf *b, unsigned type, struct str data)
{
    add_u(b, type, 2);
    add_u(b, (unsigned)data.n, 2);
    CHECK_EQ(buf_add(b, data), 0);
}

static void add_sni(struct buf *b, struct str name)
{
    AUTO_BUF(data, 1024);

    add_u(&data, (unsigned)name.n + 3, 2);
    add_u(&data, 0, 1);
    add_u(&data, (unsigned)name.n, 2);
    CHECK_EQ(buf_add(&data, name), 0);
    add_ext(b, 0, buf_str(&data));
}

/* The handshake message with these extensions. */
static void message(struct buf *out, struct str extensions)
{
    AUTO_BUF(body, 20000);
    char random[32] = {7};

    add_u(&body, 0x0303, 2);
    CHECK_EQ(buf_add(&body, str_make(random, sizeof(random))), 0);
    add_u(&body, 0, 1);
    add_u(&body, 2, 2);
    add_u(&body, 0x1301, 2);
    add_u(&body, 1, 1);
    add_u(&body, 0, 1);
    add_u(&body, (unsigned)extensions.n, 2);
    CHECK_EQ(buf_add(&body, extensions), 0);
    add_u(out, 1, 1);
    add_u(out, (unsigned)body.n, 3);
    CHECK_EQ(buf_add(out, buf_str(&body)), 0);
}

/* In records of at most `piece` bytes. */
static void records(struct buf *out, struct str text, size_t piece)
{
    while (text.n) {
        size_t n = min_size(piece, text.n);

        add_u(out, 22, 1);
        add_u(out, 0x0301, 2);
        add_u(out, (unsigned)n, 2);
        CHECK_EQ(buf_add(out, str_make(text.p, n)), 0);
        text = str_skip(text, n);
    }
}

static enum hello_kind read_name(struct str name, struct hello *ret)
{
    AUTO_BUF(ext, 4096);
    AUTO_BUF(text, 20000);
    AUTO_BUF(wire, 30000);

    if (name.p)
        add_sni(&ext, name);
    message(&text, buf_str(&ext));
    records(&wire, buf_str(&text), 16384);
    return hello_read(buf_str(&wire), ret);
}

TEST(hello, reads_the_name)
{
    struct hello h;

    CHECK_EQ(read_name(STR("API.Example.COM"), &h), HELLO_TLS);
    CHECK_STR(h.name, "api.example.com");
    CHECK(h.has_http1);
    CHECK_EQ(read_name(STR("a_b.example."), &h), HELLO_TLS);
    CHECK_STR(h.name, "a_b.example");
    CHECK_EQ(read_name(STR_NONE, &h), HELLO_TLS);
    CHECK_STR(h.name, "");
}

TEST(hello, refuses_names_that_are_none)
{
    static const struct str bad[] = {
        STR_INIT(""),        STR_INIT("."),
        STR_INIT("a..b"),    STR_INIT(".a"),
        STR_INIT("a b"),     STR_INIT("a\0.example"),
        STR_INIT("1.2.3.4"), STR_INIT("[::1]"),
        STR_INIT("a/b.com"), STR_INIT("ex\xc3\xa4.de"),
    };
    struct hello h;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(read_name(bad[i], &h), HELLO_BAD);
}

TEST(hello, waits_for_every_byte_and_joins_records)
{
    AUTO_BUF(ext, 4096);
    AUTO_BUF(text, 20000);
    AUTO_BUF(wire, 30000);
    struct hello h;

    add_sni(&ext, STR("split.example"));
    message(&text, buf_str(&ext));
    records(&wire, buf_str(&text), 7);
    for (size_t n = 0; n < wire.n; n++)
        CHECK_EQ(hello_read(str_make(wire.p, n), &h), HELLO_AGAIN);
    CHECK_EQ(hello_read(buf_str(&wire), &h), HELLO_TLS);
    CHECK_STR(h.name, "split.example");
}

TEST(hello, refuses_two_names_and_lengths_that_lie)
{
    AUTO_BUF(ext, 4096);
    AUTO_BUF(text, 20000);
    AUTO_BUF(wire, 30000);
    struct hello h;

    add_sni(&ext, STR("one.example"));
    add_sni(&ext, STR("two.example"));
    message(&text, buf_str(&ext));
    records(&wire, buf_str(&text), 16384);
    CHECK_EQ(hello_read(buf_str(&wire), &h), HELLO_BAD);
    wire.p[5] = 2; /* a ServerHello */
    CHECK_EQ(hello_read(buf_str(&wire), &h), HELLO_BAD);
    CHECK_EQ(hello_read(STR("\x16\x03\x01\x00\x00"), &h), HELLO_BAD); /* an empty record */
    CHECK_EQ(hello_read(STR("\x16\x03\x01\xff\xff"), &h), HELLO_BAD);
    CHECK_EQ(hello_read(STR("\x16\x03\x01\x00\x04\x01\x01\x00\x00"), &h), HELLO_BAD); /* 64 KiB */
}

TEST(hello, sees_alpn_and_ech)
{
    AUTO_BUF(ext, 4096);
    AUTO_BUF(text, 20000);
    AUTO_BUF(wire, 30000);
    struct hello h;

    add_sni(&ext, STR("h2.example"));
    add_ext(&ext, 16, STR("\x00\x03\x02h2"));
    add_ext(&ext, 0xfe0d, STR("\x00"));
    add_ext(&ext, 0xeaea, STR("grease"));
    message(&text, buf_str(&ext));
    records(&wire, buf_str(&text), 16384);
    CHECK_EQ(hello_read(buf_str(&wire), &h), HELLO_TLS);
    CHECK(h.has_ech && !h.has_http1);
}

TEST(hello, tells_http_from_other_protocols)
{
    struct hello h;

    CHECK_EQ(hello_read(STR(""), &h), HELLO_AGAIN);
    CHECK_EQ(hello_read(STR("GE"), &h), HELLO_AGAIN);
    CHECK_EQ(hello_read(STR("GET "), &h), HELLO_HTTP);
    CHECK_EQ(hello_read(STR("M-SEARCH * HTTP/1.1"), &h), HELLO_HTTP);
    CHECK_EQ(hello_read(STR("SSH-2.0-x"), &h), HELLO_OTHER);
    CHECK_EQ(hello_read(STR("\x80\x2e\x01"), &h), HELLO_OTHER);
    CHECK_EQ(hello_read(STR(" GET / HTTP/1.1"), &h), HELLO_OTHER);
    CHECK_EQ(hello_read(STR("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), &h), HELLO_OTHER);
}
