/* vault_keep.h - a vault as a file, for another process that goes on with it.
 *
 *   {"version":1,...}\n  <sealed set, or nothing>
 *
 * The first line has no value: revision, numbers, placeholders. With a key the whole set follows,
 * sealed by AES-256-GCM (net/aead.h) under the id of the sandbox and the first line, so that
 * neither can be exchanged. Without a key, or when it does not open, the vault is lost, and the
 * first line tells which requests to refuse. Pure: bytes in, result out. */
#pragma once

#include "egress/vault/vault.h"
#include "net/aead.h"

enum { VAULT_FILE_BYTES_MAX = 24 << 20 };

/* key: AEAD_KEY_BYTES, or NULL to store no value. `out` keeps no secret. */
int vault_keep_write(const struct vault_set *s, const unsigned char *key, struct str id,
                     struct buf *out, struct err *e);

enum vault_kept { VAULT_KEPT, VAULT_LOST };

/* Fills an empty vault from a file. VAULT_KEPT: all of it is back. VAULT_LOST: *e says why; the
 * vault refuses requests with placeholders of what there was, and of any secret of an environment
 * if the first line cannot be read. -ENOMEM. */
int vault_keep_read(struct vault *v, const unsigned char *key, struct str id, struct str file,
                    struct err *e);
