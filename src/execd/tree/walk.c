#include "execd/tree/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "execd/tree/fs.h"

enum {
    DIR_CLOEXEC = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
    ENTRIES_BYTES = 32 << 10, /* of one getdents; sorted as one run, so a step stays short */
    ENTRIES_MAX = ENTRIES_BYTES / 20,
};

/* The sorted names of one getdents. The runs of a directory are merged as names are taken. */
struct run {
    size_t at, end; /* in the level's names; each name ends with a NUL */
};

struct walk_level {
    dev_t dev;
    ino_t ino;
    size_t path_n; /* length of the directory's own path */
    struct buf names;
    struct run *runs;
    size_t run_count, run_room;
    bool read; /* all names were read */
};

struct kernel_dirent { /* the records of getdents64(2) */
    uint64_t ino;
    int64_t off;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* --- levels --- */

static struct walk_level *walk_top(struct walk *w)
{
    return &w->levels[w->depth - 1];
}

static void level_done(struct walk *w, struct walk_level *l)
{
    w->name_bytes -= l->names.n;
    buf_done(&l->names);
    free(l->runs);
}

static int level_push(struct walk *w, const struct stat *st)
{
    struct walk_level *l;

    if (w->depth == WALK_DEPTH_MAX)
        return -ENAMETOOLONG;
    if (w->depth == w->room) {
        size_t room = w->room ? 2 * w->room : 8;

        l = mem_try_realloc(w->levels, room * sizeof(*l));
        if (!l)
            return -ENOMEM;
        w->levels = l;
        w->room = room;
    }
    l = &w->levels[w->depth++];
    *l = (struct walk_level){.dev = st->st_dev, .ino = st->st_ino, .path_n = w->path.n};
    buf_init(&l->names, WALK_NAME_BYTES_MAX);
    return 0;
}

/* --- names --- */

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int level_add_run(struct walk_level *l, size_t at)
{
    if (l->run_count == l->run_room) {
        size_t room = l->run_room ? 2 * l->run_room : 4;
        struct run *runs = mem_try_realloc(l->runs, room * sizeof(*runs));

        if (!runs)
            return -ENOMEM;
        l->runs = runs;
        l->run_room = room;
    }
    l->runs[l->run_count++] = (struct run){at, l->names.n};
    return 0;
}

/* Collects pointers to the names in a getdents buffer, without "." and "..". */
static size_t entries_collect(const char *entries, size_t n, const char **ret_names)
{
    size_t count = 0;

    for (size_t at = 0; at < n;) {
        const struct kernel_dirent *d = (const struct kernel_dirent *)(const void *)(entries + at);

        if (strcmp(d->name, ".") != 0 && strcmp(d->name, "..") != 0 && count < ENTRIES_MAX)
            ret_names[count++] = d->name;
        at += d->size;
    }
    return count;
}

/* Reads a run of names. */
static int walk_read(struct walk *w)
{
    const char *names[ENTRIES_MAX];
    struct walk_level *l = walk_top(w);
    long n = syscall(SYS_getdents64, w->fd, w->entries, ENTRIES_BYTES);
    size_t from = l->names.n, count;

    if (n <= 0) {
        l->read = true;
        if (n == 0 || errno == ENOENT || (w->lenient && w->depth > 1))
            return 0; /* ENOENT: removed meanwhile */
        return -errno;
    }
    count = entries_collect(w->entries, (size_t)n, names);
    qsort(names, count, sizeof(names[0]), names_compare);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strlen(names[i]) + 1;

        if (w->name_bytes + bytes > WALK_NAME_BYTES_MAX ||
            buf_add(&l->names, str_make(names[i], bytes)) < 0)
            return -E2BIG;
        w->name_bytes += bytes;
    }
    return level_add_run(l, from);
}

/* The smallest of the remaining names, or NULL. */
static const char *level_take_name(struct walk_level *l)
{
    struct run *least = NULL;
    const char *name;

    for (size_t i = 0; i < l->run_count; i++) {
        struct run *run = &l->runs[i];

        if (run->at < run->end &&
            (!least || strcmp(l->names.p + run->at, l->names.p + least->at) < 0))
            least = run;
    }
    if (!least)
        return NULL;
    name = l->names.p + least->at;
    least->at += strlen(name) + 1;
    return name;
}

/* --- moving through the tree --- */

/* Appends a name to the path of the current directory. */
static int walk_set_path(struct walk *w, const char *name)
{
    struct walk_level *l = walk_top(w);
    bool root = l->path_n > 0 && w->path.p[l->path_n - 1] == '/';
    int r;

    buf_cut(&w->path, l->path_n);
    r = buf_addf(&w->path, "%s%s", root ? "" : "/", name);
    return r == -EMSGSIZE ? -ENAMETOOLONG : r;
}

static int walk_fail(const struct walk *w, int r, struct err *e)
{
    if (r == -E2BIG)
        return err_set(e, E2BIG, "more names than %d bytes at once", WALK_NAME_BYTES_MAX);
    return err_set(e, -r, "%s: %s", w->path.p, fs_text(-r));
}

static bool same_dir(const struct stat *st, const struct walk_level *l)
{
    return st->st_dev == l->dev && st->st_ino == l->ino;
}

/* Makes `fd` (or -errno) the current directory, if it is still the same one. */
static int walk_take(struct walk *w, int fd)
{
    auto_fd dir = fd;
    struct stat st;

    if (dir < 0)
        return dir;
    if (fstat(dir, &st) < 0)
        return -errno;
    if (!same_dir(&st, walk_top(w)))
        return -ESTALE;
    fd_close(w->fd);
    w->fd = take_fd(&dir);
    return 0;
}

/* Returns to the parent directory. ".." fails in a /proc directory whose process ended, and leads
 * elsewhere after a move. A lenient walk then opens the parent by path, and if that is gone, too,
 * skips the rest of its entries. */
static int walk_up(struct walk *w)
{
    int fd, r;

    level_done(w, walk_top(w));
    w->depth--;
    buf_cut(&w->path, walk_top(w)->path_n);
    fd = openat(w->fd, "..", DIR_CLOEXEC);
    r = walk_take(w, fd < 0 ? -errno : fd);
    if (r == 0 || !w->lenient)
        return r;
    r = walk_take(w, fs_open(w->path.p, DIR_CLOEXEC));
    if (r == 0 || w->depth == 1)
        return r;
    walk_top(w)->run_count = 0;
    return 0;
}

int walk_open(struct walk *w, const char *root, struct err *e)
{
    struct stat st;
    int r;

    *w = (struct walk){.fd = fs_open(root, DIR_CLOEXEC)};
    buf_init(&w->path, WALK_PATH_BYTES_MAX);
    r = w->fd < 0 ? w->fd : buf_add(&w->path, str_of(root));
    if (r == 0 && fstat(w->fd, &st) < 0)
        r = -errno;
    if (r < 0)
        return err_set(e, -r, "open %s: %s", root, fs_text(-r));
    w->entries = mem_alloc(ENTRIES_BYTES);
    r = level_push(w, &st);
    return r < 0 ? walk_fail(w, r, e) : 0;
}

void walk_done(struct walk *w)
{
    if (!w->path.p) /* all zero */
        return;
    while (w->depth > 0)
        level_done(w, &w->levels[--w->depth]);
    free(w->levels);
    free(w->entries);
    buf_done(&w->path);
    fd_close(w->fd);
    *w = (struct walk){.fd = -EBADF};
}

static int walk_entry(struct walk *w, const char *name, struct walk_entry *ret)
{
    int r = walk_set_path(w, name);

    if (r < 0)
        return r;
    if (fstatat(w->fd, name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || w->lenient ? WALK_MORE : -errno;
    ret->name = str_of(name);
    ret->path = buf_str(&w->path);
    ret->level = w->depth;
    return WALK_ENTRY;
}

int walk_next(struct walk *w, struct walk_entry *ret, struct err *e)
{
    struct walk_level *l = walk_top(w);
    const char *name;
    int r;

    buf_cut(&w->path, l->path_n);
    if (!l->read) {
        r = walk_read(w);
        return r < 0 ? walk_fail(w, r, e) : WALK_MORE;
    }
    name = level_take_name(l);
    if (name) {
        r = walk_entry(w, name, ret);
        return r < 0 ? walk_fail(w, r, e) : r;
    }
    if (w->depth == 1)
        return WALK_END;
    r = walk_up(w);
    return r < 0 ? walk_fail(w, r, e) : WALK_UP;
}

int walk_enter(struct walk *w, const struct walk_entry *entry, struct err *e)
{
    auto_fd fd = openat(w->fd, entry->name.p, DIR_CLOEXEC);
    struct stat st, up;
    int r;

    /* Without permission to look up ".." the walk could not return. */
    if (fd < 0 || fstat(fd, &st) < 0 || fstatat(fd, "..", &up, AT_SYMLINK_NOFOLLOW) < 0)
        return walk_fail(w, -errno, e);
    if (!same_dir(&up, walk_top(w)))
        return walk_fail(w, -ESTALE, e);
    r = level_push(w, &st);
    if (r < 0)
        return walk_fail(w, r, e);
    fd_close(w->fd);
    w->fd = take_fd(&fd);
    return 0;
}
