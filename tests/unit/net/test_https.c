/* Our HTTP client and our HTTP server over TLS, on one loop. What only a misbehaving server does
 * comes from a stream of the test. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/tls.h"
#include "test.h"
#include "tls_identity.h"

enum { MS = 1000 * 1000, FILE_BYTES = 3 << 20, BODY_BYTES_MAX = 4 << 20 };

/* What a call has brought so far. */
struct answer {
    struct buf body;
    int status, ends, error;
    char story[256];
};

static struct world {
    struct loop *loop;
    struct http_server *server;
    struct http_client *client;
    struct sock_addr addr;
    struct identity ca, site;
    struct tls_server *tls_server;
    struct tls_client *tls_client;
    struct answer answer;
} w; /* a test is a process of its own */

/* --- the server --- */

static void say_proto(struct http_req *req)
{
    http_reply(req, 200, STR("text/plain"), http_req_is_secure(req) ? STR("https") : STR("http"));
}

static void echo(struct http_req *req)
{
    http_reply(req, 200, STR("text/plain"), req->body);
}

static void send_file(struct http_req *req)
{
    int fd = memfd_create("file", MFD_CLOEXEC);

    CHECK_EQ(ftruncate(fd, FILE_BYTES), 0);
    CHECK_EQ(pwrite(fd, "end", 3, FILE_BYTES - 3), 3);
    http_reply_file(req, fd, STR("text/plain"));
}

static const struct http_route routes[] = {
    {HTTP_BIT(HTTP_GET),  "/proto", 0, say_proto, 0             },
    {HTTP_BIT(HTTP_POST), "/echo",  0, echo,      BODY_BYTES_MAX},
    {HTTP_BIT(HTTP_GET),  "/file",  0, send_file, 0             },
};

static int listen_here(void)
{
    int fd;

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &w.addr, NULL), 0);
    fd = sock_listen(&w.addr, 16, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(sock_local_addr(fd, &w.addr), 0);
    return fd;
}

static void start_server(uint32_t head_ms)
{
    struct http_server_conf conf = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .tls = tls_server_security(w.tls_server),
        .head_ms = head_ms,
    };

    CHECK_EQ(http_server_new(w.loop, &conf, &w.server, NULL), 0);
    CHECK_EQ(http_server_listen(w.server, listen_here(), NULL), 0);
}

/* --- the world --- */

static void set_up(void)
{
    struct tls_server_conf server_conf;
    struct tls_client_conf client_conf;

    make_identity_dir();
    w.ca = make_identity("ca", NULL, NULL, -DAY_S, DAY_S);
    w.site = make_identity("site", &w.ca, "DNS:box.test,DNS:too.test", -DAY_S, DAY_S);
    server_conf = (struct tls_server_conf){w.site.cert_file, w.site.key_file, NULL};
    client_conf = (struct tls_client_conf){.ca_file = w.ca.cert_file};
    CHECK_EQ(loop_new(&w.loop, NULL), 0);
    CHECK_EQ(tls_server_new(&server_conf, &w.tls_server, NULL), 0);
    CHECK_EQ(tls_client_new(&client_conf, &w.tls_client, NULL), 0);
    CHECK_EQ(http_client_new(w.loop, &(struct http_client_conf){0}, &w.client, NULL), 0);
    buf_init(&w.answer.body, BODY_BYTES_MAX);
}

static void tear_down(void)
{
    http_client_free(w.client);
    http_server_free(w.server);
    loop_free(w.loop);
    tls_client_free(w.tls_client);
    tls_server_free(w.tls_server);
    buf_done(&w.answer.body);
    free_identity(&w.ca);
    free_identity(&w.site);
    CHECK_EQ(rmdir(identity_dir), 0);
}

static void on_due_stop(struct loop_timer *t UNUSED)
{
    loop_stop(w.loop);
}

static void turn(void)
{
    struct loop_timer t = {0};

    loop_timer_set(w.loop, &t, time_mono_ns() + MS, on_due_stop);
    CHECK_EQ(loop_run(w.loop, NULL), 0);
    loop_timer_stop(w.loop, &t);
}

/* The test's own deadline ends it when that never comes. */
#define RUN_UNTIL(condition)                                                                       \
    do                                                                                             \
        turn();                                                                                    \
    while (!(condition))

static uint64_t accepted(void)
{
    struct http_server_stats stats;

    http_server_stats(w.server, &stats);
    return stats.accepted;
}

/* --- calls --- */

static void on_head(struct http_call *call)
{
    w.answer.status = call->head.status;
}

static ssize_t on_body(struct http_call *call UNUSED, struct str piece)
{
    CHECK_EQ(buf_add(&w.answer.body, piece), 0);
    return (ssize_t)piece.n;
}

static void on_end(struct http_call *call, int error)
{
    w.answer.ends++;
    w.answer.error = error;
    (void)snprintf(w.answer.story, sizeof(w.answer.story), "%s", call->err.msg);
}

static const struct http_call_ops call_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end};

static struct http_call_spec spec_of(const char *target)
{
    return (struct http_call_spec){
        .addr = &w.addr,
        .tls = tls_client_security(w.tls_client),
        .tls_host = STR("box.test"),
        .method = HTTP_GET,
        .target = str_of(target),
        .host = STR("box.test"),
        .ops = &call_ops,
    };
}

static void ask(const struct http_call_spec *spec)
{
    struct http_call *call;

    w.answer.ends = w.answer.status = 0;
    w.answer.body.n = 0;
    CHECK_EQ(http_call_start(w.client, spec, &call, NULL), 0);
    RUN_UNTIL(w.answer.ends);
}

static void check_proto(const struct http_call_spec *spec)
{
    ask(spec);
    CHECK_STR(w.answer.story, "");
    CHECK_EQ(w.answer.error, 0);
    CHECK_EQ(w.answer.status, 200);
    CHECK_SPAN(buf_str(&w.answer.body), "https");
}

TEST(https, answers_and_knows_that_it_is_secure)
{
    struct http_call_spec spec;

    set_up();
    start_server(0);
    spec = spec_of("/proto");
    check_proto(&spec);
    tear_down();
}

TEST(https, takes_an_upload_and_sends_it_back)
{
    struct http_call_spec spec;
    struct buf body;

    set_up();
    start_server(0);
    buf_init(&body, BODY_BYTES_MAX);
    CHECK_EQ(buf_reserve(&body, FILE_BYTES), 0);
    for (size_t i = 0; i < FILE_BYTES; i++)
        body.p[i] = (char)(i * 11 + i / 253);
    buf_claim(&body, FILE_BYTES);
    spec = spec_of("/echo");
    spec.method = HTTP_POST;
    spec.body = buf_str(&body);
    ask(&spec);
    CHECK_EQ(w.answer.error, 0);
    CHECK(str_eq(buf_str(&w.answer.body), buf_str(&body)));
    buf_done(&body);
    tear_down();
}

TEST(https, sends_files)
{
    struct http_call_spec spec;

    set_up();
    start_server(0);
    spec = spec_of("/file");
    ask(&spec);
    CHECK_EQ(w.answer.error, 0);
    CHECK_EQ(w.answer.body.n, FILE_BYTES);
    CHECK_SPAN(str_skip(buf_str(&w.answer.body), FILE_BYTES - 3), "end");
    tear_down();
}

TEST(https, keeps_a_connection_for_the_same_name_and_context_only)
{
    struct tls_client_conf conf = {.insecure_skip_verification = true};
    struct tls_client *other;
    struct http_call_spec spec;

    set_up();
    CHECK_EQ(tls_client_new(&conf, &other, NULL), 0);
    start_server(0);
    spec = spec_of("/proto");
    check_proto(&spec);
    check_proto(&spec);
    CHECK_EQ(accepted(), 1);
    spec.tls_host = STR("too.test");
    check_proto(&spec);
    CHECK_EQ(accepted(), 2);
    spec.tls_host = STR("box.test");
    spec.tls = tls_client_security(other);
    check_proto(&spec);
    CHECK_EQ(accepted(), 3);
    spec.tls = tls_client_security(w.tls_client);
    check_proto(&spec);
    CHECK_EQ(accepted(), 3);
    http_client_free(w.client); /* before the context of its connections */
    w.client = NULL;
    tls_client_free(other);
    tear_down();
}

TEST(https, tells_why_a_server_is_refused)
{
    struct http_call_spec spec;

    set_up();
    start_server(0);
    spec = spec_of("/proto");
    spec.tls_host = STR("other.test");
    ask(&spec);
    CHECK_EQ(w.answer.error, EPROTO);
    CHECK_STR(w.answer.story, "the certificate of other.test was refused: hostname mismatch");
    tear_down();
}

TEST(https, starts_no_call_without_a_name)
{
    struct http_call_spec spec;
    struct http_call *call;
    struct err e = {0};

    set_up();
    start_server(0);
    spec = spec_of("/proto");
    spec.tls_host = STR_NONE;
    CHECK_EQ(http_call_start(w.client, &spec, &call, &e), -EINVAL);
    CHECK(strstr(e.msg, "the server's name"));
    tear_down();
}

TEST(https, reports_a_refused_connection_as_such)
{
    struct http_call_spec spec;

    set_up();
    fd_close(listen_here());
    spec = spec_of("/proto");
    ask(&spec);
    CHECK_EQ(w.answer.error, ECONNREFUSED);
    tear_down();
}

/* --- servers and clients that misbehave --- */

static struct stream rogue;
static bool rogue_is_honest;

static size_t rogue_on_data(struct stream *s, char *p UNUSED, size_t n)
{
    CHECK_EQ(stream_write(s, STR("HTTP/1.1 200 OK\r\n\r\nhalf of a body")), 0);
    return n;
}

static void rogue_on_close(struct stream *s UNUSED, int error UNUSED)
{
}

static const struct stream_ops rogue_ops = {.on_data = rogue_on_data, .on_close = rogue_on_close};

static void rogue_on_accept(struct sock_listener *l UNUSED, int fd,
                            const struct sock_addr *peer UNUSED)
{
    CHECK_EQ(stream_start_secure(&rogue, w.loop, fd, tls_server_security(w.tls_server), STR_NONE,
                                 &rogue_ops, NULL),
             0);
}

/* A body that ends with the connection: in order, or with its socket only. */
static void ask_rogue(void)
{
    struct http_call_spec spec;
    struct sock_listener listener;
    struct http_call *call;

    set_up();
    CHECK_EQ(sock_listener_start(&listener, w.loop, listen_here(), rogue_on_accept, NULL), 0);
    spec = spec_of("/");
    CHECK_EQ(http_call_start(w.client, &spec, &call, NULL), 0);
    RUN_UNTIL(w.answer.body.n == strlen("half of a body"));
    CHECK_EQ(w.answer.ends, 0);
    if (rogue_is_honest)
        stream_finish(&rogue, false);
    else
        stream_close(&rogue, EIO);
    RUN_UNTIL(w.answer.ends);
    sock_listener_stop(&listener);
}

TEST(https, takes_a_body_that_ends_with_close_notify)
{
    rogue_is_honest = true;
    ask_rogue();
    CHECK_EQ(w.answer.error, 0);
    tear_down();
}

TEST(https, fails_a_body_that_ends_without_close_notify)
{
    ask_rogue();
    CHECK_EQ(w.answer.error, ECONNRESET);
    CHECK(strstr(w.answer.story, "without close_notify"));
    tear_down();
}

static int connect_plain(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_EQ(connect(fd, &w.addr.any, w.addr.size), 0);
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Until the server closes; bytes received. */
static size_t read_to_end(int fd)
{
    char bytes[4096];
    size_t got = 0;
    ssize_t n;

    for (;;) {
        turn();
        n = read(fd, bytes, sizeof(bytes));
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return got;
        CHECK(n > 0 || errno == EAGAIN);
        got += n > 0 ? (size_t)n : 0;
    }
}

TEST(https, closes_what_speaks_plain_http)
{
    static const char request[] = "GET /proto HTTP/1.1\r\nHost: box.test\r\n\r\n";
    int fd;

    set_up();
    start_server(0);
    fd = connect_plain();
    CHECK_EQ(write(fd, request, strlen(request)), strlen(request));
    CHECK_EQ(read_to_end(fd), 0);
    fd_close(fd);
    tear_down();
}

TEST(https, closes_what_does_not_finish_its_handshake_in_time)
{
    static const char begun[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01};
    int fd;

    set_up();
    start_server(50);
    fd = connect_plain();
    CHECK_EQ(write(fd, begun, sizeof(begun)), sizeof(begun));
    CHECK_EQ(read_to_end(fd), 0);
    fd_close(fd);
    tear_down();
}

static void on_drained(void *user)
{
    *(bool *)user = true;
}

TEST(https, drains_with_a_handshake_under_way)
{
    bool drained = false;
    int fd;

    set_up();
    start_server(0);
    fd = connect_plain();
    RUN_UNTIL(accepted() == 1);
    http_server_drain(w.server, 60 * 1000, on_drained, &drained);
    RUN_UNTIL(drained);
    fd_close(fd);
    tear_down();
}
