#include "execd/tree/remove.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "execd/tree/fs.h"
#include "execd/tree/slice.h"

enum {
    DIR_CLOEXEC = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    DEPTH_MAX = 1 << 20,
};

struct remove_level {
    dev_t dev;
    ino_t ino;
};

/* Removes one entry: 0, 1 when it is a directory that is not empty, or -errno. */
static int entry_remove(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

int remove_open(struct remove *rm, const char *path, struct err *e)
{
    struct str name;

    *rm = (struct remove){.parent = fs_open_parent(path, &name)};
    if (rm->parent == -ENOENT || rm->parent == -ENOTDIR)
        return 0; /* the parent is missing: nothing to remove */
    if (rm->parent < 0)
        return err_set(e, -rm->parent, "%s: %s", path, fs_text(-rm->parent));
    rm->name = mem_alloc(name.n + 1);
    memcpy(rm->name, name.p, name.n);
    rm->name[name.n] = '\0';
    return 0;
}

void remove_done(struct remove *rm)
{
    if (rm->dir)
        closedir(rm->dir);
    free(rm->levels);
    if (rm->name) {
        fd_close(rm->parent);
        free(rm->name);
    }
    *rm = (struct remove){.parent = -EBADF};
}

/* Makes `fd` the directory being emptied. Takes ownership, also on failure. */
static int remove_look_at(struct remove *rm, int fd)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int why = errno;

    if (!dir) {
        fd_close(fd);
        return -why;
    }
    if (rm->dir)
        closedir(rm->dir);
    rm->dir = dir;
    return 0;
}

static int level_push(struct remove *rm, int fd)
{
    struct stat st;

    if (rm->depth == DEPTH_MAX)
        return -ENAMETOOLONG;
    if (rm->depth == rm->room) {
        size_t room = rm->room ? 2 * rm->room : 16;
        struct remove_level *levels = mem_try_realloc(rm->levels, room * sizeof(*levels));

        if (!levels)
            return -ENOMEM;
        rm->levels = levels;
        rm->room = room;
    }
    if (fstat(fd, &st) < 0)
        return -errno;
    rm->levels[rm->depth++] = (struct remove_level){st.st_dev, st.st_ino};
    return 0;
}

/* Enters a directory that must be emptied first. */
static int remove_down(struct remove *rm, int dir, const char *name)
{
    auto_fd fd = openat(dir, name, DIR_CLOEXEC);
    int r = fd < 0 ? -errno : level_push(rm, fd);

    return r < 0 ? r : remove_look_at(rm, take_fd(&fd));
}

/* The directory is empty: goes up to its parent and reads that again, which removes it. Removed
 * entries do not appear again, so directories are read about twice. */
static int remove_up(struct remove *rm)
{
    struct stat st;
    auto_fd fd = -EBADF;
    int r;

    if (--rm->depth == 0) {
        closedir(rm->dir);
        rm->dir = NULL;
        r = entry_remove(rm->parent, rm->name);
        /* An entry was added meanwhile: enter it again. */
        return r == 1 ? remove_down(rm, rm->parent, rm->name) : r;
    }
    fd = openat(dirfd(rm->dir), "..", DIR_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != rm->levels[rm->depth - 1].dev || st.st_ino != rm->levels[rm->depth - 1].ino)
        return -ESTALE; /* it was moved: the new parent must not be emptied */
    return remove_look_at(rm, take_fd(&fd));
}

int remove_step(struct remove *rm, struct err *e)
{
    const char *name = rm->name;
    struct dirent *d = NULL;
    int r;

    if (!name)
        return 0;
    if (rm->dir) {
        d = readdir(rm->dir);
        if (d && (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0))
            return 1;
        if (d)
            name = d->d_name;
    }
    if (rm->dir && !d) {
        r = remove_up(rm);
    } else {
        int dir = rm->dir ? dirfd(rm->dir) : rm->parent;

        r = entry_remove(dir, name);
        if (r == 1)
            r = remove_down(rm, dir, name);
    }
    if (r < 0)
        return err_set(e, -r, "remove %s: %s", name, fs_text(-r));
    return rm->dir != NULL;
}

/* --- in the background --- */

struct remove_job {
    struct slice slice;
    struct remove rm;
};

static bool job_step(struct slice *s)
{
    struct remove_job *job = container_of(s, struct remove_job, slice);

    if (remove_step(&job->rm, NULL) > 0)
        return true;
    remove_done(&job->rm);
    free(job);
    return false;
}

void remove_in_background(struct loop *loop, const char *path)
{
    struct remove_job *job = mem_new(struct remove_job);

    if (remove_open(&job->rm, path, NULL) == 0) {
        slice_start(&job->slice, loop, job_step);
        return;
    }
    remove_done(&job->rm);
    free(job);
}
