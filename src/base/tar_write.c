/* tar_write.c - the writing half of tar.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/tar_internal.h"
#include "base/time.h"

enum { PAX_BYTES_MAX = 4 * TAR_TEXT_BYTES_MAX, PAX_MODE = 0644, CLAIM_BYTES_MAX = 4096 };

static const char zeros[TAR_BLOCK_BYTES];

size_t tar_padding(uint64_t size)
{
    return (size_t)(-size % TAR_BLOCK_BYTES);
}

int tar_write_end(struct buf *out)
{
    int r = buf_add(out, str_make(zeros, sizeof(zeros)));

    return r < 0 ? r : buf_add(out, str_make(zeros, sizeof(zeros)));
}

/* --- fields --- */

/* Whether a number fits into a field of `size` bytes, one of them a NUL. */
static bool octal_fits(uint64_t value, size_t size)
{
    return value >> (3 * (size - 1)) == 0;
}

/* A number that does not fit is in the PAX header, and 0 here. */
static void put_octal(char *field, size_t size, uint64_t value)
{
    if (!octal_fits(value, size))
        value = 0;
    for (size_t i = size - 1; i-- > 0; value >>= 3)
        field[i] = (char)('0' + (value & 7));
}

static void put_text(char *field, size_t size, struct str text)
{
    if (text.n > 0)
        memcpy(field, text.p, min_size(text.n, size));
}

#define PUT_OCTAL(field, value) put_octal(field, sizeof(field), value)

/* --- PAX --- */

/* "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
static int pax_add(struct buf *out, const char *key, struct str value)
{
    size_t rest = strlen(key) + value.n + 3, digits = 1;

    for (size_t limit = 10; rest + digits >= limit; limit *= 10)
        digits++;
    return buf_addf(out, "%zu %s=%.*s\n", rest + digits, key, STR_ARG(value));
}

static int pax_add_number(struct buf *out, const char *key, int64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    return pax_add(out, key, str_of(text));
}

/* Collects the values that do not fit into the header. */
static int pax_collect(struct buf *out, const struct tar_entry *entry)
{
    const struct tar_head *h = NULL;
    int r = 0;

    if (entry->path.n > sizeof(h->name))
        r = pax_add(out, "path", entry->path);
    if (r == 0 && entry->target.n > sizeof(h->target))
        r = pax_add(out, "linkpath", entry->target);
    if (r == 0 && !octal_fits(entry->size, sizeof(h->size)))
        r = pax_add_number(out, "size", (int64_t)entry->size);
    if (r == 0 && !octal_fits(entry->uid, sizeof(h->uid)))
        r = pax_add_number(out, "uid", (int64_t)entry->uid);
    if (r == 0 && !octal_fits(entry->gid, sizeof(h->gid)))
        r = pax_add_number(out, "gid", (int64_t)entry->gid);
    if (r == 0 && !octal_fits((uint64_t)entry->mtime, sizeof(h->mtime)))
        r = pax_add_number(out, "mtime", entry->mtime);
    return r;
}

/* --- headers --- */

static int put_head(struct buf *out, char type, const struct tar_entry *entry)
{
    struct tar_head h = {
        .type = type, .magic = {'u', 's', 't', 'a', 'r', '\0', '0', '0'}
    };

    put_text(h.name, sizeof(h.name), entry->path);
    put_text(h.target, sizeof(h.target), entry->target);
    put_text(h.owner, sizeof(h.owner) - 1, str_of(entry->owner));
    put_text(h.group, sizeof(h.group) - 1, str_of(entry->group));
    PUT_OCTAL(h.mode, entry->mode);
    PUT_OCTAL(h.uid, entry->uid);
    PUT_OCTAL(h.gid, entry->gid);
    PUT_OCTAL(h.size, entry->size);
    PUT_OCTAL(h.mtime, (uint64_t)entry->mtime);
    PUT_OCTAL(h.dev_major, entry->dev_major);
    PUT_OCTAL(h.dev_minor, entry->dev_minor);
    put_octal(h.checksum, sizeof(h.checksum) - 1, (uint64_t)tar_head_sum((char *)&h, false));
    h.checksum[sizeof(h.checksum) - 1] = ' ';
    return buf_add(out, str_make((char *)&h, sizeof(h)));
}

static int put_pax(struct buf *out, struct str pax, int64_t mtime)
{
    struct tar_entry head = {
        .path = STR("PaxHeaders/entry"),
        .size = pax.n,
        .mode = PAX_MODE,
        .mtime = mtime,
    };
    int r = put_head(out, 'x', &head);

    if (r == 0)
        r = buf_add(out, pax);
    return r < 0 ? r : buf_add(out, str_make(zeros, tar_padding(pax.n)));
}

int tar_write_head(struct buf *out, const struct tar_entry *entry)
{
    AUTO_BUF(pax, PAX_BYTES_MAX);
    size_t from = out->n;
    int r = pax_collect(&pax, entry);

    if (r == 0 && pax.n > 0)
        r = put_pax(out, buf_str(&pax), entry->mtime);
    if (r == 0)
        r = put_head(out, (char)entry->type, entry);
    if (r < 0)
        buf_cut(out, from);
    return r;
}

/* --- files --- */

static enum tar_type type_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return TAR_DIRECTORY;
    case S_IFLNK:
        return TAR_LINK;
    case S_IFCHR:
        return TAR_CHAR_DEVICE;
    case S_IFBLK:
        return TAR_BLOCK_DEVICE;
    case S_IFIFO:
        return TAR_FIFO;
    default:
        return TAR_FILE;
    }
}

struct tar_entry tar_entry_of(const struct stat *st)
{
    return (struct tar_entry){
        .type = type_of(st->st_mode),
        .size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .mtime = st->st_mtim.tv_sec,
        .dev_major = major(st->st_rdev),
        .dev_minor = minor(st->st_rdev),
    };
}

/* Files of /sys report a page, whatever they have: a file without blocks is read to find its size.
 */
static int measure(int fd, struct stat *st)
{
    char content[CLAIM_BYTES_MAX];
    size_t n = 0;
    int r;

    if (st->st_blocks > 0 || st->st_size > CLAIM_BYTES_MAX)
        return 0;
    r = io_pread_full(fd, content, (size_t)st->st_size, 0, &n);
    st->st_size = (off_t)n;
    return r;
}

int tar_content_open(struct tar_content *c, int dir, const char *name, struct stat *ret_st)
{
    auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return errno == ENOENT || errno == ELOOP ? 0 : -errno;
    if (fstat(fd, ret_st) < 0)
        return -errno;
    if (!S_ISREG(ret_st->st_mode))
        return 0;
    r = measure(fd, ret_st);
    if (r < 0)
        return r;
    c->left = (uint64_t)ret_st->st_size;
    c->padding = tar_padding(c->left);
    c->fd = c->left > 0 ? take_fd(&fd) : -EBADF;
    return 1;
}

int tar_content_add(struct tar_content *c, struct buf *out, size_t bytes_max)
{
    size_t n = c->left < bytes_max ? (size_t)c->left : bytes_max, got;
    char *room;
    int r = buf_reserve(out, n + c->padding);

    if (r < 0)
        return r;
    room = out->p + out->n;
    r = io_read_full(c->fd, room, n, deadline_in_ms(0), &got);
    if (r < 0)
        return r;
    c->left -= n;
    if (c->left == 0) {
        n += c->padding;
        fd_close(take_fd(&c->fd));
    }
    memset(room + got, 0, n - got);
    buf_claim(out, n);
    return 0;
}
