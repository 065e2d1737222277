#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    DIR_CLOEXEC = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    PLACES_MAX = 512,
    ENTRIES_BYTES = 1024,
};

int tree_is_empty(int dir)
{
    char entries[ENTRIES_BYTES];
    long n = syscall(SYS_getdents64, dir, entries, sizeof(entries));
    size_t count = 0;

    if (n < 0)
        return -errno;
    for (long at = 0; at < n; count++) {
        uint16_t size; /* d_reclen, after inode and offset */

        memcpy(&size, entries + at + 16, sizeof(size));
        at += size;
    }
    return count <= 2; /* "." and ".." */
}

/* Removes one entry: 0, 1 when it is a directory that is not empty, or -errno. */
static int entry_remove(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes the entries of a directory from position *place (telldir) on and, if *place was not the
 * start, once more from the start. Returns the descriptor of the first subdirectory that is not
 * empty and stores its position in *place; -ENOENT when all entries are removed, -EAGAIN when *left
 * reached 0, or another -errno. Takes over fd. */
static int level_clear(int fd, long *place, size_t *left, struct err *e)
{
    DIR *dir = fdopendir(fd);
    int found = -ENOENT;

    if (!dir) {
        fd_close(fd);
        return err_sys(e, errno, "read a directory");
    }
    seekdir(dir, *place);
    while (found == -ENOENT) {
        long here = telldir(dir);
        const struct dirent *d = *left > 0 ? readdir(dir) : NULL;
        int r = !d || is_dots(d->d_name) ? 0 : entry_remove(dirfd(dir), d->d_name);

        if (*left == 0)
            found = -EAGAIN;
        if (*left == 0 || (!d && *place == 0))
            break;
        *left -= d != NULL;
        if (!d) {
            *place = 0;
            rewinddir(dir);
        } else if (r == 1) {
            *place = here;
            r = found = openat(dirfd(dir), d->d_name, DIR_CLOEXEC);
        }
        if (r < 0)
            found = err_sys(e, r == -1 ? errno : -r, "remove '%s'", d->d_name);
    }
    closedir(dir);
    return found;
}

/* Depth first without a stack: enters a directory that is not empty, empties it, returns by ".."
 * and removes it in a second pass. That pass starts where the first one stopped: some file
 * systems scan over all removed entries, which is too slow in a directory with a million of
 * them. A ring keeps the positions of PLACES_MAX levels; a level whose position was overwritten
 * may start over. */
int tree_remove_some(int parent, const char *name, size_t most, struct err *e)
{
    long places[PLACES_MAX] = {0};
    int r = entry_remove(parent, name);
    size_t depth = 0;
    int at;

    if (r <= 0)
        return r < 0 ? err_sys(e, -r, "remove '%s'", name) : 0;
    at = openat(parent, name, DIR_CLOEXEC);
    if (at < 0)
        return err_sys(e, errno, "open '%s'", name);
    for (;;) {
        auto_fd here = at; /* the parent of the next level up is opened from it */
        int copy = fcntl(here, F_DUPFD_CLOEXEC, 0);
        int down = copy < 0 ? err_sys(e, errno, "remove '%s'", name)
                            : level_clear(copy, &places[depth % PLACES_MAX], &most, e);

        if (down >= 0) {
            at = down;
            depth++;
            places[depth % PLACES_MAX] = 0;
        } else if (down != -ENOENT) {
            return down == -EAGAIN ? 1 : down;
        } else if (depth == 0) {
            break;
        } else {
            at = openat(here, "..", DIR_CLOEXEC);
            depth--;
            if (at < 0)
                return err_sys(e, errno, "leave a directory below '%s'", name);
        }
    }
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? err_sys(e, errno, "remove '%s'", name) : 0;
}

int tree_remove(int parent, const char *name, struct err *e)
{
    return tree_remove_some(parent, name, SIZE_MAX, e);
}

/* --- making --- */

int tree_make(const char *path, mode_t mode)
{
    char at[PATH_MAX];
    size_t n = strlen(path);
    int r = -ENOENT;

    if (n >= sizeof(at))
        return -ENAMETOOLONG;
    memcpy(at, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (at[i] != '/' && at[i] != '\0')
            continue;
        at[i] = '\0';
        /* EROFS: on the way only; whether it exists shows further down. */
        r = mkdir(at, mode) < 0 && errno != EEXIST && (i == n || errno != EROFS) ? -errno : 0;
        if (r < 0)
            return r;
        at[i] = path[i];
    }
    return r;
}
