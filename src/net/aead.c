#include "net/aead.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/id.h"
#include "base/mem.h"

enum { NONCE_BYTES = 12, TAG_BYTES = 16 };

static EVP_CIPHER_CTX *cipher_new(const unsigned char *key, const unsigned char *nonce,
                                  struct str label, bool encrypt)
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n;

    if (c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce, encrypt) == 1 &&
        EVP_CipherUpdate(c, NULL, &n, (const unsigned char *)label.p, (int)label.n) == 1)
        return c;
    EVP_CIPHER_CTX_free(c);
    return NULL;
}

int aead_close(const unsigned char key[static AEAD_KEY_BYTES], struct str label, struct str text,
               struct buf *out)
{
    unsigned char *at;
    EVP_CIPHER_CTX *c;
    int n = 0, last = 0, r;
    bool ok;

    if (text.n > AEAD_TEXT_BYTES_MAX)
        return -EMSGSIZE;
    r = buf_reserve(out, text.n + AEAD_EXTRA_BYTES);
    if (r < 0)
        return r;
    at = (unsigned char *)out->p + out->n;
    id_random_bytes(at, NONCE_BYTES);
    c = cipher_new(key, at, label, true);
    at += NONCE_BYTES;
    ok = c && EVP_CipherUpdate(c, at, &n, (const unsigned char *)text.p, (int)text.n) == 1 &&
         EVP_CipherFinal_ex(c, at + n, &last) == 1 && (size_t)n == text.n &&
         EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, at + n) == 1;
    EVP_CIPHER_CTX_free(c);
    if (!ok)
        return -EIO;
    buf_claim(out, text.n + AEAD_EXTRA_BYTES);
    return 0;
}

int aead_open(const unsigned char key[static AEAD_KEY_BYTES], struct str label, struct str sealed,
              struct buf *out)
{
    const unsigned char *from = (const unsigned char *)sealed.p;
    size_t size = sealed.n - AEAD_EXTRA_BYTES;
    unsigned char *at;
    EVP_CIPHER_CTX *c;
    int n = 0, last = 0, r;
    bool ok;

    if (sealed.n < AEAD_EXTRA_BYTES || size > AEAD_TEXT_BYTES_MAX)
        return -EBADMSG;
    r = buf_reserve(out, size + 1);
    if (r < 0)
        return r;
    at = (unsigned char *)out->p + out->n;
    c = cipher_new(key, from, label, false);
    ok = c && EVP_CipherUpdate(c, at, &n, from + NONCE_BYTES, (int)size) == 1 &&
         EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_BYTES,
                             (void *)(from + NONCE_BYTES + size)) == 1 &&
         EVP_CipherFinal_ex(c, at + n, &last) == 1;
    EVP_CIPHER_CTX_free(c);
    if (ok) {
        buf_claim(out, size);
        return 0;
    }
    mem_wipe(at, size); /* text that nothing vouches for */
    *at = '\0';
    return -EBADMSG;
}

int aead_derive(const unsigned char key[static AEAD_KEY_BYTES], struct str purpose,
                unsigned char ret[static AEAD_KEY_BYTES])
{
    unsigned n = 0;

    return HMAC(EVP_sha256(), key, AEAD_KEY_BYTES, (const unsigned char *)purpose.p, purpose.n, ret,
                &n) &&
                   n == AEAD_KEY_BYTES
               ? 0
               : -EIO;
}
