/* id.h - random bytes from the kernel, and identifiers made of them. */
#pragma once

#include "base/defs.h"

/* Fills p from getrandom(2). Cannot fail: without randomness it ends the process with a message,
 * because a guessable id is worse. May block early at boot. */
void id_random_bytes(void *p, size_t n);

enum {
    ID_UUID_MAX = sizeof("00000000-0000-4000-8000-000000000000"),
    ID_SHORT_LEN_MAX = 64,
    ID_REQUEST_MAX = 32 + 1,
    ID_TOKEN_MAX = 32 + 1,
};

/* A random UUID (version 4, RFC 9562) in lower case. */
void id_uuid(char out[ID_UUID_MAX]);

/* `len` characters of 0-9a-z, each equally likely, and a NUL; len <= ID_SHORT_LEN_MAX. A character
 * carries 5.17 bits. */
void id_short(char *out, size_t len);

/* An id for a request that came without one: a random UUID without dashes. */
void id_request(char out[ID_REQUEST_MAX]);

/* A secret of 24 random bytes: 32 characters of URL-safe base64. */
void id_token(char out[ID_TOKEN_MAX]);
