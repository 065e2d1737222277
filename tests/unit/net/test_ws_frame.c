#include "net/ws_frame.h"

#include "base/buf.h"
#include "base/mem.h"
#include "test.h"

enum { TRANSCRIPT_BYTES_MAX = 1 << 20 };

/* What a decoder told, as text that does not depend on how messages were cut into pieces. */
struct transcript {
    struct buf message, text;
    bool under_way, failed;
};

static void transcript_init(struct transcript *t)
{
    *t = (struct transcript){0};
    buf_init(&t->message, TRANSCRIPT_BYTES_MAX);
    buf_init(&t->text, TRANSCRIPT_BYTES_MAX);
}

static void transcript_done(struct transcript *t)
{
    buf_done(&t->message);
    buf_done(&t->text);
}

static void note_data(struct transcript *t, const struct ws_event *ev)
{
    CHECK_EQ(ev->first, !t->under_way);
    CHECK(ev->payload.n || ev->last);
    t->under_way = !ev->last;
    CHECK_EQ(buf_add(&t->message, ev->payload), 0);
    if (!ev->last)
        return;
    CHECK_EQ(buf_addf(&t->text, "%s(%.*s)", ev->opcode == WS_OP_TEXT ? "text" : "binary",
                      STR_ARG(buf_str(&t->message))),
             0);
    buf_clear(&t->message);
}

static void note_event(struct transcript *t, const struct ws_event *ev)
{
    static const char *const names[] = {[WS_PING] = "ping", [WS_PONG] = "pong"};

    switch (ev->type) {
    case WS_MORE:
        break;
    case WS_DATA:
        note_data(t, ev);
        break;
    case WS_PING:
    case WS_PONG:
        CHECK_EQ(buf_addf(&t->text, "%s(%.*s)", names[ev->type], STR_ARG(ev->payload)), 0);
        break;
    case WS_CLOSE:
        CHECK_EQ(buf_addf(&t->text, "close(%d %.*s)", ev->close_code, STR_ARG(ev->payload)), 0);
        break;
    case WS_ERROR:
        if (!t->failed)
            CHECK_EQ(buf_addf(&t->text, "error(%d)", ev->close_code), 0);
        t->failed = true;
        break;
    }
}

/* Feeds an exact-size heap copy, so that ASan sees a touch outside. */
static void feed(struct transcript *t, struct ws_decoder *d, struct str bytes)
{
    auto_free char *copy = mem_alloc(bytes.n ? bytes.n : 1);
    struct ws_event ev;
    size_t at = 0;

    memcpy(copy, bytes.p, bytes.n);
    do {
        at += ws_decode(d, copy + at, bytes.n - at, &ev);
        CHECK(at <= bytes.n);
        note_event(t, &ev);
    } while (ev.type != WS_MORE && ev.type != WS_ERROR);
    CHECK(ev.type == WS_ERROR || at == bytes.n);
}

static void check_transcript(enum ws_role role, uint64_t max, struct str a, struct str b,
                             struct str c, const char *want)
{
    struct transcript t;
    struct ws_decoder d;

    transcript_init(&t);
    ws_decoder_init(&d, role, max);
    feed(&t, &d, a);
    feed(&t, &d, b);
    feed(&t, &d, c);
    CHECK_STR(t.text.p, want);
    transcript_done(&t);
}

/* Whole, in every pair of pieces with one byte between them, and so byte by byte around each cut.
 */
static void check_decodes(enum ws_role role, uint64_t max, struct str bytes, const char *want)
{
    check_transcript(role, max, bytes, STR(""), STR(""), want);
    for (size_t i = 0; i < bytes.n; i++) {
        check_transcript(role, max, str_make(bytes.p, i), str_make(bytes.p + i, 1),
                         str_skip(bytes, i + 1), want);
    }
}

struct sample {
    struct str bytes;
    const char *want;
};

TEST(ws_frame, tells_messages_and_control_frames_apart)
{
    static const struct sample samples[] = {
        {STR_INIT("\x81\x05Hello"),                  "text(Hello)"         },
        {STR_INIT("\x82\x03\xff\x01\xfe"),           "binary(\xff\x01\xfe)"},
        {STR_INIT("\x81\x00"),                       "text()"              },
        {STR_INIT("\x82\x00\x82\x00"),               "binary()binary()"    },
        {STR_INIT("\x01\x03Hel\x80\x02lo"),          "text(Hello)"         },
        {STR_INIT("\x01\x00\x00\x00\x80\x00"),       "text()"              },
        {STR_INIT("\x01\x00\x00\x02Hi\x80\x00"),     "text(Hi)"            },
        {STR_INIT("\x02\x01"
                  "a\x00\x01"
                  "b\x80\x01"
                  "c\x81\x01"
                  "d"),
         "binary(abc)text(d)"                                              },
        {STR_INIT("\x89\x05Hello"),                  "ping(Hello)"         },
        {STR_INIT("\x8a\x00\x89\x00"),               "pong()ping()"        },
        {STR_INIT("\x01\x03Hel\x89\x01!\x80\x02lo"), "ping(!)text(Hello)"  },
        {STR_INIT("\x88\x00"),                       "close(1005 )"        },
        {STR_INIT("\x88\x02\x03\xe8"),               "close(1000 )"        },
        {STR_INIT("\x88\x07\x0f\xa0later"),          "close(4000 later)"   },
        {STR_INIT("\x88\x00\x81\x01x\xff\xff"),      "close(1005 )"        }, /* the rest is swallowed */
        {STR_INIT("\x01\x01x\x88\x02\x03\xe9"),      "close(1001 )"        },
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        check_decodes(WS_CLIENT, 0, samples[i].bytes, samples[i].want);
}

TEST(ws_frame, answers_protocol_errors_with_1002)
{
    static const struct sample samples[] = {
        {STR_INIT("\xc1\x00"),                     "error(1002)"       }, /* RSV1 */
        {STR_INIT("\xa1\x00"),                     "error(1002)"       }, /* RSV2 */
        {STR_INIT("\x91\x00"),                     "error(1002)"       }, /* RSV3 */
        {STR_INIT("\x83\x00"),                     "error(1002)"       }, /* reserved opcodes */
        {STR_INIT("\x87\x00"),                     "error(1002)"       }, /* ... */
        {STR_INIT("\x8b\x00"),                     "error(1002)"       }, /* ... */
        {STR_INIT("\x8f\x00"),                     "error(1002)"       }, /* ... */
        {STR_INIT("\x09\x00"),                     "error(1002)"       }, /* fragmented ping */
        {STR_INIT("\x08\x00"),                     "error(1002)"       }, /* fragmented close */
        {STR_INIT("\x89\x7e\x00\x7e"),             "error(1002)"       }, /* ping of 126 bytes */
        {STR_INIT("\x89\x7e\x00\x01x"),            "error(1002)"       }, /* long form of a short ping */
        {STR_INIT("\x80\x00"),                     "error(1002)"       }, /* continues nothing */
        {STR_INIT("\x81\x01x\x80\x01y"),           "text(x)error(1002)"},
        {STR_INIT("\x01\x01x\x81\x01y"),           "error(1002)"       }, /* message inside a message */
        {STR_INIT("\x01\x00\x02\x00"),             "error(1002)"       }, /* ... */
        {STR_INIT("\x81\x81zzzzx"),                "error(1002)"       }, /* masked, from a server */
        {STR_INIT("\x82\x7e\x00\x7dx"),            "error(1002)"       }, /* 125 in 16 bits */
        {STR_INIT("\x82\x7f\0\0\0\0\0\0\xff\xff"), "error(1002)"       },
        {STR_INIT("\x82\x7f\x80\0\0\0\0\0\0\0"),   "error(1002)"       }, /* top bit */
        {STR_INIT("\x88\x01\x03"),                 "error(1002)"       }, /* half a code */
        {STR_INIT("\x88\x02\x03\xec"),             "error(1002)"       }, /* 1004 */
        {STR_INIT("\x88\x02\x03\xed"),             "error(1002)"       }, /* 1005 */
        {STR_INIT("\x88\x02\x03\xf7"),             "error(1002)"       }, /* 1015 */
        {STR_INIT("\x88\x02\x00\x00"),             "error(1002)"       },
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        check_decodes(WS_CLIENT, 0, samples[i].bytes, samples[i].want);
    check_decodes(WS_SERVER, 0, STR("\x81\x01x"), "error(1002)"); /* unmasked, from a client */
}

TEST(ws_frame, knows_which_close_codes_may_travel)
{
    static const struct {
        uint16_t code;
        bool valid;
    } samples[] = {
        {0,     false},
        {999,   false},
        {1000,  true },
        {1003,  true },
        {1004,  false},
        {1005,  false},
        {1006,  false},
        {1007,  true },
        {1014,  true },
        {1015,  false},
        {1016,  false},
        {2999,  false},
        {3000,  true },
        {4999,  true },
        {5000,  false},
        {65535, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        CHECK_EQ(ws_close_code_is_valid(samples[i].code), samples[i].valid);
}

TEST(ws_frame, validates_text_across_fragments)
{
    static const struct sample samples[] = {
        {STR_INIT("\x81\x02\xc3\xa4"),                         "text(\xc3\xa4)"              },
        {STR_INIT("\x01\x01\xc3\x80\x01\xa4"),                 "text(\xc3\xa4)"              },
        {STR_INIT("\x01\x02\xf0\x9f\x89\x00\x80\x02\x98\x80"), "ping()text(\xf0\x9f\x98\x80)"},
        {STR_INIT("\x81\x04\xf4\x8f\xbf\xbf"),                 "text(\xf4\x8f\xbf\xbf)"      },
        {STR_INIT("\x81\x03\xed\x9f\xbf"),                     "text(\xed\x9f\xbf)"          },
        {STR_INIT("\x81\x0a"
                  "12345678\xc3\xa4"),
         "text(12345678\xc3\xa4)"                                                            },
        {STR_INIT("\x81\x01\xc3"),                             "error(1007)"                 }, /* ends inside a character */
        {STR_INIT("\x01\x01\xc3\x80\x00"),                     "error(1007)"                 }, /* ... by an empty last fragment */
        {STR_INIT("\x81\x01\x80"),                             "error(1007)"                 },
        {STR_INIT("\x81\x02\xc0\x80"),                         "error(1007)"                 }, /* overlong NUL */
        {STR_INIT("\x81\x03\xe0\x9f\xbf"),                     "error(1007)"                 }, /* overlong */
        {STR_INIT("\x81\x04\xf0\x8f\xbf\xbf"),                 "error(1007)"                 },
        {STR_INIT("\x81\x03\xed\xa0\x80"),                     "error(1007)"                 }, /* surrogate */
        {STR_INIT("\x81\x04\xf4\x90\x80\x80"),                 "error(1007)"                 }, /* past U+10FFFF */
        {STR_INIT("\x81\x01\xff"),                             "error(1007)"                 },
        {STR_INIT("\x81\x09"
                  "12345678\xff"),
         "error(1007)"                                                                       },
        {STR_INIT("\x88\x03\x03\xe8\xff"),                     "error(1007)"                 }, /* close reason */
        {STR_INIT("\x88\x03\x03\xe8\xc3"),                     "error(1007)"                 },
        {STR_INIT("\x82\x01\xff\x81\x01x"),                    "binary(\xff)text(x)"         }, /* binary is free */
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        check_decodes(WS_CLIENT, 0, samples[i].bytes, samples[i].want);
}

TEST(ws_frame, fails_at_the_first_byte_that_cannot_be_text)
{
    char bytes[] = "\x01\x7e\x10\x00 \xf4\x90";
    struct ws_decoder d;
    struct ws_event ev;

    ws_decoder_init(&d, WS_CLIENT, 0);
    CHECK_EQ(ws_decode(&d, bytes, 6, &ev), 6);
    CHECK_EQ(ev.type, WS_DATA);
    CHECK_EQ(ws_decode(&d, bytes + 6, 1, &ev), 1);
    CHECK_EQ(ev.type, WS_ERROR);
    CHECK_EQ(ev.close_code, WS_CLOSE_BAD_TEXT);
    CHECK_EQ(ws_decode(&d, bytes, 1, &ev), 1); /* and stays failed */
    CHECK_EQ(ev.type, WS_ERROR);
    CHECK_EQ(ev.close_code, WS_CLOSE_BAD_TEXT);
}

TEST(ws_frame, bounds_a_message_by_the_sum_of_its_fragments)
{
    check_decodes(WS_CLIENT, 4, STR("\x82\x04wxyz"), "binary(wxyz)");
    check_decodes(WS_CLIENT, 4, STR("\x82\x05"), "error(1009)");
    check_decodes(WS_CLIENT, 4,
                  STR("\x02\x03"
                      "abc\x80\x01"
                      "d\x82\x04wxyz"),
                  "binary(abcd)binary(wxyz)");
    check_decodes(WS_CLIENT, 4,
                  STR("\x02\x03"
                      "abc\x80\x02"),
                  "error(1009)");
    check_decodes(WS_CLIENT, 4, STR("\x89\x05hello"), "ping(hello)"); /* control is apart */
    check_decodes(WS_CLIENT, 0, STR("\x82\x7f\0\0\0\0\x01\0\0\x01"), "error(1009)");
    check_decodes(WS_CLIENT, UINT64_MAX, STR("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"), "");
}

TEST(ws_frame, unmasks_what_clients_send)
{
    check_decodes(WS_SERVER, 0, STR("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "text(Hello)");
    check_decodes(WS_SERVER, 0,
                  STR("\x01\x83\x37\xfa\x21\x3d\x7f\x9f\x4d"
                      "\x89\x81zzzz\x5b"
                      "\x80\x82\x01\x02\x03\x04\x6d\x6d"
                      "\x81\x80\x01\x02\x03\x04"),
                  "ping(!)text(Hello)text()");
}

TEST(ws_frame, masks_at_every_alignment_length_and_offset)
{
    static const uint8_t mask[4] = {0x11, 0x82, 0xf3, 0x04};
    char memory[64], want[64];

    for (size_t start = 0; start < 16; start++) {
        for (size_t n = 0; n < 40; n++) {
            for (size_t offset = 0; offset < 9; offset++) {
                for (size_t i = 0; i < sizeof(memory); i++) {
                    bool inside = i >= start && i < start + n;

                    memory[i] = (char)(i * 37);
                    want[i] = (char)(memory[i] ^ (inside ? mask[(i - start + offset) & 3] : 0));
                }
                ws_mask(memory + start, n, mask, offset);
                CHECK(memcmp(memory, want, sizeof(memory)) == 0);
            }
        }
    }
}

TEST(ws_frame, writes_the_shortest_header)
{
    static const uint8_t mask[4] = {1, 2, 3, 4};
    static const struct {
        uint64_t bytes;
        struct str want;
    } samples[] = {
        {0,         STR_INIT("\x82\x00")                                },
        {125,       STR_INIT("\x82\x7d")                                },
        {126,       STR_INIT("\x82\x7e\x00\x7e")                        },
        {65535,     STR_INIT("\x82\x7e\xff\xff")                        },
        {65536,     STR_INIT("\x82\x7f\0\0\0\0\0\x01\0\0")              },
        {INT64_MAX, STR_INIT("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff")},
    };
    char out[WS_HEADER_MAX];
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        n = ws_frame_header(out, WS_OP_BINARY, true, samples[i].bytes, NULL);
        CHECK(str_eq(str_make(out, n), samples[i].want));
    }
    n = ws_frame_header(out, WS_OP_TEXT, false, 5, mask);
    CHECK_SPAN(str_make(out, n), "\x01\x85\x01\x02\x03\x04");
    n = ws_frame_header(out, WS_OP_BINARY, true, 65536, mask);
    CHECK_EQ(n, WS_HEADER_MAX);
}

TEST(ws_frame, decodes_what_it_encodes_at_every_length_form)
{
    static const uint8_t mask[4] = {0xde, 0xad, 0xbe, 0xef};
    static const size_t lengths[] = {0, 1, 125, 126, 127, 65535, 65536, 70001};
    auto_free char *frame = mem_alloc(WS_HEADER_MAX + 70001);
    struct ws_decoder d;
    struct ws_event ev;

    for (size_t i = 0; i < ARRAY_LEN(lengths) * 2; i++) {
        size_t n = lengths[i / 2];
        bool masked = i & 1;
        size_t head = ws_frame_header(frame, WS_OP_BINARY, true, n, masked ? mask : NULL);

        for (size_t k = 0; k < n; k++)
            frame[head + k] = (char)(k * 31);
        if (masked)
            ws_mask(frame + head, n, mask, 0);
        ws_decoder_init(&d, masked ? WS_SERVER : WS_CLIENT, 0);
        CHECK_EQ(ws_decode(&d, frame, head + n, &ev), head + n);
        CHECK_EQ(ev.type, WS_DATA);
        CHECK(ev.first && ev.last);
        CHECK_EQ(ev.payload.n, n);
        for (size_t k = 0; k < n; k++)
            CHECK_EQ(ev.payload.p[k], (char)(k * 31));
    }
}

TEST(ws_frame, accepts_keys_of_sixteen_bytes_in_base64)
{
    CHECK(ws_key_is_valid(STR("dGhlIHNhbXBsZSBub25jZQ==")));
    CHECK(ws_key_is_valid(STR("+/+/+/+/+/+/+/+/+/+/+w==")));
    CHECK(ws_key_is_valid(STR("dGhlIHNhbXBsZSBub25jZR=="))); /* spare bits set */
    CHECK(!ws_key_is_valid(STR("")));
    CHECK(!ws_key_is_valid(STR("dGhlIHNhbXBsZSBub25jZQ=")));
    CHECK(!ws_key_is_valid(STR("dGhlIHNhbXBsZSBub25jZQA=")));  /* 17 bytes */
    CHECK(!ws_key_is_valid(STR("dGhlIHNhbXBsZSBub25jZQAA")));  /* 18 */
    CHECK(!ws_key_is_valid(STR("dGhlIHNhbXBsZSBub25jZ===")));  /* 15 and a half */
    CHECK(!ws_key_is_valid(STR("dGhlIHNhbXBsZSBub25j-_==")));  /* the other alphabet */
    CHECK(!ws_key_is_valid(STR("dGhlIHNhbXBsZSBub25jZQ== "))); /* untrimmed */
}

TEST(ws_frame, answers_the_key_of_the_rfc)
{
    char accept[WS_ACCEPT_SIZE];

    ws_accept_key(STR("dGhlIHNhbXBsZSBub25jZQ=="), accept);
    CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}
