#include "execd/tree/gzip_store.h"

#include <string.h>

#include "test.h"

static uint32_t le32(const char *p)
{
    const uint8_t *u = (const uint8_t *)p;

    return u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

TEST(gzip_store, has_the_sum_and_the_length_at_the_end)
{
    AUTO_BUF(out, 1024);
    struct gzip_store g;

    CHECK_EQ(gzip_store_begin(&g, &out), 0);
    CHECK_EQ(gzip_store_add(&g, STR("1234"), &out), 0);
    CHECK_EQ(gzip_store_add(&g, STR("56789"), &out), 0);
    CHECK_EQ(gzip_store_end(&g, &out), 0);
    CHECK_EQ(out.n, 10 + 5 + 4 + 5 + 5 + 5 + 8);
    CHECK_EQ(le32(out.p + out.n - 8), 0xcbf43926); /* the check value of this CRC */
    CHECK_EQ(le32(out.p + out.n - 4), 9);
    CHECK_EQ(memcmp(out.p, "\x1f\x8b\x08", 3), 0);
    CHECK_EQ(memcmp(out.p + 10,
                    "\0\4\0\xfb\xff"
                    "1234",
                    9),
             0);
}

TEST(gzip_store, cuts_what_is_longer_than_a_block)
{
    enum { BYTES = 70000 };
    static char data[BYTES];
    AUTO_BUF(out, 2 * BYTES);
    struct gzip_store g;

    CHECK_EQ(gzip_store_begin(&g, &out), 0);
    CHECK_EQ(gzip_store_add(&g, str_make(data, sizeof(data)), &out), 0);
    CHECK_EQ(out.n, 10 + 5 + 65535 + 5 + (BYTES - 65535));
    CHECK_EQ(gzip_store_end(&g, &out), 0);
}

TEST(gzip_store, says_when_there_is_no_room)
{
    AUTO_BUF(out, 12);
    struct gzip_store g;

    CHECK_EQ(gzip_store_begin(&g, &out), 0);
    CHECK_EQ(gzip_store_add(&g, STR("x"), &out), -EMSGSIZE);
}
