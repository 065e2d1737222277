#include "server/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"

enum { OWNER_LEN = OWNER_MAX - 1 };

static bool is_owner(struct str text)
{
    static const char form[] = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";

    if (text.n != OWNER_LEN)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        if (form[i] == '-' ? c != '-' : !ascii_is_digit(c) && !(c >= 'a' && c <= 'f'))
            return false;
    }
    return true;
}

/* -ENOENT without a message when there is no file. */
static int read_owner(int dir, char ret[OWNER_MAX], struct err *e)
{
    AUTO_BUF(text, OWNER_MAX);
    int r = faccessat(dir, OWNER_FILE, F_OK, 0) < 0 && errno == ENOENT
                ? -ENOENT
                : io_read_file(dir, OWNER_FILE, OWNER_MAX, &text, e);

    if (r == 0) {
        struct str line = buf_str(&text);

        line.n -= str_ends(line, STR("\n"));
        if (is_owner(line))
            return str_copy(ret, OWNER_MAX, line);
    }
    if (r < 0 && r != -EFBIG)
        return r;
    return err_set(e, EINVAL, "it has no id: restore it, or remove it to have a new one");
}

static int make_owner(int dir, struct err *e)
{
    char id[OWNER_MAX], line[OWNER_MAX + 1];
    int n;

    id_uuid(id);
    n = snprintf(line, sizeof(line), "%s\n", id);
    return io_write_file_atomic(dir, OWNER_FILE, str_make(line, (size_t)n), 0600, e);
}

int owner_load(const char *path, char ret[OWNER_MAX], struct err *e)
{
    auto_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (dir < 0)
        return err_sys(e, errno, "open '%s'", path);
    r = read_owner(dir, ret, e);
    if (r == -ENOENT) {
        r = make_owner(dir, e);
        if (r == 0)
            r = read_owner(dir, ret, e);
    }
    return r < 0 ? err_wrap(e, r, "'%s/" OWNER_FILE "'", path) : 0;
}
