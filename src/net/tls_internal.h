/* tls_internal.h - what the two files of TLS share. */
#pragma once

#include <openssl/ssl.h>

#include "net/tls.h"

enum { TLS_HOST_MAX = 256 };

/* TLS on one connection. */
struct tls_session {
    SSL *ssl;
    struct tls_client *client; /* whose cache gets the new tickets; NULL on the server's side */
    char host[TLS_HOST_MAX];
    struct err err;
    bool established; /* the handshake is over */
    ssize_t after;    /* what recv returns next, when it came behind bytes */
    bool has_after;   /* there is such a thing */
    bool maybe_more;  /* OpenSSL holds bytes that were received and not read */
    bool end_sent;    /* close_notify left */
};

/* tls.c */
extern const struct stream_transport tls_transport;
/* A session for the descriptor, which stays the caller's. */
int tls_session_new(SSL_CTX *ctx, int fd, struct tls_session **ret, struct err *e);
void tls_session_free(void *session);
/* tls_context.c: a context with what both sides share; the name of the protocol; NULL = failed. */
SSL_CTX *tls_context_new(const SSL_METHOD *method, struct err *e);
int tls_choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n,
                    const unsigned char *in, unsigned in_n, void *user);
/* tls_mint.c: has a server answer with a new certificate that it signed itself. */
int tls_self_sign(SSL_CTX *ctx, const char *name, struct err *e);
bool tls_is_address(const char *host); /* IPv4 or IPv6 */
/* Puts OpenSSL's reason behind the text. Returns -code. */
int tls_err(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
