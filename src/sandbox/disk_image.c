/* disk_image.c - an ext4 file system in a sparse file, on a loop device that detaches itself.
 *
 * That of a sandbox need not survive a crash of the host, so it has no journal and never flushes
 * the disk. That of a volume has one, and does. */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mount_api.h"
#include "base/proc.h"
#include "base/time.h"
#include "sandbox/disk_internal.h"

enum {
    BLOCK_BYTES = 4096,
    ATTACH_TRIES_MAX = 64, /* another process may take the free device first */
    COPY_BYTES_MAX = 1 << 20,
    PATH_BYTES_MAX = 32,
    LOOP_MAJOR_NUMBER = 7,
};

#define MKFS       "/sbin/mke2fs"
#define IMAGE_NAME "disk.img"
#define LOOP_NAME  "disk.loop"    /* symbolic link to the device, for loop_find */
#define LOOP_TAG   "opensandbox/" /* of a volume: the device's file name is this and its id */

/* --- an empty file system, in memory --- */

/* The output of mke2fs that failed, on one line. */
static int mkfs_failed(int output, struct err *e)
{
    char text[160];
    size_t n = 0;

    if (io_pread_full(output, text, sizeof(text) - 1, 0, &n) < 0 || n == 0)
        return err_set(e, EIO, "mke2fs made no file system");
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return err_set(e, EIO, "%s", text);
}

/* Brokers ignore SIGCHLD, so that the kernel reaps their sandboxes. To get an exit status this
 * needs the default action, and then reaps the children that ended meanwhile. */
static int run_to_end(const struct proc_spec *spec, struct proc_exit *ret, struct err *e)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, before;
    auto_proc proc = PROC_NONE;
    int r;

    (void)sigaction(SIGCHLD, &usual, &before);
    r = proc_spawn(spec, &proc, e);
    if (r == 0) {
        r = proc_wait(proc.pidfd, deadline_in_ms(DISK_LIMIT_MS_MAX), ret);
        if (r == -ETIMEDOUT && proc_signal(proc.pidfd, SIGKILL) == 0)
            (void)!proc_wait(proc.pidfd, DEADLINE_NEVER, ret);
        if (r < 0)
            (void)err_sys(e, -r, "wait for '%s'", spec->path);
    }
    (void)sigaction(SIGCHLD, &before, NULL);
    while (before.sa_handler == SIG_IGN && waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return r;
}

/* Cheap to make and to use; unused tables are never written. */
#define MKFS_FEATURES                                                                              \
    "dir_index,dir_nlink,ext_attr,extent,extra_isize,filetype,flex_bg,large_file,sparse_super,"    \
    "uninit_bg"

static int mkfs_run(int file, uint64_t bytes, const char *features, struct err *e)
{
    char inodes[24], blocks[24];
    static const char extended[] = "nodiscard,lazy_itable_init=1,lazy_journal_init=1,"
                                   "root_owner=0:0";
    const char *const argv[] = {"mke2fs", "-q", "-F",     "-t", "ext4",   "-b",
                                "4096",   "-I", "256",    "-m", "0",      "-N",
                                inodes,   "-O", features, "-E", extended, "/proc/self/fd/0",
                                blocks,   NULL};
    struct proc_spec spec = PROC_SPEC(MKFS, argv);
    auto_fd output = fd_memory("mke2fs");
    struct proc_exit ended;
    int r;

    (void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)disk_inodes(bytes));
    (void)snprintf(blocks, sizeof(blocks), "%llu", (unsigned long long)bytes / BLOCK_BYTES);
    if (output < 0)
        return err_sys(e, -output, "make a file in memory");
    spec.stdio[0] = file;
    spec.stdio[1] = spec.stdio[2] = output;
    r = run_to_end(&spec, &ended, e);
    if (r < 0)
        return r;
    return ended.by_signal || ended.code ? mkfs_failed(output, e) : 0;
}

/* The blank of that size. Kept, as the next sandbox probably needs the same. */
static int blank_get(struct disk_host *d, uint64_t bytes, struct err *e)
{
    auto_fd fd = -EBADF;
    int r;

    if (d->blank >= 0 && d->blank_bytes == bytes)
        return d->blank;
    fd = fd_memory("disk");
    if (fd < 0)
        return err_sys(e, -fd, "make a file in memory");
    if (ftruncate(fd, (off_t)bytes) < 0)
        return err_sys(e, errno, "size an image of %llu bytes", (unsigned long long)bytes);
    r = mkfs_run(fd, bytes, "none," MKFS_FEATURES, e);
    if (r < 0)
        return err_wrap(e, r, "make a file system");
    fd_close(d->blank);
    d->blank = take_fd(&fd);
    d->blank_bytes = bytes;
    return d->blank;
}

/* Copies data only: holes stay holes. */
static int copy_blank(int from, int to, off_t bytes)
{
    off_t at = 0;

    if (ftruncate(to, bytes) < 0)
        return -errno;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0 && at < bytes) {
        off_t end = lseek(from, at, SEEK_HOLE);

        if (end < 0 || lseek(to, at, SEEK_SET) < 0)
            return -errno;
        while (at < end) {
            size_t want = end - at < COPY_BYTES_MAX ? (size_t)(end - at) : COPY_BYTES_MAX;
            ssize_t n = sendfile(to, from, &at, want); /* advances `at` */

            if (n <= 0)
                return n < 0 ? -errno : -EIO;
        }
    }
    return at >= 0 || errno == ENXIO ? 0 : -errno;
}

/* --- loop devices --- */

static int loop_open(int number, char path[PATH_BYTES_MAX])
{
    int fd;

    (void)snprintf(path, PATH_BYTES_MAX, "/dev/loop%d", number);
    fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Attaches the file to a free device, which detaches after its last close. `path` is its name. A
 * volume has an id. */
static int loop_attach(int file, const char *id, char path[PATH_BYTES_MAX], struct err *e)
{
    struct loop_config config = {.fd = (uint32_t)file, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
    auto_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    if (id)
        (void)snprintf((char *)config.info.lo_file_name, LO_NAME_SIZE, LOOP_TAG "%s", id);
    if (control < 0)
        return err_sys(e, errno, "open /dev/loop-control");
    for (int i = 0; i < ATTACH_TRIES_MAX; i++) {
        auto_fd loop = -EBADF;
        int number = ioctl(control, LOOP_CTL_GET_FREE);

        if (number < 0)
            return err_sys(e, errno, "find a free loop device");
        loop = loop_open(number, path);
        if (loop < 0)
            return err_sys(e, -loop, "open %s", path);
        if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
            return take_fd(&loop);
        if (errno != EBUSY)
            return err_sys(e, errno, "attach the image to %s", path);
    }
    return err_set(e, EBUSY, "no loop device stays free");
}

/* The device of a sandbox's image, if it is still attached. It stays so while we hold it open. */
static int loop_find(int dir, int file, char path[PATH_BYTES_MAX])
{
    ssize_t n = readlinkat(dir, LOOP_NAME, path, PATH_BYTES_MAX - 1);
    struct loop_info64 info;
    auto_fd loop = -EBADF;
    struct stat st;

    if (n < 0)
        return -ENOENT;
    path[n] = '\0';
    loop = open(path, O_RDWR | O_CLOEXEC);
    if (loop < 0 || fstat(file, &st) < 0 || ioctl(loop, LOOP_GET_STATUS64, &info) < 0 ||
        info.lo_device != st.st_dev || info.lo_inode != st.st_ino)
        return -ENOENT;
    return take_fd(&loop);
}

/* --- mounts --- */

static const char *const mount_flags[] = {
    "discard",       /* space of deleted files is freed in the image */
    "noinit_itable", /* tables are written when first used */
    "nobarrier",     /* of a sandbox: not read after a crash */
};

/* Mounts the device. If it is mounted already, this is another mount of the same file system. */
static int image_mount(const char *path, bool lasts, unsigned attributes, struct err *e)
{
    auto_fd fs = mnt_fs_open("ext4");
    int r = fs < 0 ? fs : mnt_fs_set(fs, "source", path);

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(mount_flags) - lasts; i++)
        r = mnt_fs_flag(fs, mount_flags[i]);
    if (r >= 0)
        r = mnt_fs_create(fs);
    if (r >= 0)
        r = mnt_fs_mount(fs, attributes | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
    return r < 0 ? err_sys(e, -r, "mount the image on %s", path) : r;
}

int disk_image_make(struct disk_host *d, int dir, uint64_t bytes, struct err *e)
{
    auto_fd file = -EBADF, loop = -EBADF;
    char path[PATH_BYTES_MAX];
    int r, blank;

    bytes -= bytes % BLOCK_BYTES;
    blank = blank_get(d, bytes, e);
    if (blank < 0)
        return blank;
    file = openat(dir, IMAGE_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    r = file < 0 ? -errno : copy_blank(blank, file, (off_t)bytes);
    if (r < 0)
        return err_sys(e, -r, "write the image");
    loop = loop_attach(file, NULL, path, e);
    if (loop < 0)
        return loop;
    if (symlinkat(path, dir, LOOP_NAME) < 0)
        return err_sys(e, errno, "note the loop device");
    return image_mount(path, false, 0, e);
}

int disk_image_open(int dir, struct err *e)
{
    auto_fd file = fd_open_at(dir, IMAGE_NAME, O_RDWR, 0, PATH_STRICT, e), loop = -EBADF;
    char path[PATH_BYTES_MAX];

    if (file < 0)
        return file;
    loop = loop_find(dir, file, path);
    if (loop < 0)
        loop = loop_attach(file, NULL, path, e);
    return loop < 0 ? loop : image_mount(path, false, MOUNT_ATTR_RDONLY, e);
}

/* --- volumes --- */

int disk_volume_make(int dir, uint64_t bytes, struct err *e)
{
    auto_fd file = -EBADF;
    int r;

    if (bytes < DISK_VOLUME_BYTES_MIN || bytes > DISK_VOLUME_BYTES_MAX)
        return err_set(e, EINVAL, "a volume is limited to at least %d MiB and at most %llu TiB",
                       DISK_VOLUME_BYTES_MIN >> 20,
                       (unsigned long long)(DISK_VOLUME_BYTES_MAX >> 40));
    bytes -= bytes % BLOCK_BYTES;
    file = openat(dir, IMAGE_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)bytes) < 0)
        return err_sys(e, errno, "make the image");
    r = mkfs_run(file, bytes, "none,has_journal," MKFS_FEATURES, e);
    if (r == 0 && fsync(file) < 0)
        r = err_sys(e, errno, "write the image");
    return r;
}

/* Notes the device before it is mounted: from then on loop_find() finds it. */
static int volume_attach(int dir, int file, const char *id, char path[PATH_BYTES_MAX],
                         struct err *e)
{
    auto_fd loop = loop_attach(file, id, path, e);

    if (loop < 0)
        return loop;
    if ((unlinkat(dir, LOOP_NAME, 0) < 0 && errno != ENOENT) || symlinkat(path, dir, LOOP_NAME) < 0)
        return err_sys(e, errno, "note the loop device");
    return take_fd(&loop);
}

int disk_volume_mount(int dir, const char *id, struct err *e)
{
    auto_fd file = fd_open_at(dir, IMAGE_NAME, O_RDWR, 0, PATH_STRICT, e), loop = -EBADF;
    char path[PATH_BYTES_MAX];
    auto_fd mount = -EBADF;

    if (file < 0)
        return file;
    if (flock(dir, LOCK_EX) < 0)
        return err_sys(e, errno, "lock the image");
    loop = loop_find(dir, file, path);
    if (loop < 0)
        loop = volume_attach(dir, file, id, path, e);
    mount = loop < 0 ? loop : image_mount(path, true, 0, e);
    (void)flock(dir, LOCK_UN);
    if (mount >= 0 && mkdirat(mount, "files", 0755) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make the directory for files");
    return take_fd(&mount);
}

/* The device of a file system, by its number. */
static int loop_of(dev_t device)
{
    char link[64], target[256], path[PATH_BYTES_MAX];
    const char *name;
    auto_fd fd = -EBADF;
    struct stat st;
    ssize_t n;

    if (major(device) != LOOP_MAJOR_NUMBER)
        return -ENOENT;
    (void)snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(device), minor(device));
    n = readlink(link, target, sizeof(target) - 1);
    if (n < 0)
        return -ENOENT;
    target[n] = '\0';
    name = strrchr(target, '/');
    if (!name || (size_t)snprintf(path, sizeof(path), "/dev%s", name) >= sizeof(path))
        return -ENOENT;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || fstat(fd, &st) < 0 || st.st_rdev != device ? -ENOENT : take_fd(&fd);
}

bool disk_volume_of(int fd, char ret_id[DISK_VOLUME_ID_BYTES], uint64_t *ret_device,
                    uint64_t *ret_inode)
{
    struct loop_info64 info;
    auto_fd loop = -EBADF;
    struct str id;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return false;
    loop = loop_of(st.st_dev);
    if (loop < 0 || ioctl(loop, LOOP_GET_STATUS64, &info) < 0)
        return false;
    info.lo_file_name[LO_NAME_SIZE - 1] = '\0';
    id = str_of((const char *)info.lo_file_name);
    if (!str_starts(id, STR(LOOP_TAG)))
        return false;
    *ret_device = info.lo_device;
    *ret_inode = info.lo_inode;
    return str_copy(ret_id, DISK_VOLUME_ID_BYTES, str_skip(id, sizeof(LOOP_TAG) - 1)) == 0;
}
