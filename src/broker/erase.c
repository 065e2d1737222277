#include "broker/erase.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"

enum { DEPTH_MAX = 256, ERASE_TURNS_MAX = 1 << 28 };

struct erasure {
    struct {
        DIR *dir;
        long place;  /* telldir() position of the entered entry */
        bool sought; /* seekdir() was used since the last rewinddir() */
    } levels[DEPTH_MAX];
    size_t depth;
    struct err *e;
};

/* Too deep to hold open: moves a directory into the topmost one, where it is found again. */
static int erase_lift(const struct erasure *w, int parent, const char *name)
{
    char lifted[32];
    uint64_t random;

    id_random_bytes(&random, sizeof(random));
    (void)snprintf(lifted, sizeof(lifted), "deep-%016" PRIx64, random);
    return renameat2(parent, name, dirfd(w->levels[0].dir), lifted, RENAME_NOREPLACE) < 0
               ? err_sys(w->e, errno, "move '%s'", name)
               : 0;
}

static int erase_enter(struct erasure *w, int parent, const char *name)
{
    auto_fd fd = -EBADF;

    if (w->depth == DEPTH_MAX)
        return erase_lift(w, parent, name);
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    w->levels[w->depth].dir = fd < 0 ? NULL : fdopendir(fd);
    if (!w->levels[w->depth].dir)
        return err_sys(w->e, errno, "enter '%s'", name);
    (void)take_fd(&fd);
    w->levels[w->depth++].sought = false;
    return 0;
}

/* Enters a directory that is not empty; the walk finds it again once it is. */
static int erase_entry(struct erasure *w, const char *name)
{
    int parent = dirfd(w->levels[w->depth - 1].dir);

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || unlinkat(parent, name, 0) == 0 ||
        errno == ENOENT)
        return 0;
    if (errno == EISDIR && (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
        return 0;
    return errno == ENOTEMPTY ? erase_enter(w, parent, name)
                              : err_sys(w->e, errno, "remove '%s'", name);
}

/* Continues in the parent at the saved position: rereading it for each subdirectory would take too
 * long with a million of them. */
static void erase_leave(struct erasure *w)
{
    closedir(w->levels[--w->depth].dir);
    if (w->depth == 0)
        return;
    seekdir(w->levels[w->depth - 1].dir, w->levels[w->depth - 1].place);
    w->levels[w->depth - 1].sought = true;
}

/* On some file systems seekdir() skips entries after others before the position were removed. So a
 * level is done only after it was read from its beginning to its end. */
static void erase_at_end(struct erasure *w)
{
    if (!w->levels[w->depth - 1].sought) {
        erase_leave(w);
        return;
    }
    rewinddir(w->levels[w->depth - 1].dir);
    w->levels[w->depth - 1].sought = false;
}

/* 1 after that many turns. */
static int erase_for(int dir, uint32_t turns_max, struct err *e)
{
    static struct erasure w; /* too large for the stack; single-threaded */
    int r;

    w = (struct erasure){.e = e};
    r = erase_enter(&w, dir, ".");
    for (uint32_t turns = 0; r == 0 && w.depth > 0; turns++) {
        DIR *level = w.levels[w.depth - 1].dir;
        struct dirent *d;

        w.levels[w.depth - 1].place = telldir(level);
        d = readdir(level);
        if (turns == turns_max)
            r = 1;
        else if (d)
            r = erase_entry(&w, d->d_name);
        else
            erase_at_end(&w);
    }
    while (w.depth > 0)
        erase_leave(&w);
    return r;
}

int erase_tree(int dir, struct err *e)
{
    int r = erase_for(dir, ERASE_TURNS_MAX, e);

    return r == 1 ? err_set(e, EBUSY, "files are being made there faster than they are removed")
                  : r;
}

int erase_some(int dir, uint32_t most, struct err *e)
{
    return erase_for(dir, most, e);
}
