#include "server/http/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/log_rotate.h"
#include "base/mem.h"
#include "base/time.h"

enum { LOOK_MS = 1000 };

struct logfile {
    struct loop *loop;
    struct loop_timer look;
    char *path;
    const char *name; /* last component of path */
    uint64_t bytes_max;
    unsigned backups;
    int dir; /* of path; may have been opened with more privileges than now */
    int fd;
    bool stuck; /* rotation failed, and that was logged */
};

/* Only appends to an existing file. Its owner does not matter, but it must not be a symbolic link
 * or have another hard link. */
static int open_log(const struct logfile *f, uid_t uid, gid_t gid, struct err *e)
{
    const int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK;
    auto_fd fd = openat(f->dir, f->name, flags | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool made = fd >= 0;
    struct stat st;

    if (!made && errno == EEXIST)
        fd = openat(f->dir, f->name, flags | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || (made && fchown(fd, uid, gid) < 0))
        return err_sys(e, errno, "open the log '%s'", f->path);
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
        return err_set(e, EINVAL, "the log '%s' is not a regular file with one name", f->path);
    return take_fd(&fd);
}

static int put_aside(const struct logfile *f)
{
    if (f->backups > 0)
        return log_rotate(f->dir, f->name, f->backups);
    return ftruncate(f->fd, 0) < 0 ? -errno : 0;
}

void logfile_reopen(struct logfile *f)
{
    struct err e = {0};
    auto_fd fresh = open_log(f, (uid_t)-1, (gid_t)-1, &e);

    if (fresh < 0 || dup3(fresh, f->fd, O_CLOEXEC) < 0)
        log_event(LOG_ERROR, "cannot reopen the log, going on with the old file",
                  LOG_STR("path", f->path), LOG_STR("error", fresh < 0 ? e.msg : strerror(errno)));
}

static void on_look(struct loop_timer *timer)
{
    struct logfile *f = container_of(timer, struct logfile, look);
    struct stat st;
    int r;

    loop_timer_set(f->loop, &f->look, deadline_in_ms(LOOK_MS), on_look);
    if (fstat(f->fd, &st) < 0 || (uint64_t)st.st_size < f->bytes_max)
        return;
    r = put_aside(f);
    if (r < 0) {
        if (!f->stuck)
            log_event(LOG_ERROR, "cannot rename the log, it keeps growing",
                      LOG_STR("path", f->path), LOG_STR("error", strerror(-r)));
        f->stuck = true;
        return;
    }
    f->stuck = false;
    if (f->backups)
        logfile_reopen(f);
}

/* Opens a subdirectory, and creates it if missing. Follows no symbolic link: a user who may write
 * along the path could plant one to have root create files elsewhere. */
static int step_down(int dir, const char *name, bool *ret_made)
{
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    int fd = openat(dir, name, flags | O_CLOEXEC);
    bool made = false;

    if (fd < 0 && errno == ENOENT) {
        made = mkdirat(dir, name, 0755) == 0;
        if (!made && errno != EEXIST)
            return -errno;
        fd = openat(dir, name, flags | O_CLOEXEC);
    }
    if (fd < 0)
        return -errno;
    *ret_made = made;
    return fd;
}

/* Gives the last directory to the owner if it was created here. Modifies `path`. */
static int walk_down(char *path, uid_t uid, gid_t gid, struct err *e)
{
    auto_fd dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool made = false;

    for (char *at = path + 1, *end; dir >= 0 && (end = strchr(at, '/')); at = end + 1) {
        int below;

        if (at == end)
            continue;
        *end = '\0';
        below = step_down(dir, at, &made);
        if (below == -ENOTDIR || below == -ELOOP)
            return err_set(e, ENOTDIR,
                           "'%s' is a symbolic link, which is not followed, or not a directory",
                           path);
        if (below < 0)
            return err_sys(e, -below, "open the directory '%s'", path);
        *end = '/';
        fd_close(dir);
        dir = below;
    }
    if (dir < 0 || (made && fchownat(dir, "", uid, gid, AT_EMPTY_PATH) < 0))
        return err_sys(e, errno, "change the owner of its directory");
    return take_fd(&dir);
}

static int open_dir(const struct logfile *f, uid_t uid, gid_t gid, struct err *e)
{
    auto_free char *path = mem_strdup(f->path);
    int r;

    if (path[0] != '/')
        return err_set(e, EINVAL, "the log '%s' has no absolute path", f->path);
    r = walk_down(path, uid, gid, e);
    return r < 0 ? err_wrap(e, r, "open the log '%s'", f->path) : r;
}

int logfile_open(struct loop *loop, const struct logfile_conf *conf, struct logfile **ret_file,
                 struct err *e)
{
    struct logfile *f = mem_new(struct logfile);
    const char *slash;
    int r;

    *f = (struct logfile){
        .loop = loop,
        .path = mem_strdup(conf->path),
        .bytes_max = conf->bytes_max,
        .backups = conf->backups,
        .dir = -EBADF,
        .fd = -EBADF,
    };
    slash = strrchr(f->path, '/');
    f->name = slash ? slash + 1 : f->path;
    f->dir = r = open_dir(f, conf->uid, conf->gid, e);
    if (r >= 0)
        f->fd = r = open_log(f, conf->uid, conf->gid, e);
    if (r < 0) {
        logfile_close(f);
        return r;
    }
    loop_timer_set(loop, &f->look, deadline_in_ms(LOOK_MS), on_look);
    *ret_file = f;
    return 0;
}

void logfile_close(struct logfile *f)
{
    if (!f)
        return;
    loop_timer_stop(f->loop, &f->look);
    fd_close(f->fd);
    fd_close(f->dir);
    free(f->path);
    free(f);
}

int logfile_fd(const struct logfile *f)
{
    return f->fd;
}
