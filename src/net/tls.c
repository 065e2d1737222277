/* tls.c - sessions: bytes through OpenSSL, on a socket that never blocks. */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdarg.h>

#include "base/mem.h"
#include "net/tls_internal.h"

enum { RECORD_BYTES = 16 * 1024 }; /* of data in one TLS record, at most */

int tls_err(struct err *e, int code, const char *fmt, ...)
{
    unsigned long error = ERR_peek_error(); /* the first is the cause of the others */
    const char *reason = ERR_SYSTEM_ERROR(error) ? NULL : ERR_reason_error_string(error);
    char text[sizeof(e->msg)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ERR_clear_error();
    return err_set(e, code, "%s: %s", text, reason ? reason : strerror(code));
}

/* --- what OpenSSL says --- */

static int session_cut(struct tls_session *t)
{
    return err_set(&t->err, ECONNRESET, "%s",
                   t->established
                       ? "the peer closed the connection without close_notify: what it sent may be "
                         "incomplete"
                       : "the peer closed the connection during the TLS handshake");
}

static int session_broken(struct tls_session *t)
{
    long verdict = SSL_get_verify_result(t->ssl);

    if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return session_cut(t);
    if (!t->established && verdict != X509_V_OK && SSL_get_verify_mode(t->ssl) != SSL_VERIFY_NONE)
        return err_set(&t->err, EPROTO, "the certificate of %s was refused: %s",
                       t->host[0] ? t->host : "the client", X509_verify_cert_error_string(verdict));
    return tls_err(&t->err, EPROTO, "TLS");
}

/* What a call that failed means: 0 = close_notify, -EAGAIN = wait for input, -EBUSY = wait for room
 * to send, any other -errno is the end. */
static int session_error(struct tls_session *t, int result)
{
    int saved = errno;

    switch (SSL_get_error(t->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        return -EBUSY;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        return saved ? -saved : session_cut(t);
    default:
        return session_broken(t);
    }
}

static void calls_begin(void)
{
    ERR_clear_error(); /* SSL_get_error looks at what others left, too */
    errno = 0;
}

/* --- the transport --- */

static ssize_t tls_recv(struct stream *s, char *p, size_t n)
{
    struct tls_session *t = s->session;
    size_t got = 0, k = 0;

    if (t->has_after) {
        t->has_after = false;
        return t->after;
    }
    do {
        int r;

        calls_begin();
        r = SSL_read_ex(t->ssl, p + got, n - got, &k);
        if (r != 1) {
            ssize_t end = session_error(t, r);

            t->maybe_more = false;
            if (got == 0)
                return end;
            t->after = end;
            t->has_after = end != -EAGAIN && end != -EBUSY;
            return (ssize_t)got;
        }
        got += k;
        t->maybe_more = SSL_has_pending(t->ssl);
    } while (got < n && (t->maybe_more || k == RECORD_BYTES));
    return (ssize_t)got;
}

static ssize_t tls_send(struct stream *s, const char *p, size_t n, bool more UNUSED)
{
    struct tls_session *t = s->session;
    size_t sent = 0;
    int r;

    calls_begin();
    r = SSL_write_ex(t->ssl, p, n, &sent);
    if (r == 1)
        return (ssize_t)sent;
    r = session_error(t, r);
    if (r == -EBUSY)
        return -EAGAIN;
    return r == -EAGAIN || r == 0 ? -EPROTO : r; /* without renegotiation input is never awaited */
}

static int tls_handshake(struct stream *s)
{
    struct tls_session *t = s->session;
    int r;

    calls_begin();
    r = SSL_do_handshake(t->ssl);
    if (r != 1) {
        r = session_error(t, r);
        if (r == -EAGAIN)
            return EPOLLIN;
        if (r == -EBUSY)
            return EPOLLOUT;
        return r < 0 ? r : session_cut(t);
    }
    t->established = true;
    t->maybe_more = SSL_has_pending(t->ssl);
    s->sendfile_ok = BIO_get_ktls_send(SSL_get_wbio(t->ssl)) > 0;
    return 0;
}

static int tls_end(struct stream *s)
{
    struct tls_session *t = s->session;
    int r;

    if (t->end_sent)
        return 0;
    calls_begin();
    r = SSL_shutdown(t->ssl);
    r = r >= 0 ? 0 : session_error(t, r);
    t->end_sent = r != -EBUSY;
    return r == -EBUSY ? -EAGAIN : r;
}

static bool tls_pending(const struct stream *s)
{
    const struct tls_session *t = s->session;

    return t->has_after || t->maybe_more;
}

static const char *tls_problem(const void *session)
{
    const struct tls_session *t = session;

    return t->err.code ? t->err.msg : NULL;
}

const struct stream_transport tls_transport = {
    .recv = tls_recv,
    .send = tls_send,
    .raw = false,
    .handshake = tls_handshake,
    .end = tls_end,
    .pending = tls_pending,
    .problem = tls_problem,
    .session_free = tls_session_free,
};

/* --- sessions --- */

int tls_session_new(SSL_CTX *ctx, int fd, struct tls_session **ret, struct err *e)
{
    struct tls_session *t = mem_new(struct tls_session);

    t->ssl = SSL_new(ctx);
    if (!t->ssl || SSL_set_fd(t->ssl, fd) != 1 || SSL_set_app_data(t->ssl, t) != 1) {
        tls_session_free(t);
        return tls_err(e, ENOMEM, "begin a TLS session");
    }
    *ret = t;
    return 0;
}

void tls_session_free(void *session)
{
    struct tls_session *t = session;

    SSL_free(t->ssl);
    free(t);
}

bool tls_facts_of(const struct stream *s, struct tls_facts *ret)
{
    const struct tls_session *t = s->session;
    const unsigned char *alpn = NULL;
    unsigned n = 0;

    if (s->transport != &tls_transport || s->opening)
        return false;
    SSL_get0_alpn_selected(t->ssl, &alpn, &n);
    *ret = (struct tls_facts){
        .version = SSL_get_version(t->ssl),
        .cipher = SSL_get_cipher_name(t->ssl),
        .alpn = n ? str_make((const char *)alpn, n) : STR_NONE,
        .resumed = SSL_session_reused(t->ssl),
        .kernel_sends = s->sendfile_ok,
    };
    return true;
}
