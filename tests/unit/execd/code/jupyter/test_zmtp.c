#include "execd/code/jupyter/zmtp.h"

#include "base/mem.h"
#include "test.h"

/* ZMTP 3.0: signature, version, mechanism, not a server, filler. */
static const char greeting[ZMTP_GREETING_BYTES] = "\xff\0\0\0\0\0\0\0\0\x7f\3\0NULL";

struct read {
    struct zmtp_reader r;
    struct err e;
};

static struct read greeted(size_t message_bytes_max)
{
    struct read t = {0};
    struct str in = str_make(greeting, sizeof(greeting));
    enum zmtp_event event;

    zmtp_reader_init(&t.r, message_bytes_max);
    CHECK_EQ(zmtp_read(&t.r, &in, &event, &t.e), 0);
    CHECK_EQ(event, ZMTP_EVENT_GREETING);
    CHECK_EQ(in.n, 0);
    return t;
}

static enum zmtp_event next(struct read *t, struct str *in)
{
    enum zmtp_event event;

    CHECK_EQ(zmtp_read(&t->r, in, &event, &t->e), 0);
    return event;
}

TEST(zmtp, greets_with_the_bytes_of_the_specification)
{
    AUTO_BUF(out, 1024);

    CHECK_EQ(zmtp_write_greeting(&out), 0);
    CHECK(str_eq(buf_str(&out), str_make(greeting, sizeof(greeting))));
}

TEST(zmtp, says_ready_with_type_and_identity)
{
    AUTO_BUF(out, 1024);

    CHECK_EQ(zmtp_write_ready(&out, STR("DEALER"), STR("me")), 0);
    CHECK_SPAN(buf_str(&out), "\4\53\5READY"
                              "\13Socket-Type\0\0\0\6DEALER"
                              "\10Identity\0\0\0\2me");
}

TEST(zmtp, writes_short_and_long_frames)
{
    AUTO_BUF(out, 1024);
    char body[256];

    memset(body, 'x', sizeof(body));
    CHECK_EQ(zmtp_write_frame(&out, STR("ab"), true), 0);
    CHECK_SPAN(buf_str(&out), "\1\2ab");
    buf_clear(&out);
    CHECK_EQ(zmtp_write_frame(&out, str_make(body, 255), false), 0);
    CHECK_SPAN(str_make(out.p, 2), "\0\377");
    CHECK_EQ(out.n, 257);
    buf_clear(&out);
    CHECK_EQ(zmtp_write_frame(&out, str_make(body, 256), false), 0);
    CHECK_SPAN(str_make(out.p, 9), "\2\0\0\0\0\0\0\1\0");
    CHECK_EQ(out.n, 265);
}

TEST(zmtp, leaves_the_buffer_as_it_was_when_a_frame_does_not_fit)
{
    AUTO_BUF(out, 5);

    CHECK_EQ(zmtp_write_frame(&out, STR("a"), false), 0);
    CHECK_EQ(zmtp_write_frame(&out, STR("b"), false), -EMSGSIZE);
    CHECK_SPAN(buf_str(&out), "\0\1a");
}

TEST(zmtp, reads_a_message_that_comes_byte_by_byte)
{
    struct read t = greeted(0);
    struct str wire = STR("\1\1a\1\0\2\0\0\0\0\0\0\0\2bc\0\1d");
    size_t messages = 0;

    while (wire.n > 0) {
        struct str byte = str_make(wire.p, 1);
        enum zmtp_event event = next(&t, &byte);

        wire = str_skip(wire, 1);
        if (event != ZMTP_EVENT_MESSAGE)
            continue;
        if (messages++ == 0) {
            CHECK_EQ(t.r.frame_count, 3);
            CHECK_SPAN(t.r.frames[0], "a");
            CHECK_SPAN(t.r.frames[1], "");
            CHECK_SPAN(t.r.frames[2], "bc");
            CHECK_EQ(wire.n, 3);
        } else {
            CHECK_EQ(t.r.frame_count, 1);
            CHECK_SPAN(t.r.frames[0], "d");
        }
    }
    CHECK_EQ(messages, 2);
    zmtp_reader_done(&t.r);
}

TEST(zmtp, finds_the_properties_of_ready)
{
    struct read t = greeted(0);
    struct str in = STR("\4\34\5READY\13Socket-Type\0\0\0\6ROUTER"), value;

    CHECK_EQ(next(&t, &in), ZMTP_EVENT_COMMAND);
    CHECK_SPAN(t.r.name, "READY");
    CHECK_EQ(zmtp_property(t.r.data, STR("socket-type"), &value), 0);
    CHECK_SPAN(value, "ROUTER");
    CHECK_EQ(zmtp_property(t.r.data, STR("Identity"), &value), -ENOENT);
    CHECK_EQ(zmtp_property(STR("\1a\0\0\0\5b"), STR("a"), &value), -EPROTO);
    zmtp_reader_done(&t.r);
}

TEST(zmtp, answers_a_ping_with_its_context)
{
    AUTO_BUF(out, 64);

    CHECK_EQ(zmtp_write_pong(&out, STR("\0\12context")), 0);
    CHECK_SPAN(buf_str(&out), "\4\14\4PONGcontext");
}

TEST(zmtp, takes_a_command_between_the_frames_of_a_message)
{
    struct read t = greeted(0);
    struct str in = STR("\1\1a\4\7\4PING\0\0\0\1b");

    CHECK_EQ(next(&t, &in), ZMTP_EVENT_COMMAND);
    CHECK_EQ(next(&t, &in), ZMTP_EVENT_MESSAGE);
    CHECK_EQ(t.r.frame_count, 2);
    CHECK_SPAN(t.r.frames[0], "a");
    CHECK_SPAN(t.r.frames[1], "b");
    zmtp_reader_done(&t.r);
}

TEST(zmtp, cuts_a_message_past_its_ceiling_and_reads_on)
{
    struct read t = greeted(4);
    struct str in = STR("\1\2ab\1\3cde\0\1f\0\1g");

    CHECK_EQ(next(&t, &in), ZMTP_EVENT_MESSAGE);
    CHECK(t.r.cut);
    CHECK_EQ(t.r.frame_count, 1); /* "f" would fit, but is not the second */
    CHECK_SPAN(t.r.frames[0], "ab");
    CHECK_EQ(t.r.message_bytes, 6);
    CHECK_EQ(next(&t, &in), ZMTP_EVENT_MESSAGE);
    CHECK(!t.r.cut);
    CHECK_SPAN(t.r.frames[0], "g");
    zmtp_reader_done(&t.r);
}

TEST(zmtp, takes_no_memory_for_bytes_that_were_only_announced)
{
    struct read t = greeted(0);
    struct str in = STR("\2\0\0\0\0\1\377\0\0ab");

    CHECK_EQ(next(&t, &in), ZMTP_EVENT_NONE);
    CHECK(t.r.message.cap < 4096);
    zmtp_reader_done(&t.r);
}

TEST(zmtp, gives_memory_back_after_a_large_message)
{
    struct read t = greeted(0);
    AUTO_BUF(wire, 1 << 20);
    auto_free char *body = mem_zalloc(100000);
    struct str in;

    CHECK_EQ(zmtp_write_frame(&wire, str_make(body, 100000), false), 0);
    in = buf_str(&wire);
    CHECK_EQ(next(&t, &in), ZMTP_EVENT_MESSAGE);
    CHECK_EQ(t.r.frames[0].n, 100000);
    zmtp_reader_release(&t.r);
    CHECK_EQ(t.r.message.cap, 0);
    zmtp_reader_done(&t.r);
}

TEST(zmtp, refuses_what_it_does_not_speak)
{
    static const struct {
        struct str wire;
        bool greeted;
    } rows[] = {
        {STR_INIT("HTTP/1.1 400"),                       false},
        {STR_INIT("\xff\0\0\0\0\0\0\0\0\x7e"),           false},
        {STR_INIT("\xff\0\0\0\0\0\0\0\0\x7f\1"),         false},
        {STR_INIT("\x08\1a"),                            true }, /* an unknown flag */
        {STR_INIT("\5\1a"),                              true }, /* a command in pieces */
        {STR_INIT("\4\0"),                               true }, /* without a name */
        {STR_INIT("\4\2\5a"),                            true }, /* name past its end */
        {STR_INIT("\6\0\0\0\0\0\1\0\0"),                 true }, /* 64 KiB of command */
        {STR_INIT("\2\377\377\377\377\377\377\377\377"), true },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct read t = {0};
        struct str in = rows[i].wire;
        enum zmtp_event event;

        zmtp_reader_init(&t.r, 0);
        if (rows[i].greeted)
            t = greeted(0);
        CHECK_EQ(zmtp_read(&t.r, &in, &event, &t.e), -EPROTO);
        CHECK(t.e.msg[0]);
        zmtp_reader_done(&t.r);
    }
}

TEST(zmtp, refuses_a_peer_that_wants_encryption)
{
    struct zmtp_reader r;
    char wire[ZMTP_GREETING_BYTES];
    struct str in;
    enum zmtp_event event;

    memcpy(wire, greeting, sizeof(wire));
    memcpy(wire + 12, "CURVE", 5);
    in = str_make(wire, sizeof(wire));
    zmtp_reader_init(&r, 0);
    CHECK_EQ(zmtp_read(&r, &in, &event, NULL), -EPROTO);
}
