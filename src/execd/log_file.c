#include "execd/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum { FILE_MODE = 0640 };

static int file_open(const char *path, struct err *e)
{
    return fd_open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY, FILE_MODE,
                      PATH_FREE, e);
}

/* The first word of a list; "" when there is none. */
static struct str first_word(const char *list)
{
    struct str rest = str_of(list), word = STR("");

    (void)str_cut(&rest, ',', &word);
    return str_trim(word);
}

int log_file_open(struct log_file *f, int fallback, struct err *e)
{
    struct str word = first_word(getenv("EXECD_LOG_FILE"));

    if (word.n == 0)
        word = first_word(getenv("OPENSANDBOX_LOG_OUTPUT"));
    *f = (struct log_file){.fd = fallback};
    if (str_eq(word, STR("stdout")))
        f->fd = STDOUT_FILENO;
    else if (str_eq(word, STR("stderr")))
        f->fd = STDERR_FILENO;
    else if (str_copy(f->path, sizeof(f->path), word) < 0)
        return err_set(e, ENAMETOOLONG, "the name of the log file is too long");
    else if (word.n > 0)
        f->fd = file_open(f->path, e);
    return f->fd < 0 ? f->fd : 0;
}

/* "FILE.2", or the file itself for 0. */
static bool numbered(const struct log_file *f, int number, char out[PATH_MAX])
{
    int n = number ? snprintf(out, PATH_MAX, "%s.%d", f->path, number)
                   : snprintf(out, PATH_MAX, "%s", f->path);

    return n > 0 && n < PATH_MAX;
}

/* Whatever fails, lines go on to the file they go to now. */
void log_file_check(struct log_file *f)
{
    char from[PATH_MAX], to[PATH_MAX];
    auto_fd next = -EBADF;
    struct stat st;

    if (!f->path[0] || fstat(f->fd, &st) < 0 || st.st_size < LOG_FILE_BYTES_MAX)
        return;
    for (int i = LOG_FILES_KEPT; i-- > 0;)
        if (numbered(f, i, from) && numbered(f, i + 1, to))
            (void)rename(from, to);
    next = file_open(f->path, NULL);
    if (next >= 0)
        (void)dup3(next, f->fd, O_CLOEXEC);
}
