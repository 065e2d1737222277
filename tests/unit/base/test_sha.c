#include "base/sha.h"

#include "test.h"

static const char *hex(const uint8_t *bytes, size_t n)
{
    static char text[2 * SHA256_BYTES + 1];

    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

static const char *sha256_hex(struct str data)
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(data, digest);
    return hex(digest, sizeof(digest));
}

static const char *sha1_hex(struct str data)
{
    uint8_t digest[SHA1_BYTES];

    sha1_of(data, digest);
    return hex(digest, sizeof(digest));
}

static const char *hmac_hex(struct str key, struct str data)
{
    uint8_t mac[SHA256_BYTES];

    hmac_sha256_of(key, data, mac);
    return hex(mac, sizeof(mac));
}

static struct str repeat(char *room, char c, size_t n)
{
    memset(room, c, n);
    return str_make(room, n);
}

TEST(sha, answers_the_nist_vectors_of_sha256)
{
    CHECK_STR(sha256_hex(STR_NONE),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_STR(sha256_hex(STR("abc")),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_STR(sha256_hex(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK_STR(sha256_hex(STR("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                             "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu")),
              "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

TEST(sha, pads_right_around_the_block_length)
{
    static const struct {
        size_t n;
        const char *sha256, *sha1;
    } rows[] = {
        {55,  "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072",
         "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},
        {56,  "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e",
         "901305367c259952f4e7af8323f480d59f81335b"},
        {63,  "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2",
         "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},
        {64,  "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c",
         "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},
        {65,  "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9",
         "78c741ddc482e4cdf8c474a0876347a0905b6233"},
        {119, "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c",
         "4300320394f7ee239bcdce7d3b8bcee173a0cd5c"},
        {120, "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98",
         "ceb2821639c4b6dcb10bce0e522ca2e608ce056d"},
    };
    char room[128];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_STR(sha256_hex(repeat(room, 'x', rows[i].n)), rows[i].sha256);
        CHECK_STR(sha1_hex(repeat(room, 'x', rows[i].n)), rows[i].sha1);
    }
}

TEST(sha, is_the_same_in_pieces_of_any_size)
{
    static char million[1000000];
    uint8_t digest[SHA256_BYTES];

    repeat(million, 'a', sizeof(million));
    for (size_t piece = 1; piece <= sizeof(million); piece = piece * 3 + 1) {
        struct sha256 s;

        sha256_init(&s);
        for (size_t at = 0; at < sizeof(million); at += piece)
            sha256_add(&s, str_make(million + at, min_size(piece, sizeof(million) - at)));
        sha256_end(&s, digest);
        CHECK_STR(hex(digest, sizeof(digest)),
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

TEST(sha, answers_the_hmac_vectors_of_rfc_4231)
{
    char key[131], data[50];
    char counting[25];

    for (int i = 0; i < 25; i++)
        counting[i] = (char)(i + 1);
    CHECK_STR(hmac_hex(repeat(key, 0x0b, 20), STR("Hi There")),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    CHECK_STR(hmac_hex(STR("Jefe"), STR("what do ya want for nothing?")),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    CHECK_STR(hmac_hex(repeat(key, (char)0xaa, 20), repeat(data, (char)0xdd, 50)),
              "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    CHECK_STR(hmac_hex(str_make(counting, 25), repeat(data, (char)0xcd, 50)),
              "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    CHECK_STR(hmac_hex(repeat(key, (char)0xaa, 131),
                       STR("Test Using Larger Than Block-Size Key - Hash Key First")),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    CHECK_STR(hmac_hex(repeat(key, (char)0xaa, 131),
                       STR("This is a test using a larger than block-size key and a larger than "
                           "block-size data. The key needs to be hashed before being used by the "
                           "HMAC algorithm.")),
              "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(sha, answers_the_nist_vectors_of_sha1)
{
    CHECK_STR(sha1_hex(STR_NONE), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    CHECK_STR(sha1_hex(STR("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
    CHECK_STR(sha1_hex(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    /* The handshake of RFC 6455, 1.3. */
    CHECK_STR(sha1_hex(STR("dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11")),
              "b37a4f2cc0624f1690f64606cf385945b2bec4ea");
}

static const char *sha512_hex(struct str data, size_t piece)
{
    static char text[2 * SHA512_BYTES + 1];
    uint8_t digest[SHA512_BYTES];
    struct sha512 s;

    sha512_init(&s);
    for (size_t at = 0; at < data.n; at += piece)
        sha512_add(&s, str_make(data.p + at, min_size(piece, data.n - at)));
    sha512_end(&s, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

TEST(sha, answers_vectors_of_sha512_in_pieces_of_any_length)
{
    static const struct {
        size_t n;
        const char *sha512;
    } rows[] = {
        {0,    "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
            "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"      },
        {3,    "d6f644b19812e97b5d871658d6d3400ecd4787faeb9b8990c1e7608288664be7"
            "7257104a58d033bcf1a0e0945ff06468ebe53e2dff36e248424c7273117dac09"      },
        {111,  "fa9121c7b32b9e01733d034cfc78cbf67f926c7ed83e82200ef8681819692176"
              "0b4beff48404df811b953828274461673c68d04e297b0eb7b2b4d60fc6b566a2"  },
        {112,  "c01d080efd492776a1c43bd23dd99d0a2e626d481e16782e75d54c2503b5dc32"
              "bd05f0f1ba33e568b88fd2d970929b719ecbb152f58f130a407c8830604b70ca"  },
        {113,  "55ddd8ac210a6e18ba1ee055af84c966e0dbff091c43580ae1be703bdb85da31"
              "acf6948cf5bd90c55a20e5450f22fb89bd8d0085e39f85a86cc46abbca75e24d"  },
        {127,  "828613968b501dc00a97e08c73b118aa8876c26b8aac93df128502ab360f91ba"
              "b50a51e088769a5c1eff4782ace147dce3642554199876374291f5d921629502"  },
        {128,  "b73d1929aa615934e61a871596b3f3b33359f42b8175602e89f7e06e5f658a24"
              "3667807ed300314b95cacdd579f3e33abdfbe351909519a846d465c59582f321"  },
        {129,  "4f681e0bd53cda4b5a2041cc8a06f2eabde44fb16c951fbd5b87702f07aeab61"
              "1565b19c47fde30587177ebb852e3971bbd8d3fd30da18d71037dfbd98420429"  },
        {239,  "52c853cb8d907f3d4d6b889beb027985d7c273486d75f8baf26f80d24e90c74c"
              "6c3de3e22131582380a7d14d43f2941a31385439cd6ddc469f628015e50bf286"  },
        {240,  "4c296d90c61052a62ffb1dd196f1b7b09373b1f93e71836baebf89690546b759"
              "5684dbe9467a8e484fa0d1094272b4344a7c24f5fee8daedeb0bf549c985ab5f"  },
        {256,  "6a9169eb662f136d87374070e8828b3e615a7eca32a89446e9225b02832709be"
              "095e635c824a2bb70213ba2ea0ababac0809827843992c851903b7ac0c136699"  },
        {1000, "67ba5535a46e3f86dbfbed8cbbaf0125c76ed549ff8b0b9e03e0c88cf90fa634"
               "fa7b12b47d77b694de488ace8d9a65967dc96df599727d3292a8d9d447709c97"},
    };
    static const size_t pieces[] = {1, 7, 128, 300, 1000};
    char room[1000];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t k = 0; k < ARRAY_LEN(pieces); k++)
            CHECK_STR(sha512_hex(repeat(room, 'a', rows[i].n), pieces[k]), rows[i].sha512);
    CHECK_STR(sha512_hex(STR("abc"), 3),
              "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
              "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
}
