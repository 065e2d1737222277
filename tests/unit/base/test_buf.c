#include "base/buf.h"

#include "base/fault.h"
#include "base/mem.h"
#include "test.h"

TEST(buf, is_an_empty_string_before_anything_was_added)
{
    AUTO_BUF(b, 4);

    CHECK_STR(b.p, "");
    buf_clear(&b);
    buf_drop_front(&b, 0);
    CHECK_EQ(buf_add(&b, STR("")), 0);
    CHECK_STR(b.p, "");
}

TEST(buf, refuses_to_grow_past_its_ceiling)
{
    AUTO_BUF(b, 4);

    CHECK_EQ(buf_add(&b, STR("abcd")), 0);
    CHECK_EQ(buf_add(&b, STR("e")), -EMSGSIZE);
    CHECK_EQ(buf_addf(&b, "%d", 7), -EMSGSIZE);
    CHECK_STR(b.p, "abcd"); /* and what was there is intact */
}

TEST(buf, may_have_no_ceiling_at_all)
{
    AUTO_BUF(b, SIZE_MAX);

    CHECK_EQ(buf_add(&b, STR("abcd")), 0);
    CHECK(b.cap > 4);
    CHECK_STR(b.p, "abcd");
    CHECK_EQ(buf_reserve(&b, SIZE_MAX), -EMSGSIZE);
    CHECK_EQ(buf_reserve(&b, SIZE_MAX - 4), -EMSGSIZE); /* no room for the NUL */
    CHECK_STR(b.p, "abcd");
}

TEST(buf, keeps_its_content_when_memory_is_out)
{
    AUTO_BUF(b, 4096);

    CHECK_EQ(buf_add(&b, STR("abcd")), 0);
    fault_arm(FAULT_ALLOC, 1);
    CHECK_EQ(buf_reserve(&b, 1000), -ENOMEM);
    CHECK_STR(b.p, "abcd");
    CHECK_EQ(buf_reserve(&b, 1000), 0);
    CHECK_STR(b.p, "abcd");
}

TEST(buf, formats_drops_and_cuts)
{
    AUTO_BUF(b, 4096);

    CHECK_EQ(buf_addf(&b, "%s-%d", "abc", 42), 0);
    buf_drop_front(&b, 2);
    CHECK_STR(b.p, "c-42");
    buf_cut(&b, 1);
    CHECK_STR(b.p, "c");
    CHECK_EQ(b.n, 1);
}

TEST(buf, gives_its_memory_away)
{
    AUTO_BUF(b, 64);
    auto_free char *empty = buf_take(&b);
    auto_free char *full = NULL;

    CHECK_STR(empty, "");
    CHECK_EQ(buf_add_char(&b, 'x'), 0);
    full = buf_take(&b);
    CHECK_STR(full, "x");
    CHECK_EQ(b.n, 0);
}

TEST(buf, may_have_no_ceiling_but_memory)
{
    AUTO_BUF(b, SIZE_MAX);

    CHECK_EQ(buf_add(&b, STR("abc")), 0);
    CHECK_EQ(buf_add(&b, STR("def")), 0);
    CHECK_STR(b.p, "abcdef");
}

TEST(buf, keeps_the_content_of_a_secret_while_it_grows)
{
    AUTO_BUF(b, 1 << 20);

    buf_keep_secret(&b);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(buf_addf(&b, "%04d", i), 0);
    CHECK_EQ(b.n, 4000);
    CHECK(memcmp(b.p, "00000001", 8) == 0 && memcmp(b.p + 3996, "0999", 4) == 0);
    buf_done(&b);
    CHECK_EQ(b.cap, 0);
}
