#include "base/log_rotate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* "log.2", or "log" for 0. */
static bool numbered(const char *name, unsigned number, char out[PATH_MAX])
{
    int n = number ? snprintf(out, PATH_MAX, "%s.%u", name, number)
                   : snprintf(out, PATH_MAX, "%s", name);

    return n > 0 && n < PATH_MAX;
}

int log_rotate(int dir, const char *name, unsigned kept)
{
    char from[PATH_MAX], to[PATH_MAX];
    int r = 0;

    for (unsigned n = kept; n > 0; n--) {
        if (!numbered(name, n - 1, from) || !numbered(name, n, to))
            return -ENAMETOOLONG;
        r = renameat(dir, from, dir, to) < 0 && errno != ENOENT ? -errno : 0;
    }
    return r;
}

void log_rotate_drop(int dir, const char *name, unsigned kept, long long oldest)
{
    char old[PATH_MAX];
    struct stat st;

    for (unsigned n = 1; n <= kept; n++)
        if (numbered(name, n, old) && fstatat(dir, old, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && st.st_mtime < oldest)
            (void)unlinkat(dir, old, 0);
}
