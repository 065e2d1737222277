/* sha.h - SHA-256, HMAC-SHA-256, SHA-512, and SHA-1 for the WebSocket handshake.
 *
 * Allocates nothing, cannot fail. A context is a plain value: copying it forks the hash. */
#pragma once

#include "base/str.h"

enum { SHA256_BYTES = 32, SHA256_BLOCK_BYTES = 64, SHA1_BYTES = 20 };

struct sha256 {
    uint32_t state[8];
    uint64_t bytes; /* hashed so far; the last bytes % 64 of them are in block[] */
    uint8_t block[SHA256_BLOCK_BYTES];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, struct str data);
void sha256_end(struct sha256 *s, uint8_t ret_digest[SHA256_BYTES]); /* wipes the context */

void sha256_of(struct str data, uint8_t ret_digest[SHA256_BYTES]);

struct hmac_sha256 {
    struct sha256 inner, outer;
};

void hmac_sha256_init(struct hmac_sha256 *h, struct str key);
void hmac_sha256_add(struct hmac_sha256 *h, struct str data);
void hmac_sha256_end(struct hmac_sha256 *h, uint8_t ret_mac[SHA256_BYTES]); /* wipes the context */

void hmac_sha256_of(struct str key, struct str data, uint8_t ret_mac[SHA256_BYTES]);

enum { SHA512_BYTES = 64, SHA512_BLOCK_BYTES = 128 };

struct sha512 {
    uint64_t state[8];
    uint64_t bytes; /* hashed so far; the last bytes % 128 of them are in block[] */
    uint8_t block[SHA512_BLOCK_BYTES];
};

void sha512_init(struct sha512 *s);
void sha512_add(struct sha512 *s, struct str data);
void sha512_end(struct sha512 *s, uint8_t ret_digest[SHA512_BYTES]); /* wipes the context */

/* Not secure as a hash. Only for the WebSocket handshake (RFC 6455, 4.2.2), where it only shows
 * that the peer speaks the protocol. */
void sha1_of(struct str data, uint8_t ret_digest[SHA1_BYTES]);
