/* tls.h - TLS 1.2 and 1.3 as a transport of streams, by OpenSSL. Programs on the host only.
 *
 * A context (server or client) makes one session per connection: pass its security to
 * stream_start_secure, http_server_conf or http_call_spec. A peer that closes the socket without
 * close_notify is reported as an error (ECONNRESET), never as the end of the data. Renegotiation
 * and compression are off; ALPN says http/1.1; sessions are resumed by tickets. Where the kernel
 * has TLS (kTLS), it encrypts, and files are sent by sendfile.
 *
 * A context belongs to the thread of the loop, blocks only while it reads its files, and must
 * outlive the streams that use it. */
#pragma once

#include "net/stream.h"

struct tls_server;
struct tls_client;

struct tls_server_conf {
    const char *cert_file;      /* PEM: the certificate, then those of its issuers */
    const char *key_file;       /* PEM, without a passphrase */
    const char *client_ca_file; /* PEM: clients must show a certificate of one of these; NULL or ""
                                 * = clients need none */
    const char *self_signed;    /* instead of cert_file and key_file: a new certificate for this
                                 * name or address, which no client can verify; NULL = the files */
};

/* -errno with the file's name and the reason in e. */
int tls_server_new(const struct tls_server_conf *conf, struct tls_server **ret, struct err *e);
/* Reads the files again for connections to come; those that exist keep what they have. On failure
 * nothing changes. */
int tls_server_reload(struct tls_server *t, const struct tls_server_conf *conf, struct err *e);
void tls_server_free(struct tls_server *t); /* NULL is fine */
struct stream_security *tls_server_security(struct tls_server *t);

struct tls_client_conf {
    const char *ca_file;             /* PEM: trusted authorities; NULL = none of its own */
    const char *cert_file;           /* PEM: a certificate to show; NULL = none */
    const char *key_file;            /* of that certificate */
    bool insecure_skip_verification; /* believe any certificate, for any name */
    const char *ca_dir;              /* as ca_file, a hashed directory; NULL = none */
    bool and_system;                 /* trust the system's, too: implied without file and dir */
    bool secret;                     /* overwrite what was received once it was read */
};

enum { TLS_SESSIONS_MAX = 64 }; /* hosts whose last session a client keeps, to resume it */

int tls_client_new(const struct tls_client_conf *conf, struct tls_client **ret, struct err *e);
void tls_client_free(struct tls_client *t); /* NULL is fine */
/* Its host is a DNS name, sent as SNI, or an IP address; the server's certificate must have it. */
struct stream_security *tls_client_security(struct tls_client *t);

struct tls_facts {
    const char *version; /* "TLSv1.3" */
    const char *cipher;
    struct str alpn; /* STR_NONE: the peer chose none */
    bool resumed, kernel_sends;
};
/* Of a stream whose handshake is over: false when that is not so, or it has no TLS. */
bool tls_facts_of(const struct stream *s, struct tls_facts *ret);
