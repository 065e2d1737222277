/* tls_context.c - TLS contexts: own certificate and key, trusted authorities, kept sessions. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "net/tls.h"
#include "net/tls_internal.h"

struct tls_server {
    struct stream_security security;
    SSL_CTX *ctx; /* each session holds a reference of its own */
};

/* The last session with a host, to be resumed by the next connection to it. */
struct kept_session {
    char host[TLS_HOST_MAX];
    SSL_SESSION *session;
};

struct tls_client {
    struct stream_security security;
    SSL_CTX *ctx;
    struct kept_session kept[TLS_SESSIONS_MAX];
    size_t kept_next; /* the one to replace when all are taken */
};

static const unsigned char alpn_http[] = "\x08http/1.1";
enum { ALPN_HTTP_BYTES = sizeof(alpn_http) - 1 };

/* --- both sides --- */

/* Forward secrecy and authenticated encryption only; TLS 1.3 has no others. */
static const char ciphers_tls12[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

static int no_passphrase(char *p UNUSED, int size UNUSED, int write UNUSED, void *user UNUSED)
{
    return -1; /* OpenSSL would ask at the terminal */
}

SSL_CTX *tls_context_new(const SSL_METHOD *method, struct err *e)
{
    SSL_CTX *ctx = SSL_CTX_new(method);

    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(ctx, ciphers_tls12) != 1) {
        SSL_CTX_free(ctx);
        (void)tls_err(e, ENOMEM, "make a TLS context");
        return NULL;
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_ENABLE_KTLS);
    /* The queue of a stream may move and grow between two tries to send its first bytes. */
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    return ctx;
}

/* OpenSSL tells little of why a file cannot be read. */
static int check_file(const char *path, struct err *e)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0)
        return err_sys(e, errno, "%s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, EINVAL, "%s: not a regular file", path);
    return 0;
}

static int use_certificate(SSL_CTX *ctx, const char *cert_file, const char *key_file, struct err *e)
{
    int r = check_file(cert_file, e);

    if (r == 0)
        r = check_file(key_file, e);
    if (r < 0)
        return r;
    if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1)
        return tls_err(e, EINVAL, "%s: no certificate in PEM form", cert_file);
    if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) == 1)
        return 0;
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
        return tls_err(e, EINVAL, "%s: not the key of the certificate in %s", key_file, cert_file);
    return tls_err(e, EINVAL, "%s: no private key in PEM form without a passphrase", key_file);
}

static int trust_file(SSL_CTX *ctx, const char *ca_file, struct err *e)
{
    int r = check_file(ca_file, e);

    if (r == 0 && SSL_CTX_load_verify_file(ctx, ca_file) != 1)
        r = tls_err(e, EINVAL, "%s: no certificates of authorities in PEM form", ca_file);
    return r;
}

/* --- the server's side --- */

/* A client that speaks other protocols only is refused: it would take our answers for noise. One
 * that names none speaks HTTP/1.1. */
int tls_choose_alpn(SSL *ssl UNUSED, const unsigned char **out, unsigned char *out_n,
                    const unsigned char *in, unsigned in_n, void *user UNUSED)
{
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, out_n, alpn_http, ALPN_HTTP_BYTES, in, in_n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int require_clients_of(SSL_CTX *ctx, const char *ca_file, struct err *e)
{
    int r = trust_file(ctx, ca_file, e);
    STACK_OF(X509_NAME) *names = r < 0 ? NULL : SSL_load_client_CA_file(ca_file);

    if (r < 0)
        return r;
    if (!names)
        return tls_err(e, EINVAL, "%s: no certificates of authorities in PEM form", ca_file);
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

static SSL_CTX *server_context_new(const struct tls_server_conf *conf, struct err *e)
{
    static const unsigned char id[] = "opensandbox";
    SSL_CTX *ctx = tls_context_new(TLS_server_method(), e);
    int r;

    if (!ctx)
        return NULL;
    /* Tickets hold the sessions: nothing is kept here. Their keys end with the context. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1);
    SSL_CTX_set_alpn_select_cb(ctx, tls_choose_alpn, NULL);
    r = conf->self_signed ? tls_self_sign(ctx, conf->self_signed, e)
                          : use_certificate(ctx, conf->cert_file, conf->key_file, e);
    if (r == 0 && conf->client_ca_file && conf->client_ca_file[0])
        r = require_clients_of(ctx, conf->client_ca_file, e);
    if (r == 0)
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

static int server_session_new(struct stream_security *security, int fd, struct str host UNUSED,
                              void **ret_session, struct err *e)
{
    struct tls_server *t = container_of(security, struct tls_server, security);
    struct tls_session *session;
    int r = tls_session_new(t->ctx, fd, &session, e);

    if (r < 0)
        return r;
    SSL_set_accept_state(session->ssl);
    *ret_session = session;
    return 0;
}

int tls_server_new(const struct tls_server_conf *conf, struct tls_server **ret, struct err *e)
{
    struct err why = {.code = EIO};
    SSL_CTX *ctx = server_context_new(conf, &why);
    struct tls_server *t;

    if (!ctx)
        return err_set(e, why.code, "%s", why.msg);
    t = mem_new(struct tls_server);
    t->ctx = ctx;
    t->security = (struct stream_security){&tls_transport, EPOLLIN, server_session_new};
    *ret = t;
    return 0;
}

int tls_server_reload(struct tls_server *t, const struct tls_server_conf *conf, struct err *e)
{
    struct err why = {.code = EIO};
    SSL_CTX *ctx = server_context_new(conf, &why);

    if (!ctx)
        return err_set(e, why.code, "%s", why.msg);
    SSL_CTX_free(t->ctx);
    t->ctx = ctx;
    return 0;
}

void tls_server_free(struct tls_server *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    free(t);
}

struct stream_security *tls_server_security(struct tls_server *t)
{
    return &t->security;
}

/* --- the client's side --- */

static struct kept_session *kept_find(struct tls_client *t, const char *host)
{
    for (size_t i = 0; i < TLS_SESSIONS_MAX; i++)
        if (t->kept[i].session && strcmp(t->kept[i].host, host) == 0)
            return &t->kept[i];
    return NULL;
}

/* A ticket came. Returns whether the session was kept. */
static int client_on_ticket(SSL *ssl, SSL_SESSION *session)
{
    const struct tls_session *s = SSL_get_app_data(ssl);
    struct tls_client *t = s->client;
    struct kept_session *kept = kept_find(t, s->host);

    if (!kept) {
        kept = &t->kept[t->kept_next];
        t->kept_next = (t->kept_next + 1) % TLS_SESSIONS_MAX;
    }
    SSL_SESSION_free(kept->session);
    memcpy(kept->host, s->host, sizeof(kept->host));
    kept->session = session;
    return 1;
}

bool tls_is_address(const char *host)
{
    unsigned char addr[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, addr) == 1 || inet_pton(AF_INET6, host, addr) == 1;
}

static int client_expect(struct tls_session *s, struct err *e)
{
    bool ip = tls_is_address(s->host);
    X509_VERIFY_PARAM *param = SSL_get0_param(s->ssl);

    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (ip ? X509_VERIFY_PARAM_set1_ip_asc(param, s->host) != 1
           : SSL_set1_host(s->ssl, s->host) != 1 || SSL_set_tlsext_host_name(s->ssl, s->host) != 1)
        return tls_err(e, EINVAL, "\"%s\" is not a valid name of a TLS server", s->host);
    return 0;
}

static int client_session_new(struct stream_security *security, int fd, struct str host,
                              void **ret_session, struct err *e)
{
    struct tls_client *t = container_of(security, struct tls_client, security);
    struct kept_session *kept;
    struct tls_session *s;
    int r = tls_session_new(t->ctx, fd, &s, e);

    if (r < 0)
        return r;
    s->client = t;
    if (str_copy(s->host, sizeof(s->host), host) < 0 || host.n == 0)
        r = err_set(e, EINVAL, "expected the server's name, 1 to %d bytes", TLS_HOST_MAX - 1);
    else
        r = client_expect(s, e);
    if (r < 0) {
        tls_session_free(s);
        return r;
    }
    kept = kept_find(t, s->host);
    if (kept && SSL_SESSION_is_resumable(kept->session))
        (void)SSL_set_session(s->ssl, kept->session);
    SSL_set_connect_state(s->ssl);
    *ret_session = s;
    return 0;
}

static int client_trust(SSL_CTX *ctx, const struct tls_client_conf *conf, struct err *e)
{
    bool system = conf->and_system || (!conf->ca_file && !conf->ca_dir);
    int r = conf->ca_file ? trust_file(ctx, conf->ca_file, e) : 0;

    if (r == 0 && conf->ca_dir && SSL_CTX_load_verify_dir(ctx, conf->ca_dir) != 1)
        r = tls_err(e, EINVAL, "%s: no directory of authorities", conf->ca_dir);
    if (r == 0 && system && SSL_CTX_set_default_verify_paths(ctx) != 1)
        r = tls_err(e, EINVAL, "the system's certificate authorities");
    return r;
}

static int client_setup(SSL_CTX *ctx, const struct tls_client_conf *conf, struct err *e)
{
    int r = 0;

    if (SSL_CTX_set_alpn_protos(ctx, alpn_http, ALPN_HTTP_BYTES) != 0)
        return tls_err(e, ENOMEM, "make a TLS context");
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, client_on_ticket);
    if (conf->secret)
        SSL_CTX_set_options(ctx, SSL_OP_CLEANSE_PLAINTEXT);
    if (!conf->insecure_skip_verification) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        r = client_trust(ctx, conf, e);
    }
    if (r == 0 && conf->cert_file)
        r = use_certificate(ctx, conf->cert_file, conf->key_file, e);
    return r;
}

int tls_client_new(const struct tls_client_conf *conf, struct tls_client **ret, struct err *e)
{
    SSL_CTX *ctx = tls_context_new(TLS_client_method(), e);
    struct tls_client *t;
    int r;

    if (!ctx)
        return -ENOMEM;
    r = client_setup(ctx, conf, e);
    if (r < 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    t = mem_new(struct tls_client);
    t->ctx = ctx;
    t->security = (struct stream_security){&tls_transport, EPOLLOUT, client_session_new};
    *ret = t;
    return 0;
}

void tls_client_free(struct tls_client *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < TLS_SESSIONS_MAX; i++)
        SSL_SESSION_free(t->kept[i].session);
    SSL_CTX_free(t->ctx);
    free(t);
}

struct stream_security *tls_client_security(struct tls_client *t)
{
    return &t->security;
}
