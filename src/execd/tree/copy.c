#include "execd/tree/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/tree/fs.h"

#ifndef SEEK_DATA
#define SEEK_DATA 3 /* not in musl before 1.2.3 */
#endif

enum {
    PIECE_BYTES = 128 << 10,
    MODE_BITS = 07777,
    PRIVATE_MODE = 0700, /* until the real one is set */
    DIR_CLOEXEC = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

struct copy_level {
    struct stat st; /* of the source directory */
    dev_t dev;      /* of the copied directory */
    ino_t ino;
};

/* A copied file whose source has more names. */
struct copy_file {
    dev_t dev; /* of the copy */
    ino_t ino;
    off_t size; /* of the source, when it was copied */
    struct timespec modified;
    nlink_t left; /* names still to come */
    char path[];  /* relative to the directory of the copy */
};

static void times_of(const struct stat *st, struct timespec ret[2])
{
    ret[0] = st->st_atim;
    ret[1] = st->st_mtim;
}

/* Sets the owner, mode and times of the source. */
static int finish_fd(int fd, const struct stat *st)
{
    struct timespec times[2];

    times_of(st, times);
    if (fchown(fd, st->st_uid, st->st_gid) < 0 || fchmod(fd, st->st_mode & MODE_BITS) < 0 ||
        futimens(fd, times) < 0)
        return -errno;
    return 0;
}

/* --- symbolic links, FIFOs, devices --- */

static int copy_link(int from, const char *name, int to, const char *as)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to, as) < 0 ? -errno : 0;
}

static int copy_other(int from, const char *name, const struct stat *st, int to, const char *as)
{
    struct timespec times[2];
    int r = 0;

    if (S_ISLNK(st->st_mode))
        r = copy_link(from, name, to, as);
    else if (mknodat(to, as, st->st_mode & (S_IFMT | MODE_BITS), st->st_rdev) < 0)
        r = -errno;
    if (r < 0)
        return r;
    times_of(st, times);
    if (fchownat(to, as, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!S_ISLNK(st->st_mode) && fchmodat(to, as, st->st_mode & MODE_BITS, 0) < 0) ||
        utimensat(to, as, times, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

/* --- files --- */

static int file_begin(struct copy *c, int from, const char *name, int to, const char *as)
{
    c->file_in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (c->file_in < 0 || fstat(c->file_in, &c->file_st) < 0)
        return -errno;
    if (!S_ISREG(c->file_st.st_mode))
        return -ESTALE; /* no longer a regular file */
    c->file_to =
        openat(to, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    return c->file_to < 0 ? -errno : 0;
}

/* Moves both files to the next data: a hole of the source becomes a hole of the copy. At its end
 * the copy gets the length of the source. */
static int file_skip_hole(struct copy *c)
{
    off_t at = lseek(c->file_in, 0, SEEK_CUR), data = lseek(c->file_in, at, SEEK_DATA);

    if (data < 0 && errno == ENXIO) /* only a hole follows, or nothing */
        data = lseek(c->file_in, 0, SEEK_END);
    else if (data < 0)
        return 0; /* the file system does not report holes */
    if (data <= at)
        return 0;
    if (lseek(c->file_to, data, SEEK_SET) < 0 || ftruncate(c->file_to, data) < 0)
        return -errno;
    return 0;
}

static int file_step(struct copy *c)
{
    size_t n = 0;
    int r = file_skip_hole(c);

    if (r == 0)
        r = io_read_full(c->file_in, c->piece, PIECE_BYTES, deadline_in_ms(0), &n);
    if (r == 0 && n > 0)
        r = io_write_full(c->file_to, str_make(c->piece, n), DEADLINE_NEVER);
    if (r < 0 || n == PIECE_BYTES)
        return r;
    r = finish_fd(c->file_to, &c->file_st);
    fd_close(take_fd(&c->file_in));
    if (close(take_fd(&c->file_to)) < 0 && r == 0 && errno != EINTR)
        r = -errno;
    return r;
}

/* --- hard links --- */

static struct str link_key(const struct stat *st)
{
    return str_make((const char *)&st->st_ino, sizeof(st->st_ino));
}

/* Remembers the file just begun, if there is room. */
static void link_note(struct copy *c, const struct walk_entry *entry)
{
    struct str rest = str_skip(entry->path, c->root_bytes);
    size_t size = strlen(c->as) + rest.n + 1;
    struct copy_file *f;
    struct stat st;

    if (c->file_st.st_nlink < 2 || rest.n > COPY_LINK_PATH_MAX || fstat(c->file_to, &st) < 0)
        return;
    f = mem_alloc(sizeof(*f) + size);
    *f = (struct copy_file){st.st_dev, st.st_ino, c->file_st.st_size, c->file_st.st_mtim,
                            c->file_st.st_nlink - 1};
    (void)snprintf(f->path, size, "%s%.*s", c->as, STR_ARG(rest));
    if (map_set(&c->links, link_key(&c->file_st), f) < 0)
        free(f);
}

/* A file may be modified between two of its names, and its inode number may be reused. */
static bool is_as_copied(const struct copy_file *f, const struct stat *st)
{
    return st->st_size == f->size && st->st_mtim.tv_sec == f->modified.tv_sec &&
           st->st_mtim.tv_nsec == f->modified.tv_nsec;
}

/* Links to the copy of a file that was found under another name. False: it must be copied. */
static bool link_made(struct copy *c, const struct walk_entry *entry)
{
    struct copy_file *f = entry->st.st_nlink > 1 ? map_get(&c->links, link_key(&entry->st)) : NULL;
    const char *name = entry->name.p;
    struct stat st;

    if (!f || !is_as_copied(f, &entry->st) || linkat(c->to, f->path, c->out, name, 0) < 0)
        return false;
    if (fstatat(c->out, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != f->dev ||
        st.st_ino != f->ino) { /* another process moved files within the copy */
        (void)unlinkat(c->out, name, 0);
        return false;
    }
    if (--f->left == 0)
        map_remove(&c->links, link_key(&entry->st));
    return true;
}

/* --- directories --- */

/* Creates a directory of the copy and enters it. */
static int dir_begin(struct copy *c, int to, const char *as, const struct stat *st)
{
    struct copy_level *l;
    auto_fd fd = -EBADF;
    struct stat made;

    if (c->depth == c->room) {
        size_t room = c->room ? 2 * c->room : 8;

        l = mem_try_realloc(c->levels, room * sizeof(*l));
        if (!l)
            return -ENOMEM;
        c->levels = l;
        c->room = room;
    }
    if (mkdirat(to, as, PRIVATE_MODE) < 0)
        return -errno;
    fd = openat(to, as, DIR_CLOEXEC);
    if (fd < 0 || fstat(fd, &made) < 0)
        return -errno;
    c->levels[c->depth++] = (struct copy_level){*st, made.st_dev, made.st_ino};
    fd_close(c->out);
    c->out = take_fd(&fd);
    return 0;
}

/* The directory is complete: sets its metadata and goes up. */
static int dir_end(struct copy *c)
{
    int fd = -EBADF, r;
    struct stat st;

    if (c->depth > 1) {
        const struct copy_level *up = &c->levels[c->depth - 2];

        fd = openat(c->out, "..", DIR_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != up->dev || st.st_ino != up->ino) {
            fd_close(fd);
            return -ESTALE;
        }
    }
    r = finish_fd(c->out, &c->levels[--c->depth].st);
    fd_close(c->out);
    c->out = fd;
    return r;
}

/* The tree must not contain its own copy, and ends at mount points. */
static int entry_check(const struct copy *c, const struct stat *st)
{
    if (st->st_dev != c->st.st_dev)
        return -EXDEV;
    for (size_t i = 0; i < c->depth && S_ISDIR(st->st_mode); i++)
        if (st->st_dev == c->levels[i].dev && st->st_ino == c->levels[i].ino)
            return -EINVAL;
    return 0;
}

static int entry_begin(struct copy *c, const struct walk_entry *entry, struct err *e)
{
    const char *name = entry->name.p;
    int r = entry_check(c, &entry->st);

    if (r < 0)
        return r;
    if (S_ISDIR(entry->st.st_mode)) {
        r = dir_begin(c, c->out, name, &entry->st);
        return r == 0 ? walk_enter(&c->walk, entry, e) : r;
    }
    if (!S_ISREG(entry->st.st_mode))
        return copy_other(walk_dir(&c->walk), name, &entry->st, c->out, name);
    if (link_made(c, entry))
        return 0;
    r = file_begin(c, walk_dir(&c->walk), name, c->out, name);
    if (r == 0)
        link_note(c, entry);
    return r;
}

static int tree_step(struct copy *c, struct err *e)
{
    struct walk_entry entry;
    int r = walk_next(&c->walk, &entry, e);

    if (r == WALK_ENTRY)
        r = entry_begin(c, &entry, e);
    else if (r == WALK_UP || r == WALK_END)
        r = dir_end(c);
    return r < 0 ? r : 0;
}

/* --- the whole copy --- */

int copy_open(struct copy *c, const char *path, int to, const char *as, struct err *e)
{
    struct str name;
    int r;

    *c = (struct copy){.to = to, .out = -EBADF, .file_in = -EBADF, .file_to = -EBADF};
    c->from = r = fs_open_parent(path, &name);
    if (r >= 0)
        r = str_copy(c->name, sizeof(c->name), name);
    if (r == 0)
        r = str_copy(c->as, sizeof(c->as), str_of(as));
    if (r == 0 && fstatat(c->from, c->name, &c->st, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    if (r < 0)
        return err_set(e, -r, "open %s: %s", path, fs_text(-r));
    c->piece = mem_alloc(PIECE_BYTES);
    c->root_bytes = strlen(path);
    map_init(&c->links, COPY_LINKS_MAX, free);
    return S_ISDIR(c->st.st_mode) ? walk_open(&c->walk, path, e) : 0;
}

void copy_done(struct copy *c)
{
    if (!c->piece && c->from <= 0)
        return;
    walk_done(&c->walk);
    map_done(&c->links);
    free(c->levels);
    free(c->piece);
    fd_close(c->from);
    fd_close(c->out);
    fd_close(c->file_in);
    fd_close(c->file_to);
    *c = (struct copy){.from = -EBADF};
}

static int copy_begin(struct copy *c)
{
    c->begun = true;
    if (S_ISDIR(c->st.st_mode))
        return dir_begin(c, c->to, c->as, &c->st);
    if (S_ISREG(c->st.st_mode))
        return file_begin(c, c->from, c->name, c->to, c->as);
    return copy_other(c->from, c->name, &c->st, c->to, c->as);
}

int copy_step(struct copy *c, struct err *e)
{
    struct err cause = {0};
    int r;

    if (!c->begun)
        r = copy_begin(c);
    else if (c->file_in >= 0)
        r = file_step(c);
    else
        r = c->depth > 0 ? tree_step(c, &cause) : 0;
    if (r == 0) /* a file may be open now, or closed within a tree */
        r = c->file_in >= 0 || c->depth > 0;
    if (r >= 0)
        return r;
    return cause.code ? err_set(e, cause.code, "%s", cause.msg)
                      : err_set(e, -r, "copy %s: %s", c->name, fs_text(-r));
}
