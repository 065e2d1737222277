#include "base/id.h"

#include "test.h"

TEST(id, fills_with_bytes_that_differ_each_time)
{
    uint8_t a[1000] = {0}, b[1000] = {0};
    size_t zeros = 0;

    id_random_bytes(a, sizeof(a));
    id_random_bytes(b, sizeof(b));
    CHECK(memcmp(a, b, sizeof(a)) != 0);
    for (size_t i = 0; i < sizeof(a); i++)
        zeros += a[i] == 0;
    CHECK(zeros < 40); /* four are expected; the whole array was filled */
}

TEST(id, makes_uuids_of_version_4)
{
    char a[ID_UUID_MAX], b[ID_UUID_MAX];

    for (int round = 0; round < 100; round++) {
        id_uuid(a);
        id_uuid(b);
        CHECK_EQ(strlen(a), 36);
        CHECK(strcmp(a, b) != 0);
        for (size_t i = 0; i < 36; i++)
            CHECK(i == 8 || i == 13 || i == 18 || i == 23 ? a[i] == '-'
                                                          : ascii_hex_value(a[i]) >= 0);
        CHECK_EQ(a[14], '4');
        CHECK(strchr("89ab", a[19]));
    }
}

TEST(id, spreads_short_ids_evenly_over_all_36_digits)
{
    enum { ROUNDS = 2000, LEN = ID_SHORT_LEN_MAX };
    const double expected = (double)ROUNDS * LEN / 36;
    size_t seen[128] = {0};
    double chi = 0;
    char id[LEN + 1];

    for (int round = 0; round < ROUNDS; round++) {
        id_short(id, LEN);
        CHECK_EQ(strlen(id), LEN);
        for (size_t i = 0; i < LEN; i++)
            seen[(unsigned char)id[i] & 127]++;
    }
    for (const char *c = "0123456789abcdefghijklmnopqrstuvwxyz"; *c; c++) {
        double off = (double)seen[(int)*c] - expected;

        chi += off * off / expected;
        seen[(int)*c] = 0;
    }
    for (int c = 0; c < 128; c++)
        CHECK_EQ(seen[c], 0); /* nothing but those digits */
    /* 35 degrees of freedom: 110 has a chance below 1e-9, plain modulo would give about 390. */
    CHECK(chi < 110);
}

TEST(id, writes_exactly_the_length_asked_for)
{
    char id[4] = "xxx";

    id_short(id, 0);
    CHECK_STR(id, "");
    id_short(id, 2);
    CHECK_EQ(strlen(id), 2);
    CHECK_EQ(id[3], '\0');
}

TEST(id, makes_request_ids_that_are_uuids_without_dashes)
{
    for (int round = 0; round < 100; round++) {
        char a[ID_REQUEST_MAX], b[ID_REQUEST_MAX];

        id_request(a);
        id_request(b);
        CHECK_EQ(strspn(a, "0123456789abcdef"), 32);
        CHECK_EQ(a[32], '\0');
        CHECK(strcmp(a, b) != 0);
        CHECK_EQ(a[12], '4');
        CHECK(strchr("89ab", a[16]));
    }
}

TEST(id, makes_tokens_of_32_url_safe_characters)
{
    char a[ID_TOKEN_MAX], b[ID_TOKEN_MAX];

    id_token(a);
    id_token(b);
    CHECK_EQ(strspn(a, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 32);
    CHECK_EQ(a[32], '\0');
    CHECK(strcmp(a, b) != 0);
}
