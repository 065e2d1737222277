/* sync_apply.c - copies and deletes what osb sync decided. */
#include "osb/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/tar.h"
#include "base/time.h"

enum { REMOVE_AT_ONCE = 500, PIECE_BYTES = 64 << 10, OUT_BYTES_MAX = PIECE_BYTES + (2 << 20) };

static void say(struct sync *s, const char *what, const char *path)
{
    AUTO_BUF(line, 2 * SYNC_PATH_MAX);

    s->moved++;
    if (buf_addf(&line, "%s %s\n", what, path) == 0)
        (void)cli_write(line.p, line.n);
}

int sync_failed(struct sync *s)
{
    bool canceled = osb_error_errno(osb_client_error(s->cli->client)) == ECANCELED;

    return canceled ? EXIT_FAILED : cli_failed(s->cli);
}

static int local_error(struct sync *s, const char *path, int error)
{
    return cli_error(s->cli, "Sync", "'%s/%s': %s", s->local, path, strerror(error));
}

/* The directory above a local path; links on the way are not followed. */
static int open_parent(struct sync *s, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    char parent[SYNC_PATH_MAX] = ".";
    struct err e;

    *ret_name = slash ? slash + 1 : path;
    if (slash && str_copy(parent, sizeof(parent), str_make(path, (size_t)(slash - path))) < 0)
        return -ENAMETOOLONG;
    return fd_open_at(s->root, parent, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, &e);
}

/* --- deletes --- */

static int remove_files(struct sync *s, const char **paths, size_t *n)
{
    int r = *n ? osb_files_remove(s->cli->sandbox, paths, *n) : 0;

    *n = 0;
    return r < 0 ? sync_failed(s) : 0;
}

/* Files first; then directories, the deepest first, but those in which something stays. */
static int delete_there(struct sync *s)
{
    AUTO_ARENA(a, 256 << 20);
    const char *paths[REMOVE_AT_ONCE];
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->count; i++) {
        struct sync_entry *entry = s->list[i];
        bool replaced = entry->action == SYNC_PUSH && entry->remote.type &&
                        entry->remote.type != entry->local.type;

        if ((entry->action != SYNC_DELETE_THERE && !replaced) ||
            entry->remote.type == SYNC_DIRECTORY)
            continue;
        paths[n++] = sync_remote_path(s, &a, entry->path);
        if (!replaced)
            say(s, "delete in sandbox:", entry->path);
        if (n == REMOVE_AT_ONCE)
            r = remove_files(s, paths, &n);
    }
    if (r == 0)
        r = remove_files(s, paths, &n);
    for (size_t i = s->count; r == 0 && i > 0; i--) {
        struct sync_entry *entry = s->list[i - 1];
        const char *path;

        if (entry->remote.type != SYNC_DIRECTORY || entry->kept_there ||
            (entry->action != SYNC_DELETE_THERE &&
             (entry->action != SYNC_PUSH || entry->local.type == SYNC_DIRECTORY)))
            continue;
        path = sync_remote_path(s, &a, entry->path);
        if (osb_directories_remove(s->cli->sandbox, &path, 1) < 0)
            r = sync_failed(s);
        else
            say(s, "delete in sandbox:", entry->path);
    }
    return r;
}

/* A directory that is not empty stays: something in it is newer, or excluded. */
static int delete_here(struct sync *s)
{
    for (size_t i = s->count; i > 0; i--) {
        struct sync_entry *entry = s->list[i - 1];
        bool replaced = entry->action == SYNC_PULL && entry->local.type &&
                        entry->local.type != entry->remote.type;
        const char *name;
        auto_fd parent = -EBADF;

        if (entry->action != SYNC_DELETE_HERE && !replaced)
            continue;
        parent = open_parent(s, entry->path, &name);
        if (parent < 0)
            continue; /* gone already */
        if (unlinkat(parent, name, entry->local.type == SYNC_DIRECTORY ? AT_REMOVEDIR : 0) < 0) {
            if (errno == ENOTEMPTY || errno == EEXIST)
                continue;
            if (errno != ENOENT)
                return local_error(s, entry->path, errno);
        } else if (!replaced) {
            say(s, "delete here:", entry->path);
        }
        entry->local = (struct sync_state){0};
    }
    return 0;
}

/* --- into the sandbox: one archive of all that is to be pushed --- */

struct pusher {
    struct sync *sync;
    size_t at; /* in the list */
    struct tar_content content;
    struct buf out;
    size_t taken;
    bool ended;
};

static int push_link(struct pusher *p, int parent, const char *name, const struct tar_entry *entry)
{
    struct tar_entry link = *entry;
    char target[SYNC_PATH_MAX];
    ssize_t n = readlinkat(parent, name, target, sizeof(target));

    if (n < 0 || n == (ssize_t)sizeof(target))
        return n < 0 ? -errno : -ENAMETOOLONG;
    link.target = str_make(target, (size_t)n);
    return tar_write_head(&p->out, &link);
}

/* The head of an entry, and its file opened; one that is gone meanwhile is left out. */
static int push_entry(struct pusher *p, struct sync_entry *entry)
{
    char path[SYNC_PATH_MAX + 1];
    struct tar_entry head;
    const char *name;
    struct stat st;
    auto_fd parent = open_parent(p->sync, entry->path, &name);
    int r;

    if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISREG(st.st_mode)) {
        r = tar_content_open(&p->content, parent, name, &st);
        if (r <= 0)
            return r;
    }
    if (sync_state_of(&st).type != entry->local.type)
        return 0; /* its next event tells */
    head = tar_entry_of(&st);
    snprintf(path, sizeof(path), "%s%s", entry->path, S_ISDIR(st.st_mode) ? "/" : "");
    head.path = str_of(path);
    r = S_ISLNK(st.st_mode) ? push_link(p, parent, name, &head) : tar_write_head(&p->out, &head);
    if (r == 0)
        say(p->sync, "push:", entry->path);
    return r;
}

static bool is_pushed(const struct sync_entry *entry)
{
    return entry->action == SYNC_PUSH || entry->action == SYNC_CONFLICT;
}

static long push_source(void *user, char *out, size_t size)
{
    struct pusher *p = user;
    size_t n;
    int r = 0;

    while (r >= 0 && p->taken == p->out.n && !p->ended) {
        buf_clear(&p->out);
        p->taken = 0;
        if (p->content.fd >= 0)
            r = tar_content_add(&p->content, &p->out, PIECE_BYTES);
        else if (p->at == p->sync->count) {
            p->ended = true;
            r = tar_write_end(&p->out);
        } else if (is_pushed(p->sync->list[p->at++])) {
            r = push_entry(p, p->sync->list[p->at - 1]);
        }
    }
    if (r < 0)
        return r;
    n = min_size(size, p->out.n - p->taken);
    memcpy(out, p->out.p + p->taken, n);
    p->taken += n;
    return (long)n;
}

static int push_all(struct sync *s)
{
    struct pusher p = {.sync = s, .content = {.fd = -EBADF}};
    size_t wanted = 0;
    int r = 0;

    for (size_t i = 0; i < s->count; i++)
        wanted += is_pushed(s->list[i]);
    if (wanted == 0)
        return 0;
    buf_init(&p.out, OUT_BYTES_MAX);
    if (osb_archive_write(s->cli->sandbox, s->remote, push_source, &p) < 0)
        r = sync_failed(s);
    fd_close(p.content.fd);
    buf_done(&p.out);
    return r;
}

/* --- out of the sandbox --- */

/* Makes the directories above a local path. */
static int make_parents(struct sync *s, const char *path)
{
    char part[SYNC_PATH_MAX];
    const char *name;

    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        auto_fd parent = -EBADF;

        if (str_copy(part, sizeof(part), str_make(path, (size_t)(slash - path))) < 0)
            return -ENAMETOOLONG;
        parent = open_parent(s, part, &name);
        if (parent < 0)
            return parent;
        if (mkdirat(parent, name, 0777) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

static int write_sink(void *user, const char *data, size_t bytes)
{
    return io_write_full(*(int *)user, str_make(data, bytes), DEADLINE_NEVER);
}

/* Into a file beside it that takes its name when it is whole. */
static int pull_file(struct sync *s, const char *from, const struct sync_state *state,
                     const char *path, struct sync_state *ret_state)
{
    AUTO_ARENA(a, 1 << 20);
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT                    },
        { (time_t)(state->mtime_us / 1000000), (long)(state->mtime_us % 1000000) * 1000}
    };
    char part[64];
    const char *name;
    struct stat st;
    auto_fd parent = open_parent(s, path, &name);
    auto_fd fd = -EBADF;
    int r;

    if (parent < 0)
        return local_error(s, path, -parent);
    snprintf(part, sizeof(part), SYNC_TEMPORARY "%d", (int)getpid());
    fd = openat(parent, part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return local_error(s, path, errno);
    r = osb_file_read(s->cli->sandbox, sync_remote_path(s, &a, from), NULL, write_sink, &fd);
    if (r == -ENOENT) { /* gone again: its event comes */
        (void)unlinkat(parent, part, 0);
        *ret_state = (struct sync_state){0};
        return 0;
    }
    if (r < 0) {
        (void)unlinkat(parent, part, 0);
        return sync_failed(s);
    }
    if (fchmod(fd, state->mode) < 0 || futimens(fd, times) < 0 || fstat(fd, &st) < 0 ||
        renameat(parent, part, parent, name) < 0) {
        r = errno;
        (void)unlinkat(parent, part, 0);
        return local_error(s, path, r);
    }
    *ret_state = sync_state_of(&st);
    return 0;
}

/* Lists do not say where links lead: readlink of the sandbox does. */
static int pull_link(struct sync *s, struct sync_entry *entry)
{
    AUTO_ARENA(a, 1 << 20);
    const char *argv[] = {"readlink", "--", sync_remote_path(s, &a, entry->path), NULL};
    struct osb_execution *done = NULL;
    const char *name;
    char target[SYNC_PATH_MAX];
    struct stat st;
    auto_fd parent = open_parent(s, entry->path, &name);
    int r;

    if (parent < 0)
        return local_error(s, entry->path, -parent);
    if (osb_command_run(s->cli->sandbox, &(struct osb_run){OSB_RUN, .argv = argv}, &done) < 0)
        return sync_failed(s);
    r = osb_execution_exit_code(done) != 0 ||
        str_copy(target, sizeof(target), str_of(osb_execution_stdout(done))) < 0;
    osb_execution_free(done);
    if (r || !target[0]) {
        cli_warning(s->cli, "'%s': a link that cannot be read, left out", entry->path);
        return 0;
    }
    target[strcspn(target, "\n")] = '\0';
    (void)unlinkat(parent, name, 0);
    if (symlinkat(target, parent, name) < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return local_error(s, entry->path, errno);
    entry->local = sync_state_of(&st);
    return 0;
}

static int pull_directory(struct sync *s, struct sync_entry *entry)
{
    const char *name;
    auto_fd parent = open_parent(s, entry->path, &name);

    if (parent < 0)
        return local_error(s, entry->path, -parent);
    if (mkdirat(parent, name, entry->remote.mode | 0700) < 0 && errno != EEXIST)
        return local_error(s, entry->path, errno);
    entry->local = entry->remote;
    return 0;
}

static int pull_all(struct sync *s)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->count; i++) {
        struct sync_entry *entry = s->list[i];

        if (entry->action != SYNC_PULL)
            continue;
        r = make_parents(s, entry->path);
        if (r < 0)
            return local_error(s, entry->path, -r);
        if (entry->remote.type == SYNC_DIRECTORY)
            r = pull_directory(s, entry);
        else if (entry->remote.type == SYNC_LINK)
            r = pull_link(s, entry);
        else
            r = pull_file(s, entry->path, &entry->remote, entry->path, &entry->local);
        if (r == 0)
            say(s, "pull:", entry->path);
    }
    return r;
}

/* The sandbox's file under a name of its own, here; as a new file it is pushed next. */
static int keep_conflicts(struct sync *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct sync_entry *entry = s->list[i];
        char path[SYNC_PATH_MAX];
        struct sync_state state;
        struct stat st;
        int r, number = 1;

        if (entry->action != SYNC_CONFLICT)
            continue;
        do
            r = snprintf(path, sizeof(path), "%s.conflict-%d", entry->path, number++);
        while (r > 0 && r < (int)sizeof(path) && number < 10000 &&
               fstatat(s->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0);
        if (r < 0 || r >= (int)sizeof(path))
            return local_error(s, entry->path, ENAMETOOLONG);
        r = pull_file(s, entry->path, &entry->remote, path, &state);
        if (r)
            return r;
        say(s, "conflict: the sandbox's file is now", path);
    }
    return 0;
}

/* --- all of it --- */

/* Files being compared: the sandbox's comes in pieces. */
struct comparison {
    int fd;
    bool differs;
};

static int compare_piece(void *user, const char *data, size_t bytes)
{
    struct comparison *c = user;
    char own[PIECE_BYTES];

    while (bytes > 0 && !c->differs) {
        ssize_t n = read(c->fd, own, min_size(bytes, sizeof(own)));

        c->differs = n <= 0 || memcmp(own, data, (size_t)n) != 0;
        if (!c->differs) {
            data += n;
            bytes -= (size_t)n;
        }
    }
    return c->differs;
}

int sync_compare(struct sync *s, const struct sync_entry *entry)
{
    AUTO_ARENA(a, 1 << 20);
    struct comparison c = {.fd = -EBADF};
    const char *name;
    auto_fd parent = open_parent(s, entry->path, &name);
    int r;

    if (entry->local.size != entry->remote.size)
        return 0;
    if (entry->local.mtime_us / 1000000 == entry->remote.mtime_us / 1000000)
        return 1; /* an archive keeps whole seconds: as rsync does it */
    c.fd = parent < 0 ? -1 : openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (c.fd < 0)
        return -errno;
    r = osb_file_read(s->cli->sandbox, sync_remote_path(s, &a, entry->path), NULL, compare_piece,
                      &c);
    fd_close(c.fd);
    return c.differs ? 0 : r < 0 ? r : 1;
}

/* What is alike now is where the next changes count from. */
static void settle(struct sync *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct sync_entry *entry = s->list[i];
        bool alike = entry->local.type == entry->remote.type;

        if (is_pushed(entry))
            alike = alike &&
                    (entry->local.type != SYNC_FILE || entry->local.size == entry->remote.size);
        if (entry->action == SYNC_DELETE_THERE || entry->action == SYNC_DELETE_HERE) {
            entry->base_local = entry->base_remote = (struct sync_state){0};
        } else if (entry->action != SYNC_NOTHING && alike) {
            entry->base_local = entry->local;
            entry->base_remote = entry->remote;
        }
    }
}

int sync_apply(struct sync *s)
{
    uint64_t before = s->moved;
    int r = keep_conflicts(s);

    if (r == 0)
        r = delete_there(s);
    if (r == 0)
        r = push_all(s);
    if (r == 0 && s->moved != before) {
        r = sync_scan_remote(s);
        s->dirty_remote = true; /* others may have changed something, too: look again */
    }
    if (r == 0)
        r = delete_here(s);
    if (r == 0)
        r = pull_all(s);
    if (r == 0)
        settle(s);
    return r;
}
