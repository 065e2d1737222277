#include "net/aead.h"

#include <errno.h>

#include "test.h"

static const unsigned char one[AEAD_KEY_BYTES] = "0123456789abcdef0123456789abcde";
static const unsigned char two[AEAD_KEY_BYTES] = "another key";

TEST(aead, opens_what_it_closed)
{
    static char large[3 << 20];
    const struct str texts[] = {
        STR_INIT(""), STR_INIT("x"), STR_INIT("a secret"), {large, sizeof(large)}
    };

    memset(large, 'y', sizeof(large));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        AUTO_BUF(sealed, 4 << 20);
        AUTO_BUF(text, 4 << 20);

        CHECK_EQ(buf_add(&text, STR("before ")), 0);
        CHECK_EQ(aead_close(one, STR("label"), texts[i], &sealed), 0);
        CHECK_EQ(sealed.n, texts[i].n + AEAD_EXTRA_BYTES);
        CHECK(texts[i].n < 8 || str_find_str(buf_str(&sealed), texts[i]) == sealed.n);
        CHECK_EQ(aead_open(one, STR("label"), buf_str(&sealed), &text), 0);
        CHECK(str_eq(str_skip(buf_str(&text), 7), texts[i]));
        CHECK_EQ(text.p[text.n], '\0');
    }
}

TEST(aead, refuses_another_key_label_or_byte)
{
    AUTO_BUF(sealed, 1024);
    AUTO_BUF(text, 1024);

    CHECK_EQ(aead_close(one, STR("label"), STR("a secret"), &sealed), 0);
    CHECK_EQ(aead_open(two, STR("label"), buf_str(&sealed), &text), -EBADMSG);
    CHECK_EQ(aead_open(one, STR("labem"), buf_str(&sealed), &text), -EBADMSG);
    for (size_t i = 0; i < sealed.n; i++) {
        sealed.p[i] ^= 1;
        CHECK_EQ(aead_open(one, STR("label"), buf_str(&sealed), &text), -EBADMSG);
        CHECK_EQ(aead_open(one, STR("label"), str_make(sealed.p, i), &text), -EBADMSG);
        sealed.p[i] ^= 1;
    }
    CHECK_EQ(text.n, 0);
    CHECK_EQ(aead_open(one, STR("label"), buf_str(&sealed), &text), 0);
}

TEST(aead, says_nothing_twice)
{
    AUTO_BUF(a, 1024);
    AUTO_BUF(b, 1024);

    CHECK_EQ(aead_close(one, STR(""), STR("a secret"), &a), 0);
    CHECK_EQ(aead_close(one, STR(""), STR("a secret"), &b), 0);
    CHECK(!str_eq(buf_str(&a), buf_str(&b)));
}

/* HMAC-SHA-256, as Python's hmac computes it. */
TEST(aead, derives_a_key_for_each_purpose)
{
    unsigned char a[AEAD_KEY_BYTES], b[AEAD_KEY_BYTES];
    static const unsigned char want[] = {0xd0, 0x7e, 0xbb, 0x79, 0x31, 0xfc, 0x63, 0x65};

    CHECK_EQ(aead_derive(one, STR("vaults"), a), 0);
    CHECK_EQ(memcmp(a, want, sizeof(want)), 0);
    CHECK_EQ(aead_derive(one, STR("pools"), b), 0);
    CHECK(memcmp(a, b, sizeof(a)) != 0);
}
