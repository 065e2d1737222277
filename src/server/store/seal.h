/* seal.h - encrypts secrets for the store, by a key of the installation.
 *
 * The key is a file beside the store that only the server's account may read, so a copy of the
 * store without that file (a backup, a dump) tells no secret. It does not protect against a reader
 * of the whole data directory. AES-256-GCM with a random nonce per text. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define SEAL_FILE "key"
enum { SEAL_KEY_BYTES = 32, SEAL_TEXT_MAX = 1 << 20 };

struct seal {
    unsigned char key[SEAL_KEY_BYTES];
};

/* Reads the file SEAL_FILE of the server's data directory, or makes it with a new random key.
 * -EPERM when others may read it, -EINVAL when it is damaged. Call it with the store open, so that
 * no other server makes one at the same time. BLOCKS. */
int seal_load(const char *dir, struct seal *ret, struct err *e) MUST_USE;

/* Adds the sealed text to `out`: printable, without quotes. `label` says what it is of; opening it
 * needs the same, so that a sealed text moved to another record is refused. */
int seal_close(const struct seal *s, struct str label, struct str text, struct buf *out) MUST_USE;
/* The reverse. -EBADMSG when it is damaged, or of another key or label. */
int seal_open(const struct seal *s, struct str label, struct str sealed, struct buf *out) MUST_USE;
