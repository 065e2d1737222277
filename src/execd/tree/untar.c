#include "execd/tree/untar.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "execd/core/path.h"

enum {
    DIR_MODE = 0777, /* minus the umask, for directories missing in the archive */
    DIR_OWN_BITS = 0700,
    PERMISSION_BITS = 0777,
    PLACE = O_PATH | O_DIRECTORY,
};

struct untar_dir {
    struct untar_dir *next;
    uint32_t mode;
    uint64_t uid, gid;
    int64_t mtime;
    char path[]; /* below the root; "" is the root itself */
};

static int untar_fail(const struct untar *u, int r, const char *what, struct err *e)
{
    return err_set(e, -r, "%s %.*s: %s", what, (int)min_size(u->path.n, 120), u->path.p,
                   fs_text(-r));
}

/* Appends a name of the archive without "." and double slashes; "" for the root. */
static int clean_name(struct str name, struct buf *out, struct err *e)
{
    struct str segment;

    buf_clear(out);
    if (name.p[0] == '/')
        return err_set(e, EBADMSG, "the archive has an absolute path: %.*s",
                       (int)min_size(name.n, 120), name.p);
    while (str_cut(&name, '/', &segment)) {
        if (segment.n == 0 || str_eq(segment, STR(".")))
            continue;
        if (str_eq(segment, STR("..")))
            return err_set(e, EBADMSG, "the archive has a path with '..'");
        if (buf_addf(out, "%s%.*s", out->n ? "/" : "", STR_ARG(segment)) < 0)
            return err_set(e, EBADMSG, "the archive has a path of more than %d bytes",
                           TAR_TEXT_BYTES_MAX);
    }
    return 0;
}

/* --- parent directories --- */

static int open_beneath(const struct untar *u, const char *path, int flags)
{
    int fd = fd_open_at(u->root, path[0] ? path : ".", flags, 0, PATH_BENEATH, NULL);

    return fd == -EXDEV ? -EACCES : fd;
}

/* Opens a parent directory, and creates it if it is missing. */
static int open_or_make(const struct untar *u, int up, const char *path, const char *name)
{
    int fd = open_beneath(u, path, PLACE);

    if (fd != -ENOENT)
        return fd;
    if (mkdirat(up, name, DIR_MODE) < 0 && errno != EEXIST)
        return -errno;
    return open_beneath(u, path, PLACE);
}

static int make_parents(const struct untar *u, char *path)
{
    int fd = open_beneath(u, "", PLACE);
    char *name = path;

    for (char *at = path; fd >= 0; at++) {
        char c = *at;
        int down;

        if (c != '/' && c != '\0')
            continue;
        *at = '\0';
        down = open_or_make(u, fd, path, name);
        *at = c;
        fd_close(fd);
        fd = down;
        name = at + 1;
        if (c == '\0')
            break;
    }
    return fd;
}

/* Opens the entry's directory, and returns the entry's name in it. */
static int open_parent(struct untar *u, const char **ret_name, struct err *e)
{
    struct str up = path_parent(buf_str(&u->path));
    int r;

    *ret_name = path_base(buf_str(&u->path)).p;
    if (u->parent >= 0 && str_eq(up, buf_str(&u->parent_path)))
        return 0;
    fd_close(take_fd(&u->parent));
    buf_clear(&u->parent_path);
    r = buf_add(&u->parent_path, up);
    if (r == 0)
        r = u->parent = open_beneath(u, u->parent_path.p, PLACE);
    if (r == -ENOENT)
        r = u->parent = make_parents(u, u->parent_path.p);
    return r < 0 ? untar_fail(u, r, "make the way to", e) : 0;
}

/* --- directories --- */

/* Remembers a directory that was created: it gets its mode and time after its content. */
static int dir_remember(struct untar *u, struct err *e)
{
    const struct tar_entry *entry = &u->entry;
    struct untar_dir *d = arena_alloc(&u->arena, sizeof(*d) + u->path.n + 1);

    if (!d)
        return err_set(e, ENOMEM, "the archive has too many directories");
    *d = (struct untar_dir){u->made, entry->mode, entry->uid, entry->gid, entry->mtime};
    memcpy(d->path, u->path.p, u->path.n + 1);
    u->made = d;
    return 0;
}

static int unpack_dir(struct untar *u, const char *name, struct err *e)
{
    auto_fd there = -EBADF;

    if (mkdirat(u->parent, name, (u->entry.mode & PERMISSION_BITS) | DIR_OWN_BITS) == 0)
        return dir_remember(u, e);
    if (errno != EEXIST)
        return untar_fail(u, -errno, "make", e);
    there = open_beneath(u, u->path.p, PLACE);
    return there < 0 ? untar_fail(u, there, "make", e) : 0;
}

bool untar_finish_step(struct untar *u)
{
    struct untar_dir *d = u->made;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {0}};
    auto_fd fd = -EBADF;

    if (!d)
        return false;
    u->made = d->next;
    fd = open_beneath(u, d->path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return true; /* removed meanwhile, or by a later entry */
    times[1].tv_sec = (time_t)d->mtime;
    if (u->owners)
        (void)!fchown(fd, (uid_t)d->uid, (gid_t)d->gid);
    (void)fchmod(fd, d->mode & (u->owners ? 07777 : PERMISSION_BITS));
    (void)futimens(fd, times);
    return true;
}

/* --- files, links, devices --- */

/* Removes what has the name, for types that cannot replace it by rename. A directory stays. */
static int clear_place(const struct untar *u, const char *name)
{
    return unlinkat(u->parent, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int unpack_link(struct untar *u, const char *name)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)u->entry.mtime}};
    char target[TAR_TEXT_BYTES_MAX + 1];
    int r = str_copy(target, sizeof(target), u->entry.target);

    if (r == 0)
        r = clear_place(u, name);
    if (r == 0 && symlinkat(target, u->parent, name) < 0)
        r = -errno;
    if (r < 0)
        return r;
    if (u->owners && fchownat(u->parent, name, (uid_t)u->entry.uid, (gid_t)u->entry.gid,
                              AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    (void)utimensat(u->parent, name, times, AT_SYMLINK_NOFOLLOW);
    return 0;
}

/* Links to a file of this archive or an older one: its name is below the root, too. */
static int unpack_hard_link(struct untar *u, const char *name, struct err *e)
{
    AUTO_BUF(target, TAR_TEXT_BYTES_MAX);
    AUTO_BUF(up, TAR_TEXT_BYTES_MAX);
    auto_fd dir = -EBADF;
    int r = clean_name(u->entry.target, &target, e);

    if (r < 0)
        return r;
    if (str_eq(buf_str(&target), buf_str(&u->path)))
        return 0;
    r = buf_add(&up, path_parent(buf_str(&target)));
    if (r == 0)
        r = dir = open_beneath(u, up.p, PLACE);
    if (r >= 0)
        r = clear_place(u, name);
    if (r == 0 && linkat(dir, path_base(buf_str(&target)).p, u->parent, name, 0) < 0)
        r = -errno;
    return r < 0 ? untar_fail(u, r, "link", e) : 0;
}

static int unpack_node(struct untar *u, const char *name)
{
    mode_t type = u->entry.type == TAR_FIFO          ? S_IFIFO
                  : u->entry.type == TAR_CHAR_DEVICE ? S_IFCHR
                                                     : S_IFBLK;
    int r = clear_place(u, name);

    if (r < 0)
        return r;
    return mknodat(u->parent, name, type | (u->entry.mode & PERMISSION_BITS),
                   makedev(u->entry.dev_major, u->entry.dev_minor)) < 0
               ? -errno
               : 0;
}

static int unpack_file_end(struct untar *u, struct err *e)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)u->entry.mtime}};
    int fd = u->file.fd, r = u->file.in_place ? 0 : sparse_end(&u->sparse, fd);

    if (r == 0 && u->owners && fchown(fd, (uid_t)u->entry.uid, (gid_t)u->entry.gid) < 0)
        r = -errno;
    if (r == 0 && fchmod(fd, u->entry.mode & (u->owners ? 07777 : PERMISSION_BITS)) < 0)
        r = -errno;
    if (r < 0)
        return untar_fail(u, r, "write", e);
    (void)futimens(fd, times);
    return target_commit(&u->file, e);
}

/* --- callbacks of the tar reader --- */

static int on_entry(void *ctx, const struct tar_entry *entry, struct err *e)
{
    struct untar *u = ctx;
    const char *name;
    int r = clean_name(entry->path, &u->path, e);

    if (r < 0)
        return r;
    u->entry = *entry;
    u->sparse = (struct sparse){0};
    if (u->path.n == 0)
        return entry->type == TAR_DIRECTORY
                   ? 0
                   : err_set(e, EBADMSG, "the archive has an entry without a name");
    r = open_parent(u, &name, e);
    if (r < 0)
        return r;
    switch (entry->type) {
    case TAR_FILE:
        return target_open_at(&u->file, u->parent, name, e);
    case TAR_DIRECTORY:
        return unpack_dir(u, name, e);
    case TAR_HARD_LINK:
        return unpack_hard_link(u, name, e);
    case TAR_LINK:
        r = unpack_link(u, name);
        break;
    default:
        r = unpack_node(u, name);
    }
    return r < 0 ? untar_fail(u, r, "make", e) : 0;
}

static int on_data(void *ctx, struct str piece, struct err *e)
{
    struct untar *u = ctx;
    int r = u->file.in_place ? io_write_full(u->file.fd, piece, deadline_in_ms(0))
                             : sparse_write(&u->sparse, u->file.fd, piece);

    return r < 0 ? untar_fail(u, r, "write", e) : 0;
}

static int on_entry_end(void *ctx, struct err *e)
{
    struct untar *u = ctx;

    return u->file.fd >= 0 ? unpack_file_end(u, e) : 0;
}

static const struct tar_reader_ops untar_ops = {on_entry, on_data, on_entry_end};

/* --- interface --- */

int untar_open(struct untar *u, const char *dir, bool owners, struct err *e)
{
    int r;

    *u = (struct untar){.root = -EBADF, .parent = -EBADF, .file = TARGET_NONE, .owners = owners};
    tar_reader_init(&u->reader, &untar_ops, u);
    arena_init(&u->arena, UNTAR_ARENA_MAX);
    buf_init(&u->path, TAR_TEXT_BYTES_MAX);
    buf_init(&u->parent_path, TAR_TEXT_BYTES_MAX);
    r = fs_make_dirs(dir, DIR_MODE, NULL);
    if (r == 0)
        r = u->root = fs_open(dir, PLACE);
    return r < 0 ? err_set(e, -r, "%s: %s", dir, fs_text(-r)) : 0;
}

void untar_done(struct untar *u)
{
    if (!u->path.p) /* all zero */
        return;
    tar_reader_done(&u->reader);
    target_drop(&u->file);
    arena_done(&u->arena);
    buf_done(&u->path);
    buf_done(&u->parent_path);
    fd_close(u->parent);
    fd_close(u->root);
    *u = (struct untar){.root = -EBADF};
}

int untar_feed(struct untar *u, struct str piece, struct err *e)
{
    int r = tar_reader_feed(&u->reader, piece, e);

    if (r < 0)
        target_drop(&u->file);
    return r;
}

int untar_end(struct untar *u, struct err *e)
{
    return tar_reader_end(&u->reader, e);
}
