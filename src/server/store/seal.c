#include "server/store/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/io.h"
#include "base/mem.h"
#include "net/aead.h"

/* prefix base64(what aead_close() makes) */
#define PREFIX "aes256gcm:"

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
                       "the pools and the environments that were sealed by it",
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

int seal_close(const struct seal *s, struct str label, struct str text, struct buf *out)
{
    AUTO_BUF(bytes, SEAL_TEXT_MAX + AEAD_EXTRA_BYTES);
    auto_free char *coded = NULL;
    int r = text.n > SEAL_TEXT_MAX ? -EMSGSIZE : aead_close(s->key, label, text, &bytes);

    if (r < 0)
        return r;
    coded = mem_alloc(BASE64_TEXT_MAX(bytes.n));
    r = buf_add(out, STR(PREFIX));
    return r < 0 ? r
                 : buf_add(out, str_make(coded, base64_encode(buf_str(&bytes), BASE64_STD, coded)));
}

int seal_open(const struct seal *s, struct str label, struct str sealed, struct buf *out)
{
    auto_free unsigned char *bytes = NULL;
    size_t size = 0;

    if (!str_starts(sealed, STR(PREFIX)) || sealed.n > 2 * SEAL_TEXT_MAX)
        return -EBADMSG;
    sealed = str_skip(sealed, STR(PREFIX).n);
    bytes = mem_alloc(sealed.n + 1);
    if (base64_decode(sealed, BASE64_STD, bytes, sealed.n, &size) < 0)
        return -EBADMSG;
    return aead_open(s->key, label, str_make((char *)bytes, size), out);
}
