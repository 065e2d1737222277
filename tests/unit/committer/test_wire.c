#include <errno.h>

#include "committer/wire.h"
#include "test.h"

static struct str get(struct str message, unsigned field)
{
    struct str s = STR_NONE;

    CHECK_EQ(wire_get_bytes(message, field, &s), 0);
    return s;
}

TEST(wire, writes_what_protobuf_has)
{
    AUTO_BUF(b, 1024);

    CHECK_EQ(wire_add_bytes(&b, 2, STR("testing")), 0);
    CHECK_SPAN(buf_str(&b), "\x12\x07testing"); /* an example of its documentation */
    buf_clear(&b);
    CHECK_EQ(wire_add_u64(&b, 1, 150), 0);
    CHECK_SPAN(buf_str(&b), "\x08\x96\x01"); /* another */
    buf_clear(&b);
    CHECK_EQ(wire_add_u64(&b, 1, 0), 0);
    CHECK_EQ(wire_add_bytes(&b, 1, STR("")), 0);
    CHECK_EQ(b.n, 0);
    CHECK_EQ(wire_add_pair(&b, 3, STR("k"), STR("v")), 0);
    CHECK_SPAN(buf_str(&b), "\x1a\x06\x0a\x01k\x12\x01v");
}

TEST(wire, adds_all_of_a_field_or_nothing)
{
    AUTO_BUF(b, 8);

    CHECK_EQ(wire_add_bytes(&b, 1, STR("123456789")), -EMSGSIZE);
    CHECK_EQ(b.n, 0);
    CHECK_EQ(wire_add_bytes(&b, 1, STR("123456")), 0);
    CHECK_EQ(wire_add_u64(&b, 1, 1), -EMSGSIZE);
    CHECK_EQ(b.n, 8);
}

TEST(wire, reads_back_what_it_wrote_beside_other_fields)
{
    AUTO_BUF(b, 1024);
    struct str value;
    uint64_t n;

    CHECK_EQ(wire_add_u64(&b, 3, UINT64_MAX), 0);
    CHECK_EQ(buf_add(&b, str_make("\x49"
                                  "12345678",
                                  9)),
             0); /* field 9, 64 bits */
    CHECK_EQ(buf_add(&b, str_make("\x55"
                                  "1234",
                                  5)),
             0); /* field 10, 32 bits */
    CHECK_EQ(wire_add_bytes(&b, 536870911, STR("far")), 0);
    CHECK_EQ(wire_add_pair(&b, 5, STR("a"), STR("1")), 0);
    CHECK_EQ(wire_add_pair(&b, 5, STR("b"), STR("2")), 0);
    CHECK_EQ(wire_add_bytes(&b, 1, STR("one")), 0);
    CHECK_EQ(wire_get_u64(buf_str(&b), 3, &n), 0);
    CHECK(n == UINT64_MAX);
    CHECK_SPAN(get(buf_str(&b), 536870911), "far");
    CHECK_SPAN(get(buf_str(&b), 1), "one");
    CHECK_SPAN(get(buf_str(&b), 2), "");
    CHECK_SPAN(get(buf_str(&b), 3), ""); /* a number */
    CHECK_EQ(wire_get_pair(buf_str(&b), 5, STR("b"), &value), 0);
    CHECK_SPAN(value, "2");
    CHECK_EQ(wire_get_pair(buf_str(&b), 5, STR("c"), &value), 0);
    CHECK_SPAN(value, "");
}

TEST(wire, refuses_what_is_no_message)
{
    static const struct str bad[] = {
        STR_INIT("\x0a"), /* no length */
        STR_INIT("\x0a\x05"
                 "1234"),                                         /* cut off */
        STR_INIT("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), /* more than 64 bits */
        STR_INIT("\x08\x80"),                                     /* a number without an end */
        STR_INIT("\x02\x01x"),                                    /* field 0 */
        STR_INIT("\x0b"),                                         /* a group */
        STR_INIT("\x0d"
                 "123"),
        STR_INIT("\x09"
                 "1234567"),
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct str s;
        uint64_t n;

        CHECK_EQ(wire_get_bytes(bad[i], 1, &s), -EBADMSG);
        CHECK_EQ(wire_get_u64(bad[i], 1, &n), -EBADMSG);
        CHECK_EQ(wire_get_pair(bad[i], 1, STR("k"), &s), -EBADMSG);
    }
}
