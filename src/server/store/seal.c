#include "server/store/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/io.h"
#include "base/mem.h"

/* prefix base64(nonce ciphertext tag) */
#define PREFIX "aes256gcm:"
enum { NONCE_BYTES = 12, TAG_BYTES = 16, EXTRA_BYTES = NONCE_BYTES + TAG_BYTES };

/* --- the key --- */

/* -ENOENT without a message when there is no file. */
static int read_key(int dir, struct seal *ret, struct err *e)
{
    auto_fd fd = openat(dir, SEAL_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    unsigned char bytes[SEAL_KEY_BYTES + 1];
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open it");
    if (st.st_mode & 077)
        return err_set(e, EPERM, "others may read it: chmod 600 it, and consider its texts known");
    if (!S_ISREG(st.st_mode) || read(fd, bytes, sizeof(bytes)) != SEAL_KEY_BYTES)
        return err_set(e, EINVAL,
                       "it is not a key of %d bytes: restore it, or remove it and lose "
                       "the pools that were sealed by it",
                       SEAL_KEY_BYTES);
    memcpy(ret->key, bytes, SEAL_KEY_BYTES);
    return 0;
}

int seal_load(const char *path, struct seal *ret, struct err *e)
{
    auto_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (dir < 0)
        return err_sys(e, errno, "open '%s'", path);
    r = read_key(dir, ret, e);
    if (r == -ENOENT) {
        unsigned char key[SEAL_KEY_BYTES];

        id_random_bytes(key, sizeof(key));
        r = io_write_file_atomic(dir, SEAL_FILE, str_make((char *)key, sizeof(key)), 0600, e);
        if (r == 0)
            r = read_key(dir, ret, e);
    }
    return r < 0 ? err_wrap(e, r, "'%s/" SEAL_FILE "'", path) : 0;
}

/* --- texts --- */

static EVP_CIPHER_CTX *cipher_new(const struct seal *s, const unsigned char *nonce,
                                  struct str label, bool encrypt)
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n;

    if (c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, s->key, nonce, encrypt) == 1 &&
        EVP_CipherUpdate(c, NULL, &n, (const unsigned char *)label.p, (int)label.n) == 1)
        return c;
    EVP_CIPHER_CTX_free(c);
    return NULL;
}

int seal_close(const struct seal *s, struct str label, struct str text, struct buf *out)
{
    size_t size = text.n + EXTRA_BYTES;
    auto_free unsigned char *bytes = NULL;
    auto_free char *coded = NULL;
    EVP_CIPHER_CTX *c;
    int n = 0, last = 0, ok;

    if (text.n > SEAL_TEXT_MAX)
        return -EMSGSIZE;
    bytes = mem_alloc(size);
    coded = mem_alloc(size * 2);
    id_random_bytes(bytes, NONCE_BYTES);
    c = cipher_new(s, bytes, label, true);
    ok = c &&
         EVP_CipherUpdate(c, bytes + NONCE_BYTES, &n, (const unsigned char *)text.p, (int)text.n) ==
             1 &&
         EVP_CipherFinal_ex(c, bytes + NONCE_BYTES + n, &last) == 1 &&
         EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, bytes + size - TAG_BYTES) == 1;
    EVP_CIPHER_CTX_free(c);
    if (!ok || (size_t)n != text.n)
        return -EIO;
    n = buf_add(out, STR(PREFIX));
    return n < 0 ? n
                 : buf_add(out, str_make(coded, base64_encode(str_make((char *)bytes, size),
                                                              BASE64_STD, coded)));
}

int seal_open(const struct seal *s, struct str label, struct str sealed, struct buf *out)
{
    auto_free unsigned char *bytes = NULL, *text = NULL;
    EVP_CIPHER_CTX *c;
    size_t size = 0;
    int n = 0, last = 0, ok;

    if (!str_starts(sealed, STR(PREFIX)) || sealed.n > 2 * SEAL_TEXT_MAX)
        return -EBADMSG;
    sealed = str_skip(sealed, STR(PREFIX).n);
    bytes = mem_alloc(sealed.n + 1);
    if (base64_decode(sealed, BASE64_STD, bytes, sealed.n, &size) < 0 || size < EXTRA_BYTES)
        return -EBADMSG;
    text = mem_alloc(size);
    c = cipher_new(s, bytes, label, false);
    ok = c && EVP_CipherUpdate(c, text, &n, bytes + NONCE_BYTES, (int)(size - EXTRA_BYTES)) == 1 &&
         EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, bytes + size - TAG_BYTES) == 1 &&
         EVP_CipherFinal_ex(c, text + n, &last) == 1;
    EVP_CIPHER_CTX_free(c);
    return ok ? buf_add(out, str_make((char *)text, (size_t)n)) : -EBADMSG;
}
