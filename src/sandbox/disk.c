#include "sandbox/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tree.h"
#include "sandbox/disk_internal.h"

static const struct {
    const char *path;
    mode_t mode;
    bool inside; /* owned by root inside */
} layer_entries[] = {
    {"upper",                 S_IFDIR | 0755, true },
    {"upper/etc",             S_IFDIR | 0755, true },
    {"upper/etc/hostname",    S_IFREG | 0644, true },
    {"upper/etc/hosts",       S_IFREG | 0644, true },
    {"upper/etc/resolv.conf", S_IFREG | 0644, true },
    {"work",                  S_IFDIR | 0700, false},
    {"usr",                   S_IFDIR | 0755, true },
    {"usrwork",               S_IFDIR | 0700, false},
};

int disk_make_layer(int dir, uint32_t owner, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(layer_entries); i++) {
        const char *path = layer_entries[i].path;
        mode_t mode = layer_entries[i].mode;

        if (S_ISDIR(mode) ? mkdirat(dir, path, mode & 0777) < 0 : mknodat(dir, path, mode, 0) < 0)
            return err_sys(e, errno, "make %s", path);
        if (layer_entries[i].inside && fchownat(dir, path, owner, owner, 0) < 0)
            return err_sys(e, errno, "give %s away", path);
    }
    return 0;
}

/* --- the host --- */

static bool image_works(struct disk_host *d, int state)
{
    char name[32];
    auto_fd dir = -EBADF, mount = -EBADF;

    (void)snprintf(name, sizeof(name), "disk.%d", (int)getpid());
    if (tree_remove(state, name, NULL) < 0 || mkdirat(state, name, 0700) < 0)
        return false;
    dir = fd_open_at(state, name, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, NULL);
    mount = dir < 0 ? dir : disk_image_make(d, dir, DISK_BYTES_MIN, NULL);
    (void)tree_remove(state, name, NULL);
    return mount >= 0;
}

void disk_host_open(struct disk_host *d, int state)
{
    *d = (struct disk_host){.blank = -EBADF};
    if (disk_quota_works(state))
        d->kind = DISK_QUOTA;
    else if (image_works(d, state))
        d->kind = DISK_IMAGE;
}

void disk_host_close(struct disk_host *d)
{
    fd_close(d->blank);
    *d = (struct disk_host){.blank = -EBADF};
}

const char *disk_host_describe(const struct disk_host *d)
{
    static const char *const names[] = {
        [DISK_NONE] = "no limits", [DISK_QUOTA] = "project quota", [DISK_IMAGE] = "loop image"};

    return names[d->kind];
}

/* --- limits --- */

static int limit_by_quota(int dir, const struct disk_limit *limit, struct err *e)
{
    uint32_t project = DISK_PROJECT_FIRST + limit->slot;
    int r = disk_quota_set(dir, project, limit->bytes, disk_inodes(limit->bytes), e);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(layer_entries); i++)
        r = disk_quota_join(dir, layer_entries[i].path, project, e);
    return r;
}

static int limit_by_image(struct disk_host *d, int dir, const struct disk_limit *limit,
                          int *ret_mount, struct err *e)
{
    auto_fd mount = disk_image_make(d, dir, limit->bytes, e);
    int r = mount < 0 ? mount : disk_make_layer(mount, limit->owner, e);

    if (r == 0 && mkdirat(dir, "disk", 0700) < 0)
        r = err_sys(e, errno, "make disk");
    if (r == 0)
        *ret_mount = take_fd(&mount);
    return r;
}

int disk_limit(struct disk_host *d, int dir, const struct disk_limit *limit, int *ret_mount,
               struct err *e)
{
    if (limit->bytes < DISK_BYTES_MIN)
        return err_set(e, EINVAL, "a disk limit of %llu bytes is below the least, %d",
                       (unsigned long long)limit->bytes, DISK_BYTES_MIN);
    /* Also tries with DISK_NONE: the problem may be solved by now, else the error tells it. */
    if (d->kind != DISK_QUOTA)
        return limit_by_image(d, dir, limit, ret_mount, e);
    *ret_mount = -EBADF;
    return limit_by_quota(dir, limit, e);
}

int disk_open_layer(int dir, struct err *e)
{
    int fd = disk_image_open(dir, e);

    return fd != -ENOENT ? fd : fd_open_at(dir, ".", O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
}

void disk_forget(const struct disk_host *d, int slots, uint32_t slot)
{
    if (d->kind == DISK_QUOTA)
        (void)disk_quota_set(slots, DISK_PROJECT_FIRST + slot, 0, 0, NULL);
}
