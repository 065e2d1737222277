#include "broker/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "sandbox/plan.h"

enum {
    DEPTH_MAX = 256,
    XATTR_NAMES_MAX = 4096,
    XATTR_VALUE_MAX = 4096,
    COPY_BYTES = 1 << 24,
    ERASE_TURNS_MAX = 1 << 28,
};

/* A directory that is being copied; the walk uses a stack of these instead of recursion. */
struct level {
    DIR *from;
    int to;
};

struct walk {
    struct level levels[DEPTH_MAX];
    size_t depth;
    uint32_t uid_first;
    mode_t file_modes; /* mode bits that files keep */
    struct err *e;
};

/* --- one entry --- */

static uint32_t inside(const struct walk *w, uint32_t id)
{
    uint32_t in = id - w->uid_first;

    return in < PLAN_UID_RANGE ? in : PLAN_UID_RANGE - 1; /* an id of no sandbox: nobody */
}

static bool xattr_wanted(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || strcmp(name, "trusted.overlay.opaque") == 0;
}

static int copy_xattrs(int from, int to, struct err *e)
{
    char names[XATTR_NAMES_MAX], value[XATTR_VALUE_MAX];
    ssize_t n = flistxattr(from, names, sizeof(names));

    if (n < 0)
        return errno == ENOTSUP ? 0 : err_sys(e, errno, "list attributes");
    for (const char *name = names; name < names + n; name += strlen(name) + 1) {
        ssize_t size = xattr_wanted(name) ? fgetxattr(from, name, value, sizeof(value)) : -1;

        if (size >= 0 && fsetxattr(to, name, value, (size_t)size, 0) < 0)
            return err_sys(e, errno, "set attribute '%s'", name);
    }
    return 0;
}

/* Shares extents where both are on one file system that supports it, else copies bytes. */
static ssize_t copy_some(int from, int to, off_t at, size_t want)
{
    loff_t in = at, out = at;
    ssize_t n = copy_file_range(from, &in, to, &out, want, 0);

    if (n >= 0 || errno != EXDEV)
        return n;
    return lseek(to, at, SEEK_SET) < 0 ? -1 : sendfile(to, from, &in, want);
}

/* Copies data only, and skips holes. */
static int copy_data(int from, int to, off_t size, struct err *e)
{
    off_t at = 0;

    if (ftruncate(to, size) < 0)
        return err_sys(e, errno, "size a file");
    while ((at = lseek(from, at, SEEK_DATA)) >= 0 && at < size) {
        off_t end = lseek(from, at, SEEK_HOLE);

        if (end < 0)
            return err_sys(e, errno, "find a hole");
        while (at < end) {
            size_t want = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
            ssize_t n = copy_some(from, to, at, want);

            if (n <= 0)
                return err_sys(e, n < 0 ? errno : EIO, "copy a file");
            at += n;
        }
    }
    return errno == ENXIO || at >= size ? 0 : err_sys(e, errno, "read a file");
}

static int copy_meta(const struct walk *w, int to, const struct stat *st)
{
    struct timespec times[2] = {st->st_atim, st->st_mtim};
    mode_t modes = S_ISREG(st->st_mode) ? w->file_modes : 07777;

    if (fchown(to, inside(w, st->st_uid), inside(w, st->st_gid)) < 0 ||
        fchmod(to, st->st_mode & modes) < 0 || futimens(to, times) < 0)
        return err_sys(w->e, errno, "set owner, mode and times");
    return 0;
}

/* O_NONBLOCK: the file may have been replaced by a fifo without a writer. */
static int copy_file(const struct walk *w, int from_dir, int to_dir, const char *name)
{
    auto_fd from =
        openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    auto_fd to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct stat st;
    int r;

    if (from < 0 || to < 0 || fstat(from, &st) < 0)
        return err_sys(w->e, errno, "copy '%s'", name);
    if (!S_ISREG(st.st_mode))
        return err_set(w->e, EBUSY, "'%s' changes while it is copied", name);
    r = copy_data(from, to, st.st_size, w->e);
    if (r == 0)
        r = copy_xattrs(from, to, w->e);
    return r < 0 ? r : copy_meta(w, to, &st);
}

/* Sets the owner by name, as the node cannot be opened. Checks first that it is still the node we
 * made. */
static int own_node(const struct walk *w, int to, const char *name, const struct stat *st)
{
    auto_fd node = openat(to, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat now;

    if (node < 0 || fstat(node, &now) < 0)
        return -1;
    if ((now.st_mode & S_IFMT) != (st->st_mode & S_IFMT)) {
        errno = EBUSY;
        return -1;
    }
    return fchownat(node, "", inside(w, st->st_uid), inside(w, st->st_gid), AT_EMPTY_PATH);
}

static int copy_link(const struct walk *w, int from, int to, const char *name,
                     const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

    if (n >= 0)
        target[n] = '\0';
    if (n < 0 || symlinkat(target, to, name) < 0 || own_node(w, to, name, st) < 0)
        return err_sys(w->e, errno, "copy link '%s'", name);
    return 0;
}

/* Fifos, and the device 0:0 by which overlayfs marks deletions (whiteout). There are no others. */
static int copy_node(const struct walk *w, int to, const char *name, const struct stat *st)
{
    if (S_ISSOCK(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev != 0) || S_ISBLK(st->st_mode))
        return 0;
    if (mknodat(to, name, st->st_mode, st->st_rdev) < 0 || own_node(w, to, name, st) < 0)
        return err_sys(w->e, errno, "copy '%s'", name);
    return 0;
}

/* --- the walk --- */

/* Enters a directory on both sides, and creates `to` unless it is the top. */
static int walk_enter(struct walk *w, int from_dir, const char *from_name, int to_dir,
                      const char *to_name)
{
    auto_fd from = openat(from_dir, from_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_fd to = -EBADF;
    struct stat st;
    int r;

    if (w->depth == DEPTH_MAX)
        return err_set(w->e, ELOOP, "directories are nested more than %d deep", DEPTH_MAX);
    if (mkdirat(to_dir, to_name, 0700) < 0 && errno != EEXIST)
        return err_sys(w->e, errno, "make '%s'", to_name);
    to = openat(to_dir, to_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || to < 0 || fstat(from, &st) < 0)
        return err_sys(w->e, errno, "enter '%s'", from_name);
    r = copy_xattrs(from, to, w->e);
    if (r == 0)
        r = copy_meta(w, to, &st);
    if (r < 0)
        return r;
    w->levels[w->depth].from = fdopendir(from);
    if (!w->levels[w->depth].from)
        return err_sys(w->e, errno, "read '%s'", from_name);
    (void)take_fd(&from);
    w->levels[w->depth++].to = take_fd(&to);
    return 0;
}

static void walk_leave(struct walk *w)
{
    struct level *l = &w->levels[--w->depth];

    closedir(l->from);
    fd_close(l->to);
}

static int walk_entry(struct walk *w, const char *name)
{
    struct level *l = &w->levels[w->depth - 1];
    int from = dirfd(l->from);
    struct stat st;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(w->e, errno, "look at '%s'", name);
    if (S_ISDIR(st.st_mode))
        return walk_enter(w, from, name, l->to, name);
    if (S_ISREG(st.st_mode))
        return copy_file(w, from, l->to, name);
    return S_ISLNK(st.st_mode) ? copy_link(w, from, l->to, name, &st)
                               : copy_node(w, l->to, name, &st);
}

static int walk_tree(struct walk *w, int from_dir, const char *from_name, int to_dir,
                     const char *to_name)
{
    int r = walk_enter(w, from_dir, from_name, to_dir, to_name);

    while (r == 0 && w->depth > 0) {
        struct dirent *d = readdir(w->levels[w->depth - 1].from);

        if (d)
            r = walk_entry(w, d->d_name);
        else
            walk_leave(w);
    }
    while (w->depth > 0)
        walk_leave(w);
    return r;
}

int snapshot_copy(const struct snapshot *s, int to, struct err *e)
{
    static struct walk w; /* too large for the stack; single-threaded */
    int r;

    w = (struct walk){.uid_first = s->uid_first, .file_modes = s->setuid ? 07777 : 01777, .e = e};
    r = walk_tree(&w, s->layer, "upper", to, ".");
    return r < 0 || !s->usr ? r : walk_tree(&w, s->layer, "usr", to, "usr");
}

/* --- erasing --- */

struct erasure {
    struct {
        DIR *dir;
        long place;  /* telldir() position of the entered entry */
        bool sought; /* seekdir() was used since the last rewinddir() */
    } levels[DEPTH_MAX];
    size_t depth;
    struct err *e;
};

/* Too deep to hold open: moves a directory into the topmost one, where it is found again. */
static int erase_lift(const struct erasure *w, int parent, const char *name)
{
    char lifted[32];
    uint64_t random;

    id_random_bytes(&random, sizeof(random));
    (void)snprintf(lifted, sizeof(lifted), "deep-%016" PRIx64, random);
    return renameat2(parent, name, dirfd(w->levels[0].dir), lifted, RENAME_NOREPLACE) < 0
               ? err_sys(w->e, errno, "move '%s'", name)
               : 0;
}

static int erase_enter(struct erasure *w, int parent, const char *name)
{
    auto_fd fd = -EBADF;

    if (w->depth == DEPTH_MAX)
        return erase_lift(w, parent, name);
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    w->levels[w->depth].dir = fd < 0 ? NULL : fdopendir(fd);
    if (!w->levels[w->depth].dir)
        return err_sys(w->e, errno, "enter '%s'", name);
    (void)take_fd(&fd);
    w->levels[w->depth++].sought = false;
    return 0;
}

/* Enters a directory that is not empty; the walk finds it again once it is. */
static int erase_entry(struct erasure *w, const char *name)
{
    int parent = dirfd(w->levels[w->depth - 1].dir);

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(parent, name, 0) == 0 ||
        errno == ENOENT)
        return 0;
    if (errno == EISDIR && (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
        return 0;
    return errno == ENOTEMPTY ? erase_enter(w, parent, name)
                              : err_sys(w->e, errno, "remove '%s'", name);
}

/* Continues in the parent at the saved position: rereading it for each subdirectory would take too
 * long with a million of them. */
static void erase_leave(struct erasure *w)
{
    closedir(w->levels[--w->depth].dir);
    if (w->depth == 0)
        return;
    seekdir(w->levels[w->depth - 1].dir, w->levels[w->depth - 1].place);
    w->levels[w->depth - 1].sought = true;
}

/* On some file systems seekdir() skips entries after others before the position were removed. So a
 * level is done only after it was read from its beginning to its end. */
static void erase_at_end(struct erasure *w)
{
    if (!w->levels[w->depth - 1].sought) {
        erase_leave(w);
        return;
    }
    rewinddir(w->levels[w->depth - 1].dir);
    w->levels[w->depth - 1].sought = false;
}

int snapshot_erase(int dir, struct err *e)
{
    static struct erasure w; /* too large for the stack; single-threaded */
    int r;

    w = (struct erasure){.e = e};
    r = erase_enter(&w, dir, ".");
    for (uint32_t turns = 0; r == 0 && w.depth > 0; turns++) {
        DIR *level = w.levels[w.depth - 1].dir;
        struct dirent *d;

        w.levels[w.depth - 1].place = telldir(level);
        d = readdir(level);
        if (turns == ERASE_TURNS_MAX)
            r = err_set(e, EBUSY, "files are being made there faster than they are removed");
        else if (d)
            r = erase_entry(&w, d->d_name);
        else
            erase_at_end(&w);
    }
    while (w.depth > 0)
        erase_leave(&w);
    return r;
}
