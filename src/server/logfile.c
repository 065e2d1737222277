#include "server/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"

enum { LOOK_MS = 1000 };

struct logfile {
    struct loop *loop;
    struct loop_timer look;
    char *path;
    uint64_t bytes_max;
    unsigned backups;
    int fd;
    bool stuck; /* rotation failed, and that was said */
};

static int open_log(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void numbered(const struct logfile *f, unsigned n, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, n ? "%s.%u" : "%s", f->path, n);
}

/* log.1 -> log.2, log -> log.1; the oldest is replaced. */
static int put_aside(const struct logfile *f)
{
    char from[PATH_MAX], to[PATH_MAX];

    for (unsigned n = f->backups; n > 0; n--) {
        numbered(f, n - 1, from);
        numbered(f, n, to);
        if (rename(from, to) < 0 && errno != ENOENT)
            return -errno;
    }
    return f->backups == 0 && ftruncate(f->fd, 0) < 0 ? -errno : 0;
}

void logfile_reopen(struct logfile *f)
{
    auto_fd fresh = open_log(f->path);

    if (fresh < 0 || dup3(fresh, f->fd, O_CLOEXEC) < 0)
        log_event(LOG_ERROR, "cannot open the log anew, going on with the old file",
                  LOG_STR("path", f->path), LOG_STR("error", strerror(errno)));
}

static void on_look(struct loop_timer *timer)
{
    struct logfile *f = container_of(timer, struct logfile, look);
    struct stat st;

    loop_timer_set(f->loop, &f->look, deadline_in_ms(LOOK_MS), on_look);
    if (fstat(f->fd, &st) < 0 || (uint64_t)st.st_size < f->bytes_max)
        return;
    if (put_aside(f) < 0) {
        if (!f->stuck)
            log_event(LOG_ERROR, "cannot put the log aside, it goes on growing",
                      LOG_STR("path", f->path), LOG_STR("error", strerror(errno)));
        f->stuck = true;
        return;
    }
    f->stuck = false;
    if (f->backups)
        logfile_reopen(f);
}

static int make_parents(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return -errno;
        *at = '/';
    }
    return 0;
}

int logfile_open(struct loop *loop, const char *path, uint64_t bytes_max, unsigned backups,
                 struct logfile **ret_file, struct err *e)
{
    struct logfile *f = mem_new(struct logfile);
    int r;

    *f = (struct logfile){loop, {0}, mem_strdup(path), bytes_max, backups, -EBADF, false};
    r = make_parents(f->path);
    if (r == 0)
        f->fd = open_log(path);
    if (r < 0 || f->fd < 0) {
        r = err_sys(e, r < 0 ? -r : errno, "open the log '%s'", path);
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
    free(f->path);
    free(f);
}

int logfile_fd(const struct logfile *f)
{
    return f->fd;
}

void logfile_line(struct logfile *f, const char *fmt, ...)
{
    char line[LOG_LINE_MAX];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    n = n < (int)sizeof(line) - 1 ? n : (int)sizeof(line) - 2;
    line[n++] = '\n';
    if (write(f->fd, line, (size_t)n) < 0)
        return; /* as the header says */
}
