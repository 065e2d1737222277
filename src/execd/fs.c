#include "execd/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "execd/path.h"

enum { LINKS_MAX = 40 }; /* as the kernel has it */

const char *fs_text(int code)
{
    static const struct {
        int code;
        const char *text;
    } rows[] = {
        {EACCES,       "permission denied"                },
        {EBUSY,        "device or resource busy"          },
        {EEXIST,       "file exists"                      },
        {EIO,          "input/output error"               },
        {EISDIR,       "is a directory"                   },
        {ELOOP,        "too many levels of symbolic links"},
        {ENAMETOOLONG, "file name too long"               },
        {ENOENT,       "no such file or directory"        },
        {ENOSPC,       "no space left on device"          },
        {ENOTDIR,      "not a directory"                  },
        {ENOTEMPTY,    "directory not empty"              },
        {EPERM,        "operation not permitted"          },
        {EROFS,        "read-only file system"            },
        {ETXTBSY,      "text file busy"                   },
        {EXDEV,        "invalid cross-device link"        },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].code == code)
            return rows[i].text;
    return strerror(code);
}

/* Makes one level: 1 when it is new, 0 when it was there. */
static int make_dir(const char *path, mode_t mode)
{
    struct stat st;
    int why;

    if (mkdir(path, mode) == 0)
        return 1;
    why = errno;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
    return -why;
}

int fs_make_dirs(const char *path, mode_t mode, bool *ret_made)
{
    AUTO_BUF(b, PATH_MAX);
    int r = buf_add(&b, str_of(path));

    if (r < 0)
        return r == -EMSGSIZE ? -ENAMETOOLONG : r;
    while (b.n > 1 && b.p[b.n - 1] == '/')
        buf_cut(&b, b.n - 1);
    r = make_dir(b.p, mode);
    if (r == -ENOENT && b.n > 0) {
        for (size_t i = 1; i < b.n; i++) {
            if (b.p[i] != '/' || b.p[i - 1] == '/')
                continue;
            b.p[i] = '\0';
            r = make_dir(b.p, mode);
            b.p[i] = '/';
            if (r < 0)
                return r;
        }
        r = make_dir(b.p, mode);
    }
    if (r < 0)
        return r;
    if (ret_made)
        *ret_made = r == 1;
    return 0;
}

/* Replaces the last component of `path` by the target of the link it is. */
static int follow_link(struct buf *path, const char *target)
{
    AUTO_BUF(next, PATH_MAX);
    struct str parent = path_parent(buf_str(path));
    int r = 0;

    if (target[0] != '/' && parent.n > 0)
        r = buf_addf(&next, "%.*s%s", STR_ARG(parent), parent.p[parent.n - 1] == '/' ? "" : "/");
    if (r == 0)
        r = buf_add(&next, str_of(target));
    if (r < 0)
        return r;
    buf_clear(path);
    return buf_add(path, buf_str(&next));
}

int fs_follow(const char *path, struct buf *out)
{
    AUTO_BUF(at, PATH_MAX);
    char target[PATH_MAX];
    int r = buf_add(&at, str_of(path));

    for (int links = 0; r == 0; links++) {
        ssize_t n = readlink(at.p, target, sizeof(target) - 1);

        if (n < 0)
            break; /* no link, or nothing there */
        if (links == LINKS_MAX)
            return -ELOOP;
        target[n] = '\0';
        r = follow_link(&at, target);
    }
    if (r == 0)
        r = buf_add(out, buf_str(&at));
    return r == -EMSGSIZE ? -ENAMETOOLONG : r;
}

int fs_open_parent(const char *path, struct str *ret_name)
{
    AUTO_BUF(parent, PATH_MAX);
    struct str s = str_of(path), base;
    int fd;

    while (s.n > 1 && s.p[s.n - 1] == '/')
        s.n--;
    base = path_base(s);
    if (base.n == 0 || str_eq(base, STR("/")) || str_eq(base, STR(".")) || str_eq(base, STR("..")))
        return -EINVAL;
    if (base.n > NAME_MAX || buf_add(&parent, path_parent(s)) < 0)
        return -ENAMETOOLONG;
    fd = open(parent.n ? parent.p : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_name = base;
    return fd;
}

void fs_temp_name(char out[FS_TEMP_NAME_MAX])
{
    static const struct str prefix = STR_INIT(".opensandbox-");

    memcpy(out, prefix.p, prefix.n);
    id_short(out + prefix.n, FS_TEMP_NAME_MAX - 1 - prefix.n);
}
