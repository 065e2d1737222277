#include "unpack/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tree.h"

enum { TIMES_BYTES_MAX = 256 << 20, SHOWN_BYTES = 120, DIR_FLAGS = O_DIRECTORY | O_NOFOLLOW };

struct apply_time {
    struct timespec mtime;
    size_t path_bytes; /* with the NUL */
};

static int fail(const char *path, int code, const char *what, struct err *e)
{
    return err_sys(e, code, "'%.*s'%s: %s", SHOWN_BYTES, path,
                   strlen(path) > SHOWN_BYTES ? "..." : "", what);
}

static int refuse(const char *path, int code, const char *why, struct err *e)
{
    return err_set(e, code, "'%.*s'%s: %s", SHOWN_BYTES, path,
                   strlen(path) > SHOWN_BYTES ? "..." : "", why);
}

static void parent_forget(struct apply *a)
{
    fd_close(take_fd(&a->parent));
    buf_clear(&a->parent_path);
}

void apply_init(struct apply *a, int root, int (*opaque)(void *ctx, int dir, struct err *e),
                void *ctx)
{
    *a = (struct apply){
        .root = root, .opaque = opaque, .ctx = ctx, .parent = -EBADF, .file = -EBADF};
    buf_init(&a->parent_path, PATH_MAX);
    buf_init(&a->times, TIMES_BYTES_MAX);
}

void apply_done(struct apply *a)
{
    parent_forget(a);
    fd_close(take_fd(&a->file));
    buf_done(&a->parent_path);
    buf_done(&a->times);
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* --- directories on the way --- */

/* Directories that the archive does not name itself are root's, mode 0755. One that takes the place
 * of a whiteout hides what lower layers have there. */
static int way_make(const struct apply *a, int at, const char *name, const char *path,
                    struct err *e)
{
    struct stat st = {0};
    bool hides = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_whiteout(&st);
    auto_fd dir = -EBADF;
    int r;

    if (hides && unlinkat(at, name, 0) < 0)
        return fail(path, errno, "replace a whiteout", e);
    if (mkdirat(at, name, 0755) < 0) {
        if (errno != EEXIST)
            return fail(path, errno, "make a directory on the way", e);
        return refuse(path, ENOTDIR,
                      S_ISLNK(st.st_mode) ? "leads through a symbolic link of this layer"
                                          : "leads through something that is no directory",
                      e);
    }
    r = dir = fd_open_at(at, name, O_RDONLY | DIR_FLAGS, 0, PATH_STRICT, NULL);
    if (r < 0)
        return fail(path, -r, "open a directory on the way", e);
    r = hides ? a->opaque(a->ctx, dir, e) : 0;
    return r < 0 ? r : take_fd(&dir);
}

/* Opens the directory `path` component by component, and makes what is missing. */
static int way_walk(const struct apply *a, struct str dir, const char *path, struct err *e)
{
    int at = fcntl(a->root, F_DUPFD_CLOEXEC, 0);
    struct str name;

    if (at < 0)
        return fail(path, errno, "open the root", e);
    while (str_cut(&dir, '/', &name)) {
        char text[NAME_MAX + 1];
        int next;

        next = str_copy(text, sizeof(text), name);
        if (next == 0)
            next = fd_open_at(at, text, O_RDONLY | DIR_FLAGS, 0, PATH_STRICT, NULL);
        if (next == -ENOENT || next == -ENOTDIR || next == -ELOOP)
            next = way_make(a, at, text, path, e);
        else if (next < 0)
            next = fail(path, -next, "open a directory on the way", e);
        fd_close(at);
        if (next < 0)
            return next;
        at = next;
    }
    return at;
}

/* Opens the directory that `path` is in: *ret_name is the last part. The descriptor is ours, until
 * the next call. Archives list a directory's files together, so most calls find it open. */
static int parent_open(struct apply *a, const char *path, const char **ret_name, struct err *e)
{
    const char *slash = strrchr(path, '/');
    struct str dir = slash ? str_make(path, (size_t)(slash - path)) : STR("");
    int fd;

    *ret_name = slash ? slash + 1 : path;
    if (a->parent >= 0 && str_eq(dir, buf_str(&a->parent_path)))
        return a->parent;
    parent_forget(a);
    if (buf_add(&a->parent_path, dir) < 0)
        return refuse(path, ENAMETOOLONG, "the path is too long", e);
    fd = fd_open_at(a->root, dir.n ? a->parent_path.p : ".", O_RDONLY | DIR_FLAGS, 0, PATH_STRICT,
                    NULL);
    if (fd < 0)
        fd = way_walk(a, dir, path, e);
    if (fd < 0) {
        buf_clear(&a->parent_path);
        return fd;
    }
    a->parent = fd;
    return fd;
}

/* --- making room --- */

/* Removes what an earlier entry put there. Returns 1 when it was a whiteout, else 0. */
static int make_room(int parent, const char *name, const char *path, struct err *e)
{
    struct stat st;
    int r;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : fail(path, errno, "look for it", e);
    if (!S_ISDIR(st.st_mode))
        return unlinkat(parent, name, 0) < 0 ? fail(path, errno, "replace it", e)
                                             : is_whiteout(&st);
    r = tree_remove(parent, name, NULL);
    return r < 0 ? fail(path, -r, "replace a directory", e) : 0;
}

/* --- attributes --- */

static struct timespec mtime_of(const struct layer_change *c)
{
    return (struct timespec){.tv_sec = c->mtime, .tv_nsec = (long)c->mtime_ns};
}

static int xattrs_set(const struct layer_change *c, int fd, struct err *e)
{
    for (size_t i = 0; i < c->xattr_count; i++) {
        const struct layer_xattr *x = &c->xattrs[i];

        if (fsetxattr(fd, x->name.p, x->value.p, x->value.n, 0) < 0)
            return err_sys(e, errno, "'%.*s': set attribute '%.*s'", SHOWN_BYTES, c->path,
                           SHOWN_BYTES, x->name.p);
    }
    return 0;
}

/* The owner comes first: a change of it clears setuid bits and capabilities. */
static int meta_set(const struct layer_change *c, int fd, struct err *e)
{
    struct timespec times[] = {mtime_of(c), mtime_of(c)};
    int r;

    if ((c->uid || c->gid) && fchown(fd, c->uid, c->gid) < 0)
        return fail(c->path, errno, "set the owner", e);
    if (fchmod(fd, c->mode) < 0)
        return fail(c->path, errno, "set the mode", e);
    r = xattrs_set(c, fd, e);
    if (r == 0 && c->kind == LAYER_FILE && futimens(fd, times) < 0)
        return fail(c->path, errno, "set the time", e);
    return r;
}

/* For what cannot be opened. */
static int meta_set_at(const struct layer_change *c, int parent, const char *name, struct err *e)
{
    struct timespec times[] = {mtime_of(c), mtime_of(c)};

    if (fchownat(parent, name, c->uid, c->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(c->path, errno, "set the owner", e);
    if (c->kind == LAYER_FIFO && fchmodat(parent, name, c->mode, 0) < 0)
        return fail(c->path, errno, "set the mode", e);
    return utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0
               ? fail(c->path, errno, "set the time", e)
               : 0;
}

/* --- changes --- */

static int times_note(struct apply *a, const struct layer_change *c, struct err *e)
{
    struct apply_time t = {.mtime = mtime_of(c), .path_bytes = strlen(c->path) + 1};

    if (buf_add(&a->times, str_make((const char *)&t, sizeof(t))) < 0 ||
        buf_add(&a->times, str_make(c->path, t.path_bytes)) < 0)
        return refuse(c->path, E2BIG, "the layer has too many directories", e);
    return 0;
}

static int directory_meta(struct apply *a, const struct layer_change *c, int dir, struct err *e)
{
    int r;

    /* One that was there has the owner of the earlier entry. */
    if (!c->uid && !c->gid && fchown(dir, 0, 0) < 0)
        return fail(c->path, errno, "set the owner", e);
    r = meta_set(c, dir, e);
    return r < 0 ? r : times_note(a, c, e);
}

static int directory_make(struct apply *a, const struct layer_change *c, int parent,
                          const char *name, struct err *e)
{
    auto_fd dir = -EBADF;
    bool hides = false;
    int r;

    if (mkdirat(parent, name, 0755) < 0) {
        struct stat st;

        if (errno != EEXIST || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return fail(c->path, errno, "make a directory", e);
        if (!S_ISDIR(st.st_mode)) {
            r = make_room(parent, name, c->path, e);
            if (r < 0)
                return r;
            hides = r;
            if (mkdirat(parent, name, 0755) < 0)
                return fail(c->path, errno, "make a directory", e);
        }
    }
    dir = r = fd_open_at(parent, name, O_RDONLY | DIR_FLAGS, 0, PATH_STRICT, NULL);
    if (r < 0)
        return fail(c->path, -r, "open a directory", e);
    if (hides)
        r = a->opaque(a->ctx, dir, e);
    return r < 0 ? r : directory_meta(a, c, dir, e);
}

static int file_make(struct apply *a, const struct layer_change *c, int parent, const char *name,
                     struct err *e)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    int r;

    a->file = openat(parent, name, flags | O_CLOEXEC, 0600);
    if (a->file < 0 && errno == EEXIST) {
        r = make_room(parent, name, c->path, e);
        if (r < 0)
            return r;
        a->file = openat(parent, name, flags | O_CLOEXEC, 0600);
    }
    a->is_file = a->file >= 0;
    return a->file < 0 ? fail(c->path, errno, "make a file", e) : 0;
}

static int symlink_make(struct apply *a, const struct layer_change *c, int parent, const char *name,
                        struct err *e)
{
    int r = make_room(parent, name, c->path, e);

    if (r < 0)
        return r;
    if (symlinkat(c->target, parent, name) < 0)
        return fail(c->path, errno, "make a symbolic link", e);
    return meta_set_at(c, parent, name, e);
}

/* Opens the directory that a hard link's target is in; it must be there. */
static int link_source(const struct apply *a, const char *target, char name[NAME_MAX + 1])
{
    const char *slash = strrchr(target, '/');
    char dir[PATH_MAX];

    if (str_copy(name, NAME_MAX + 1, str_of(slash ? slash + 1 : target)) < 0)
        return -ENAMETOOLONG;
    if (!slash)
        return fcntl(a->root, F_DUPFD_CLOEXEC, 0);
    if (str_copy(dir, sizeof(dir), str_make(target, (size_t)(slash - target))) < 0)
        return -ENAMETOOLONG;
    return fd_open_at(a->root, dir, O_RDONLY | DIR_FLAGS, 0, PATH_STRICT, NULL);
}

static int hard_link_make(struct apply *a, const struct layer_change *c, int parent,
                          const char *name, struct err *e)
{
    char source[NAME_MAX + 1];
    auto_fd from = link_source(a, c->target, source);
    struct stat st, old;
    int r;

    if (from < 0 || fstatat(from, source, &st, AT_SYMLINK_NOFOLLOW) < 0 || is_whiteout(&st))
        return err_set(e, ENOENT, "'%.*s': is a link to '%.*s', which this layer does not have",
                       SHOWN_BYTES / 2, c->path, SHOWN_BYTES / 2, c->target);
    if (S_ISDIR(st.st_mode))
        return refuse(c->path, EPERM, "is a hard link to a directory", e);
    if (fstatat(parent, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == st.st_ino &&
        old.st_dev == st.st_dev)
        return 0;
    r = make_room(parent, name, c->path, e);
    if (r < 0)
        return r;
    return linkat(from, source, parent, name, 0) < 0 ? fail(c->path, errno, "link it", e) : 0;
}

static int fifo_make(struct apply *a, const struct layer_change *c, int parent, const char *name,
                     struct err *e)
{
    int r = make_room(parent, name, c->path, e);

    if (r < 0)
        return r;
    if (mknodat(parent, name, S_IFIFO | 0600, 0) < 0)
        return fail(c->path, errno, "make a fifo", e);
    return meta_set_at(c, parent, name, e);
}

static int opaque_mark(const struct apply *a, int parent, const char *name, const char *path,
                       struct err *e)
{
    auto_fd dir = fd_open_at(parent, name, O_RDONLY | DIR_FLAGS, 0, PATH_STRICT, NULL);

    return dir < 0 ? fail(path, -dir, "open a directory", e) : a->opaque(a->ctx, dir, e);
}

/* Whiteouts hide what lower layers have, never what this one has, whatever the order. */
static int whiteout_make(struct apply *a, const struct layer_change *c, int parent,
                         const char *name, struct err *e)
{
    struct stat st;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISDIR(st.st_mode) ? opaque_mark(a, parent, name, c->path, e) : 0;
    return mknodat(parent, name, S_IFCHR, makedev(0, 0)) < 0
               ? fail(c->path, errno, "make a whiteout", e)
               : 0;
}

/* The directory may come later, or not at all. */
static int opaque_make(struct apply *a, const struct layer_change *c, int parent, const char *name,
                       struct err *e)
{
    auto_fd dir = -EBADF;
    struct stat st;
    bool there = fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

    if (there && S_ISDIR(st.st_mode))
        return opaque_mark(a, parent, name, c->path, e);
    if (there && !is_whiteout(&st))
        return refuse(c->path, ENOTDIR, "is to be opaque, but is no directory", e);
    dir = way_make(a, parent, name, c->path, e);
    return dir < 0 ? dir : there ? 0 : a->opaque(a->ctx, dir, e);
}

static int root_change(struct apply *a, const struct layer_change *c, struct err *e)
{
    auto_fd dir = fd_open_at(a->root, ".", O_RDONLY | DIR_FLAGS, 0, PATH_STRICT, NULL);

    if (dir < 0)
        return fail(c->path, -dir, "open the root", e);
    return c->kind == LAYER_OPAQUE ? a->opaque(a->ctx, dir, e) : directory_meta(a, c, dir, e);
}

static int on_change(void *ctx, const struct layer_change *c, struct err *e)
{
    static int (*const makers[])(struct apply * a, const struct layer_change *c, int parent,
                                 const char *name, struct err *e) = {
        [LAYER_FILE] = file_make,       [LAYER_DIRECTORY] = directory_make,
        [LAYER_SYMLINK] = symlink_make, [LAYER_HARD_LINK] = hard_link_make,
        [LAYER_FIFO] = fifo_make,       [LAYER_WHITEOUT] = whiteout_make,
        [LAYER_OPAQUE] = opaque_make,
    };
    struct apply *a = ctx;
    const char *name;
    int parent;

    a->now = *c;
    a->is_file = false;
    if (c->path[0] == '\0')
        return root_change(a, c, e);
    parent = parent_open(a, c->path, &name, e);
    return parent < 0 ? parent : makers[c->kind](a, c, parent, name, e);
}

static int on_data(void *ctx, uint64_t offset, struct str piece, struct err *e)
{
    struct apply *a = ctx;
    int r = a->is_file ? fd_pwrite_all(a->file, piece.p, piece.n, (off_t)offset) : 0;

    return r < 0 ? fail(a->now.path, -r, "write", e) : 0;
}

static int on_end(void *ctx, struct err *e)
{
    struct apply *a = ctx;
    auto_fd fd = -EBADF;
    struct stat st;

    if (!a->is_file)
        return 0;
    fd = take_fd(&a->file);
    if (a->now.size > 0 && (fstat(fd, &st) < 0 || (uint64_t)st.st_size != a->now.size) &&
        ftruncate(fd, (off_t)a->now.size) < 0)
        return fail(a->now.path, errno, "size it", e);
    return meta_set(&a->now, fd, e);
}

const struct layer_ops apply_ops = {on_change, on_data, on_end};

/* A directory may have been replaced since. */
static int time_set(const struct apply *a, const char *path, const struct apply_time *t,
                    struct err *e)
{
    struct timespec times[] = {t->mtime, t->mtime};
    auto_fd dir =
        fd_open_at(a->root, *path ? path : ".", O_RDONLY | DIR_FLAGS, 0, PATH_STRICT, NULL);

    if (dir < 0)
        return dir == -ENOENT || dir == -ENOTDIR || dir == -ELOOP
                   ? 0
                   : fail(path, -dir, "open a directory", e);
    return futimens(dir, times) < 0 ? fail(path, errno, "set the time", e) : 0;
}

int apply_end(struct apply *a, struct err *e)
{
    int r = 0;

    for (size_t at = 0; r == 0 && at < a->times.n;) {
        struct apply_time t;

        memcpy(&t, a->times.p + at, sizeof(t));
        r = time_set(a, a->times.p + at + sizeof(t), &t, e);
        at += sizeof(t) + t.path_bytes;
    }
    return r;
}
