#include "net/sse.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "test.h"

/* --- formatting --- */

TEST(sse, writes_the_standard_form)
{
    AUTO_BUF(b, 1000);

    CHECK_EQ(sse_format(&b, &(struct sse_event){STR("tick"), STR("7"), STR("hello")}), 0);
    CHECK_STR(b.p, "event: tick\nid: 7\ndata: hello\n\n");
    buf_clear(&b);
    CHECK_EQ(sse_format(&b, &(struct sse_event){.data = STR("")}), 0);
    CHECK_STR(b.p, "data: \n\n");
}

TEST(sse, splits_data_at_every_kind_of_line_break)
{
    AUTO_BUF(b, 1000);

    CHECK_EQ(sse_format(&b, &(struct sse_event){.data = STR("a\nb\rc\r\nd\n\ne\n")}), 0);
    CHECK_STR(b.p, "data: a\ndata: b\ndata: c\ndata: d\ndata: \ndata: e\ndata: \n\n");
}

TEST(sse, writes_bare_lines_and_comments)
{
    AUTO_BUF(b, 1000);

    CHECK_EQ(sse_format_bare(&b, STR("{\"type\":\"init\"}")), 0);
    CHECK_EQ(sse_format_comment(&b, STR("")), 0);
    CHECK_EQ(sse_format_comment(&b, STR("alive")), 0);
    CHECK_STR(b.p, "{\"type\":\"init\"}\n\n:\n\n: alive\n\n");
}

TEST(sse, refuses_what_would_start_another_line)
{
    static const struct str bad[] = {STR_INIT("a\nb"), STR_INIT("a\rb"), STR_INIT("\n"),
                                     STR_INIT("a\0b")};
    AUTO_BUF(b, 1000);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_EQ(sse_format(&b, &(struct sse_event){.name = bad[i]}), -EINVAL);
        CHECK_EQ(sse_format(&b, &(struct sse_event){.id = bad[i]}), -EINVAL);
        CHECK_EQ(sse_format_bare(&b, bad[i]), -EINVAL);
        CHECK_EQ(sse_format_comment(&b, bad[i]), -EINVAL);
    }
    CHECK_EQ(sse_format_bare(&b, STR("")), -EINVAL); /* a blank line is no event */
    CHECK_EQ(b.n, 0);
}

TEST(sse, adds_a_whole_event_or_nothing)
{
    AUTO_BUF(b, 20);

    CHECK_EQ(sse_format_bare(&b, STR("first")), 0);
    CHECK_EQ(sse_format(&b, &(struct sse_event){STR("e"), STR("1"), STR("x")}), -EMSGSIZE);
    CHECK_EQ(sse_format_bare(&b, STR("0123456789ab")), -EMSGSIZE);
    CHECK_STR(b.p, "first\n\n");
}

/* --- a server with one route, and clients that read when told to --- */

struct rig {
    struct loop *loop;
    struct http_server *server;
    struct sock_addr addr;
    struct loop_timer stop;
    unsigned requests;
    /* GET /one */
    struct sse sse;
    void (*on_begin)(struct rig *r);
    unsigned drains, pings;
    int closed; /* error of on_close; -1 before */
    uint64_t sent;
    uint64_t to_send;
    /* GET /hub */
    struct sse_hub *hub;
    unsigned left[3]; /* by enum sse_leave */
    bool publish_on_leave;
};

static void rig_get_one(struct http_req *req);

static void rig_get_hub(struct http_req *req)
{
    struct rig *r = req->server_user;

    r->requests++;
    sse_hub_join(r->hub, req);
}

static const struct http_route rig_routes[] = {
    {HTTP_BIT(HTTP_GET),                       "/one", 0, rig_get_one, 0},
    {HTTP_BIT(HTTP_GET) | HTTP_BIT(HTTP_HEAD), "/hub", 0, rig_get_hub, 0},
};

static void rig_init(struct rig *r)
{
    struct http_server_conf conf = {
        .routes = rig_routes, .route_count = ARRAY_LEN(rig_routes), .user = r};
    int fd, small = 4096;

    *r = (struct rig){.closed = -1};
    CHECK_EQ(loop_new(&r->loop, NULL), 0);
    CHECK_EQ(http_server_new(r->loop, &conf, &r->server, NULL), 0);
    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &r->addr, NULL), 0);
    fd = sock_listen(&r->addr, 100, NULL);
    CHECK(fd >= 0);
    /* What is accepted inherits it: the kernel is not to hide that a client lags. */
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    CHECK_EQ(sock_local_addr(fd, &r->addr), 0);
    CHECK_EQ(http_server_listen(r->server, fd, NULL), 0);
}

static void rig_done(struct rig *r)
{
    http_server_free(r->server);
    sse_hub_free(r->hub);
    loop_timer_stop(r->loop, &r->stop);
    loop_free(r->loop);
}

static void rig_on_stop(struct loop_timer *t)
{
    loop_stop(container_of(t, struct rig, stop)->loop);
}

/* Lets the server run. */
static void rig_run(struct rig *r, unsigned ms)
{
    /* The loop's clock stood still since it last ran. */
    loop_timer_set(r->loop, &r->stop, deadline_in_ms(ms), rig_on_stop);
    CHECK_EQ(loop_run(r->loop, NULL), 0);
}

/* Lets it run until the condition holds; the test's own limit ends what never comes. */
#define RIG_RUN_UNTIL(r, condition)                                                                \
    while (!(condition))                                                                           \
    rig_run((r), 1)

/* Sends a request and waits until the server has it. */
static int client_open(struct rig *r, const char *request)
{
    int small = 4096, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned before = r->requests;

    CHECK(fd >= 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    CHECK_EQ(connect(fd, &r->addr.any, r->addr.size), 0);
    CHECK_EQ(write(fd, request, strlen(request)), strlen(request));
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    RIG_RUN_UNTIL(r, r->requests > before);
    return fd;
}

/* Reads what is there. Returns 0 while the connection stands, 1 at its orderly end, -errno. */
static int client_read(int fd, struct buf *b)
{
    for (;;) {
        ssize_t n;

        CHECK_EQ(buf_reserve(b, 65536), 0);
        n = read(fd, b->p + b->n, 65536);
        if (n <= 0)
            return n == 0 ? 1 : errno == EAGAIN ? 0 : -errno;
        buf_claim(b, (size_t)n);
    }
}

/* Reads until the connection ends. */
static int client_read_to_end(struct rig *r, int fd, struct buf *b)
{
    int end;

    while ((end = client_read(fd, b)) == 0)
        rig_run(r, 1);
    return end;
}

static struct str body_of(const struct buf *b)
{
    size_t at = str_find_str(buf_str(b), STR("\r\n\r\n"));

    CHECK(at < b->n);
    return str_skip(buf_str(b), at + 4);
}

/* Adds the data of whole chunks; returns how many there were. */
static size_t text_of(const struct buf *b, struct buf *out)
{
    struct str rest = body_of(b);
    size_t count = 0, size, head;

    for (; rest.n > 0; count++) {
        char *end;

        size = strtoul(rest.p, &end, 16);
        head = (size_t)(end - rest.p) + 2;
        if (rest.n < head + size + 2)
            break;
        CHECK_EQ(buf_add(out, str_make(rest.p + head, size)), 0);
        rest = str_skip(rest, head + size + 2);
    }
    return count;
}

static bool has(const struct buf *b, const char *text)
{
    return str_find_str(buf_str(b), str_of(text)) < b->n;
}

/* Reads until the text is among what came. The connection stays. */
static void client_read_text(struct rig *r, int fd, struct buf *b, const char *text)
{
    CHECK_EQ(client_read(fd, b), 0);
    while (!has(b, text)) {
        rig_run(r, 1);
        CHECK_EQ(client_read(fd, b), 0);
    }
}

/* The same, until it is the end of it. */
static void client_read_up_to(struct rig *r, int fd, struct buf *b, const char *last)
{
    CHECK_EQ(client_read(fd, b), 0);
    while (!str_ends(buf_str(b), str_of(last))) {
        rig_run(r, 1);
        CHECK_EQ(client_read(fd, b), 0);
    }
}

/* --- one client --- */

static void one_on_drain(struct sse *s)
{
    struct rig *r = container_of(s, struct rig, sse);

    r->drains++;
    if (r->to_send)
        r->on_begin(r);
}

static void one_on_close(struct sse *s, int error)
{
    container_of(s, struct rig, sse)->closed = error;
}

static const struct sse_ops one_ops = {.on_drain = one_on_drain, .on_close = one_on_close};

static void rig_get_one(struct http_req *req)
{
    struct rig *r = req->server_user;

    r->requests++;
    sse_begin(&r->sse, req, &one_ops);
    if (r->on_begin)
        r->on_begin(r);
}

static const char get_one[] = "GET /one HTTP/1.1\r\nHost: x\r\n\r\n";
static const char get_hub[] = "GET /hub HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(sse, sends_its_head_with_the_first_event_and_ready_ones_as_one_chunk)
{
    struct rig r;
    AUTO_BUF(b, 1 << 20);
    int fd;

    rig_init(&r);
    fd = client_open(&r, get_one);
    CHECK_EQ(client_read(fd, &b), 0);
    CHECK_EQ(b.n, 0);
    CHECK_EQ(sse_send_bare(&r.sse, STR("{\"type\":\"init\"}")), 0);
    CHECK_EQ(sse_send(&r.sse, &(struct sse_event){.name = STR("n"), .data = STR("1\n2")}), 0);
    sse_end(&r.sse, 0);
    CHECK_EQ(sse_send_bare(&r.sse, STR("too late")), 0);
    client_read_up_to(&r, fd, &b, "0\r\n\r\n");
    CHECK(str_starts(buf_str(&b), STR("HTTP/1.1 200 OK\r\n")));
    CHECK(has(&b, "\r\nContent-Type: text/event-stream\r\n"));
    CHECK(has(&b, "\r\nCache-Control: no-cache\r\n"));
    CHECK(has(&b, "\r\nConnection: keep-alive\r\n"));
    CHECK(has(&b, "\r\nX-Accel-Buffering: no\r\n"));
    CHECK(has(&b, "\r\nTransfer-Encoding: chunked\r\n"));
    CHECK_SPAN(body_of(&b), "2b\r\n{\"type\":\"init\"}\n\n"
                            "event: n\ndata: 1\ndata: 2\n\n\r\n0\r\n\r\n");
    CHECK_EQ(r.closed, 0);
    fd_close(fd);
    rig_done(&r);
}

static void fail_plainly(struct rig *r)
{
    http_reply_error(r->sse.req, 404, "CONTEXT_NOT_FOUND", "no such context");
}

static void fail_in_sse(struct rig *r)
{
    sse_end(&r->sse, EIO);
}

TEST(sse, can_still_fail_with_a_plain_error_before_its_first_event)
{
    struct rig r;
    AUTO_BUF(b, 1 << 20);
    int fd;

    rig_init(&r);
    r.on_begin = fail_plainly;
    fd = client_open(&r, get_one);
    client_read_up_to(&r, fd, &b, "no such context\"}");
    CHECK(str_starts(buf_str(&b), STR("HTTP/1.1 404 ")));
    CHECK(has(&b, "CONTEXT_NOT_FOUND"));
    CHECK(!has(&b, "event-stream"));
    CHECK_EQ(r.closed, 0);
    r.on_begin = fail_in_sse;
    buf_clear(&b);
    CHECK_EQ(write(fd, get_one, strlen(get_one)), strlen(get_one));
    client_read_text(&r, fd, &b, "\r\n\r\n");
    CHECK(str_starts(buf_str(&b), STR("HTTP/1.1 500 ")));
    fd_close(fd);
    rig_done(&r);
}

TEST(sse, stays_silent_behind_a_plain_error)
{
    struct rig r;
    AUTO_BUF(b, 1 << 20);
    int fd;

    rig_init(&r);
    fd = client_open(&r, get_one);
    fail_plainly(&r);
    CHECK_EQ(r.closed, -1); /* comes at the end of the turn; what happens until then? */
    CHECK_EQ(sse_send_bare(&r.sse, STR("one")), 0);
    sse_end(&r.sse, EIO);
    client_read_text(&r, fd, &b, "no such context");
    rig_run(&r, 10);
    CHECK_EQ(client_read(fd, &b), 0);
    CHECK_EQ(r.closed, 0);
    CHECK(str_starts(buf_str(&b), STR("HTTP/1.1 404 ")));
    CHECK(str_ends(buf_str(&b), STR("no such context\"}")));
    fd_close(fd);
    rig_done(&r);
}

TEST(sse, ends_with_an_error_as_a_broken_transfer)
{
    struct rig r;
    AUTO_BUF(b, 1 << 20);
    int fd;

    rig_init(&r);
    fd = client_open(&r, get_one);
    CHECK_EQ(sse_send_bare(&r.sse, STR("one")), 0);
    sse_end(&r.sse, EIO);
    (void)client_read_to_end(&r, fd, &b);
    CHECK_SPAN(body_of(&b), "5\r\none\n\n\r\n"); /* and no last chunk */
    CHECK_EQ(r.closed, EIO);
    fd_close(fd);
    rig_done(&r);
}

TEST(sse, takes_a_burst_past_full_and_tells_when_there_is_room_again)
{
    static char line[10000];
    struct rig r;
    AUTO_BUF(b, 8 << 20);
    AUTO_BUF(text, 8 << 20);
    size_t chunks;
    int fd, sent = 0;

    memset(line, 'x', sizeof(line) - 2);
    memset(line + sizeof(line) - 2, '\n', 2);
    rig_init(&r);
    fd = client_open(&r, get_one);
    http_reply_queue_max(r.sse.req, 20000);
    CHECK(!sse_is_full(&r.sse));
    for (; sent < 100; sent++)
        CHECK_EQ(sse_push_bytes(&r.sse, str_make(line, sizeof(line))), 0);
    CHECK(sse_is_full(&r.sse));
    CHECK_EQ(sse_send_bytes(&r.sse, str_make(line, sizeof(line))), -EAGAIN);
    client_read_text(&r, fd, &b, "\r\n\r\n");
    while (buf_clear(&text), chunks = text_of(&b, &text), text.n < sent * sizeof(line)) {
        rig_run(&r, 1);
        CHECK_EQ(client_read(fd, &b), 0);
    }
    CHECK(r.drains >= 1 && !sse_is_full(&r.sse));
    CHECK_EQ(text.n, sent * sizeof(line));
    CHECK_EQ(chunks, 17); /* of six lines: no chunk has more than 64 KiB */
    fd_close(fd);
    rig_done(&r);
}

/* A client's work is per chunk as much as per line. */
TEST(sse, sends_a_burst_in_few_chunks_and_a_single_event_at_once)
{
    struct rig r;
    AUTO_BUF(b, 8 << 20);
    AUTO_BUF(text, 8 << 20);
    AUTO_BUF(want, 8 << 20);
    size_t chunks;
    int fd;

    rig_init(&r);
    fd = client_open(&r, get_one);
    for (int i = 0; i < 2000; i++) {
        size_t start = want.n;

        CHECK_EQ(buf_addf(&want, "%0*d\n\n", i % 150 + 1, i), 0);
        CHECK_EQ(sse_push_bytes(&r.sse, str_skip(buf_str(&want), start)), 0);
    }
    client_read_text(&r, fd, &b, "\r\n\r\n");
    while (buf_clear(&text), chunks = text_of(&b, &text), text.n < want.n) {
        rig_run(&r, 1);
        CHECK_EQ(client_read(fd, &b), 0);
    }
    CHECK(str_eq(buf_str(&text), buf_str(&want)));
    CHECK_EQ(chunks, want.n / 0xffff + 1);
    for (int i = 0; i < 3; i++) {
        buf_clear(&b);
        CHECK_EQ(sse_push_bytes(&r.sse, STR("one\n\n")), 0);
        rig_run(&r, 0); /* a single turn */
        CHECK_EQ(client_read(fd, &b), 0);
        CHECK_SPAN(buf_str(&b), "5\r\none\n\n\r\n");
    }
    fd_close(fd);
    rig_done(&r);
}

/* What is written in between must not be kept either: the leak checker watches. */
TEST(sse, swallows_events_between_the_end_of_its_connection_and_the_report)
{
    struct rig r;
    int fd;

    rig_init(&r);
    fd = client_open(&r, get_one);
    CHECK_EQ(sse_send_bare(&r.sse, STR("one")), 0);
    http_reply_cut(r.sse.req, EIO);
    CHECK_EQ(r.closed, -1);
    CHECK_EQ(sse_send_bare(&r.sse, STR("two")), 0);
    rig_run(&r, 10);
    CHECK_EQ(r.closed, EIO);
    CHECK_EQ(sse_send_bare(&r.sse, STR("three")), 0);
    fd_close(fd);
    rig_done(&r);
}

TEST(sse, pings_from_its_first_event_on)
{
    struct rig r;
    AUTO_BUF(b, 1 << 20);
    int fd;

    rig_init(&r);
    fd = client_open(&r, get_one);
    sse_set_ping(&r.sse, 20);
    rig_run(&r, 60);
    CHECK_EQ(client_read(fd, &b), 0);
    CHECK_EQ(b.n, 0);
    CHECK_EQ(sse_send_bare(&r.sse, STR("one")), 0);
    client_read_text(&r, fd, &b, "one\n\n\r\n3\r\n:\n\n\r\n3\r\n:\n\n\r\n");
    sse_end(&r.sse, 0);
    client_read_text(&r, fd, &b, "\r\n0\r\n\r\n");
    rig_run(&r, 60);
    CHECK_EQ(client_read(fd, &b), 0);
    CHECK(str_ends(buf_str(&b), STR("0\r\n\r\n")));
    fd_close(fd);
    rig_done(&r);
}

static void one_on_ping(struct sse *s)
{
    struct rig *r = container_of(s, struct rig, sse);

    r->pings++;
    CHECK_EQ(sse_send_bare(s, STR("pong")), 0);
}

TEST(sse, pings_with_what_its_owner_likes)
{
    static const struct sse_ops ops = {.on_ping = one_on_ping};
    struct rig r;
    AUTO_BUF(b, 1 << 20);
    int fd;

    rig_init(&r);
    fd = client_open(&r, get_one);
    r.sse.ops = &ops;
    CHECK_EQ(sse_send_bare(&r.sse, STR("one")), 0);
    sse_set_ping(&r.sse, 10);
    client_read_text(&r, fd, &b, "6\r\npong\n\n\r\n6\r\npong\n\n\r\n");
    CHECK(r.pings >= 2);
    fd_close(fd);
    RIG_RUN_UNTIL(&r, r.sse.ended); /* a ping finds out */
    rig_done(&r);
}

/* Over TCP a client that is gone and one that only has nothing more to say look alike. */
TEST(sse, asks_a_client_that_closed_its_side_whether_it_is_gone)
{
    static const struct sse_ops ops = {.on_ping = one_on_ping};
    struct rig r;
    AUTO_BUF(b, 1 << 20);
    int fd;

    rig_init(&r);
    fd = client_open(&r, get_one);
    r.sse.ops = &ops;
    CHECK_EQ(sse_send_bare(&r.sse, STR("one")), 0);
    sse_set_ping(&r.sse, 60 * 1000);
    CHECK_EQ(shutdown(fd, SHUT_WR), 0);
    client_read_text(&r, fd, &b, "6\r\npong\n\n\r\n");
    rig_run(&r, 50);
    CHECK_EQ(r.pings, 1);
    CHECK_EQ(r.sse.ended, 0); /* it reads on */
    sse_end(&r.sse, 0);
    fd_close(fd);
    rig_run(&r, 10);
    fd = client_open(&r, get_one);
    r.sse.ops = &ops;
    CHECK_EQ(sse_send_bare(&r.sse, STR("one")), 0);
    sse_set_ping(&r.sse, 60 * 1000);
    buf_clear(&b);
    client_read_text(&r, fd, &b, "one\n\n\r\n"); /* else closing it would be a reset */
    fd_close(fd);
    RIG_RUN_UNTIL(&r, r.sse.ended);
    CHECK_EQ(r.pings, 2);
    rig_done(&r);
}

enum { LONG_LINE = 60 * 1000 };
static char long_line[LONG_LINE];

/* Sends numbered lines until the client lags. */
static void send_lines(struct rig *r)
{
    memset(long_line, 'x', sizeof(long_line));
    while (r->sent < r->to_send) {
        char number[24];
        int res;

        snprintf(number, sizeof(number), "%016" PRIu64, r->sent);
        memcpy(long_line, number, 16);
        res = sse_send_bare(&r->sse, str_make(long_line, sizeof(long_line)));
        if (res == -EAGAIN)
            return;
        CHECK_EQ(res, 0);
        r->sent++;
    }
    if (!r->sse.ended)
        sse_end(&r->sse, 0);
}

/* A reader that is always slower than the sender: the queue never runs empty, and more flows
 * through it than its hard ceiling could hold. */
TEST(sse, waits_for_a_slow_client_and_loses_nothing)
{
    struct rig r;
    AUTO_BUF(b, 64 << 20);
    uint64_t lines = (40 << 20) / LONG_LINE, seen = 0;
    struct str rest;
    int fd;

    rig_init(&r);
    r.on_begin = send_lines;
    r.to_send = lines;
    fd = client_open(&r, get_one);
    CHECK(r.sent < 20); /* stopped by the client, not by the end */
    while (r.closed < 0) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};

        CHECK_EQ(client_read(fd, &b), 0);
        (void)poll(&pfd, 1, 0);
        rig_run(&r, 0);
    }
    CHECK_EQ(r.closed, 0);
    CHECK_EQ(r.sent, lines);
    CHECK(r.drains > 100);
    client_read_up_to(&r, fd, &b, "\n\n\r\n0\r\n\r\n");
    for (rest = body_of(&b); rest.n > LONG_LINE; seen++) {
        char want[32];
        int n = snprintf(want, sizeof(want), "ea62\r\n%016" PRIu64 "xx", seen);

        CHECK(str_starts(rest, str_make(want, (size_t)n)));
        rest = str_skip(rest, 6 + LONG_LINE + 4);
    }
    CHECK_EQ(seen, lines);
    fd_close(fd);
    rig_done(&r);
}

static void send_lines_tightly(struct rig *r)
{
    http_reply_queue_max(r->sse.req, LONG_LINE);
    send_lines(r);
}

/* A line as large as the queue never fits behind what a full socket leaves there. Each on_drain
 * must be worth its call all the same. */
TEST(sse, gets_on_drain_only_when_an_event_fits)
{
    struct rig r;
    AUTO_BUF(b, 64 << 20);
    char step[3000];
    int fd;

    rig_init(&r);
    r.on_begin = send_lines_tightly;
    r.to_send = 20;
    fd = client_open(&r, get_one);
    while (r.closed < 0) {
        ssize_t n = read(fd, step, sizeof(step));

        if (n > 0)
            CHECK_EQ(buf_add(&b, str_make(step, (size_t)n)), 0);
        rig_run(&r, 1);
    }
    CHECK_EQ(r.sent, 20);
    CHECK(r.drains <= 20);
    client_read_up_to(&r, fd, &b, "0\r\n\r\n");
    fd_close(fd);
    rig_done(&r);
}

/* --- many clients --- */

static void rig_on_leave(void *user, struct http_req *req UNUSED, enum sse_leave why)
{
    struct rig *r = user;

    r->left[why]++;
    if (r->publish_on_leave)
        CHECK_EQ(sse_hub_publish(r->hub, STR("left"), STR("someone")), 0);
}

static void rig_init_hub(struct rig *r, size_t lag_bytes_max, uint32_t lag_ms_max, uint32_t ping_ms)
{
    struct sse_hub_conf conf = {
        .lag_ms_max = lag_ms_max, .ping_ms = ping_ms, .on_leave = rig_on_leave, .user = r};

    rig_init(r);
    CHECK_EQ(sse_hub_new(r->loop, lag_bytes_max, &r->hub), 0);
    sse_hub_configure(r->hub, &conf);
}

static struct sse_hub_stats hub_stats(struct rig *r)
{
    struct sse_hub_stats stats;

    sse_hub_stats(r->hub, &stats);
    return stats;
}

/* Reads until so much more came, and the last event of it is whole. */
static void client_read_event(struct rig *r, int fd, struct buf *b, size_t n)
{
    size_t before = b->n;

    CHECK_EQ(client_read(fd, b), 0);
    while (b->n < before + n || !str_ends(buf_str(b), STR("\n\n\r\n"))) {
        rig_run(r, 0);
        CHECK_EQ(client_read(fd, b), 0);
    }
}

/* Publishes numbered events of 1000 bytes, one per turn at most. With a buffer, `fast` has read
 * each before the next comes. */
static void publish_many(struct rig *r, unsigned count, int fast, struct buf *b)
{
    char data[1000];

    for (unsigned i = 0; i < count; i++) {
        memset(data, 'x', sizeof(data));
        snprintf(data, sizeof(data), "%06u", i);
        CHECK_EQ(sse_hub_publish(r->hub, STR("n"), str_make(data, sizeof(data))), 0);
        rig_run(r, 0);
        if (b)
            client_read_event(r, fast, b, sizeof(data));
    }
}

static void check_numbers(const struct buf *b, unsigned count)
{
    AUTO_BUF(text, 8 << 20);
    struct str rest;

    (void)text_of(b, &text);
    rest = buf_str(&text);
    for (unsigned i = 0; i < count; i++) {
        char want[32];
        size_t at;

        snprintf(want, sizeof(want), "event: n\ndata: %06u", i);
        at = str_find_str(rest, str_of(want));
        CHECK_EQ(at, 0);
        at = str_find_str(rest, STR("\n\n"));
        CHECK(at < rest.n);
        rest = str_skip(rest, at + 2);
    }
}

TEST(sse_hub, gives_every_event_to_every_client)
{
    struct rig r;
    AUTO_BUF(a, 1 << 20);
    AUTO_BUF(b, 1 << 20);
    int one, two;

    rig_init_hub(&r, 1 << 20, 0, 0);
    one = client_open(&r, get_hub);
    client_read_text(&r, one, &a, "text/event-stream"); /* the head comes at once */
    CHECK_EQ(sse_hub_publish_bare(r.hub, STR("first")), 0);
    two = client_open(&r, get_hub);
    CHECK_EQ(sse_hub_publish(r.hub, STR("e"), STR("second")), 0);
    CHECK_EQ(sse_hub_publish_event(r.hub, &(struct sse_event){.id = STR("3"), .data = STR("t")}),
             0);
    client_read_up_to(&r, one, &a, "data: t\n\n\r\n");
    client_read_up_to(&r, two, &b, "data: t\n\n\r\n");
    CHECK_SPAN(body_of(&a), "7\r\nfirst\n\n\r\n"
                            "26\r\nevent: e\ndata: second\n\nid: 3\ndata: t\n\n\r\n");
    CHECK_SPAN(body_of(&b), "26\r\nevent: e\ndata: second\n\nid: 3\ndata: t\n\n\r\n");
    CHECK_EQ(hub_stats(&r).lag_bytes, 0); /* nothing is kept that nobody waits for */
    CHECK_EQ(hub_stats(&r).clients, 2);
    fd_close(one);
    fd_close(two);
    rig_done(&r);
}

TEST(sse_hub, drops_a_client_that_lags_too_far_and_no_other)
{
    struct rig r;
    AUTO_BUF(fast_got, 8 << 20);
    AUTO_BUF(slow_got, 8 << 20);
    int fast, slow;

    rig_init_hub(&r, 100 * 1000, 0, 0);
    fast = client_open(&r, get_hub);
    slow = client_open(&r, get_hub);
    publish_many(&r, 1000, fast, &fast_got);
    check_numbers(&fast_got, 1000);
    CHECK_EQ(hub_stats(&r).dropped_lag, 1);
    CHECK_EQ(hub_stats(&r).clients, 1);
    CHECK_EQ(hub_stats(&r).lag_bytes, 0);
    CHECK(hub_stats(&r).lag_bytes_peak > 90 * 1000 && hub_stats(&r).lag_bytes_peak <= 100 * 1000);
    CHECK_EQ(r.left[SSE_LEFT_LAG], 1);
    CHECK_EQ(client_read_to_end(&r, slow, &slow_got), -ECONNRESET);
    CHECK(!str_ends(buf_str(&slow_got), STR("0\r\n\r\n")));
    CHECK(slow_got.n < 100 * 1000);
    fd_close(fast);
    fd_close(slow);
    rig_done(&r);
}

TEST(sse_hub, keeps_a_client_that_catches_up_in_time)
{
    struct rig r;
    AUTO_BUF(got, 8 << 20);
    int fd;

    rig_init_hub(&r, 400 * 1000, 600 * 1000, 0);
    fd = client_open(&r, get_hub);
    publish_many(&r, 300, fd, NULL); /* reads nothing yet */
    CHECK_EQ(hub_stats(&r).lagging, 1);
    CHECK(hub_stats(&r).lag_bytes > 200 * 1000);
    client_read_text(&r, fd, &got, "data: 000299");
    client_read_up_to(&r, fd, &got, "x\n\n\r\n");
    check_numbers(&got, 300);
    CHECK_EQ(hub_stats(&r).lagging, 0);
    CHECK_EQ(hub_stats(&r).lag_bytes, 0);
    CHECK_EQ(hub_stats(&r).dropped_lag + hub_stats(&r).dropped_lag_time, 0);
    fd_close(fd);
    rig_done(&r);
}

TEST(sse_hub, drops_a_client_that_lags_too_long)
{
    struct rig r;
    int fd;

    rig_init_hub(&r, 1 << 20, 50, 0);
    fd = client_open(&r, get_hub);
    publish_many(&r, 100, -1, NULL);
    RIG_RUN_UNTIL(&r, r.left[SSE_LEFT_LAG_TIME] == 1);
    CHECK_EQ(hub_stats(&r).dropped_lag_time, 1);
    CHECK_EQ(hub_stats(&r).lag_bytes, 0);
    fd_close(fd);
    rig_done(&r);
}

TEST(sse_hub, notices_a_client_that_left_and_frees_its_events)
{
    struct rig r;
    int fd;

    rig_init_hub(&r, 1 << 20, 0, 20);
    fd = client_open(&r, get_hub);
    publish_many(&r, 100, -1, NULL);
    CHECK(hub_stats(&r).lag_bytes > 0);
    fd_close(fd); /* unread input: a reset */
    RIG_RUN_UNTIL(&r, r.left[SSE_LEFT] == 1);
    CHECK_EQ(hub_stats(&r).lag_bytes, 0);
    CHECK_EQ(hub_stats(&r).left, 1);
    fd = client_open(&r, get_hub);
    (void)shutdown(fd, SHUT_RDWR);
    fd_close(fd);
    RIG_RUN_UNTIL(&r, r.left[SSE_LEFT] == 2); /* pings find out */
    CHECK_EQ(hub_stats(&r).clients, 0);
    rig_done(&r);
}

TEST(sse_hub, takes_events_from_within_its_own_callbacks)
{
    struct rig r;
    AUTO_BUF(got, 8 << 20);
    int fast, slow[3];

    rig_init_hub(&r, 50 * 1000, 0, 0);
    r.publish_on_leave = true;
    fast = client_open(&r, get_hub);
    for (size_t i = 0; i < ARRAY_LEN(slow); i++)
        slow[i] = client_open(&r, get_hub);
    publish_many(&r, 200, fast, &got);
    RIG_RUN_UNTIL(&r, r.left[SSE_LEFT_LAG] == 3);
    CHECK_EQ(hub_stats(&r).published, 203);
    client_read_text(&r, fast, &got, "event: left\ndata: someone\n\n");
    fd_close(fast);
    for (size_t i = 0; i < ARRAY_LEN(slow); i++)
        fd_close(slow[i]);
    r.publish_on_leave = false;
    rig_done(&r);
}

TEST(sse_hub, ends_cleanly_only_for_clients_that_have_everything)
{
    struct rig r;
    AUTO_BUF(fast_got, 1 << 20);
    AUTO_BUF(slow_got, 1 << 20);
    int fast, slow;

    rig_init_hub(&r, 1 << 20, 0, 0);
    fast = client_open(&r, get_hub);
    slow = client_open(&r, get_hub);
    publish_many(&r, 100, fast, &fast_got);
    CHECK_EQ(hub_stats(&r).lagging, 1);
    sse_hub_free(take_ptr(&r.hub));
    client_read_up_to(&r, fast, &fast_got, "\n\n\r\n0\r\n\r\n");
    CHECK_EQ(client_read_to_end(&r, slow, &slow_got), -ECONNRESET);
    CHECK(!str_ends(buf_str(&slow_got), STR("0\r\n\r\n")));
    CHECK_EQ(r.left[SSE_LEFT_LAG], 0); /* no callback is called any more */
    fd_close(fast);
    fd_close(slow);
    rig_done(&r);
}

TEST(sse_hub, may_be_freed_in_the_turn_in_which_it_dropped_a_client)
{
    struct rig r;
    int fd;
    char data[1000];

    rig_init_hub(&r, 20 * 1000, 0, 0);
    fd = client_open(&r, get_hub);
    memset(data, 'x', sizeof(data));
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQ(sse_hub_publish(r.hub, STR("n"), str_make(data, sizeof(data))), 0);
    CHECK_EQ(hub_stats(&r).dropped_lag, 1); /* a burst beyond the limit drops every client */
    sse_hub_free(take_ptr(&r.hub));
    rig_run(&r, 10);
    CHECK_EQ(r.left[SSE_LEFT_LAG], 0);
    fd_close(fd);
    rig_done(&r);
}

TEST(sse_hub, speaks_http_1_0_and_answers_head)
{
    struct rig r;
    AUTO_BUF(a, 1 << 20);
    AUTO_BUF(b, 1 << 20);
    int old, head;

    rig_init_hub(&r, 1 << 20, 0, 0);
    old = client_open(&r, "GET /hub HTTP/1.0\r\n\r\n");
    head = client_open(&r, "HEAD /hub HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK_EQ(hub_stats(&r).clients, 1);
    CHECK_EQ(sse_hub_publish_bare(r.hub, STR("first")), 0);
    client_read_up_to(&r, old, &a, "first\n\n");
    CHECK_SPAN(body_of(&a), "first\n\n");
    CHECK(has(&a, "Connection: close"));
    CHECK(!has(&a, "keep-alive"));
    client_read_text(&r, head, &b, "\r\n\r\n");
    CHECK(has(&b, "text/event-stream"));
    CHECK_EQ(body_of(&b).n, 0);
    fd_close(old);
    fd_close(head);
    rig_done(&r);
}

TEST(sse_hub, refuses_events_it_could_never_keep)
{
    struct rig r;
    AUTO_BUF(big, 1 << 20);

    rig_init_hub(&r, 1000, 0, 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(buf_add_char(&big, 'x'), 0);
    CHECK_EQ(sse_hub_publish(r.hub, STR("e"), buf_str(&big)), -EMSGSIZE);
    CHECK_EQ(sse_hub_publish(r.hub, STR("a\nb"), STR("x")), -EINVAL);
    CHECK_EQ(hub_stats(&r).published, 0);
    rig_done(&r);
}
