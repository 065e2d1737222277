#include "execd/log/log_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log_rotate.h"
#include "base/mem.h"
#include "base/time.h"

enum { FILE_MODE = 0640, SECONDS_PER_DAY = 24 * 60 * 60 };

/* O_NONBLOCK: opening a FIFO must not wait for a reader. */
static int file_open(const char *path, struct err *e)
{
    return fd_open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK,
                      FILE_MODE, PATH_FREE, e);
}

/* --- rotation --- */

static void drop_old(const char *path)
{
    log_rotate_drop(AT_FDCWD, path, LOG_FILES_KEPT,
                    time(NULL) - (time_t)LOG_FILE_DAYS_MAX * SECONDS_PER_DAY);
}

/* If anything fails, lines still go to the current file. */
static void file_check(int fd, const char *path)
{
    auto_fd next = -EBADF;
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < LOG_FILE_BYTES_MAX)
        return;
    next = log_rotate(AT_FDCWD, path, LOG_FILES_KEPT) < 0 ? -EBADF : file_open(path, NULL);
    drop_old(path);
    if (next >= 0)
        (void)dup3(next, fd, O_CLOEXEC);
}

void log_file_check(struct log_file *f)
{
    for (size_t i = 0; i < f->sink_count; i++)
        if (f->sinks[i].path)
            file_check(f->sinks[i].fd, f->sinks[i].path);
}

bool log_file_is_kept_small(const struct log_file *f)
{
    for (size_t i = 0; i < f->sink_count; i++)
        if (f->sinks[i].path)
            return true;
    return false;
}

/* --- sinks --- */

static int add_file(struct log_file *f, struct str name, struct err *e)
{
    char path[PATH_MAX];
    int fd;

    if (str_copy(path, sizeof(path), name) < 0)
        return err_set(e, ENAMETOOLONG, "the name of the log file is too long");
    fd = file_open(path, e);
    if (fd < 0)
        return fd;
    drop_old(path);
    f->sinks[f->sink_count].fd = fd;
    f->sinks[f->sink_count++].path = mem_strdup(path);
    return 0;
}

static int add_sink(struct log_file *f, struct str word, struct err *e)
{
    if (f->sink_count == LOG_SINKS_MAX)
        return err_set(e, E2BIG, "more than %d places for the log", LOG_SINKS_MAX);
    if (str_eq(word, STR("stdout")))
        f->sinks[f->sink_count++].fd = STDOUT_FILENO;
    else if (str_eq(word, STR("stderr")))
        f->sinks[f->sink_count++].fd = STDERR_FILENO;
    else
        return add_file(f, word, e);
    return 0;
}

static int add_sinks(struct log_file *f, struct str list, struct err *e)
{
    struct str word;
    int r = 0;

    while (r == 0 && str_cut(&list, ',', &word)) {
        word = str_trim(word);
        if (word.n > 0)
            r = add_sink(f, word, e);
    }
    return r;
}

int log_file_open(struct log_file *f, int fallback, struct err *e)
{
    struct str file = str_trim(str_of(getenv("EXECD_LOG_FILE")));
    int r;

    *f = (struct log_file){.sink_count = 0};
    r = file.n ? add_sink(f, file, e) : add_sinks(f, str_of(getenv("OPENSANDBOX_LOG_OUTPUT")), e);
    if (r < 0)
        log_file_close(f);
    else if (f->sink_count == 0)
        f->sinks[f->sink_count++].fd = fallback;
    return r;
}

void log_file_close(struct log_file *f)
{
    for (size_t i = 0; i < f->sink_count; i++) {
        if (f->sinks[i].path)
            fd_close(f->sinks[i].fd);
        free(f->sinks[i].path);
    }
    f->sink_count = 0;
}

/* --- lines --- */

/* A line fits into one write to a pipe that poll reports as writable (PIPE_BUF). */
static_assert(LOG_LINE_MAX <= PIPE_BUF, "a line fits where poll says that there is room");

static void write_if_it_takes(int fd, struct str line)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    ssize_t r;

    if (poll(&p, 1, 0) <= 0)
        return;
    do
        r = write(fd, line.p, line.n);
    while (r < 0 && errno == EINTR);
}

void log_file_write(void *user, enum log_level level, const char *message, struct str line)
{
    struct log_file *f = user;

    if (!log_sample_admit(&f->sample, level, message, time_mono_ns()))
        return;
    for (size_t i = 0; i < f->sink_count; i++)
        write_if_it_takes(f->sinks[i].fd, line);
}
