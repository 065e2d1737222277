#include "net/tls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/relay.h"
#include "net/sock.h"
#include "net/tls_internal.h"
#include "test.h"
#include "tls_identity.h"

enum { MS = 1000 * 1000, LARGE_BYTES = 3 << 20 };

/* --- two ends of a connection --- */

struct end {
    struct stream stream;
    struct buf seen;
    struct tls_facts facts;
    char problem[256];
    int eofs, drains, closes, error;
    bool pause_in_data;
};

static struct loop *loop; /* of the one test in this process */
static struct end client, server;
static struct identity ca, site;
static struct tls_server *tls_server;
static struct tls_client *tls_client;

static size_t on_data(struct stream *s, char *p, size_t n)
{
    struct end *e = container_of(s, struct end, stream);
    size_t taken = e->pause_in_data ? min_size(n, 1) : n;

    CHECK_EQ(buf_add(&e->seen, str_make(p, taken)), 0);
    if (e->pause_in_data)
        stream_pause(s);
    return taken;
}

static void on_eof(struct stream *s)
{
    container_of(s, struct end, stream)->eofs++;
}

static void on_drain(struct stream *s)
{
    container_of(s, struct end, stream)->drains++;
}

static void on_close(struct stream *s, int error)
{
    struct end *e = container_of(s, struct end, stream);
    const char *problem = stream_problem(s);

    e->closes++;
    e->error = error;
    (void)snprintf(e->problem, sizeof(e->problem), "%s", problem ? problem : "");
}

static const struct stream_ops ops = {on_data, on_eof, on_drain, on_close};

static void on_due_stop(struct loop_timer *t UNUSED)
{
    loop_stop(loop);
}

static void turn(void)
{
    struct loop_timer t = {0};

    loop_timer_set(loop, &t, time_mono_ns() + MS, on_due_stop);
    CHECK_EQ(loop_run(loop, NULL), 0);
    loop_timer_stop(loop, &t);
}

/* The test's own deadline ends it when that never comes. */
#define RUN_UNTIL(condition)                                                                       \
    do                                                                                             \
        turn();                                                                                    \
    while (!(condition))

static void set_up(void)
{
    struct tls_server_conf server_conf;
    struct tls_client_conf client_conf;

    make_identity_dir();
    ca = make_identity("ca", NULL, NULL, -DAY_S, DAY_S);
    site = make_identity("site", &ca, "DNS:box.test,IP:127.0.0.1,IP:::1", -DAY_S, DAY_S);
    server_conf = (struct tls_server_conf){site.cert_file, site.key_file, NULL};
    client_conf = (struct tls_client_conf){.ca_file = ca.cert_file};
    CHECK_EQ(loop_new(&loop, NULL), 0);
    CHECK_EQ(tls_server_new(&server_conf, &tls_server, NULL), 0);
    CHECK_EQ(tls_client_new(&client_conf, &tls_client, NULL), 0);
}

static void start_end(struct end *e, int fd, struct stream_security *security, const char *host)
{
    *e = (struct end){0};
    buf_init(&e->seen, LARGE_BYTES + 1024);
    CHECK_EQ(stream_start_secure(&e->stream, loop, fd, security, str_of(host), &ops, NULL), 0);
}

static void make_pair(int pair[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
}

static void start_pair(const char *host)
{
    int pair[2];

    make_pair(pair);
    start_end(&client, pair[0], tls_client_security(tls_client), host);
    start_end(&server, pair[1], tls_server_security(tls_server), "");
}

/* A round trip: each side has said and heard something, tickets included. */
static void greet(void)
{
    CHECK_EQ(stream_write(&client.stream, STR("hello")), 0);
    RUN_UNTIL(server.seen.n == 5);
    CHECK_EQ(stream_write(&server.stream, STR("welcome")), 0);
    RUN_UNTIL(client.seen.n == 7);
    CHECK(tls_facts_of(&client.stream, &client.facts));
    CHECK(tls_facts_of(&server.stream, &server.facts));
}

static void close_ends(void)
{
    stream_close(&client.stream, 0);
    stream_close(&server.stream, 0);
    loop_settle(loop);
    buf_done(&client.seen);
    buf_done(&server.seen);
}

static void tear_down(void)
{
    loop_free(loop);
    tls_server_free(tls_server);
    tls_client_free(tls_client);
    free_identity(&ca);
    free_identity(&site);
    CHECK_EQ(rmdir(identity_dir), 0);
}

static void finish(void)
{
    close_ends();
    tear_down();
}

static void fill(struct buf *b, size_t n)
{
    buf_init(b, n);
    CHECK_EQ(buf_reserve(b, n), 0);
    for (size_t i = 0; i < n; i++)
        b->p[i] = (char)(i * 7 + i / 251);
    buf_claim(b, n);
}

/* --- bytes --- */

TEST(tls, carries_bytes_both_ways)
{
    set_up();
    start_pair("box.test");
    greet();
    CHECK_STR(client.facts.version, "TLSv1.3");
    CHECK_SPAN(client.facts.alpn, "http/1.1");
    CHECK_SPAN(server.facts.alpn, "http/1.1");
    CHECK(!client.facts.resumed);
    finish();
}

TEST(tls, carries_more_than_the_socket_holds_while_both_sides_send)
{
    struct buf large;

    set_up();
    fill(&large, LARGE_BYTES);
    start_pair("box.test");
    CHECK_EQ(stream_write(&client.stream, buf_str(&large)), 0);
    CHECK_EQ(stream_write(&server.stream, buf_str(&large)), 0);
    RUN_UNTIL(server.seen.n == LARGE_BYTES && client.seen.n == LARGE_BYTES);
    CHECK(str_eq(buf_str(&server.seen), buf_str(&large)));
    CHECK(str_eq(buf_str(&client.seen), buf_str(&large)));
    buf_done(&large);
    finish();
}

/* What TLS has decrypted no event of the socket announces any more. */
TEST(tls, offers_what_it_holds_to_a_reader_that_pauses_after_every_byte)
{
    enum { BYTES = 1000 };
    struct buf text;

    set_up();
    fill(&text, BYTES);
    start_pair("box.test");
    greet();
    server.seen.n = 0;
    server.pause_in_data = true;
    stream_set_recv(&server.stream, 3); /* far less than a record */
    CHECK_EQ(stream_write(&client.stream, buf_str(&text)), 0);
    for (size_t i = 1; i <= BYTES; i++) {
        RUN_UNTIL(server.seen.n == i);
        stream_resume(&server.stream);
        loop_settle(loop);
    }
    CHECK(str_eq(buf_str(&server.seen), buf_str(&text)));
    buf_done(&text);
    finish();
}

static void ask_for_key_update(struct end *e)
{
    struct tls_session *session = e->stream.session;

    CHECK_EQ(SSL_key_update(session->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    CHECK_EQ(stream_write(&e->stream, STR("x")), 0);
}

TEST(tls, goes_on_through_key_updates)
{
    enum { ROUNDS = 10 };

    set_up();
    start_pair("box.test");
    greet();
    for (size_t i = 1; i <= ROUNDS; i++) {
        ask_for_key_update(&client);
        ask_for_key_update(&server);
        RUN_UNTIL(server.seen.n == 5 + i && client.seen.n == 7 + i);
    }
    finish();
}

/* OpenSSL answers a KeyUpdate within SSL_read, waits for room to do so, and gives up when a record
 * of ours is half sent. Whichever it is, the stream neither spins nor hangs. */
TEST(tls, goes_on_or_ends_when_key_updates_meet_a_full_socket)
{
    enum { ROUNDS = 64 };
    struct buf large;

    set_up();
    fill(&large, LARGE_BYTES);
    start_pair("box.test");
    greet();
    stream_pause(&client.stream);
    CHECK_EQ(stream_write(&server.stream, buf_str(&large)), 0);
    turn();
    client.pause_in_data = true; /* takes one piece at a time */
    for (int i = 0; i < ROUNDS && !client.closes; i++) {
        ask_for_key_update(&client);
        stream_resume(&client.stream);
        turn();
    }
    client.pause_in_data = false;
    stream_resume(&client.stream);
    RUN_UNTIL(client.closes || client.seen.n == 7 + LARGE_BYTES);
    if (client.closes)
        CHECK_EQ(server.error, EPROTO);
    buf_done(&large);
    finish();
}

TEST(tls, sends_a_file)
{
    struct buf text;
    int fd;

    set_up();
    fill(&text, LARGE_BYTES);
    fd = memfd_create("file", MFD_CLOEXEC);
    CHECK_EQ(io_write_full(fd, buf_str(&text), DEADLINE_NEVER), 0);
    start_pair("box.test");
    CHECK_EQ(stream_write(&server.stream, STR("head:")), 0);
    stream_send_file(&server.stream, fd, 1000, LARGE_BYTES - 1000);
    RUN_UNTIL(client.seen.n == 5 + LARGE_BYTES - 1000 && server.drains == 1);
    CHECK(str_starts(buf_str(&client.seen), STR("head:")));
    CHECK(str_eq(str_skip(buf_str(&client.seen), 5), str_skip(buf_str(&text), 1000)));
    fd_close(fd);
    buf_done(&text);
    finish();
}

/* Connected TCP sockets, as the kernel's TLS wants them. */
static void make_tcp_pair(int pair[2])
{
    struct sock_addr addr;
    int listener;

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &addr, NULL), 0);
    listener = sock_listen(&addr, 1, NULL);
    CHECK(listener >= 0);
    CHECK_EQ(sock_local_addr(listener, &addr), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(pair[0], &addr.any, addr.size), 0);
    CHECK_EQ(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    CHECK(pair[1] >= 0);
    fd_close(listener);
}

/* Whether TCP sockets can be given TLS; the first request loads the module. */
static bool kernel_has_tls(void)
{
    char list[256] = "";
    auto_fd fd = open("/proc/sys/net/ipv4/tcp_available_ulp", O_RDONLY | O_CLOEXEC);

    return fd >= 0 && read(fd, list, sizeof(list) - 1) > 0 && strstr(list, "tls");
}

TEST(tls, lets_the_kernel_encrypt_where_it_can)
{
    struct buf text;
    int fd, pair[2];

    set_up();
    fill(&text, LARGE_BYTES);
    fd = memfd_create("file", MFD_CLOEXEC);
    CHECK_EQ(io_write_full(fd, buf_str(&text), DEADLINE_NEVER), 0);
    make_tcp_pair(pair);
    start_end(&client, pair[0], tls_client_security(tls_client), "box.test");
    start_end(&server, pair[1], tls_server_security(tls_server), "");
    greet();
    CHECK_EQ(server.facts.kernel_sends, kernel_has_tls());
    CHECK_EQ(stream_write(&client.stream, buf_str(&text)), 0);
    CHECK_EQ(stream_write(&server.stream, STR("head:")), 0);
    stream_send_file(&server.stream, fd, 0, LARGE_BYTES);
    RUN_UNTIL(client.seen.n == 12 + LARGE_BYTES && server.seen.n == 5 + LARGE_BYTES);
    CHECK(str_starts(buf_str(&client.seen), STR("welcomehead:")));
    CHECK(str_eq(str_skip(buf_str(&client.seen), 12), buf_str(&text)));
    CHECK(str_eq(str_skip(buf_str(&server.seen), 5), buf_str(&text)));
    RUN_UNTIL(server.drains);
    CHECK_EQ(stream_write(&server.stream, STR("tail")), 0);
    stream_finish(&server.stream, false);
    RUN_UNTIL(client.eofs);
    CHECK_EQ(client.seen.n, 16 + LARGE_BYTES);
    fd_close(fd);
    buf_done(&text);
    finish();
}

TEST(tls, fails_a_file_that_shrank)
{
    int fd;

    set_up();
    fd = memfd_create("file", MFD_CLOEXEC);
    CHECK_EQ(ftruncate(fd, 100), 0);
    start_pair("box.test");
    stream_send_file(&server.stream, fd, 0, 1000);
    RUN_UNTIL(server.closes && client.closes);
    CHECK_EQ(server.error, EIO);
    CHECK_EQ(client.error, ECONNRESET); /* and not an end in order */
    fd_close(fd);
    finish();
}

TEST(tls, goes_on_with_a_new_owner)
{
    struct stream_parts parts;

    set_up();
    start_pair("box.test");
    greet();
    server.pause_in_data = true;
    CHECK_EQ(stream_write(&client.stream, STR("abcdef")), 0);
    RUN_UNTIL(server.seen.n == 6);
    CHECK_EQ(stream_write(&server.stream, STR("xyz")), 0);
    stream_detach(&server.stream, &parts);
    loop_settle(loop);
    CHECK_EQ(server.closes, 1);
    server.pause_in_data = false;
    CHECK_EQ(stream_attach(&server.stream, loop, &parts, &ops, NULL), 0);
    RUN_UNTIL(client.seen.n == 10 && server.seen.n == 11);
    CHECK_SPAN(buf_str(&server.seen), "helloabcdef");
    CHECK_SPAN(buf_str(&client.seen), "welcomexyz");
    finish();
}

/* --- ends --- */

TEST(tls, passes_an_orderly_end_on_as_one)
{
    set_up();
    start_pair("box.test");
    greet();
    CHECK_EQ(stream_write(&server.stream, STR("last")), 0);
    stream_finish(&server.stream, false);
    RUN_UNTIL(client.eofs);
    CHECK_SPAN(buf_str(&client.seen), "welcomelast");
    CHECK_EQ(server.closes, 1);
    finish();
}

TEST(tls, half_closes)
{
    set_up();
    start_pair("box.test");
    greet();
    CHECK_EQ(stream_write(&client.stream, STR("!")), 0);
    stream_half_close(&client.stream);
    RUN_UNTIL(server.eofs);
    CHECK_SPAN(buf_str(&server.seen), "hello!");
    CHECK_EQ(stream_write(&server.stream, STR("?")), 0);
    RUN_UNTIL(client.seen.n == 8);
    finish();
}

TEST(tls, reports_an_end_without_close_notify_as_truncation)
{
    set_up();
    start_pair("box.test");
    greet();
    CHECK_EQ(stream_write(&server.stream, STR("part")), 0);
    RUN_UNTIL(client.seen.n == 11);
    CHECK_EQ(shutdown(server.stream.io.fd, SHUT_WR), 0); /* below TLS */
    RUN_UNTIL(client.closes);
    CHECK_EQ(client.eofs, 0);
    CHECK_EQ(client.error, ECONNRESET);
    CHECK(strstr(client.problem, "without close_notify"));
    finish();
}

TEST(tls, shows_an_end_by_error_as_a_broken_one)
{
    set_up();
    start_pair("box.test");
    greet();
    stream_close(&server.stream, EIO);
    RUN_UNTIL(client.closes);
    CHECK_EQ(client.eofs, 0);
    CHECK_EQ(client.error, ECONNRESET);
    finish();
}

TEST(tls, ends_a_handshake_that_is_not_over_at_once)
{
    int pair[2];

    set_up();
    make_pair(pair);
    start_end(&client, pair[0], tls_client_security(tls_client), "box.test");
    start_end(&server, fcntl(pair[1], F_DUPFD_CLOEXEC, 0), tls_server_security(tls_server), "");
    stream_finish(&server.stream, false);
    loop_settle(loop);
    CHECK_EQ(server.closes, 1);
    fd_close(pair[1]);
    finish();
}

/* What waits for the handshake does not wait for ever. */
TEST(tls, gives_a_silent_peer_up_when_output_waits)
{
    int pair[2];

    set_up();
    make_pair(pair);
    start_end(&client, pair[0], tls_client_security(tls_client), "box.test");
    start_end(&server, fcntl(pair[1], F_DUPFD_CLOEXEC, 0), tls_server_security(tls_server), "");
    stream_close(&server.stream, EIO);
    client.stream.stall_ms = 20;
    CHECK_EQ(stream_write(&client.stream, STR("GET /")), 0);
    RUN_UNTIL(client.closes);
    CHECK_EQ(client.error, ETIMEDOUT);
    fd_close(pair[1]);
    finish();
}

/* --- hostile peers --- */

static void check_refuses_bytes(struct str bytes)
{
    int pair[2];

    set_up();
    make_pair(pair);
    start_end(&server, pair[1], tls_server_security(tls_server), "");
    CHECK_EQ(write(pair[0], bytes.p, bytes.n), bytes.n);
    RUN_UNTIL(server.closes);
    CHECK_EQ(server.error, EPROTO);
    CHECK_EQ(server.seen.n, 0);
    fd_close(pair[0]);
    buf_done(&server.seen);
    tear_down();
}

TEST(tls, refuses_plain_http)
{
    check_refuses_bytes(STR("GET / HTTP/1.1\r\nHost: box.test\r\n\r\n"));
}

TEST(tls, refuses_garbage)
{
    check_refuses_bytes(STR("\xff\x00\x80garbage garbage garbage garbage garbage garbage"));
}

TEST(tls, notices_a_peer_that_leaves_during_the_handshake)
{
    static const char hello[] = {0x16, 0x03, 0x01, 0x01, 0x00, 0x01}; /* a record that begins */
    int pair[2];

    set_up();
    make_pair(pair);
    start_end(&server, pair[1], tls_server_security(tls_server), "");
    CHECK_EQ(write(pair[0], hello, sizeof(hello)), sizeof(hello));
    turn();
    CHECK_EQ(server.closes, 0);
    fd_close(pair[0]);
    RUN_UNTIL(server.closes);
    CHECK_EQ(server.error, ECONNRESET);
    CHECK(strstr(server.problem, "during the TLS handshake"));
    buf_done(&server.seen);
    tear_down();
}

/* --- trusted authorities --- */

static void check_client_refuses(const char *host, const char *problem)
{
    start_pair(host);
    CHECK_EQ(stream_write(&client.stream, STR("secret")), 0);
    RUN_UNTIL(client.closes && server.closes);
    CHECK_EQ(client.error, EPROTO);
    if (!strstr(client.problem, problem))
        test_fail(__FILE__, __LINE__, "the problem is \"%s\"", client.problem);
    CHECK_EQ(server.seen.n, 0);
    close_ends();
}

static void use_server_identity(const struct identity *id)
{
    struct tls_server_conf conf = {id->cert_file, id->key_file, NULL};

    CHECK_EQ(tls_server_reload(tls_server, &conf, NULL), 0);
}

TEST(tls, refuses_an_authority_it_does_not_know)
{
    struct identity other_ca, other;

    set_up();
    other_ca = make_identity("other-ca", NULL, NULL, -DAY_S, DAY_S);
    other = make_identity("other", &other_ca, "DNS:box.test", -DAY_S, DAY_S);
    use_server_identity(&other);
    check_client_refuses("box.test", "unable to get local issuer certificate");
    free_identity(&other);
    free_identity(&other_ca);
    tear_down();
}

TEST(tls, refuses_another_host_name)
{
    set_up();
    check_client_refuses("other.test", "the certificate of other.test was refused: hostname mism");
    check_client_refuses("192.0.2.1", "IP address mismatch");
    tear_down();
}

TEST(tls, accepts_the_addresses_in_the_certificate)
{
    set_up();
    start_pair("127.0.0.1");
    greet();
    close_ends();
    start_pair("::1");
    greet();
    finish();
}

TEST(tls, refuses_an_expired_certificate)
{
    struct identity old;

    set_up();
    old = make_identity("old", &ca, "DNS:box.test", -2 * DAY_S, -DAY_S);
    use_server_identity(&old);
    check_client_refuses("box.test", "certificate has expired");
    free_identity(&old);
    tear_down();
}

TEST(tls, accepts_any_certificate_without_verification)
{
    struct tls_client_conf conf = {.insecure_skip_verification = true};

    set_up();
    tls_client_free(tls_client);
    CHECK_EQ(tls_client_new(&conf, &tls_client, NULL), 0);
    start_pair("nobody.test");
    greet();
    finish();
}

TEST(tls, answers_with_a_certificate_that_it_made_itself)
{
    struct tls_server_conf own = {.self_signed = "box.test"};
    struct tls_client_conf conf = {.insecure_skip_verification = true};

    set_up();
    CHECK_EQ(tls_server_reload(tls_server, &own, NULL), 0);
    check_client_refuses("box.test", "self-signed certificate");
    tls_client_free(tls_client);
    CHECK_EQ(tls_client_new(&conf, &tls_client, NULL), 0);
    start_pair("box.test");
    greet();
    finish();
}

static void require_client_certificates(void)
{
    struct tls_server_conf conf = {site.cert_file, site.key_file, ca.cert_file};

    CHECK_EQ(tls_server_reload(tls_server, &conf, NULL), 0);
}

TEST(tls, refuses_a_client_without_a_certificate)
{
    set_up();
    require_client_certificates();
    start_pair("box.test");
    CHECK_EQ(stream_write(&client.stream, STR("secret")), 0);
    RUN_UNTIL(client.closes && server.closes);
    CHECK_EQ(server.error, EPROTO);
    CHECK_EQ(server.seen.n, 0);
    CHECK(strstr(client.problem, "certificate required"));
    finish();
}

TEST(tls, takes_a_client_with_a_certificate)
{
    struct identity user;
    struct tls_client_conf conf;

    set_up();
    require_client_certificates();
    user = make_identity("user", &ca, NULL, -DAY_S, DAY_S);
    conf = (struct tls_client_conf){ca.cert_file, user.cert_file, user.key_file};
    tls_client_free(tls_client);
    CHECK_EQ(tls_client_new(&conf, &tls_client, NULL), 0);
    start_pair("box.test");
    greet();
    close_ends();
    start_pair("box.test"); /* and resumes */
    greet();
    CHECK(client.facts.resumed);
    free_identity(&user);
    finish();
}

/* --- sessions and reloading --- */

TEST(tls, resumes_a_session_with_the_same_host_only)
{
    set_up();
    start_pair("box.test");
    greet();
    close_ends();
    start_pair("box.test");
    greet();
    CHECK(client.facts.resumed);
    CHECK(server.facts.resumed);
    close_ends();
    start_pair("127.0.0.1");
    greet();
    CHECK(!client.facts.resumed);
    finish();
}

TEST(tls, shows_a_new_certificate_after_a_reload_and_keeps_old_connections)
{
    struct identity renamed;

    set_up();
    renamed = make_identity("renamed", &ca, "DNS:renamed.test", -DAY_S, DAY_S);
    start_pair("box.test");
    greet();
    use_server_identity(&renamed);
    CHECK_EQ(stream_write(&client.stream, STR("still here")), 0);
    RUN_UNTIL(server.seen.n == 15);
    close_ends();
    check_client_refuses("127.0.0.1", "IP address mismatch");
    start_pair("renamed.test");
    greet();
    free_identity(&renamed);
    finish();
}

static void check_server_refuses_files(const char *cert, const char *key, const char *client_ca,
                                       const char *reason)
{
    struct tls_server_conf conf = {cert, key, client_ca};
    struct err e = {0};

    CHECK(tls_server_reload(tls_server, &conf, &e) < 0);
    if (!strstr(e.msg, reason))
        test_fail(__FILE__, __LINE__, "the reason is \"%s\"", e.msg);
}

TEST(tls, names_the_file_that_is_wrong_and_keeps_the_old_ones)
{
    set_up();
    check_server_refuses_files("/nowhere/c.pem", site.key_file, NULL,
                               "/nowhere/c.pem: No such file or directory");
    check_server_refuses_files(site.cert_file, "/nowhere/k.pem", NULL,
                               "/nowhere/k.pem: No such file or directory");
    check_server_refuses_files(identity_dir, site.key_file, NULL, "not a regular file");
    check_server_refuses_files(site.key_file, site.key_file, NULL,
                               "site.key: no certificate in PEM form");
    check_server_refuses_files(site.cert_file, site.cert_file, NULL,
                               "site.pem: no private key in PEM form");
    check_server_refuses_files(site.cert_file, ca.key_file, NULL,
                               "ca.key: not the key of the certificate in");
    check_server_refuses_files(site.cert_file, site.key_file, site.key_file,
                               "site.key: no certificates of authorities");
    start_pair("box.test");
    greet();
    finish();
}

TEST(tls, refuses_a_client_side_without_a_usable_name)
{
    static char long_name[300];
    struct err e = {0};
    struct stream s;

    set_up();
    memset(long_name, 'a', sizeof(long_name) - 1);
    CHECK_EQ(stream_start_secure(&s, loop, 0, tls_client_security(tls_client), STR(""), &ops, &e),
             -EINVAL);
    CHECK_EQ(stream_start_secure(&s, loop, 0, tls_client_security(tls_client), str_of(long_name),
                                 &ops, &e),
             -EINVAL);
    tear_down();
}

/* --- the relay --- */

static struct relay_result relayed;
static int relays_done;

static void on_relay_done(void *user UNUSED, const struct relay_result *result)
{
    relayed = *result;
    relays_done++;
}

/* Client -- TLS -- server, whose side is relayed to a plain socket that is returned. */
static int start_relay(void)
{
    struct relay_conf conf = {.on_done = on_relay_done};
    struct stream_parts tls_parts, plain_parts = {.transport = &stream_plain, .sendfile_ok = true};
    int pair[2];

    set_up();
    start_pair("box.test");
    greet();
    make_pair(pair);
    plain_parts.fd = pair[0];
    buf_init(&plain_parts.in, 0);
    buf_init(&plain_parts.out, STREAM_OUT_BYTES_MAX);
    CHECK_EQ(buf_add(&plain_parts.out, STR("first:")), 0);
    stream_detach(&server.stream, &tls_parts);
    CHECK_EQ(relay_start(loop, &tls_parts, &plain_parts, &conf, NULL, NULL), 0);
    return pair[1];
}

TEST(tls, is_relayed_to_a_plain_socket_and_back)
{
    struct buf large, got;
    int plain = start_relay();

    fill(&large, LARGE_BYTES);
    buf_init(&got, LARGE_BYTES + 64);
    CHECK_EQ(buf_reserve(&got, LARGE_BYTES + 64), 0);
    CHECK_EQ(stream_write(&client.stream, buf_str(&large)), 0);
    stream_half_close(&client.stream);
    for (ssize_t n = -1; n != 0;) {
        turn();
        n = read(plain, got.p + got.n, got.cap - got.n);
        if (n > 0)
            buf_claim(&got, (size_t)n);
    }
    CHECK(str_starts(buf_str(&got), STR("first:")));
    CHECK(str_eq(str_skip(buf_str(&got), 6), buf_str(&large)));
    CHECK_EQ(relays_done, 0); /* the other way is open */
    CHECK_EQ(write(plain, "answer", 6), 6);
    fd_close(plain);
    RUN_UNTIL(client.eofs && relays_done);
    CHECK_SPAN(buf_str(&client.seen), "welcomeanswer");
    CHECK_EQ(relayed.error, 0);
    CHECK_EQ(relayed.bytes_a_to_b, LARGE_BYTES);
    CHECK_EQ(relayed.bytes_b_to_a, 6);
    buf_done(&large);
    buf_done(&got);
    finish();
}

TEST(tls, is_truncated_for_the_client_when_a_relay_breaks)
{
    struct buf large;
    int plain = start_relay();

    fill(&large, LARGE_BYTES);
    CHECK_EQ(stream_write(&client.stream, buf_str(&large)), 0);
    turn();
    fd_close(plain); /* with bytes on their way */
    RUN_UNTIL(client.closes && relays_done);
    CHECK(relayed.error != 0);
    CHECK(client.error != 0);
    CHECK_EQ(client.eofs, 0);
    buf_done(&large);
    finish();
}
