#include "execd/pty/pty_frames.h"

#include <signal.h>

#include "test.h"

static struct arena arena; /* a test is a process of its own */

static struct pty_frame frame_of(const char *text)
{
    struct pty_frame f;

    arena_init(&arena, 1 << 20);
    pty_frame_read(str_of(text), &arena, &f);
    return f;
}

TEST(pty_frames, reads_input)
{
    struct pty_frame f = frame_of("{\"type\":\"stdin\",\"data\":\"l\\u00e4s\\n\\u0003\"}");

    CHECK_EQ(f.type, PTY_FRAME_STDIN);
    CHECK_SPAN(f.text, "l\xc3\xa4s\n\x03");
    arena_done(&arena);
    CHECK_EQ(frame_of("{\"Type\":\"stdin\",\"DATA\":\"x\"}").type, PTY_FRAME_STDIN);
    arena_done(&arena);
}

TEST(pty_frames, reads_sizes_that_a_terminal_can_have)
{
    struct pty_frame f = frame_of("{\"type\":\"resize\",\"cols\":120,\"rows\":65535}");

    CHECK_EQ(f.type, PTY_FRAME_RESIZE);
    CHECK(f.cols == 120 && f.rows == 65535);
    arena_done(&arena);
}

TEST(pty_frames, reads_five_signals)
{
    static const struct {
        const char *text;
        int signo;
    } rows[] = {
        {"{\"type\":\"signal\",\"signal\":\"SIGINT\"}",  SIGINT },
        {"{\"type\":\"signal\",\"signal\":\"SIGTERM\"}", SIGTERM},
        {"{\"type\":\"signal\",\"signal\":\"SIGKILL\"}", SIGKILL},
        {"{\"type\":\"signal\",\"signal\":\"SIGQUIT\"}", SIGQUIT},
        {"{\"type\":\"signal\",\"signal\":\"SIGHUP\"}",  SIGHUP },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct pty_frame f = frame_of(rows[i].text);

        CHECK_EQ(f.type, PTY_FRAME_SIGNAL);
        CHECK_EQ(f.signo, rows[i].signo);
        arena_done(&arena);
    }
}

TEST(pty_frames, ignores_what_makes_no_sense)
{
    static const char *const texts[] = {
        "",
        "no json",
        "[]",
        "\"ping\"",
        "{\"type\":1}",
        "{\"type\":\"stdin\"}",
        "{\"type\":\"stdin\",\"data\":7}",
        "{\"type\":\"resize\",\"cols\":80}",
        "{\"type\":\"resize\",\"cols\":0,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":-1,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":65536,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":80.5,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":\"80\",\"rows\":24}",
        "{\"type\":\"signal\",\"signal\":\"SIGSTOP\"}",
        "{\"type\":\"signal\",\"signal\":\"sigint\"}",
        "{\"type\":\"signal\"}",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (frame_of(texts[i]).type != PTY_FRAME_IGNORE)
            test_fail(__FILE__, __LINE__, "not ignored: %s", texts[i]);
        arena_done(&arena);
    }
}

TEST(pty_frames, names_types_it_does_not_know)
{
    struct pty_frame f = frame_of("{\"type\":\"nonsense\"}");

    CHECK_EQ(f.type, PTY_FRAME_UNKNOWN);
    CHECK_SPAN(f.text, "nonsense");
    arena_done(&arena);
    f = frame_of("{}");
    CHECK_EQ(f.type, PTY_FRAME_UNKNOWN);
    CHECK_EQ(f.text.n, 0);
    arena_done(&arena);
    CHECK_EQ(frame_of("null").type, PTY_FRAME_UNKNOWN); /* as {} */
    arena_done(&arena);
    CHECK_EQ(frame_of("{\"type\":\"ping\"}").type, PTY_FRAME_PING);
    arena_done(&arena);
}

TEST(pty_frames, prints_lines_that_clients_know)
{
    AUTO_BUF(out, PTY_PRINT_BYTES_MAX);

    CHECK_EQ(pty_print_connected(&out, "5b1f", true), 0);
    CHECK_EQ(pty_print_connected(&out, "5b1f", false), 0);
    CHECK_EQ(pty_print_exit(&out, -1), 0);
    CHECK_EQ(pty_print_pong(&out), 0);
    CHECK_EQ(pty_print_error(&out, "INVALID_FRAME", STR("unknown frame type \"x\"")), 0);
    CHECK_STR(out.p, "{\"type\":\"connected\",\"session_id\":\"5b1f\",\"mode\":\"pty\"}\n"
                     "{\"type\":\"connected\",\"session_id\":\"5b1f\",\"mode\":\"pipe\"}\n"
                     "{\"type\":\"exit\",\"exit_code\":-1}\n"
                     "{\"type\":\"pong\"}\n"
                     "{\"type\":\"error\",\"error\":\"unknown frame type \\\"x\\\"\","
                     "\"code\":\"INVALID_FRAME\"}\n");
}

TEST(pty_frames, numbers_a_replay_in_big_endian)
{
    char head[PTY_REPLAY_HEAD_BYTES];

    pty_print_replay_head(head, 0x0102030405060708);
    CHECK(memcmp(head, "\x03\x01\x02\x03\x04\x05\x06\x07\x08", sizeof(head)) == 0);
}
