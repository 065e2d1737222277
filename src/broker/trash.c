/* trash.c - directories of callers with files that are still to be erased.
 *
 * A volume may hold millions of files, and waiting for their removal would block other requests. So
 * the directory is renamed in place to ".erase-<number>", and the target of the symbolic link
 * <state>/trash/<number> is "<inode of the parent> <path>". The eraser erases what these notes
 * name. A note is written before the rename and removed after the directory is gone: nothing is
 * lost when a process dies. The inode number tells a directory that is gone from one whose file
 * system is not mounted. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "broker/broker.h"
#include "broker/erase.h"

#define TRASH_PREFIX ".erase-"

enum {
    NUMBER_BYTES = 17, /* 64 bits in hexadecimal digits */
    LINK_BYTES_MAX = 64,
    UNMOUNTED_DAYS_MAX = 30, /* then the file system will not come back */
    ERASED_AT_ONCE = 1000,   /* entries, on a full disk */
};

/* --- putting --- */

static int note_write(const struct broker *b, int parent, const char *number, const char *gone,
                      struct err *e)
{
    char link[LINK_BYTES_MAX], path[PATH_MAX];
    AUTO_BUF(target, PATH_MAX - 1);
    struct stat st;
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", parent);
    n = readlink(link, path, sizeof(path));
    if (n < 0 || fstat(parent, &st) < 0)
        return err_sys(e, errno, "find the directory that it is in");
    if (buf_addf(&target, "%ju %.*s/%s", (uintmax_t)st.st_ino, (int)n, path, gone) < 0)
        return err_set(e, ENAMETOOLONG, "the path is too long");
    return symlinkat(target.p, b->host.trash, number) < 0 ? err_sys(e, errno, "note what to erase")
                                                          : 0;
}

/* A full disk may have no room for the note: the directory is renamed without one, and erased here
 * until there is room, or nothing left of it. */
static int put_without_room(const struct broker *b, int parent, const char *name,
                            const char *number, const char *gone, struct err *e)
{
    auto_fd dir = -EBADF;
    int r = 1;

    if (renameat2(parent, name, parent, gone, RENAME_NOREPLACE) < 0)
        return err_sys(e, errno, "rename '%s'", name);
    dir = fd_open_at(parent, gone, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, PATH_STRICT, e);
    if (dir < 0)
        return dir;
    while (r == 1) {
        r = erase_some(dir, ERASED_AT_ONCE, e);
        if (r == 1 && note_write(b, parent, number, gone, NULL) == 0)
            return 0;
    }
    if (r == 0 && unlinkat(parent, gone, AT_REMOVEDIR) < 0)
        r = err_sys(e, errno, "remove '%s'", gone);
    return r;
}

int trash_put(const struct broker *b, int parent, const char *name, struct err *e)
{
    char number[NUMBER_BYTES], gone[sizeof(TRASH_PREFIX) + NUMBER_BYTES];
    struct stat st;
    uint64_t random;
    int r;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, errno, "find '%s'", name);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ENOTDIR, "'%s' is not a directory", name);
    id_random_bytes(&random, sizeof(random));
    (void)snprintf(number, sizeof(number), "%016" PRIx64, random);
    (void)snprintf(gone, sizeof(gone), TRASH_PREFIX "%s", number);
    /* The lock keeps note_drop() from seeing the note before the rename. */
    if (flock(b->host.lock, LOCK_SH) < 0)
        return err_sys(e, errno, "lock the trash");
    r = note_write(b, parent, number, gone, e);
    if (r == -ENOSPC || r == -EDQUOT)
        r = put_without_room(b, parent, name, number, gone, e);
    else if (r == 0 && renameat2(parent, name, parent, gone, RENAME_NOREPLACE) < 0) {
        r = err_sys(e, errno, "rename '%s'", name);
        (void)unlinkat(b->host.trash, number, 0);
    }
    (void)flock(b->host.lock, LOCK_UN);
    if (r == 0)
        remover_wake(b);
    return r;
}

/* --- emptying --- */

struct note {
    char text[PATH_MAX]; /* the link's target */
    uint64_t inode;      /* of the parent; 0 = not noted */
    char *path;          /* in the text */
    bool is_old;         /* its file system need not be waited for any longer */
};

/* -ENOENT when there is no such note. */
static int note_read(const struct broker *b, const char *number, struct note *ret, struct err *e)
{
    ssize_t n = readlinkat(b->host.trash, number, ret->text, sizeof(ret->text) - 1);
    struct stat st;
    struct str rest, inode;

    if (n < 0 || fstatat(b->host.trash, number, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || errno == EINVAL ? -ENOENT : err_sys(e, errno, "read a note");
    ret->text[n] = '\0';
    ret->path = strchr(ret->text, '/');
    if (!ret->path)
        ret->path = ret->text;
    rest = str_make(ret->text, (size_t)(ret->path - ret->text));
    ret->inode = 0;
    if (str_cut(&rest, ' ', &inode))
        (void)!str_to_u64(inode, &ret->inode);
    ret->is_old = time(NULL) - st.st_ctime > UNMOUNTED_DAYS_MAX * 24 * 3600L;
    return 0;
}

/* Whether the directory that a note names may be there when its file system is mounted. */
static bool is_unmounted(const struct note *note, int parent)
{
    struct stat st;

    return note->inode && !note->is_old &&
           (parent < 0 || fstat(parent, &st) < 0 || st.st_ino != note->inode);
}

/* Opens the directory that a note names, and its parent. -ENOENT when it does not exist or is no
 * directory, -EAGAIN when its file system is not mounted. Follows no symbolic link: any user may
 * have put one there. */
static int noted_open(const struct note *note, int *ret_parent, const char **ret_name,
                      struct err *e)
{
    char parent[PATH_MAX];
    const char *path = note->path, *slash = strrchr(path, '/');
    auto_fd above = -EBADF;
    int fd;

    if (!slash || strncmp(slash + 1, TRASH_PREFIX, sizeof(TRASH_PREFIX) - 1) != 0 ||
        str_copy(parent, sizeof(parent), str_make(path, (size_t)(slash - path))) < 0)
        return -ENOENT;
    above = fd_open_at(AT_FDCWD, parent, O_PATH | O_DIRECTORY, 0, PATH_REAL, e);
    if ((above >= 0 || above == -ENOENT) && is_unmounted(note, above))
        return -EAGAIN;
    fd = above < 0 ? above : fd_open_at(above, slash + 1, O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    if (fd < 0)
        return fd == -ELOOP || fd == -ENOTDIR ? -ENOENT : fd;
    *ret_parent = take_fd(&above);
    *ret_name = slash + 1;
    return fd;
}

/* Removes a note without a directory. The lock makes sure that no rename is about to follow. */
static void note_drop(const struct broker *b, const char *number, const struct note *note)
{
    auto_fd parent = -EBADF, dir = -EBADF;
    const char *name;

    if (flock(b->host.lock, LOCK_EX) < 0)
        return;
    dir = noted_open(note, &parent, &name, NULL);
    if (dir == -ENOENT)
        (void)unlinkat(b->host.trash, number, 0);
    (void)flock(b->host.lock, LOCK_UN);
}

/* Returns 1, or 0 when there was nothing to erase, or nothing yet. */
static int note_carry_out(const struct broker *b, const char *number, struct err *e)
{
    static struct note note; /* too large for the stack; single-threaded */
    auto_fd parent = -EBADF, dir = -EBADF;
    const char *name;
    int r = note_read(b, number, &note, e);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    dir = noted_open(&note, &parent, &name, e);
    if (dir == -EAGAIN)
        return 0;
    if (dir == -ENOENT) {
        note_drop(b, number, &note);
        return 0;
    }
    r = dir < 0 ? dir : erase_tree(dir, e);
    if (r == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        r = err_sys(e, errno, "remove the directory");
    if (r < 0)
        return err_wrap(e, r, "erase '%s'", note.path);
    (void)unlinkat(b->host.trash, number, 0);
    return 1;
}

static DIR *trash_list(const struct broker *b, struct err *e)
{
    auto_fd fd = openat(b->host.trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (dir)
        (void)take_fd(&fd);
    else
        (void)err_sys(e, errno, "list the trash");
    return dir;
}

int trash_empty(const struct broker *b, struct err *e)
{
    DIR *dir = trash_list(b, e);
    int error = 0, count = 0;

    if (!dir)
        return -EIO;
    (void)flock(dirfd(dir), LOCK_EX); /* `--sweep` may be erasing: two would not be faster */
    for (const struct dirent *d; (d = readdir(dir));) {
        int r = d->d_name[0] == '.' ? 0 : note_carry_out(b, d->d_name, error ? NULL : e);

        if (r < 0 && !error)
            error = r;
        count += r > 0;
    }
    closedir(dir);
    return error ? error : count;
}

int trash_sweep(const struct broker *b, struct err *e)
{
    DIR *dir;
    bool found = false;

    if (b->remover < 0)
        return trash_empty(b, e);
    dir = trash_list(b, e);
    if (!dir)
        return -EIO;
    for (const struct dirent *d; !found && (d = readdir(dir));)
        found = d->d_name[0] != '.';
    closedir(dir);
    if (found)
        remover_wake(b);
    return 0;
}
