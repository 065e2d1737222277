/* aead.h - AES-256-GCM: what is sealed is read and changed by holders of the key only.
 *
 * The label is not part of the sealed bytes, and opening needs the same one: what was sealed for
 * one thing does not open as another. The nonce is random: up to 2^32 texts for one key. Pure but
 * for random bytes. */
#pragma once

#include "base/buf.h"

enum {
    AEAD_KEY_BYTES = 32,
    AEAD_EXTRA_BYTES = 12 + 16, /* nonce and tag, beside the text */
    AEAD_TEXT_BYTES_MAX = 64 << 20,
};

/* Appends nonce, encrypted text and tag to `out`. -EMSGSIZE past either limit, -EIO. */
int aead_close(const unsigned char key[static AEAD_KEY_BYTES], struct str label, struct str text,
               struct buf *out) MUST_USE;
/* Appends the text. -EBADMSG when the bytes are damaged, or of another key or label; then `out` is
 * as before. */
int aead_open(const unsigned char key[static AEAD_KEY_BYTES], struct str label, struct str sealed,
              struct buf *out) MUST_USE;
/* A key for one purpose: its holder learns nothing of the first. -EIO. */
int aead_derive(const unsigned char key[static AEAD_KEY_BYTES], struct str purpose,
                unsigned char ret[static AEAD_KEY_BYTES]) MUST_USE;
