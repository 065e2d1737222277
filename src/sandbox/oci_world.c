/* oci_world.c - the mounts around an OCI runtime. Runs in the child, as real root, before
 * pivot_root. No allocation. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mount_api.h"
#include "sandbox/host.h"
#include "sandbox/oci.h"

#define QUIET (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* A new file system, unattached. */
static int fs_make(const char *type, const char *size, unsigned attributes)
{
    auto_fd fs = mnt_fs_open(type);
    int r = fs;

    if (r >= 0 && size)
        r = mnt_fs_set(fs, "size", size);
    if (r >= 0 && size)
        r = mnt_fs_set(fs, "mode", "0755");
    if (r >= 0)
        r = mnt_fs_create(fs);
    return r < 0 ? r : mnt_fs_mount(fs, attributes);
}

static int attach(int world, const char *name, int mount, struct err *e)
{
    auto_fd place = openat(world, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int r = mount < 0 ? mount : place < 0 ? -errno : mnt_attach(mount, place);

    return r < 0 ? err_sys(e, -r, "mount /%s", name) : 0;
}

static int make_places(int world, struct err *e)
{
    static const char *const dirs[] = {"proc", "dev", "tmp", "run", "bundle", "rootfs", "memory"};
    static const char *const files[] = {"program", "execd"};

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        if (mkdirat(world, dirs[i], 0755) < 0)
            return err_sys(e, errno, "make /%s", dirs[i]);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        auto_fd fd = openat(world, files[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);

        if (fd < 0)
            return err_sys(e, errno, "make /%s", files[i]);
    }
    return 0;
}

static int copy_bundle(int world, int from, struct err *e)
{
    auto_fd to = openat(world, "bundle/config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    struct stat st;
    off_t at = 0;

    if (to < 0 || fstat(from, &st) < 0)
        return err_sys(e, errno, "make config.json");
    while (at < st.st_size) {
        ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

        if (n <= 0)
            return err_sys(e, n < 0 ? errno : EIO, "copy config.json");
    }
    return 0;
}

static int attach_file(int world, const char *name, const char *path, struct err *e)
{
    auto_fd mount = mnt_clone(AT_FDCWD, path, 0);

    if (mount < 0)
        return err_sys(e, -mount, "open '%.200s'", path);
    return attach(world, name, mount, e);
}

/* Newer releases of runsc have parts of themselves in this directory beside them. */
static int attach_parts(int world, const char *program, struct err *e)
{
    const char *slash = strrchr(program, '/');
    char path[PATH_MAX];
    auto_fd mount = -EBADF;
    int n = snprintf(path, sizeof(path), "%.*sgvisor-bin", (int)(slash + 1 - program), program);

    if (n < 0 || (size_t)n >= sizeof(path))
        return 0;
    mount = mnt_clone(AT_FDCWD, path, 0);
    if (mount < 0)
        return 0;
    if (mkdirat(world, "gvisor-bin", 0755) < 0)
        return err_sys(e, errno, "make /gvisor-bin");
    return attach(world, "gvisor-bin", mount, e);
}

static int attach_system(const struct mounts *m, int world, struct err *e)
{
    auto_fd proc = fs_make("proc", NULL, QUIET), dev = mnt_clone(m->state, "dev", 0);
    int r = attach(world, "proc", proc, e);

    return r < 0 ? r : attach(world, "dev", dev, e);
}

/* The world is mounted on the stage, whose file systems it does not need. */
int oci_world_make(struct mounts *m, const struct oci_child *c, struct err *e)
{
    auto_fd fs = fs_make("tmpfs", "64m", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV), world = -EBADF;
    int r = attach(m->state, "stage", fs, e);

    if (r < 0)
        return r;
    world = fd_open_at(m->state, "stage", O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    r = world < 0 ? world : make_places(world, e);
    if (r == 0)
        r = attach_system(m, world, e);
    if (r == 0)
        r = attach_file(world, "program", c->runtime->args[0], e);
    if (r == 0)
        r = attach_parts(world, c->runtime->args[0], e);
    if (r == 0)
        r = attach_file(world, "execd", m->slot->host->execd_path, e);
    if (r == 0)
        r = copy_bundle(world, c->bundle, e);
    if (r == 0 && c->memory >= 0)
        r = attach(world, "memory", c->memory, e);
    if (r == 0)
        r = attach(world, "rootfs", m->root, e);
    if (r < 0)
        return r;
    fd_close(m->root);
    m->root = take_fd(&world);
    return 0;
}
