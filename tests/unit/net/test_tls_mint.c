/* Certificates made by name, judged by OpenSSL's own client. */
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "net/loop.h"
#include "net/tls_mint.h"
#include "test.h"

static struct world {
    struct loop *loop;
    struct tls_mint *mint;
    struct stream stream;
    int ends, error;
} w; /* a test is a process of its own */

static size_t on_data(struct stream *s, char *p, size_t n)
{
    CHECK_EQ(stream_write(s, str_make(p, n)), 0); /* an echo */
    return n;
}

static void on_close(struct stream *s UNUSED, int error)
{
    w.ends++;
    w.error = error;
}

static const struct stream_ops ops = {.on_data = on_data, .on_close = on_close};

static void begin(struct str keys)
{
    struct err e = {0};

    CHECK_EQ(loop_new(&w.loop, &e), 0);
    CHECK_EQ(tls_mint_new("test authority", keys, &w.mint, &e), 0);
}

static X509_STORE *store_of(struct str pem)
{
    X509_STORE *store = X509_STORE_new();
    BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    CHECK(cert && X509_STORE_add_cert(store, cert) == 1);
    X509_free(cert);
    BIO_free(bio);
    return store;
}

/* A handshake of a client that asks for `sni` and expects `host`, with a server that answers as
 * `as`. True when both are content. */
static bool handshake(const char *as, const char *sni, const char *host, struct str trusted)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    uint64_t deadline = time_mono_ns() + UINT64_C(10000000000);
    struct err e = {0};
    int fds[2], r = -1;
    SSL *ssl;

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    SSL_CTX_set_cert_store(ctx, store_of(trusted)); /* which owns it now */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fds[0]);
    if (sni)
        SSL_set_tlsext_host_name(ssl, sni);
    if (strchr(host, ':') || host[0] == '1')
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
    else
        SSL_set1_host(ssl, host);
    w.ends = 0;
    CHECK_EQ(stream_start_secure(&w.stream, w.loop, fds[1], tls_mint_security(w.mint), str_of(as),
                                 &ops, &e),
             0);
    while (r != 1 && time_mono_ns() < deadline) {
        r = SSL_connect(ssl);
        if (r != 1 && SSL_get_error(ssl, r) != SSL_ERROR_WANT_READ)
            break;
        CHECK_EQ(loop_turn(w.loop, 10, &e), 0);
    }
    SSL_free(ssl);
    close(fds[0]);
    stream_close(&w.stream, 0);
    loop_settle(w.loop);
    CHECK_EQ(w.ends, 1);
    SSL_CTX_free(ctx);
    return r == 1;
}

TEST(tls_mint, makes_certificates_that_clients_verify)
{
    struct tls_mint_stats stats;
    struct str ca;

    begin(STR_NONE);
    ca = tls_mint_certificate(w.mint);
    CHECK(handshake("api.example.com", "api.example.com", "api.example.com", ca));
    CHECK(handshake("api.example.com", "API.example.com", "api.example.com", ca));
    CHECK(handshake("192.0.2.1", NULL, "192.0.2.1", ca));
    CHECK(handshake("2001:db8::1", NULL, "2001:db8::1", ca));
    CHECK(!handshake("api.example.com", "api.example.com", "www.example.com", ca));
    tls_mint_stats(w.mint, &stats);
    CHECK_EQ(stats.made, 3);
    tls_mint_free(w.mint);
    loop_free(w.loop);
}

TEST(tls_mint, refuses_another_server_name)
{
    struct str ca;

    begin(STR_NONE);
    ca = tls_mint_certificate(w.mint);
    CHECK(!handshake("api.example.com", "evil.example", "api.example.com", ca));
    CHECK(!handshake("api.example.com", NULL, "api.example.com", ca));
    CHECK(!handshake("192.0.2.1", "api.example.com", "192.0.2.1", ca));
    tls_mint_free(w.mint);
    loop_free(w.loop);
}

TEST(tls_mint, goes_on_with_kept_keys)
{
    struct tls_mint *first;
    struct err e = {0};
    AUTO_BUF(keys, TLS_MINT_PEM_BYTES_MAX);
    AUTO_BUF(ca, TLS_MINT_PEM_BYTES_MAX);

    CHECK_EQ(tls_mint_new("kept", STR_NONE, &first, &e), 0);
    CHECK_EQ(buf_add(&keys, tls_mint_keys(first)), 0);
    CHECK_EQ(buf_add(&ca, tls_mint_certificate(first)), 0);
    tls_mint_free(first);
    begin(buf_str(&keys));
    CHECK(handshake("a.example", "a.example", "a.example", buf_str(&ca)));
    CHECK(str_eq(tls_mint_certificate(w.mint), buf_str(&ca)));
    tls_mint_free(w.mint);
    CHECK_EQ(tls_mint_new("kept", buf_str(&ca), &first, &e), -EINVAL); /* no key in it */
    CHECK_EQ(tls_mint_new("kept", STR("junk"), &first, &e), -EINVAL);
    loop_free(w.loop);
}

TEST(tls_mint, keeps_a_bounded_number_of_leaves)
{
    struct tls_mint_stats stats;
    struct str ca;

    begin(STR_NONE);
    ca = tls_mint_certificate(w.mint);
    for (int i = 0; i < TLS_MINT_LEAVES_MAX + 5; i++) {
        char name[64];

        snprintf(name, sizeof(name), "n%d.example", i);
        CHECK(handshake(name, name, name, ca));
    }
    tls_mint_stats(w.mint, &stats);
    CHECK_EQ(stats.kept, TLS_MINT_LEAVES_MAX);
    CHECK_EQ(stats.made, TLS_MINT_LEAVES_MAX + 5);
    tls_mint_free(w.mint);
    loop_free(w.loop);
}
