/* tree.c - whole directories: a local one into a sandbox, one of a sandbox into a local one.
 *
 * Both travel as tar. What comes out of a sandbox is not trusted: names stay below the local
 * directory, links are made but never followed, and devices are left out. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/tar.h"
#include "sdk.h"

enum { DEPTH_MAX = 256, PIECE_BYTES = 64 << 10, OUT_BYTES_MAX = PIECE_BYTES + (2 << 20) };

static int report(struct osb_client *c, const struct osb_tree *o, const char *path, int64_t bytes)
{
    if (o->on_entry && o->on_entry(o->user, path, bytes) != 0)
        return fail(c, ECANCELED, "the receiver of the progress ended the call");
    return 0;
}

/* --- into the sandbox --- */

struct packer {
    struct exchange *x;
    const struct osb_tree *options;
    struct buf out;
    char path[PATH_MAX]; /* of the entry, below the root */
    bool answered;       /* before the end: the answer says why */
    size_t depth;
    struct level {
        DIR *dir;
        size_t path_n; /* length of the directory's own path */
    } levels[DEPTH_MAX];
};

static int pack_flush(struct packer *p)
{
    int r = p->answered ? 1 : exchange_write(p->x, buf_str(&p->out));

    buf_clear(&p->out);
    p->answered = r == 1;
    return r < 0 ? r : 0;
}

static int pack_head(struct packer *p, const struct stat *st, struct str target)
{
    struct tar_entry entry = tar_entry_of(st);

    entry.path = str_of(p->path);
    entry.target = target;
    if (tar_write_head(&p->out, &entry) < 0)
        return fail(p->x->client, ENAMETOOLONG, "%.200s: a name too long for an archive", p->path);
    return pack_flush(p);
}

static int pack_file(struct packer *p, int dir, const char *name)
{
    struct tar_content content = {.fd = -EBADF};
    struct stat st;
    int r = tar_content_open(&content, dir, name, &st);

    if (r < 0)
        return fail(p->x->client, -r, "%.200s: %s", p->path, strerror(-r));
    if (r == 0)
        return 0; /* gone meanwhile */
    r = pack_head(p, &st, STR_NONE);
    while (r == 0 && content.fd >= 0 && !p->answered) {
        r = tar_content_add(&content, &p->out, PIECE_BYTES);
        r = r < 0 ? fail(p->x->client, -r, "%.200s: %s", p->path, strerror(-r)) : pack_flush(p);
    }
    fd_close(content.fd);
    return r < 0 ? r : report(p->x->client, p->options, p->path, st.st_size);
}

static int pack_link(struct packer *p, int dir, const char *name, const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof(target));
    int r;

    if (n < 0 || n == (ssize_t)sizeof(target))
        return fail(p->x->client, n < 0 ? errno : ENAMETOOLONG,
                    "%.200s: a link that cannot be read", p->path);
    r = pack_head(p, st, str_make(target, (size_t)n));
    return r < 0 ? r : report(p->x->client, p->options, p->path, 0);
}

static int pack_open(struct packer *p, int dir, const char *name, size_t path_n)
{
    auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *opened;

    if (fd < 0)
        return fail(p->x->client, errno, "%.200s: %s", p->path[0] ? p->path : name,
                    strerror(errno));
    if (p->depth == DEPTH_MAX)
        return fail(p->x->client, ELOOP, "%.200s: more than %d directories deep", p->path,
                    DEPTH_MAX);
    opened = fdopendir(fd);
    if (!opened)
        return fail(p->x->client, errno, "%.200s: %s", p->path, strerror(errno));
    (void)take_fd(&fd);
    p->levels[p->depth++] = (struct level){opened, path_n};
    return 0;
}

static int pack_entry(struct packer *p, const struct level *level, const char *name)
{
    int dir = dirfd(level->dir), n, r;
    struct stat st;

    n = snprintf(p->path + level->path_n, sizeof(p->path) - level->path_n, "%s", name);
    if (n < 0 || level->path_n + (size_t)n + 2 > sizeof(p->path))
        return fail(p->x->client, ENAMETOOLONG, "%.200s: a path too long", p->path);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0
                               : fail(p->x->client, errno, "%.200s: %s", p->path, strerror(errno));
    if (S_ISREG(st.st_mode))
        return pack_file(p, dir, name);
    if (S_ISLNK(st.st_mode))
        return pack_link(p, dir, name, &st);
    if (!S_ISDIR(st.st_mode))
        return 0; /* sockets, devices and FIFOs mean nothing elsewhere */
    p->path[level->path_n + (size_t)n] = '/';
    p->path[level->path_n + (size_t)n + 1] = '\0';
    r = pack_head(p, &st, STR_NONE);
    return r < 0 ? r : pack_open(p, dir, name, level->path_n + (size_t)n + 1);
}

static int pack_all(struct packer *p)
{
    int r = 0;

    while (r == 0 && p->depth > 0 && !p->answered) {
        struct level level = p->levels[p->depth - 1];
        struct dirent *entry;

        errno = 0;
        entry = readdir(level.dir);
        if (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
            continue;
        if (entry) {
            r = pack_entry(p, &level, entry->d_name);
        } else if (errno) {
            r = fail(p->x->client, errno, "%.200s: %s", p->path, strerror(errno));
        } else {
            (void)closedir(level.dir);
            p->depth--;
        }
    }
    while (p->depth > 0)
        (void)closedir(p->levels[--p->depth].dir);
    if (r == 0 && tar_write_end(&p->out) < 0)
        r = fail(p->x->client, ENOMEM, "no memory left");
    return r < 0 ? r : pack_flush(p);
}

int osb_tree_upload(struct osb_sandbox *sandbox, const char *local, const char *path,
                    const struct osb_tree *tree)
{
    OPTIONS_COPY(struct osb_tree, o, tree);
    struct exchange_spec spec = {.method = HTTP_POST,
                                 .content_type = STR("application/x-tar"),
                                 .streams_body = true,
                                 .body_length = HTTP_UNKNOWN_LENGTH,
                                 .streams = true};
    struct packer *p = mem_new(struct packer);
    struct exchange x = {0};
    struct target t;
    int r = sandbox_site(sandbox, OSB_PORT_EXECD, &spec.site);

    p->x = &x;
    p->options = &o;
    x.client = sandbox->client;
    buf_init(&p->out, OUT_BYTES_MAX);
    target_init(&t, "/directories/upload");
    target_query(&t, "path", path);
    spec.target = buf_str(&t.text);
    if (r == 0 && t.error < 0)
        r = fail(sandbox->client, -t.error, "the path is too long");
    if (r == 0)
        r = pack_open(p, AT_FDCWD, local, 0); /* before the request: a name may be wrong */
    if (r == 0) {
        r = exchange_start(&x, sandbox->client, &spec);
        if (r == 0)
            r = pack_all(p);
        if (r == 0)
            r = exchange_head(&x);
        exchange_close(&x);
    }
    while (p->depth > 0)
        (void)closedir(p->levels[--p->depth].dir);
    target_done(&t);
    buf_done(&p->out);
    free(p);
    return r;
}

/* --- out of the sandbox --- */

struct unpacker {
    struct osb_client *client;
    const struct osb_tree *options;
    int root, fd;
    char path[PATH_MAX];
    int64_t size;
    struct timespec mtime;
    uint32_t mode;
    int stopped; /* the error of the caller's progress function */
};

/* Makes the directories above a name, and gives the nearest. Links are not followed, also not those
 * that the archive itself has made. */
static int unpack_parent(struct unpacker *u, const char *path, const char **ret_name, struct err *e)
{
    auto_fd dir = fcntl(u->root, F_DUPFD_CLOEXEC, 3);
    char part[NAME_MAX + 1];
    const char *slash;

    if (dir < 0)
        return err_sys(e, errno, "duplicate a descriptor");
    while ((slash = strchr(path, '/')) && slash[1]) {
        int next;

        if (str_copy(part, sizeof(part), str_make(path, (size_t)(slash - path))) < 0)
            return err_set(e, ENAMETOOLONG, "'%.100s': a name too long", path);
        if (mkdirat(dir, part, 0777) < 0 && errno != EEXIST)
            return err_sys(e, errno, "make '%s'", part);
        next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return err_sys(e, errno, "'%s'", part);
        fd_close(dir);
        dir = next;
        path = slash + 1;
    }
    *ret_name = path;
    return take_fd(&dir);
}

/* Relative, without empty, "." and ".." parts; "" for the root itself. */
static int unpack_name(struct unpacker *u, struct str path, struct err *e)
{
    size_t n = 0;
    struct str part;

    if (str_starts(path, STR("/")) || str_has_nul(path))
        return err_set(e, EBADMSG, "the archive has an absolute name");
    u->path[0] = '\0';
    while (str_cut(&path, '/', &part)) {
        if (part.n == 0 || str_eq(part, STR(".")))
            continue;
        if (str_eq(part, STR("..")))
            return err_set(e, EBADMSG, "the archive has a name with '..'");
        if (n + part.n + 2 > sizeof(u->path))
            return err_set(e, ENAMETOOLONG, "the archive has a path too long");
        if (n)
            u->path[n++] = '/';
        memcpy(u->path + n, part.p, part.n);
        n += part.n;
        u->path[n] = '\0';
    }
    return 0;
}

static int unpack_dir(int parent, const char *name, const struct tar_entry *entry, struct err *e)
{
    if (mkdirat(parent, name, (entry->mode & 0777) | 0700) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make the directory '%s'", name);
    return 0;
}

/* Whatever is there is replaced, unless it is a directory. */
static int unpack_file(struct unpacker *u, int parent, const char *name, struct err *e)
{
    if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
        return err_sys(e, errno, "replace '%s'", name);
    u->fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return u->fd < 0 ? err_sys(e, errno, "make '%s'", name) : 0;
}

static int unpack_link(int parent, const char *name, struct str to, struct err *e)
{
    char target[PATH_MAX];

    if (str_copy(target, sizeof(target), to) < 0)
        return err_set(e, EBADMSG, "'%s': a link whose target is no path", name);
    if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
        return err_sys(e, errno, "replace '%s'", name);
    return symlinkat(target, parent, name) < 0 ? err_sys(e, errno, "link '%s'", name) : 0;
}

static int on_entry(void *ctx, const struct tar_entry *entry, struct err *e)
{
    struct unpacker *u = ctx;
    auto_fd parent = -EBADF;
    const char *name;
    int r = unpack_name(u, entry->path, e);

    u->size = (int64_t)entry->size;
    u->mode = entry->mode & 0777;
    u->mtime = (struct timespec){(time_t)entry->mtime, 0};
    if (r < 0 || !u->path[0])
        return r;
    parent = unpack_parent(u, u->path, &name, e);
    if (parent < 0)
        return parent;
    switch (entry->type) {
    case TAR_DIRECTORY:
        return unpack_dir(parent, name, entry, e);
    case TAR_FILE:
        return unpack_file(u, parent, name, e);
    case TAR_LINK:
        return unpack_link(parent, name, entry->target, e);
    default: /* devices and FIFOs are left out; execd sends hard links as files */
        return 0;
    }
}

static int on_data(void *ctx, struct str piece, struct err *e)
{
    struct unpacker *u = ctx;
    int r = u->fd < 0 ? 0 : io_write_full(u->fd, piece, DEADLINE_NEVER);

    return r < 0 ? err_sys(e, -r, "write '%s'", u->path) : 0;
}

static int on_entry_end(void *ctx, struct err *e)
{
    struct unpacker *u = ctx;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, u->mtime};
    int fd = take_fd(&u->fd), r = 0;

    if (fd >= 0) {
        if (fchmod(fd, u->mode) < 0)
            r = err_sys(e, errno, "set the mode of '%s'", u->path);
        (void)futimens(fd, times); /* a time is no reason to fail */
        fd_close(fd);
    }
    if (r == 0 && u->path[0])
        u->stopped = report(u->client, u->options, u->path, u->size);
    return r < 0 ? r : u->stopped;
}

static const struct tar_reader_ops unpack_ops = {on_entry, on_data, on_entry_end, NULL};

struct download {
    struct unpacker u;
    struct tar_reader reader;
    struct err err;
    bool failed;
};

static int take_piece(void *user, const char *data, size_t bytes)
{
    struct download *d = user;

    d->failed = tar_reader_feed(&d->reader, str_make(data, bytes), &d->err) < 0;
    return d->failed;
}

int osb_tree_download(struct osb_sandbox *sandbox, const char *path, const char *local,
                      const struct osb_tree *tree)
{
    OPTIONS_COPY(struct osb_tree, o, tree);
    struct osb_client *c = sandbox->client;
    struct download *d;
    int r;

    if (mkdir(local, 0777) < 0 && errno != EEXIST)
        return fail(c, errno, "%s: %s", local, strerror(errno));
    d = mem_new(struct download);
    d->u = (struct unpacker){.client = c, .options = &o, .fd = -EBADF};
    d->u.root = open(local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tar_reader_init(&d->reader, &unpack_ops, &d->u);
    if (d->u.root < 0) {
        r = fail(c, errno, "%s: %s", local, strerror(errno));
    } else {
        r = osb_archive_read(sandbox, path, take_piece, d);
        if (r == 0 && tar_reader_end(&d->reader, &d->err) < 0)
            d->failed = true;
        if (d->failed && !d->u.stopped)
            r = fail(c, d->err.code ? d->err.code : EBADMSG, "%s: %s", local, d->err.msg);
    }
    tar_reader_done(&d->reader);
    fd_close(d->u.fd);
    fd_close(d->u.root);
    free(d);
    return r;
}
