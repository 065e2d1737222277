/* Reads and writes the small files of a group, by name and by knob. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/cgroup_internal.h"

int cgroup_file_open(const struct cgroup_hierarchy *y, const char *group, const char *file,
                     int flags, struct err *e)
{
    char path[4096];
    int fd, n = snprintf(path, sizeof(path), "%s/%s", group, file);

    if (n < 0 || n >= (int)sizeof(path))
        return err_set(e, ENAMETOOLONG, "the name of control group '%.40s' is too long", group);
    fd = openat(y->root_fd, path, flags | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(e, errno, "open %s/%s", y->path, path) : fd;
}

int cgroup_file_write(const struct cgroup_hierarchy *y, const char *group, const char *file,
                      struct str text, struct err *e)
{
    auto_fd fd = cgroup_file_open(y, group, file, O_WRONLY, e);

    if (fd < 0)
        return fd;
    if (write(fd, text.p, text.n) < 0)
        return err_sys(e, errno, "write '%.*s' to %s/%s/%s", STR_ARG(text), y->path, group, file);
    return 0;
}

int cgroup_file_read(const struct cgroup_hierarchy *y, const char *group, const char *file,
                     char *text, size_t size, struct err *e)
{
    auto_fd fd = cgroup_file_open(y, group, file, O_RDONLY, e);
    ssize_t n;

    if (fd < 0)
        return fd;
    n = read(fd, text, size - 1);
    if (n < 0)
        return err_sys(e, errno, "read %s/%s/%s", y->path, group, file);
    text[n] = '\0';
    return (int)n;
}

static uint64_t scale(const struct cgroup_file *f, uint64_t value)
{
    uint64_t v = f->per ? value * f->times / f->per : value;

    if (f->max && v > f->max)
        v = f->max;
    return v < f->min ? f->min : v;
}

int cgroup_knob_write(const struct cgroup_bound *b, const char *group, int fd, uint64_t value,
                      struct err *e)
{
    const struct cgroup_file *f = b->file;
    char digits[24];
    const char *text = digits;

    if (value == 0 && f->none)
        text = f->none;
    else if (value == 1 && f->on)
        text = f->on;
    else
        snprintf(digits, sizeof(digits), "%llu", (unsigned long long)scale(f, value));
    if (fd < 0)
        return cgroup_file_write(b->y, group, f->name, str_of(text), e);
    if (write(fd, text, strlen(text)) < 0)
        return err_sys(e, errno, "write '%s' to %s/%s/%s", text, b->y->path, group, f->name);
    return 0;
}

/* The text of a number: the whole file, or what follows `key` on its line. */
static struct str number_text(struct str content, const char *key)
{
    struct str line, word;

    while (str_cut(&content, '\n', &line)) {
        if (!key)
            return line;
        if (str_cut(&line, ' ', &word) && str_eq(word, str_of(key)))
            return line;
    }
    return STR_NONE;
}

int cgroup_knob_read(const struct cgroup_bound *b, const char *group, uint64_t *ret, struct err *e)
{
    const struct cgroup_file *f = b->file;
    char content[4096]; /* memory.stat is longer, but our keys are near its beginning */
    struct str text;
    uint64_t v = 0;
    int r = cgroup_file_read(b->y, group, f->name, content, sizeof(content), e);

    if (r < 0)
        return r;
    text = number_text(str_make(content, (size_t)r), f->key);
    if (f->on) {
        *ret = str_eq(text, str_of(f->on));
        return 0;
    }
    r = str_to_u64(text, &v);
    if (r < 0)
        return err_set(e, EBADMSG, "%s/%s/%s has no number%s%s", b->y->path, group, f->name,
                       f->key ? " for " : "", f->key ? f->key : "");
    *ret = f->per ? v * f->times / f->per : v;
    return 0;
}

bool cgroup_knob_works(const struct cgroup_bound *b, const char *group)
{
    const struct cgroup_file *f = b->file;
    char path[CGROUP_PATH_MAX];
    uint64_t unused;

    if (f->key)
        return cgroup_knob_read(b, group, &unused, NULL) >= 0;
    if (f->probe)
        return cgroup_file_write(b->y, group, f->name, str_of(f->probe), NULL) >= 0;
    snprintf(path, sizeof(path), "%s/%s", group, f->name);
    return faccessat(b->y->root_fd, path, F_OK, 0) == 0;
}
