#include "base/buf.h"
#include "image/digest.h"
#include "test.h"

#define ABC "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

TEST(digest, takes_the_one_form)
{
    struct image_digest d;

    CHECK_EQ(image_digest_parse(STR(ABC), &d, NULL), 0);
    CHECK_STR(d.text, ABC);
    CHECK_STR(image_digest_hex(&d), ABC + 7);
}

TEST(digest, refuses_every_other_form)
{
    static const struct {
        const char *text;
        int code;
        const char *says;
    } rows[] = {
        {"",                                                                        EINVAL,  "is not a digest"},
        {"sha256",                                                                  EINVAL,  "is not a digest"},
        {":abc",                                                                    EINVAL,  "is not a digest"},
        {"sha256:",                                                                 EINVAL,  "64 hexadecimal" },
        {"sha256:abc",                                                              EINVAL,  "64 hexadecimal" },
        {ABC "0",                                                                   EINVAL,  "64 hexadecimal" },
        {"sha512:00",                                                               EINVAL,  "128 hexa"       },
        {"md5:00",                                                                  ENOTSUP, "neither sha256" },
        {"SHA256:ba7816bf",                                                         ENOTSUP, "neither sha256" },
        {"sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", EINVAL,
         "lower case"                                                                                         },
        {"sha256:../../../../../../../../../../../../../../../../../etc/passwd0",   EINVAL,
         "64 hexadecimal"                                                                                     },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct image_digest d = {"kept"};
        struct err e = {0};

        CHECK_EQ(image_digest_parse(str_of(rows[i].text), &d, &e), -rows[i].code);
        CHECK(strstr(e.msg, rows[i].says) != NULL);
        CHECK_STR(d.text, "kept");
    }
    CHECK_EQ(image_digest_parse(STR_NONE, &(struct image_digest){""}, NULL), -EINVAL);
}

TEST(digest, checks_bytes_that_come_in_pieces)
{
    struct image_digest want, other;
    struct image_hash h;
    struct err e = {0};

    CHECK_EQ(image_digest_parse(STR(ABC), &want, NULL), 0);
    image_hash_init(&h);
    image_hash_add(&h, STR("a"));
    image_hash_add(&h, STR("bc"));
    CHECK_EQ(h.bytes, 3);
    CHECK_EQ(image_hash_check(&h, &want, &e), 0);
    image_digest_of(STR("abd"), &other);
    image_hash_init(&h);
    image_hash_add(&h, STR("abd"));
    CHECK_EQ(image_hash_check(&h, &want, &e), -EBADMSG);
    CHECK(strstr(e.msg, "3 bytes") && strstr(e.msg, "ba7816bf") != NULL);
}

#define ABC_512                                                                                    \
    "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"                      \
    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"

TEST(digest, of_sha512_is_read_and_checked)
{
    struct image_digest want, got;
    char path[IMAGE_BLOB_PATH_MAX];
    struct image_hash h;
    struct err e = {0};

    CHECK_EQ(image_digest_parse(STR(ABC_512), &want, NULL), 0);
    CHECK(image_digest_is_sha512(&want));
    CHECK_STR(image_digest_hex(&want), ABC_512 + 7);
    image_digest_path(&want, path);
    CHECK(strncmp(path, "blobs/sha512/ddaf35a1", 21) == 0);
    image_hash_init_for(&h, &want);
    image_hash_add(&h, STR("a"));
    image_hash_add(&h, STR("bc"));
    CHECK_EQ(image_hash_check(&h, &want, &e), 0);
    image_hash_init_for(&h, &want);
    image_hash_add(&h, STR("abd"));
    CHECK_EQ(image_hash_check(&h, &want, &e), -EBADMSG);
    image_hash_init_for(&h, NULL);
    image_hash_add(&h, STR("abc"));
    image_hash_end(&h, &got);
    CHECK_STR(got.text, ABC);
    image_digest_path(&got, path);
    CHECK(strncmp(path, "blobs/sha256/ba7816bf", 21) == 0);
    CHECK_EQ(image_digest_parse(STR("sha512:"
                                    "ba7816bf8f01cfea414140de5dae2223"),
                                &want, NULL),
             -EINVAL);
}
