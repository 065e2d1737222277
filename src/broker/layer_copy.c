#include "broker/layer_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "base/time.h"
#include "broker/layer_xattr.h"
#include "sandbox/layer_ids.h"

enum {
    DEPTH_MAX = 256,
    PATH_KEPT_MAX = 64, /* of the path of a directory, to find what is left out */
    COPY_BYTES = 1 << 24,
    BLOCK_BYTES = 512, /* of st_blocks */
    HIDDEN_NAME_MAX = sizeof(((struct layer_ahead *)NULL)->name),
    AHEAD_NAME_MAX = 96,
    AHEAD_BYTES_MIN = 64 * 1024, /* copying a smaller file takes no longer than finding its copy */
    AHEAD_ENTRIES_MAX = 1 << 20,
    AHEAD_REST_MS = 100, /* a file is at rest when it has not changed for so long */
};

/* Files that the broker or execd makes in every sandbox, or that hold its secrets. */
static const struct {
    const char *dir, *name;
} left_out[] = {
    {"/etc",             "hostname"                  },
    {"/etc",             "hosts"                     },
    {"/etc",             "resolv.conf"               },
    {"/opt/opensandbox", ".env"                      },
    {"/opt/opensandbox", ".env.claim"                },
    {"/opt/opensandbox", ".certifi.pem"              },
    {"/opt/opensandbox", "mitmproxy-ca-cert.pem"     },
    {"/opt/opensandbox", "merged-ca-certificates.pem"},
    {"/var/lib/execd",   "isolation"                 },
};

/* A directory that is being copied; the walk uses a stack of these instead of recursion. */
struct level {
    DIR *from;
    int to;
    struct timespec times[2]; /* to set when all is in it */
    size_t path_bytes;        /* of walk.path; PATH_KEPT_MAX: too long to be kept */
};

struct walk {
    struct level levels[DEPTH_MAX];
    size_t depth;
    char path[PATH_KEPT_MAX]; /* of the current directory, "" for / */
    struct shift shift;
    int links;          /* directory with one name per file that has several; -EBADF = none */
    int ahead;          /* directory of files that were copied ahead; -EBADF = none */
    bool merge, linked; /* layer_merge, and its `link` */
    struct layer_stop stop;
    struct layer_size size;
    struct err *e;
};

/* --- one entry --- */

/* Shares extents where both are on one file system that can, else copies bytes. */
static ssize_t copy_some(int from, int to, off_t at, size_t want)
{
    loff_t in = at, out = at;
    ssize_t n = copy_file_range(from, &in, to, &out, want, 0);

    if (n >= 0 || (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP))
        return n;
    return lseek(to, at, SEEK_SET) < 0 ? -1 : sendfile(to, from, &in, want);
}

static int check_stop(const struct walk *w)
{
    struct pollfd p = {.fd = w->stop.caller};

    if (p.fd >= 0 && poll(&p, 1, 0) > 0)
        return err_set(w->e, ECANCELED, "the caller is gone");
    return deadline_passed(w->stop.deadline)
               ? err_set(w->e, ETIMEDOUT, "it takes longer than allowed")
               : 0;
}

static int copy_range(struct walk *w, int from, int to, off_t at, off_t end)
{
    w->size.bytes += (uint64_t)(end - at);
    while (at < end) {
        int r = check_stop(w);
        ssize_t n = r < 0 ? 0
                          : copy_some(from, to, at,
                                      end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES);

        if (r < 0)
            return r;
        if (n <= 0)
            return err_sys(w->e, n < 0 ? errno : EIO, "copy a file");
        at += n;
    }
    return 0;
}

/* Copies data only, and skips holes. */
static int copy_sparse(struct walk *w, int from, int to, off_t size)
{
    off_t at = 0;

    if (ftruncate(to, size) < 0)
        return err_sys(w->e, errno, "size a file");
    while ((at = lseek(from, at, SEEK_DATA)) >= 0 && at < size) {
        off_t end = lseek(from, at, SEEK_HOLE);
        int r = end < 0 ? err_sys(w->e, errno, "find a hole") : copy_range(w, from, to, at, end);

        if (r < 0)
            return r;
        at = end;
    }
    return at >= size || errno == ENXIO ? 0 : err_sys(w->e, errno, "read a file");
}

static int copy_data(struct walk *w, int from, int to, const struct stat *st)
{
    return st->st_blocks * BLOCK_BYTES >= st->st_size ? copy_range(w, from, to, 0, st->st_size)
                                                      : copy_sparse(w, from, to, st->st_size);
}

static int copy_owner(const struct walk *w, int to, const struct stat *st)
{
    if (fchown(to, shift_id(&w->shift, st->st_uid), shift_id(&w->shift, st->st_gid)) < 0 ||
        fchmod(to, st->st_mode & 07777) < 0)
        return err_sys(w->e, errno, "set owner and mode");
    return 0;
}

/* O_NONBLOCK: the file may have been replaced by a fifo without a writer. */
static int open_source(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* The name of the copy of a file as it is: another after every change, which moves the ctime. */
static void ahead_name(char name[AHEAD_NAME_MAX], const struct stat *st)
{
    (void)snprintf(name, AHEAD_NAME_MAX, "%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%09ld",
                   (uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
                   (uint64_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

static uint64_t data_bytes(const struct stat *st)
{
    uint64_t blocks = (uint64_t)st->st_blocks * BLOCK_BYTES, size = (uint64_t)st->st_size;

    return blocks < size ? blocks : size; /* sparse */
}

/* A copy that was made ahead gets its place: its descriptor, or -ENOENT. */
static int take_ahead(struct walk *w, const struct stat *st, int to_dir, const char *name)
{
    char copy[AHEAD_NAME_MAX];
    auto_fd to = -EBADF;

    if (w->ahead < 0 || st->st_size < AHEAD_BYTES_MIN)
        return -ENOENT;
    ahead_name(copy, st);
    to = openat(w->ahead, copy, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0 || renameat2(w->ahead, copy, to_dir, name, RENAME_NOREPLACE) < 0)
        return -ENOENT;
    w->size.bytes += data_bytes(st);
    return take_fd(&to);
}

static int copy_file(struct walk *w, int from_dir, int to_dir, const char *name)
{
    auto_fd from = open_source(from_dir, name), to = -EBADF;
    struct stat st;
    int r = 0;

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(w->e, errno, "copy '%s'", name);
    if (!S_ISREG(st.st_mode))
        return err_set(w->e, EBUSY, "'%s' changes while it is copied", name);
    to = take_ahead(w, &st, to_dir, name);
    if (to < 0) {
        to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (to < 0)
            return err_sys(w->e, errno, "copy '%s'", name);
        r = copy_data(w, from, to, &st);
    }
    if (r == 0)
        r = copy_owner(w, to, &st);
    if (r == 0) /* after the owner: a change of it drops capabilities */
        r = xattrs_copy(from, to, &w->shift, w->e);
    if (r == 0 && futimens(to, (struct timespec[]){st.st_atim, st.st_mtim}) < 0)
        r = err_sys(w->e, errno, "set the times of '%s'", name);
    return r;
}

/* The first name of a file with several is copied, the others become links to that. */
static int copy_linked(struct walk *w, int from, int to, const char *name, const struct stat *st)
{
    char number[HIDDEN_NAME_MAX];
    int r;

    (void)snprintf(number, sizeof(number), "%" PRIx64 "-%" PRIx64, (uint64_t)st->st_dev,
                   (uint64_t)st->st_ino);
    if (linkat(w->links, number, to, name, 0) == 0)
        return 0;
    r = errno == ENOENT || errno == EMLINK ? 0 : err_sys(w->e, errno, "link '%s'", name);
    if (r == 0)
        r = copy_file(w, from, to, name);
    if (r == 0 && linkat(to, name, w->links, number, 0) < 0 && errno != EEXIST)
        r = err_sys(w->e, errno, "note the links of '%s'", name);
    return r;
}

/* Sets owner and mode by name, as the node cannot be opened. Checks first that it is still the node
 * we made. A symbolic link has no mode, and fchmodat() would follow it. */
static int own_node(const struct walk *w, int to, const char *name, const struct stat *st)
{
    auto_fd node = openat(to, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char path[32];
    struct stat now;

    if (node < 0 || fstat(node, &now) < 0)
        return -1;
    if ((now.st_mode & S_IFMT) != (st->st_mode & S_IFMT)) {
        errno = EBUSY;
        return -1;
    }
    if (fchownat(node, "", shift_id(&w->shift, st->st_uid), shift_id(&w->shift, st->st_gid),
                 AT_EMPTY_PATH) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", node);
    return S_ISLNK(st->st_mode) ? 0 : chmod(path, st->st_mode & 07777);
}

static int copy_link(const struct walk *w, int from, int to, const char *name,
                     const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

    if (n >= 0)
        target[n] = '\0';
    if (n < 0 || symlinkat(target, to, name) < 0 || own_node(w, to, name, st) < 0 ||
        utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(w->e, errno, "copy link '%s'", name);
    return 0;
}

/* Fifos, and the device 0:0 by which overlayfs marks deletions (whiteout). There are no others. */
static int copy_node(const struct walk *w, int to, const char *name, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};

    if (S_ISSOCK(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev != 0) || S_ISBLK(st->st_mode))
        return 0;
    if (mknodat(to, name, st->st_mode, st->st_rdev) < 0 || own_node(w, to, name, st) < 0 ||
        utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(w->e, errno, "copy '%s'", name);
    return 0;
}

/* What is no directory and not there yet. */
static int copy_entry(struct walk *w, int from, int to, const char *name, const struct stat *st)
{
    if (w->linked && linkat(from, name, to, name, 0) == 0)
        return 0; /* else on another file system, or with too many names */
    if (S_ISREG(st->st_mode))
        return st->st_nlink > 1 ? copy_linked(w, from, to, name, st) : copy_file(w, from, to, name);
    return S_ISLNK(st->st_mode) ? copy_link(w, from, to, name, st) : copy_node(w, to, name, st);
}

/* --- the walk --- */

static bool is_left_out(const struct walk *w, const char *name)
{
    const struct level *l = &w->levels[w->depth - 1];
    struct str dir = str_make(w->path, l->path_bytes);

    for (size_t i = 0; !w->merge && l->path_bytes < PATH_KEPT_MAX && i < ARRAY_LEN(left_out); i++)
        if (str_eq(dir, str_of(left_out[i].dir)) && strcmp(name, left_out[i].name) == 0)
            return true;
    return false;
}

/* Appends "/name" to the path of the level above; false when it is too long to matter. */
static size_t path_add(struct walk *w, const char *name)
{
    size_t at = w->depth ? w->levels[w->depth - 1].path_bytes : 0, n = strlen(name);

    if (strcmp(name, ".") == 0)
        return at;
    if (at + 1 + n >= PATH_KEPT_MAX)
        return PATH_KEPT_MAX;
    w->path[at] = '/';
    memcpy(w->path + at + 1, name, n);
    return at + 1 + n;
}

/* Gives a new directory what the other has. One that is there already, from a layer above, keeps
 * its own, and hides what is below if the other does. */
static int dir_dress(struct walk *w, int from, int to, bool is_new, struct timespec times[2])
{
    struct stat st;
    int r;

    if (fstat(is_new ? from : to, &st) < 0)
        return err_sys(w->e, errno, "look at a directory");
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    if (!is_new)
        return xattr_is_opaque(from) ? xattr_make_opaque(to, w->e) : 0;
    r = copy_owner(w, to, &st);
    return r < 0 ? r : xattrs_copy(from, to, &w->shift, w->e);
}

/* Enters a directory on both sides. */
static int walk_enter(struct walk *w, int from_dir, const char *from_name, int to_dir,
                      const char *to_name, bool is_new)
{
    auto_fd from = openat(from_dir, from_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_fd to = -EBADF;
    struct level *l = &w->levels[w->depth];
    int r;

    if (w->depth == DEPTH_MAX)
        return err_set(w->e, ELOOP, "directories are nested more than %d deep", DEPTH_MAX);
    if (mkdirat(to_dir, to_name, 0700) < 0 && errno != EEXIST)
        return err_sys(w->e, errno, "make '%s'", to_name);
    to = openat(to_dir, to_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || to < 0)
        return err_sys(w->e, errno, "enter '%s'", from_name);
    if (!is_new && xattr_is_opaque(to))
        return 0; /* a layer above hides it */
    r = dir_dress(w, from, to, is_new, l->times);
    if (r < 0)
        return r;
    l->path_bytes = path_add(w, to_name);
    l->from = fdopendir(from);
    if (!l->from)
        return err_sys(w->e, errno, "read '%s'", from_name);
    (void)take_fd(&from);
    l->to = take_fd(&to);
    w->depth++;
    return 0;
}

/* Making names in it has changed its times. */
static int walk_leave(struct walk *w)
{
    struct level *l = &w->levels[--w->depth];
    int r = futimens(l->to, l->times) < 0 ? err_sys(w->e, errno, "set times") : 0;

    closedir(l->from);
    fd_close(l->to);
    return r;
}

/* An entry of a layer below one that has this name, too. */
static int merge_below(struct walk *w, const struct level *l, const char *name, bool is_dir)
{
    auto_fd above = openat(l->to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (above < 0) /* no directory: it hides all below */
        return errno == ENOTDIR || errno == ELOOP ? 0 : err_sys(w->e, errno, "enter '%s'", name);
    if (is_dir)
        return walk_enter(w, dirfd(l->from), name, l->to, name, false);
    return xattr_make_opaque(above, w->e); /* this hides directories below, that one does not */
}

static int walk_entry(struct walk *w, const char *name)
{
    struct level *l = &w->levels[w->depth - 1];
    int from = dirfd(l->from);
    struct stat st;
    int r;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_left_out(w, name))
        return 0;
    w->size.entries++;
    r = check_stop(w);
    if (r < 0)
        return r;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(w->e, errno, "look at '%s'", name);
    if (w->merge && faccessat(l->to, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return merge_below(w, l, name, S_ISDIR(st.st_mode));
    return S_ISDIR(st.st_mode) ? walk_enter(w, from, name, l->to, name, true)
                               : copy_entry(w, from, l->to, name, &st);
}

static int walk_tree(struct walk *w, int from_dir, const char *from_name, int to_dir,
                     const char *to_name, bool is_new)
{
    int r = walk_enter(w, from_dir, from_name, to_dir, to_name, is_new);

    while (r == 0 && w->depth > 0) {
        struct dirent *d;

        errno = 0;
        d = readdir(w->levels[w->depth - 1].from);
        if (!d && errno)
            r = err_sys(w->e, errno, "read a directory");
        else
            r = d ? walk_entry(w, d->d_name) : walk_leave(w);
    }
    while (w->depth > 0)
        (void)!walk_leave(w);
    return r;
}

/* --- the target --- */

/* Makes a directory for us alone in the target. Its name cannot be resolved before. */
static int hidden_make(int to, const char *what, char name[HIDDEN_NAME_MAX], struct err *e)
{
    uint64_t random;

    id_random_bytes(&random, sizeof(random));
    (void)snprintf(name, HIDDEN_NAME_MAX, ".%s-%016" PRIx64, what, random);
    if (mkdirat(to, name, 0700) < 0)
        return err_sys(e, errno, "make '%s'", name);
    return fd_open_at(to, name, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
}

/* Removes it, with the names in it. The target keeps its times. */
static int hidden_remove(int to, const char *name, int hidden, struct err *e)
{
    DIR *dir = fdopendir(hidden);
    int r = dir ? 0 : err_sys(e, errno, "read '%s'", name);
    struct stat st;

    if (fstat(to, &st) < 0)
        st = (struct stat){0};
    for (const struct dirent *d; dir && (d = readdir(dir));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            (void)unlinkat(hidden, d->d_name, 0);
    if (dir)
        closedir(dir);
    else
        fd_close(hidden);
    if (r == 0 && unlinkat(to, name, AT_REMOVEDIR) < 0)
        r = err_sys(e, errno, "remove '%s'", name);
    (void)futimens(to, (struct timespec[]){st.st_atim, st.st_mtim});
    return r;
}

struct tree {
    int from;
    const char *from_name, *to_name;
    bool is_new;
};

/* Copies the trees into `to`, one after the other. */
static int walk_trees(struct walk *w, const struct tree *trees, size_t count, int to)
{
    char links[HIDDEN_NAME_MAX];
    int r = w->links = hidden_make(to, "links", links, w->e);

    if (r < 0)
        return r;
    for (size_t i = 0; r >= 0 && i < count; i++)
        r = walk_tree(w, trees[i].from, trees[i].from_name, to, trees[i].to_name, trees[i].is_new);
    if (r < 0) {
        (void)!hidden_remove(to, links, w->links, NULL);
        return r;
    }
    return hidden_remove(to, links, w->links, w->e);
}

int layer_copy(const struct layer_copy *c, int to, struct layer_size *ret, struct err *e)
{
    static struct walk w; /* too large for the stack; single-threaded */
    const struct tree trees[] = {
        {c->from, "upper", ".",   true},
        {c->from, "usr",   "usr", true},
    };
    int r;

    w = (struct walk){
        .shift = {c->id_first},
        .ahead = c->ahead ? c->ahead->dir : -EBADF,
        .stop = c->stop,
        .e = e,
    };
    r = walk_trees(&w, trees, c->usr ? 2 : 1, to);
    *ret = w.size;
    return r;
}

int layer_merge(const struct layer_merge *m, int to, struct layer_size *ret, struct err *e)
{
    static struct walk w; /* too large for the stack; single-threaded */
    struct tree trees[PLAN_LAYERS_MAX];
    int r;

    if (m->count == 0 || m->count > PLAN_LAYERS_MAX)
        return err_set(e, EINVAL, "expected 1 to %d layers", PLAN_LAYERS_MAX);
    for (size_t i = 0; i < m->count; i++)
        trees[i] = (struct tree){m->layers[i], ".", ".", i == 0};
    w = (struct walk){
        .shift = {LAYER_UID_FIRST},
        .ahead = -EBADF,
        .merge = true,
        .linked = m->link,
        .stop = m->stop,
        .e = e,
    };
    r = walk_trees(&w, trees, m->count, to);
    *ret = w.size;
    return r;
}

/* --- ahead of the copy --- */

struct ahead {
    struct walk copying; /* what copy_data() needs */
    DIR *levels[DEPTH_MAX];
    size_t depth, entries;
    uint64_t bytes_max; /* a sandbox could go on making files */
    int to;
};

/* Whether nobody can write to it without opening it anew: only then the kernel grants a lease for
 * reading (fcntl(2), F_SETLEASE). A shared mapping counts as open. Needs CAP_LEASE. */
static bool has_no_writer(int fd)
{
    return fcntl(fd, F_SETLEASE, F_RDLCK) == 0 && fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

/* In this order: the ctime is read and old, then there is no writer, then the data is read. Who
 * writes after that has opened the file later, and moves the ctime. */
static bool is_at_rest(int fd, struct stat *ret)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode) ||
        ret->st_size < AHEAD_BYTES_MIN)
        return false;
    return (now.tv_sec - ret->st_ctim.tv_sec) * 1000 +
                   (now.tv_nsec - ret->st_ctim.tv_nsec) / 1000000 >=
               AHEAD_REST_MS &&
           has_no_writer(fd);
}

/* One that fails is left out; only a disk that is full ends all. */
static int ahead_file(struct ahead *a, int dir, const char *name)
{
    auto_fd from = open_source(dir, name), to = -EBADF;
    char copy[AHEAD_NAME_MAX];
    struct stat st;
    int r;

    if (from < 0 || !is_at_rest(from, &st) ||
        a->copying.size.bytes + data_bytes(&st) > a->bytes_max)
        return 0;
    ahead_name(copy, &st);
    to = openat(a->to, copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return errno == EEXIST ? 0 : -errno; /* another name of it */
    r = copy_data(&a->copying, from, to, &st);
    if (r < 0)
        (void)unlinkat(a->to, copy, 0);
    return r == -EIO ? 0 : r; /* it became shorter */
}

static void ahead_enter(struct ahead *a, int dir, const char *name)
{
    auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd >= 0 && a->depth < DEPTH_MAX ? fdopendir(fd) : NULL;

    if (!list)
        return;
    (void)take_fd(&fd);
    a->levels[a->depth++] = list;
}

static void ahead_tree(struct ahead *a, int from, const char *name)
{
    int r = 0;

    ahead_enter(a, from, name);
    while (a->depth > 0) {
        DIR *at = a->levels[a->depth - 1];
        const struct dirent *d = r == 0 && a->entries < AHEAD_ENTRIES_MAX ? readdir(at) : NULL;

        if (!d) {
            closedir(at);
            a->depth--;
        } else if (d->d_type == DT_REG) {
            r = ahead_file(a, dirfd(at), d->d_name);
        } else if (d->d_type == DT_DIR && strcmp(d->d_name, ".") != 0 &&
                   strcmp(d->d_name, "..") != 0) {
            ahead_enter(a, dirfd(at), d->d_name);
        }
        a->entries++;
        if (r == 0)
            r = check_stop(&a->copying);
    }
}

/* Half of what is free stays so. */
static uint64_t ahead_room(int to)
{
    struct statvfs st;

    return fstatvfs(to, &st) < 0 ? 0 : (uint64_t)st.f_bavail * st.f_frsize / 4;
}

void layer_ahead_start(const struct layer_copy *c, int to, struct layer_ahead *ret)
{
    static struct ahead a; /* too large for the stack; single-threaded */

    ret->dir = hidden_make(to, "ahead", ret->name, NULL);
    if (ret->dir < 0)
        return;
    a = (struct ahead){.copying = {.stop = c->stop}, .bytes_max = ahead_room(to), .to = ret->dir};
    (void)signal(SIGIO, SIG_IGN); /* of a lease that is broken before it is given back */
    ahead_tree(&a, c->from, "upper");
    if (c->usr)
        ahead_tree(&a, c->from, "usr");
}

int layer_ahead_end(struct layer_ahead *a, int to, struct err *e)
{
    return a->dir < 0 ? 0 : hidden_remove(to, a->name, take_fd(&a->dir), e);
}
