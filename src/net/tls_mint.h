/* tls_mint.h - an authority that makes server certificates by name, for a proxy that ends TLS.
 *
 * One mint has one authority (a self-signed certificate and its key, P-256) and one key for all
 * certificates that it makes. They are kept, up to TLS_MINT_LEAVES_MAX, and made again before they
 * expire. Its security is that of a server: the host given to stream_start_secure is the name, or
 * the IP address, to answer as, and the client's SNI must be that name, or be absent for an
 * address. Same thread and life as the contexts of tls.h; nothing here blocks. */
#pragma once

#include "net/stream.h"

struct tls_mint;

enum { TLS_MINT_LEAVES_MAX = 64, TLS_MINT_PEM_BYTES_MAX = 16 * 1024 };

/* name: common name of a new authority. keys: an authority of tls_mint_keys() to go on with, or
 * STR_NONE to make one. -EINVAL for text that is none. */
int tls_mint_new(const char *name, struct str keys, struct tls_mint **ret, struct err *e);
void tls_mint_free(struct tls_mint *m); /* NULL is fine */

struct str tls_mint_certificate(const struct tls_mint *m); /* PEM, public */
struct str tls_mint_keys(const struct tls_mint *m);        /* PEM with the private key: a secret */
struct stream_security *tls_mint_security(struct tls_mint *m);

struct tls_mint_stats {
    uint64_t made, kept; /* certificates made in all; kept now */
};
void tls_mint_stats(const struct tls_mint *m, struct tls_mint_stats *ret);
