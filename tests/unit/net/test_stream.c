#include "net/stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "test.h"

enum { MS = 1000 * 1000 };

/* A stream under test, the other end of its socket pair, and what its callbacks saw and do. */
struct end {
    struct stream stream;
    struct buf seen;   /* taken */
    size_t take_max;   /* of each offer; SIZE_MAX = all */
    size_t last_offer; /* bytes */
    int offers, eofs, drains, hangups, closes, error;
    bool pause_in_data, yield_in_data;
    enum { IN_NONE, IN_DATA, IN_EOF, IN_DRAIN } close_in;
};

static struct loop *loop; /* of the one test in this process */
static struct end end;
static int peer;

static size_t on_data(struct stream *s, char *p, size_t n)
{
    struct end *e = container_of(s, struct end, stream);
    size_t taken = min_size(n, e->take_max);

    e->offers++;
    e->last_offer = n;
    CHECK_EQ(buf_add(&e->seen, str_make(p, taken)), 0);
    if (e->pause_in_data)
        stream_pause(s);
    if (e->yield_in_data && taken < n)
        stream_yield(s);
    if (e->close_in == IN_DATA)
        stream_close(s, ECANCELED);
    return taken;
}

static void on_eof(struct stream *s)
{
    struct end *e = container_of(s, struct end, stream);

    e->eofs++;
    if (e->close_in == IN_EOF)
        stream_close(s, ECANCELED);
}

static void on_drain(struct stream *s)
{
    struct end *e = container_of(s, struct end, stream);

    e->drains++;
    if (e->close_in == IN_DRAIN)
        stream_close(s, ECANCELED);
}

static void on_hangup(struct stream *s)
{
    container_of(s, struct end, stream)->hangups++;
}

static void on_close(struct stream *s, int error)
{
    struct end *e = container_of(s, struct end, stream);

    e->closes++;
    e->error = error;
    buf_done(&e->seen);
    memset(&e->stream, 0xa5, sizeof(e->stream)); /* as if it had been freed */
}

static const struct stream_ops ops = {on_data, on_eof, on_drain, on_close};

static void start_with(const struct stream_ops *with)
{
    int pair[2];

    CHECK_EQ(loop_new(&loop, NULL), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    end.take_max = SIZE_MAX;
    buf_init(&end.seen, 1 << 20);
    CHECK_EQ(stream_start(&end.stream, loop, pair[0], with, NULL), 0);
    peer = pair[1];
}

static void start(void)
{
    start_with(&ops);
}

static void on_due_stop(struct loop_timer *t UNUSED)
{
    loop_stop(loop);
}

/* For so long, and for some turns at least however busy the machine: the socket pair has at once
 * what either end wrote, so that these are enough for all that follows from it. */
static void run_ms(uint64_t ms)
{
    enum { TURNS_MIN = 8 };
    struct loop_timer t = {0};

    for (int i = 0; i < TURNS_MIN; i++) {
        loop_timer_set(loop, &t, time_mono_ns() + (i ? 0 : ms * MS), on_due_stop);
        CHECK_EQ(loop_run(loop, NULL), 0);
    }
}

static void finish(void)
{
    if (!end.closes) {
        stream_close(&end.stream, 0);
        loop_settle(loop);
    }
    CHECK_EQ(end.closes, 1);
    fd_close(take_fd(&peer));
    loop_free(loop);
}

static void say(const char *text)
{
    CHECK_EQ(write(peer, text, strlen(text)), strlen(text));
    run_ms(2);
}

/* Reads what the stream sent until it is silent; the count, or -1 once it ended. */
static ssize_t hear(size_t max)
{
    static char sink[64 * 1024];
    size_t sum = 0;

    while (sum < max) {
        ssize_t n = read(peer, sink, min_size(sizeof(sink), max - sum));

        if (n == 0)
            return sum ? (ssize_t)sum : -1;
        if (n < 0)
            break;
        sum += (size_t)n;
    }
    return (ssize_t)sum;
}

/* --- input --- */

TEST(stream, offers_what_arrives)
{
    start();
    say("hello");
    CHECK_SPAN(buf_str(&end.seen), "hello");
    CHECK_EQ(end.stream.in.cap, 0); /* an idle stream owns no buffer */
    finish();
}

TEST(stream, keeps_what_is_not_taken_and_offers_it_with_more)
{
    start();
    end.take_max = 2;
    say("hello");
    CHECK_SPAN(buf_str(&end.seen), "he");
    CHECK_SPAN(stream_kept(&end.stream), "llo");
    CHECK_EQ(end.offers, 1); /* not again without more */
    say(" you");
    CHECK_EQ(end.last_offer, 7);
    CHECK_SPAN(buf_str(&end.seen), "hell");
    end.take_max = SIZE_MAX;
    say("!");
    CHECK_SPAN(buf_str(&end.seen), "hello you!");
    CHECK_EQ(stream_kept(&end.stream).n, 0);
    finish();
}

TEST(stream, keeps_only_as_much_as_came)
{
    start();
    end.take_max = 0;
    say("a");
    say("b");
    CHECK_SPAN(stream_kept(&end.stream), "ab");
    CHECK(end.stream.in.cap <= 4096);
    finish();
}

TEST(stream, ends_when_too_much_is_not_taken)
{
    char block[4096] = {0};

    start();
    end.take_max = 0;
    for (size_t sent = 0; sent <= STREAM_IN_BYTES_MAX && !end.closes; sent += sizeof(block)) {
        CHECK_EQ(write(peer, block, sizeof(block)), sizeof(block));
        run_ms(1);
    }
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, ENOBUFS);
    finish();
}

TEST(stream, pauses_and_resumes)
{
    start();
    end.pause_in_data = true;
    end.take_max = 2;
    say("hello");
    say("more");
    CHECK_EQ(end.offers, 1);
    end.pause_in_data = false;
    end.take_max = SIZE_MAX;
    stream_resume(&end.stream);
    run_ms(2);
    CHECK_SPAN(buf_str(&end.seen), "hellomore");
    finish();
}

TEST(stream, offers_the_rest_again_after_it_yielded)
{
    static const struct stream_ops with_hangup = {on_data, on_eof, on_drain, on_close, on_hangup};

    start_with(&with_hangup);
    end.take_max = 1;
    end.yield_in_data = true;
    CHECK_EQ(write(peer, "abc", 3), 3);
    CHECK_EQ(shutdown(peer, SHUT_WR), 0);
    run_ms(2);
    CHECK_STR(end.seen.p, "abc");
    CHECK_EQ(end.offers, 3);
    CHECK_EQ(end.eofs, 1);
    CHECK_EQ(end.hangups, 0);
    finish();
}

TEST(stream, may_be_paused_or_closed_after_it_yielded)
{
    start();
    end.take_max = 1;
    end.yield_in_data = end.pause_in_data = true;
    say("abc");
    CHECK_STR(end.seen.p, "a");
    end.pause_in_data = false;
    stream_resume(&end.stream);
    run_ms(1);
    CHECK_STR(end.seen.p, "abc");
    CHECK_EQ(write(peer, "de", 2), 2);
    end.close_in = IN_DATA;
    run_ms(1);
    CHECK_EQ(end.closes, 1);
    finish();
}

TEST(stream, receives_at_most_the_configured_bytes_at_a_time)
{
    start();
    stream_set_recv(&end.stream, 2);
    say("abcde");
    CHECK_STR(end.seen.p, "abcde");
    CHECK_EQ(end.offers, 3);
    finish();
}

TEST(stream, tells_the_end_of_input_after_all_of_it)
{
    start();
    end.pause_in_data = true;
    end.take_max = 1;
    say("xy");
    CHECK_EQ(shutdown(peer, SHUT_WR), 0);
    run_ms(2);
    CHECK_EQ(end.eofs, 0);
    end.pause_in_data = false;
    stream_resume(&end.stream);
    run_ms(2);
    CHECK_SPAN(buf_str(&end.seen), "xy");
    CHECK_EQ(end.eofs, 1);
    CHECK_EQ(end.closes, 0); /* writing still works */
    CHECK_EQ(stream_write(&end.stream, STR("bye")), 0);
    run_ms(2);
    CHECK_EQ(hear(100), 3);
    finish();
}

TEST(stream, closes_at_the_end_of_input_without_on_eof)
{
    static const struct stream_ops no_eof = {on_data, NULL, on_drain, on_close};

    start_with(&no_eof);
    CHECK_EQ(stream_write(&end.stream, STR("bye")), 0);
    CHECK_EQ(shutdown(peer, SHUT_WR), 0);
    run_ms(2);
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, 0);
    CHECK_EQ(hear(3), 3);
    CHECK_EQ(hear(1), -1);
    finish();
}

TEST(stream, notices_a_lost_peer_while_paused)
{
    start();
    stream_pause(&end.stream);
    fd_close(take_fd(&peer));
    run_ms(5);
    CHECK_EQ(end.closes, 1);
    CHECK(end.error != 0);
    finish();
}

TEST(stream, tells_once_that_the_peer_hung_up_while_paused)
{
    static const struct stream_ops with_hangup = {on_data, on_eof, on_drain, on_close, on_hangup};

    start_with(&with_hangup);
    stream_pause(&end.stream);
    CHECK_EQ(write(peer, "last", 4), 4);
    CHECK_EQ(shutdown(peer, SHUT_WR), 0);
    run_ms(5);
    CHECK_EQ(end.hangups, 1);
    CHECK_EQ(end.offers + end.eofs + end.closes, 0);
    stream_resume(&end.stream);
    run_ms(5);
    CHECK_SPAN(buf_str(&end.seen), "last"); /* what came before is not lost */
    CHECK_EQ(end.eofs, 1);
    CHECK_EQ(end.hangups, 1);
    finish();
}

TEST(stream, has_no_word_of_a_hangup_it_reads_itself)
{
    static const struct stream_ops with_hangup = {on_data, on_eof, on_drain, on_close, on_hangup};

    start_with(&with_hangup);
    CHECK_EQ(shutdown(peer, SHUT_WR), 0);
    run_ms(5);
    CHECK_EQ(end.eofs, 1);
    CHECK_EQ(end.hangups, 0);
    finish();
}

/* --- output --- */

/* Writes as a polite producer does, until there is no room. */
static size_t fill(void)
{
    static const char zeros[4096];
    size_t sum = 0;

    for (size_t room; (room = stream_room(&end.stream)) > 0;) {
        size_t n = min_size(room, sizeof(zeros));

        CHECK_EQ(stream_write(&end.stream, str_make(zeros, n)), 0);
        sum += n;
        if (sum % (64 * 1024) == 0)
            run_ms(1);
    }
    return sum;
}

TEST(stream, holds_producers_back_and_calls_them_again)
{
    size_t sent;

    start();
    sent = fill();
    CHECK(stream_queued(&end.stream) >= STREAM_HIGH_BYTES);
    stream_want_drain(&end.stream);
    run_ms(2);
    CHECK_EQ(end.drains, 0);
    for (size_t got = 0; got < sent; run_ms(1)) { /* drained well before all is read */
        ssize_t n = hear(16 * 1024);

        CHECK(n >= 0);
        got += (size_t)n;
        if (end.drains == 0)
            CHECK(stream_queued(&end.stream) > stream_low(&end.stream));
    }
    CHECK_EQ(end.drains, 1);
    CHECK_EQ(stream_queued(&end.stream), 0);
    finish();
}

TEST(stream, does_not_keep_what_was_sent)
{
    size_t total = 0;

    start();
    while (total < 8 << 20) { /* the queue is never empty */
        total += fill();
        CHECK(hear(64 * 1024) > 0);
        run_ms(1);
        CHECK(end.stream.out.n <= 2 * STREAM_HIGH_BYTES + 64 * 1024);
    }
    finish();
}

TEST(stream, refuses_output_past_the_ceiling_whole)
{
    char *block = mem_zalloc(1 << 20);
    size_t before;
    int r = 0;

    start();
    for (int i = 0; i < 64 && r == 0; i++) {
        before = stream_queued(&end.stream);
        r = stream_write(&end.stream, str_make(block, 1 << 20));
    }
    CHECK_EQ(r, -EMSGSIZE);
    CHECK_EQ(stream_queued(&end.stream), before);
    free(block);
    finish();
}

TEST(stream, gives_up_a_peer_that_takes_nothing)
{
    start();
    (void)fill();
    end.stream.stall_ms = 50; /* from the next byte that it takes */
    CHECK(hear(1 << 20) > 0);
    while (!end.closes)
        run_ms(5);
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, ETIMEDOUT);
    finish();
}

TEST(stream, sends_a_file_behind_its_queue)
{
    char path[] = "/tmp/test_stream.XXXXXX";
    auto_fd file = mkostemp(path, O_CLOEXEC);
    char got[16] = {0};

    CHECK(file >= 0);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(write(file, "0123456789", 10), 10);
    start();
    CHECK_EQ(stream_write(&end.stream, STR("head:")), 0);
    stream_send_file(&end.stream, file, 2, 5);
    CHECK_EQ(stream_queued(&end.stream), 10);
    run_ms(2);
    CHECK_EQ(end.drains, 1);
    CHECK_EQ(read(peer, got, sizeof(got)), 10);
    CHECK_STR(got, "head:23456");
    stream_send_file(&end.stream, file, 8, 5); /* three bytes more than there are */
    run_ms(2);
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, EIO);
    finish();
}

/* --- ends --- */

TEST(stream, finishes_after_its_queue)
{
    size_t sent;

    start();
    sent = fill();
    stream_finish(&end.stream, false);
    CHECK_EQ(stream_write(&end.stream, STR("too late")), 0); /* swallowed */
    for (size_t got = 0; got < sent; run_ms(1)) {
        ssize_t n = hear(1 << 20);

        CHECK(n >= 0);
        got += (size_t)n;
        CHECK(got <= sent);
    }
    CHECK_EQ(hear(1), -1);
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, 0);
    finish();
}

/* A moment later it would have closed by itself. */
static void check_lingers(uint64_t began_ns)
{
    if (end.closes && time_mono_ns() - began_ns > 1000ULL * MS)
        test_skip("this machine stood still for about as long as a stream lingers");
    CHECK_EQ(end.closes, 0);
}

TEST(stream, lingers_until_the_peer_hangs_up)
{
    uint64_t began;

    start();
    began = time_mono_ns();
    CHECK_EQ(stream_write(&end.stream, STR("bye")), 0);
    stream_finish(&end.stream, true);
    run_ms(2);
    CHECK_EQ(hear(3), 3);
    CHECK_EQ(hear(1), -1); /* our side is over */
    check_lingers(began);
    say("still talking");
    CHECK_EQ(end.offers, 0);
    check_lingers(began);
    stream_want_drain(&end.stream); /* must not disarm what ends the lingering */
    run_ms(2);
    check_lingers(began);
    CHECK(loop_timer_armed(&end.stream.stall));
    fd_close(take_fd(&peer));
    run_ms(2);
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, 0);
    finish();
}

TEST(stream, lingers_for_a_moment_only)
{
    start();
    stream_finish(&end.stream, true);
    while (!end.closes)
        run_ms(50);
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, 0);
    finish();
}

TEST(stream, may_be_closed_in_every_callback)
{
    static const int where[] = {IN_DATA, IN_EOF, IN_DRAIN};

    for (size_t i = 0; i < ARRAY_LEN(where); i++) {
        end = (struct end){.close_in = where[i]};
        start();
        end.close_in = where[i];
        CHECK_EQ(stream_write(&end.stream, STR("x")), 0);
        if (where[i] == IN_DATA)
            CHECK_EQ(write(peer, "hello", 5), 5);
        if (where[i] == IN_EOF)
            CHECK_EQ(shutdown(peer, SHUT_WR), 0);
        if (where[i] == IN_DRAIN)
            stream_want_drain(&end.stream);
        run_ms(2);
        CHECK_EQ(end.closes, 1);
        CHECK_EQ(end.error, ECANCELED);
        finish();
    }
}

TEST(stream, reports_its_end_once)
{
    start();
    stream_close(&end.stream, EIO);
    stream_close(&end.stream, EPIPE);
    stream_reset(&end.stream, EPIPE);
    stream_finish(&end.stream, true);
    stream_resume(&end.stream);
    stream_flush_soon(&end.stream);
    CHECK_EQ(end.closes, 0); /* not before the end of the turn */
    loop_settle(loop);
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, EIO);
    finish();
}

TEST(stream, carries_both_buffers_to_a_new_owner)
{
    struct stream_parts parts;
    char got[16] = {0};

    start();
    end.take_max = 2;
    say("hello");
    CHECK_EQ(stream_write(&end.stream, STR("queued")), 0);
    stream_detach(&end.stream, &parts);
    loop_settle(loop);
    CHECK_EQ(end.closes, 1);
    CHECK_EQ(end.error, 0);
    CHECK_EQ(read(peer, got, sizeof(got)), -1); /* not sent by the old owner */
    end = (struct end){.take_max = SIZE_MAX};
    buf_init(&end.seen, 1 << 20);
    CHECK_EQ(stream_attach(&end.stream, loop, &parts, &ops, NULL), 0);
    CHECK(parts.fd < 0);
    run_ms(2);
    CHECK_SPAN(buf_str(&end.seen), "llo");
    CHECK_EQ(read(peer, got, sizeof(got)), 6);
    CHECK_STR(got, "queued");
    stream_parts_done(&parts);
    finish();
}

TEST(stream, closes_parts_that_were_not_taken)
{
    struct stream_parts parts;

    start();
    end.take_max = 0;
    say("hello");
    stream_detach(&end.stream, &parts);
    loop_settle(loop);
    stream_parts_done(&parts);
    CHECK_EQ(hear(1), -1);
    finish();
}
