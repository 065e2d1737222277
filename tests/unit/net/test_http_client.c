/* A client whose server is this test, at the other end of a socket pair. */
#include "test.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "net/http_client.h"

enum { TURN_MS = 100 };

struct answer {
    int status, ends, error;
    bool sent; /* http_call_has_sent at its end */
};

static void on_head(struct http_call *call)
{
    ((struct answer *)call->user)->status = call->head.status;
}

static ssize_t on_body(struct http_call *call UNUSED, struct str piece)
{
    return (ssize_t)piece.n;
}

static void on_drain(struct http_call *call UNUSED)
{
}

static void on_end(struct http_call *call, int error)
{
    struct answer *a = call->user;

    a->ends++;
    a->error = error;
    a->sent = http_call_has_sent(call);
}

static const struct http_call_ops ops = {
    .on_head = on_head, .on_body = on_body, .on_drain = on_drain, .on_end = on_end};

/* The test's own deadline ends it when that never comes. */
#define TURN_UNTIL(loop, condition)                                                                \
    do                                                                                             \
        CHECK(loop_turn(loop, TURN_MS, NULL) >= 0);                                                \
    while (!(condition))

static void say(int fd, struct str text)
{
    CHECK_EQ(write(fd, text.p, text.n), (ssize_t)text.n);
}

/* Takes what there is; true at the end of the stream. */
static bool is_at_end(int fd)
{
    char bytes[65536];
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        ;
    CHECK(n == 0 || errno == EAGAIN);
    return n == 0;
}

TEST(http_client, half_closes_once_the_rest_of_the_request_is_sent)
{
    struct http_call_spec spec = {.method = HTTP_POST,
                                  .target = STR("/"),
                                  .host = STR("x"),
                                  .streams_body = true,
                                  .body_length = HTTP_UNKNOWN_LENGTH,
                                  .ops = &ops};
    struct sock_addr nowhere = {0};
    struct answer answer = {0};
    struct http_client *client;
    struct http_call *call;
    struct loop *loop;
    static const char bytes[65536];
    int ends[2];

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(loop_new(&loop, NULL), 0);
    CHECK_EQ(http_client_new(loop, &(struct http_client_conf){0}, &client, NULL), 0);
    spec.addr = &nowhere;
    spec.fd = &ends[0];
    spec.user = &answer;
    CHECK_EQ(http_call_start(client, &spec, &call, NULL), 0);
    say(ends[1], STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    TURN_UNTIL(loop, answer.status == 200);

    while (http_call_write(call, str_make(bytes, sizeof(bytes))) > 0)
        CHECK(loop_turn(loop, 0, NULL) >= 0); /* until the socket and the queue are full */
    http_call_write_end(call);
    http_call_half_close(call);
    TURN_UNTIL(loop, is_at_end(ends[1]));

    say(ends[1], STR("0\r\n\r\n"));
    TURN_UNTIL(loop, answer.ends == 1);
    CHECK_EQ(answer.error, 0);
    http_client_free(client);
    loop_free(loop);
    close(ends[1]);
}

static int accept_soon(struct loop *loop, int listener)
{
    int fd;

    TURN_UNTIL(loop, (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    return fd;
}

static bool has_input(int fd)
{
    char bytes[4096];

    return read(fd, bytes, sizeof(bytes)) > 0;
}

/* The client sends a DELETE again when a kept connection breaks. That the new connection is refused
 * does not mean that the server has seen nothing. */
TEST(http_client, remembers_what_it_sent_before_a_retry)
{
    struct http_call_spec spec = {
        .method = HTTP_DELETE, .target = STR("/"), .host = STR("x"), .ops = &ops};
    struct answer answer = {0};
    struct http_client *client;
    struct http_call *call;
    struct sock_addr addr;
    struct loop *loop;
    int listener, fd;

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &addr, NULL), 0);
    listener = sock_listen(&addr, 16, NULL);
    CHECK(listener >= 0);
    CHECK_EQ(sock_local_addr(listener, &addr), 0);
    CHECK_EQ(loop_new(&loop, NULL), 0);
    CHECK_EQ(http_client_new(loop, &(struct http_client_conf){0}, &client, NULL), 0);
    spec.addr = &addr;
    spec.user = &answer;
    CHECK_EQ(http_call_start(client, &spec, &call, NULL), 0);
    fd = accept_soon(loop, listener);
    TURN_UNTIL(loop, has_input(fd));
    say(fd, STR("HTTP/1.1 204 No Content\r\n\r\n"));
    TURN_UNTIL(loop, answer.ends == 1);
    CHECK_EQ(answer.status, 204);

    CHECK_EQ(http_call_start(client, &spec, &call, NULL), 0);
    TURN_UNTIL(loop, has_input(fd)); /* on the kept connection */
    close(listener);
    close(fd);
    TURN_UNTIL(loop, answer.ends == 2);
    CHECK_EQ(answer.error, ECONNREFUSED);
    CHECK(answer.sent);
    CHECK_EQ(http_call_start(client, &spec, &call, NULL), 0);
    TURN_UNTIL(loop, answer.ends == 3);
    CHECK_EQ(answer.error, ECONNREFUSED);
    CHECK(!answer.sent);
    http_client_free(client);
    loop_free(loop);
}

TEST(http_client, ends_the_calls_of_a_group_whose_server_is_gone)
{
    struct answer answers[2] = {0};
    struct http_client *client;
    struct http_call *call;
    struct sock_addr addr;
    struct loop *loop;
    int listener, fds[2];

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &addr, NULL), 0);
    listener = sock_listen(&addr, 4, NULL);
    CHECK(listener >= 0);
    CHECK_EQ(sock_local_addr(listener, &addr), 0);
    CHECK_EQ(loop_new(&loop, NULL), 0);
    CHECK_EQ(http_client_new(loop, &(struct http_client_conf){0}, &client, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        struct http_call_spec spec = {.method = HTTP_POST,
                                      .target = STR("/"),
                                      .host = STR("x"),
                                      .addr = &addr,
                                      .group = i + 1,
                                      .ops = &ops,
                                      .user = &answers[i]};

        CHECK_EQ(http_call_start(client, &spec, &call, NULL), 0);
        fds[i] = accept_soon(loop, listener);
        TURN_UNTIL(loop, has_input(fds[i]));
        say(fds[i], STR("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"));
    }
    http_client_end_group(client, 1); /* the head is still to be read */
    TURN_UNTIL(loop, answers[0].ends == 1);
    CHECK_EQ(answers[0].status, 200);
    CHECK(answers[0].error != 0);
    say(fds[1], STR("cd"));
    TURN_UNTIL(loop, answers[1].ends == 1);
    CHECK_EQ(answers[1].error, 0);
    http_client_free(client);
    loop_free(loop);
    close(fds[0]);
    close(fds[1]);
    close(listener);
}

/* A server that closes the connection once it has answered, before the client has been told. */
struct closing {
    struct answer answer;
    struct http_client *client;
    struct http_call_spec spec; /* of the request that follows at once */
    struct answer second;
    int conn;
};

static void on_end_close_and_go_on(struct http_call *call, int error)
{
    struct closing *c = call->user;
    struct http_call *next;

    on_end(call, error);
    CHECK_EQ(close(c->conn), 0);
    CHECK_EQ(http_call_start(c->client, &c->spec, &next, NULL), 0);
    http_call_write_end(next);
}

static const struct http_call_ops closing_ops = {
    .on_head = on_head, .on_body = on_body, .on_drain = on_drain, .on_end = on_end_close_and_go_on};

static int accept_request(struct loop *loop, int listener)
{
    int conn = accept_soon(loop, listener);

    TURN_UNTIL(loop, has_input(conn));
    return conn;
}

TEST(http_client, sends_no_body_into_a_connection_that_the_server_has_closed)
{
    struct closing c = {0};
    struct sock_addr addr;
    struct http_call *call;
    struct loop *loop;
    int listener, conn;

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &addr, NULL), 0);
    listener = sock_listen(&addr, 4, NULL);
    CHECK(listener >= 0);
    CHECK_EQ(sock_local_addr(listener, &addr), 0);
    CHECK_EQ(loop_new(&loop, NULL), 0);
    CHECK_EQ(http_client_new(loop, &(struct http_client_conf){0}, &c.client, NULL), 0);
    c.spec = (struct http_call_spec){.method = HTTP_POST,
                                     .target = STR("/"),
                                     .host = STR("x"),
                                     .addr = &addr,
                                     .streams_body = true,
                                     .body_length = HTTP_UNKNOWN_LENGTH,
                                     .ops = &ops,
                                     .user = &c.second};
    CHECK_EQ(http_call_start(c.client,
                             &(struct http_call_spec){.method = HTTP_GET,
                                                      .target = STR("/"),
                                                      .host = STR("x"),
                                                      .addr = &addr,
                                                      .ops = &closing_ops,
                                                      .user = &c},
                             &call, NULL),
             0);
    c.conn = accept_request(loop, listener);
    say(c.conn, STR("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    TURN_UNTIL(loop, c.answer.ends == 1);

    conn = accept_request(loop, listener);
    say(conn, STR("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    TURN_UNTIL(loop, c.second.ends == 1);
    CHECK_EQ(c.second.error, 0);
    CHECK_EQ(c.second.status, 200);
    http_client_free(c.client);
    loop_free(loop);
    close(conn);
    close(listener);
}
