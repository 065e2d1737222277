/* Both ends are ours here, on one loop: a server that accepts and a client that connects. What only
 * a misbehaving peer does comes from a plain socket. */
#include "net/ws.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "test.h"

enum { SECONDS_MAX = 60 };

/* What one end does and has seen. */
struct end {
    struct ws *ws; /* while it is open */
    struct ws_conf conf;
    struct ws_ops ops;
    struct buf got; /* "T[hello]" and "B[...]" per message; "(" piece ")" per piece */
    bool opened, closed;
    uint16_t code;
    char reason[128];
    int error;
    int drains, hangups;
    size_t take; /* of a piece */
};

static struct world {
    struct loop *loop;
    struct http_server *server;
    struct http_client *client;
    struct sock_addr addr;
    struct loop_timer timer;
    struct end near, far;       /* the client's and the server's */
    int accepted;               /* what ws_accept said */
    uint64_t last_ns, still_ns; /* of the loop: its last turn, the longest it stood still */
} w;                            /* a test is a process of its own */

/* --- the ends --- */

static void note_open(struct ws *ws)
{
    struct end *end = ws_user(ws);

    end->ws = ws;
    end->opened = true;
}

static void note_message(struct ws *ws, enum ws_opcode opcode, struct str data)
{
    struct end *end = ws_user(ws);

    CHECK_EQ(buf_addf(&end->got, "%c[", opcode == WS_OP_TEXT ? 'T' : 'B'), 0);
    CHECK_EQ(buf_add(&end->got, data), 0);
    CHECK_EQ(buf_add_char(&end->got, ']'), 0);
}

static void note_drain(struct ws *ws)
{
    struct end *end = ws_user(ws);

    end->drains++;
}

static void note_hangup(struct ws *ws)
{
    struct end *end = ws_user(ws);

    end->hangups++;
}

static void note_close(struct ws *ws, uint16_t code, struct str reason, const struct err *error)
{
    struct end *end = ws_user(ws);

    CHECK(!end->closed);
    end->ws = NULL;
    end->closed = true;
    end->code = code;
    CHECK_EQ(str_copy(end->reason, sizeof(end->reason), reason), 0);
    end->error = error ? error->code : 0;
}

static void end_init(struct end *end)
{
    end->ops = (struct ws_ops){note_open, note_message, NULL, note_drain, note_close, note_hangup};
    end->conf.close_ms = 600 * 1000; /* no time-out but those that are tested */
    buf_init(&end->got, 64 << 20);
}

static void on_request(struct http_req *req)
{
    w.accepted = ws_accept(req, &w.far.conf, &w.far.ops, &w.far);
}

static const struct http_route routes[] = {
    {HTTP_ANY_METHOD, "/ws", 0, on_request, 0},
};

/* --- the world --- */

static void world_start(void)
{
    struct http_server_conf conf = {.routes = routes, .route_count = ARRAY_LEN(routes)};
    int fd;

    end_init(&w.near);
    end_init(&w.far);
    CHECK_EQ(loop_new(&w.loop, NULL), 0);
    w.last_ns = time_mono_ns();
    CHECK_EQ(http_client_new(w.loop, &(struct http_client_conf){0}, &w.client, NULL), 0);
    CHECK_EQ(http_server_new(w.loop, &conf, &w.server, NULL), 0);
    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &w.addr, NULL), 0);
    fd = sock_listen(&w.addr, 16, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(sock_local_addr(fd, &w.addr), 0);
    CHECK_EQ(http_server_listen(w.server, fd, NULL), 0);
}

static void world_stop(void)
{
    if (w.near.ws)
        ws_cut(w.near.ws, ECANCELED);
    if (w.far.ws)
        ws_cut(w.far.ws, ECANCELED);
    loop_settle(w.loop);
    CHECK(!w.near.ws && !w.far.ws);
    http_client_free(w.client);
    http_server_free(w.server);
    loop_free(w.loop);
    buf_done(&w.near.got);
    buf_done(&w.far.got);
}

static void on_timer(struct loop_timer *t UNUSED)
{
    loop_stop(w.loop);
}

/* For so long, and watches how steadily. */
static void run_ms(uint32_t ms)
{
    uint64_t end_ns = deadline_in_ms(ms), now_ns;

    do {
        loop_timer_set(w.loop, &w.timer, deadline_in_ms(min_size(ms, 5)), on_timer);
        CHECK_EQ(loop_run(w.loop, NULL), 0);
        now_ns = time_mono_ns();
        if (now_ns - w.last_ns > w.still_ns)
            w.still_ns = now_ns - w.last_ns;
        w.last_ns = now_ns;
    } while (now_ns < end_ns);
}

/* A time-out of so long must not have come. Where this process did not run for a good part of it
 * nothing is proven either way. */
#define CHECK_NO_TIMEOUT(limit_ms)                                                                 \
    do {                                                                                           \
        if ((w.near.closed || w.far.closed) && w.still_ns > (limit_ms) / 4 * TIME_NS_PER_MS)       \
            test_skip("this machine stood still for a good part of the limit under test");         \
        CHECK(!w.near.closed && !w.far.closed);                                                    \
    } while (0)

/* Runs until the condition holds. */
#define RUN_UNTIL(condition)                                                                       \
    do {                                                                                           \
        for (int i_ = 0; i_ < SECONDS_MAX * 200 && !(condition); i_++)                             \
            run_ms(5);                                                                             \
        CHECK(condition);                                                                          \
    } while (0)

static void connect_near(void)
{
    struct ws_connect_spec spec = {
        .addr = &w.addr,
        .target = STR("/ws"),
        .host = STR("test"),
        .conf = w.near.conf,
    };

    CHECK_EQ(ws_connect(w.client, &spec, &w.near.ops, &w.near, &w.near.ws, NULL), 0);
}

static void open_both(void)
{
    world_start();
    connect_near();
    RUN_UNTIL(w.near.opened && w.far.opened);
}

static void close_both(void)
{
    ws_close(w.near.ws, WS_CLOSE_NORMAL, STR_NONE);
    RUN_UNTIL(w.near.closed && w.far.closed);
    world_stop();
}

/* What the server sent to a bare socket, as a string. */
static void hear_head(int fd, char *head, size_t size)
{
    ssize_t n;

    while ((n = recv(fd, head, size - 1, MSG_DONTWAIT)) < 0) {
        CHECK_EQ(errno, EAGAIN);
        run_ms(1);
    }
    CHECK(n > 0);
    head[n] = '\0';
}

/* A client that is a bare socket, handshaken. */
static int open_raw(int receive_bytes)
{
    static const char ask[] = "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n"
                              "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char head[1024];

    CHECK(fd >= 0);
    if (receive_bytes)
        CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes)), 0);
    CHECK_EQ(connect(fd, &w.addr.any, w.addr.size), 0);
    CHECK_EQ(send(fd, ask, strlen(ask), MSG_NOSIGNAL), strlen(ask));
    RUN_UNTIL(w.far.opened);
    hear_head(fd, head, sizeof(head));
    return fd;
}

/* --- messages --- */

TEST(ws, carries_text_and_binary_both_ways)
{
    open_both();
    CHECK_EQ(ws_send(w.near.ws, WS_OP_TEXT, STR("hello")), 0);
    CHECK_EQ(ws_send(w.near.ws, WS_OP_BINARY, STR("")), 0);
    CHECK_EQ(ws_send(w.far.ws, WS_OP_BINARY, STR("world")), 0);
    RUN_UNTIL(w.far.got.n >= 11 && w.near.got.n >= 8);
    CHECK_STR(w.far.got.p, "T[hello]B[]");
    CHECK_STR(w.near.got.p, "B[world]");
    close_both();
}

TEST(ws, sends_what_lies_in_several_places_as_one_message)
{
    const struct str pieces[] = {STR("one "), STR(""), STR_NONE, STR("message")};

    open_both();
    CHECK_EQ(ws_push(w.near.ws, WS_OP_BINARY, pieces, ARRAY_LEN(pieces)), 0); /* masked */
    CHECK_EQ(ws_push(w.far.ws, WS_OP_TEXT, pieces, ARRAY_LEN(pieces)), 0);
    RUN_UNTIL(w.far.got.n >= 14 && w.near.got.n >= 14);
    CHECK_STR(w.far.got.p, "B[one message]");
    CHECK_STR(w.near.got.p, "T[one message]");
    close_both();
}

TEST(ws, joins_the_parts_of_a_message_around_a_ping)
{
    open_both();
    CHECK_EQ(ws_send_part(w.near.ws, WS_OP_TEXT, STR("one \xc3"), false), 0);
    CHECK_EQ(ws_ping(w.near.ws, STR("between")), 0);
    CHECK_EQ(ws_send_part(w.near.ws, WS_OP_TEXT, STR("\xbc"), false), 0);
    CHECK_EQ(ws_send_part(w.near.ws, WS_OP_TEXT, STR(""), true), 0);
    CHECK_EQ(ws_send(w.near.ws, WS_OP_TEXT, STR("two")), 0);
    RUN_UNTIL(w.far.got.n >= 14);
    CHECK_STR(w.far.got.p, "T[one \xc3\xbc]T[two]");
    close_both();
}

TEST(ws, refuses_a_ping_that_no_frame_can_hold)
{
    char big[WS_CONTROL_BYTES_MAX + 1] = {0};

    open_both();
    CHECK_EQ(ws_ping(w.near.ws, str_make(big, sizeof(big))), -EMSGSIZE);
    CHECK_EQ(ws_ping(w.near.ws, str_make(big, sizeof(big) - 1)), 0);
    close_both();
}

static size_t take_some(struct ws *ws, const struct ws_piece *piece)
{
    struct end *end = ws_user(ws);
    size_t n = min_size(end->take, piece->data.n);

    CHECK_EQ(buf_addf(&end->got, "%s%.*s%s", piece->first ? "<" : "", (int)n, piece->data.p,
                      piece->last && n == piece->data.n ? ">" : ""),
             0);
    return n;
}

TEST(ws, holds_back_what_a_receiver_of_pieces_does_not_take)
{
    world_start();
    w.far.ops.on_piece = take_some;
    w.far.take = 3;
    connect_near();
    RUN_UNTIL(w.near.opened && w.far.opened);
    CHECK_EQ(ws_send(w.near.ws, WS_OP_TEXT, STR("abcdefg")), 0);
    CHECK_EQ(ws_send(w.near.ws, WS_OP_TEXT, STR("next")), 0);
    RUN_UNTIL(w.far.got.n > 0);
    run_ms(30);
    CHECK_STR(w.far.got.p, "<abc");
    ws_resume(w.far.ws);
    RUN_UNTIL(w.far.got.n >= 7);
    CHECK_STR(w.far.got.p, "<abcdef");
    w.far.take = 100;
    ws_resume(w.far.ws);
    RUN_UNTIL(w.far.got.n >= 15);
    CHECK_STR(w.far.got.p, "<abcdefg><next>");
    close_both();
}

TEST(ws, delivers_nothing_while_paused)
{
    open_both();
    ws_pause(w.far.ws);
    CHECK_EQ(ws_send(w.near.ws, WS_OP_TEXT, STR("wait")), 0);
    run_ms(50);
    CHECK_EQ(w.far.got.n, 0);
    ws_resume(w.far.ws);
    RUN_UNTIL(w.far.got.n > 0);
    CHECK_STR(w.far.got.p, "T[wait]");
    close_both();
}

TEST(ws, closes_on_a_message_above_the_limit)
{
    world_start();
    w.far.conf.message_bytes_max = 10;
    connect_near();
    RUN_UNTIL(w.near.opened && w.far.opened);
    CHECK_EQ(ws_send(w.near.ws, WS_OP_BINARY, STR("0123456789")), 0);
    CHECK_EQ(ws_send_part(w.near.ws, WS_OP_BINARY, STR("01234"), false), 0);
    CHECK_EQ(ws_send_part(w.near.ws, WS_OP_BINARY, STR("567890"), true), 0);
    RUN_UNTIL(w.near.closed && w.far.closed);
    CHECK_STR(w.far.got.p, "B[0123456789]");
    CHECK_EQ(w.far.code, WS_CLOSE_TOO_BIG);
    CHECK_EQ(w.far.error, EMSGSIZE);
    CHECK_EQ(w.near.code, WS_CLOSE_TOO_BIG);
    CHECK_EQ(w.near.error, 0);
    world_stop();
}

/* --- back-pressure --- */

TEST(ws, tells_a_sender_to_wait_and_when_to_go_on)
{
    static const char piece[16 * 1024];
    size_t sent = 0;
    int r;

    open_both();
    ws_pause(w.far.ws);
    for (int quiet = 0; quiet < 20;) {
        r = ws_send(w.near.ws, WS_OP_BINARY, str_make(piece, sizeof(piece)));
        quiet = r == 0 ? 0 : quiet + 1;
        sent += r == 0;
        CHECK(r == 0 || r == -EAGAIN);
        CHECK(sent < 10000); /* 160 MB: no buffer holds that much */
        if (r < 0) {
            w.near.drains = 0;
            run_ms(5);
        }
    }
    CHECK(ws_queued(w.near.ws) < STREAM_HIGH_BYTES + sizeof(piece) + WS_HEADER_MAX);
    ws_resume(w.far.ws);
    RUN_UNTIL(w.near.drains == 1 && ws_room(w.near.ws) > 0);
    RUN_UNTIL(w.far.got.n == sent * (sizeof(piece) + 3));
    close_both();
}

TEST(ws, takes_what_is_pushed_although_it_is_full)
{
    static const char piece[16 * 1024];
    const struct str pieces[] = {
        {piece, sizeof(piece)}
    };

    world_start();
    w.near.conf.queue_bytes_max = sizeof(piece) / 2;
    connect_near();
    RUN_UNTIL(w.near.opened && w.far.opened);
    CHECK_EQ(ws_room(w.near.ws), sizeof(piece) / 2);
    CHECK_EQ(ws_push(w.near.ws, WS_OP_BINARY, pieces, 1), 0);
    CHECK_EQ(ws_room(w.near.ws), 0);
    CHECK_EQ(ws_push(w.near.ws, WS_OP_BINARY, pieces, 1), 0);
    CHECK_EQ(ws_send(w.near.ws, WS_OP_BINARY, STR("polite")), -EAGAIN);
    RUN_UNTIL(w.near.drains == 1 && w.far.got.n == 2 * (sizeof(piece) + 3));
    close_both();
}

TEST(ws, gives_up_a_peer_that_never_reads)
{
    static const char piece[64 * 1024];
    int fd, r = 0;

    world_start();
    w.far.conf.stall_ms = 200;
    fd = open_raw(4096);
    for (int i = 0; i < 2000 && w.far.ws && r != -EPIPE; i++) {
        r = ws_send(w.far.ws, WS_OP_BINARY, str_make(piece, sizeof(piece)));
        if (r < 0)
            run_ms(5);
    }
    RUN_UNTIL(w.far.closed);
    CHECK_EQ(w.far.code, WS_CLOSE_ABNORMAL);
    CHECK_EQ(w.far.error, ETIMEDOUT);
    close(fd);
    world_stop();
}

/* --- pings --- */

TEST(ws, keeps_a_peer_that_answers_pings)
{
    world_start();
    w.far.conf.ping_ms = 20;
    w.far.conf.pong_ms = 400;
    w.near.conf = w.far.conf;
    connect_near();
    RUN_UNTIL(w.near.opened && w.far.opened);
    run_ms(900);
    CHECK_NO_TIMEOUT(400);
    close_both();
}

TEST(ws, gives_up_a_peer_that_answers_no_ping)
{
    int fd;

    world_start();
    w.far.conf.ping_ms = 30;
    w.far.conf.pong_ms = 60;
    fd = open_raw(0);
    RUN_UNTIL(w.far.closed);
    CHECK_EQ(w.far.code, WS_CLOSE_ABNORMAL);
    CHECK_EQ(w.far.error, ETIMEDOUT);
    close(fd);
    world_stop();
}

TEST(ws, does_not_blame_the_peer_for_pongs_it_does_not_read_itself)
{
    world_start();
    w.far.conf.ping_ms = 20;
    w.far.conf.pong_ms = 400;
    connect_near();
    RUN_UNTIL(w.near.opened && w.far.opened);
    ws_pause(w.far.ws);
    run_ms(600);
    CHECK_NO_TIMEOUT(400);
    ws_resume(w.far.ws);
    run_ms(600);
    CHECK_NO_TIMEOUT(400);
    close_both();
}

TEST(ws, gives_up_a_peer_that_says_nothing)
{
    int fd;

    world_start();
    w.far.conf.ping_ms = 30;
    w.far.conf.idle_ms = 400;
    fd = open_raw(0);
    run_ms(250);
    CHECK_NO_TIMEOUT(400);
    CHECK_EQ(send(fd, "\x8a\x80\0\0\0\0", 6, MSG_NOSIGNAL), 6); /* a pong */
    run_ms(250);
    CHECK_NO_TIMEOUT(400);
    RUN_UNTIL(w.far.closed);
    CHECK_EQ(w.far.code, WS_CLOSE_ABNORMAL);
    CHECK_EQ(w.far.error, ETIMEDOUT);
    close(fd);
    world_stop();
}

TEST(ws, keeps_a_peer_that_only_answers_pings_and_one_it_does_not_hear)
{
    world_start();
    w.far.conf.ping_ms = 20;
    w.far.conf.idle_ms = 400;
    connect_near();
    RUN_UNTIL(w.near.opened && w.far.opened);
    run_ms(600);
    CHECK_NO_TIMEOUT(400);
    ws_pause(w.far.ws);
    run_ms(600);
    CHECK_NO_TIMEOUT(400);
    ws_resume(w.far.ws);
    run_ms(600);
    CHECK_NO_TIMEOUT(400);
    close_both();
}

/* --- the end --- */

TEST(ws, tells_that_the_peer_hung_up_while_it_is_paused)
{
    int fd;

    world_start();
    fd = open_raw(0);
    ws_pause(w.far.ws);
    CHECK_EQ(send(fd, "\x81\x84\0\0\0\0last", 10, MSG_NOSIGNAL), 10);
    CHECK_EQ(shutdown(fd, SHUT_WR), 0);
    RUN_UNTIL(w.far.hangups == 1);
    CHECK(!w.far.closed);
    ws_resume(w.far.ws);
    RUN_UNTIL(w.far.closed);
    CHECK_STR(w.far.got.p, "T[last]");
    CHECK_EQ(w.far.hangups, 1);
    close(fd);
    world_stop();
}

TEST(ws, closes_in_order_from_either_end)
{
    static const struct {
        bool by_server;
        uint16_t code;
    } rows[] = {
        {false, 1000},
        {false, 4999},
        {true,  1000},
        {true,  1001},
        {true,  0   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint16_t want = rows[i].code ? rows[i].code : WS_CLOSE_NO_STATUS;

        w = (struct world){0};
        open_both();
        ws_close(rows[i].by_server ? w.far.ws : w.near.ws, rows[i].code, STR("why"));
        RUN_UNTIL(w.near.closed && w.far.closed);
        CHECK_EQ(w.near.code, want);
        CHECK_EQ(w.far.code, want);
        CHECK_EQ(w.near.error, 0);
        CHECK_EQ(w.far.error, 0);
        CHECK_STR((rows[i].by_server ? &w.near : &w.far)->reason, rows[i].code ? "why" : "");
        world_stop();
    }
}

TEST(ws, closes_when_both_ends_begin_at_once)
{
    open_both();
    ws_close(w.near.ws, 4001, STR_NONE);
    ws_close(w.far.ws, 4002, STR_NONE);
    RUN_UNTIL(w.near.closed && w.far.closed);
    CHECK_EQ(w.near.code, 4002);
    CHECK_EQ(w.far.code, 4001);
    CHECK_EQ(w.near.error, 0);
    CHECK_EQ(w.far.error, 0);
    world_stop();
}

TEST(ws, sends_nothing_once_a_close_began)
{
    open_both();
    CHECK_EQ(ws_send(w.near.ws, WS_OP_TEXT, STR("before")), 0);
    ws_close(w.near.ws, WS_CLOSE_NORMAL, STR_NONE);
    ws_close(w.near.ws, WS_CLOSE_GOING_AWAY, STR_NONE); /* the first counts */
    CHECK_EQ(ws_send(w.near.ws, WS_OP_TEXT, STR("after")), -EPIPE);
    CHECK_EQ(ws_ping(w.near.ws, STR_NONE), -EPIPE);
    RUN_UNTIL(w.near.closed && w.far.closed);
    CHECK_STR(w.far.got.p, "T[before]");
    CHECK_EQ(w.far.code, WS_CLOSE_NORMAL);
    world_stop();
}

TEST(ws, cuts_a_long_reason_between_characters)
{
    char reason[200];

    for (size_t i = 0; i < sizeof(reason); i += 2)
        memcpy(reason + i, "\xc3\xbc", 2);
    open_both();
    ws_close(w.near.ws, WS_CLOSE_NORMAL, str_make(reason, sizeof(reason)));
    RUN_UNTIL(w.near.closed && w.far.closed);
    CHECK_EQ(strlen(w.far.reason), 122);
    CHECK_EQ(w.far.error, 0);
    world_stop();
}

TEST(ws, closes_although_it_is_paused)
{
    open_both();
    ws_pause(w.near.ws);
    ws_pause(w.far.ws);
    CHECK_EQ(ws_send(w.far.ws, WS_OP_TEXT, STR("unread")), 0);
    run_ms(20);
    ws_close(w.near.ws, WS_CLOSE_NORMAL, STR_NONE);
    ws_resume(w.far.ws);
    RUN_UNTIL(w.near.closed && w.far.closed);
    CHECK_EQ(w.near.code, WS_CLOSE_NORMAL);
    CHECK_EQ(w.near.got.n, 0);
    world_stop();
}

TEST(ws, gives_up_a_peer_that_does_not_answer_a_close)
{
    int fd;

    world_start();
    w.far.conf.close_ms = 100;
    fd = open_raw(0);
    ws_close(w.far.ws, WS_CLOSE_GOING_AWAY, STR_NONE);
    RUN_UNTIL(w.far.closed);
    CHECK_EQ(w.far.code, WS_CLOSE_ABNORMAL);
    CHECK_EQ(w.far.error, ETIMEDOUT);
    close(fd);
    world_stop();
}

TEST(ws, reports_a_peer_that_vanishes)
{
    int fd;

    world_start();
    fd = open_raw(0);
    close(fd);
    RUN_UNTIL(w.far.closed);
    CHECK_EQ(w.far.code, WS_CLOSE_ABNORMAL);
    CHECK_EQ(w.far.error, ECONNRESET);
    world_stop();
}

static void close_at_once(struct ws *ws)
{
    note_open(ws);
    ws_close(ws, WS_CLOSE_GOING_AWAY, STR_NONE);
}

TEST(ws, may_be_closed_where_it_opens)
{
    world_start();
    w.near.ops.on_open = close_at_once;
    w.far.ops.on_open = close_at_once;
    connect_near();
    RUN_UNTIL(w.near.closed && w.far.closed);
    CHECK_EQ(w.near.code, WS_CLOSE_GOING_AWAY);
    CHECK_EQ(w.far.code, WS_CLOSE_GOING_AWAY);
    world_stop();
}

/* --- handshakes --- */

TEST(ws, agrees_on_the_first_subprotocol_of_the_client_that_the_server_speaks)
{
    static const struct str asks[] = {STR_INIT("v9"), STR_INIT("v2"), STR_INIT("v1")};
    static const struct str speaks[] = {STR_INIT("v1"), STR_INIT("v2")};

    world_start();
    w.near.conf.protocols = asks;
    w.near.conf.protocol_count = ARRAY_LEN(asks);
    w.far.conf.protocols = speaks;
    w.far.conf.protocol_count = ARRAY_LEN(speaks);
    connect_near();
    RUN_UNTIL(w.near.opened && w.far.opened);
    CHECK_SPAN(ws_protocol(w.near.ws), "v2");
    CHECK_SPAN(ws_protocol(w.far.ws), "v2");
    close_both();
}

TEST(ws, may_be_closed_while_it_connects)
{
    world_start();
    connect_near();
    ws_close(w.near.ws, WS_CLOSE_NORMAL, STR_NONE);
    RUN_UNTIL(w.near.closed);
    CHECK(!w.near.opened);
    CHECK_EQ(w.near.error, ECANCELED);
    world_stop();
}

TEST(ws, reports_a_server_that_wants_no_websocket)
{
    struct ws_connect_spec spec = {.addr = &w.addr, .target = STR("/none"), .host = STR("test")};

    world_start();
    CHECK_EQ(ws_connect(w.client, &spec, &w.near.ops, &w.near, &w.near.ws, NULL), 0);
    RUN_UNTIL(w.near.closed);
    CHECK(!w.near.opened);
    CHECK_EQ(w.near.error, EPROTO);
    CHECK_EQ(w.near.code, WS_CLOSE_ABNORMAL);
    world_stop();
}

TEST(ws, reports_the_end_of_the_client_it_connects_with)
{
    world_start();
    connect_near();
    http_client_free(take_ptr(&w.client));
    CHECK(w.near.closed);
    CHECK_EQ(w.near.error, ECANCELED);
    world_stop();
}

TEST(ws, leaves_a_request_that_is_no_handshake_answered)
{
    static const char ask[] = "GET /ws HTTP/1.1\r\nHost: h\r\n\r\n";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char head[1024] = "";

    world_start();
    CHECK_EQ(connect(fd, &w.addr.any, w.addr.size), 0);
    CHECK_EQ(send(fd, ask, strlen(ask), MSG_NOSIGNAL), strlen(ask));
    RUN_UNTIL(w.accepted != 0);
    CHECK_EQ(w.accepted, -EPROTO);
    hear_head(fd, head, sizeof(head));
    CHECK(str_starts(str_of(head), STR("HTTP/1.1 426 ")));
    CHECK(!w.far.opened && !w.far.closed);
    close(fd);
    world_stop();
}
