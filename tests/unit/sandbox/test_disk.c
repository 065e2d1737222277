/* Real limits on the file system of the current directory, in the way that works there and, as a
 * second way, by an image. Each test writes until it is stopped. */
#include "sandbox/disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/tree.h"
#include "sandbox/disk_internal.h"
#include "test.h"

enum { MIB = 1 << 20, LIMIT = 16 * MIB, SLOT = 16300, OWNER = 12345, CHUNK = 64 << 10 };

/* Where a test works; removed by the exit handler, also after a failed one. */
static struct {
    char name[32];
    int parent, dir;
    struct disk_host host;
} at = {.dir = -EBADF, .host.blank = -EBADF};

static void clean_up(void)
{
    if (at.dir < 0)
        return;
    fd_close(take_fd(&at.dir));
    (void)tree_remove(at.parent, at.name, NULL);
    for (uint32_t i = 0; i < 2; i++)
        disk_forget(&at.host, at.parent, SLOT + i);
    disk_host_close(&at.host);
}

static int make_dir(int parent, const char *name)
{
    int fd;

    CHECK(mkdirat(parent, name, 0711) == 0);
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* A host of this kind, or a skip. Gives up CAP_SYS_RESOURCE, which overrides quotas. */
static void open_host(enum disk_kind kind)
{
    if (geteuid() != 0)
        test_skip("needs root");
    at.parent = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(at.name, sizeof(at.name), "test-disk-%d", (int)getpid());
    CHECK_EQ(tree_remove(at.parent, at.name, NULL), 0);
    at.dir = make_dir(at.parent, at.name);
    (void)atexit(clean_up);
    if (kind == DISK_IMAGE) {
        at.host.kind = DISK_IMAGE;
        return;
    }
    disk_host_open(&at.host, at.dir);
    if (at.host.kind != kind)
        test_skip("the file system we are on has no project quotas");
    CHECK_EQ(disk_quota_above(false), 0);
}

/* A limited layer: the directory that has it. */
static int open_limited(uint32_t slot, uint64_t bytes)
{
    struct disk_limit limit = {slot, OWNER, bytes};
    struct err e = {0};
    char name[16];
    int dir, mount = -EBADF;

    (void)snprintf(name, sizeof(name), "%u", slot);
    dir = make_dir(at.dir, name);
    CHECK_EQ(disk_make_layer(dir, OWNER, &e), 0);
    if (disk_limit(&at.host, dir, &limit, &mount, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    CHECK_EQ(mount >= 0, at.host.kind == DISK_IMAGE);
    if (mount >= 0)
        fd_close(take_fd(&dir));
    return mount >= 0 ? mount : dir;
}

/* Bytes written to a file before there was no room. */
static uint64_t fill(int dir, const char *name, uint64_t bytes_max)
{
    static const char chunk[CHUNK];
    auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    uint64_t total = 0;

    CHECK(fd >= 0 || errno == ENOSPC || errno == EDQUOT);
    while (fd >= 0 && total < bytes_max) {
        ssize_t n = write(fd, chunk, sizeof(chunk));

        if (n < 0) {
            CHECK(errno == ENOSPC || errno == EDQUOT);
            break;
        }
        total += (uint64_t)n;
    }
    return total;
}

static void check_bytes(enum disk_kind kind)
{
    uint64_t total;
    auto_fd layer = -EBADF;

    open_host(kind);
    layer = open_limited(SLOT, LIMIT);
    total = fill(layer, "upper/a", LIMIT / 2);
    total += fill(layer, "usr/b", 2 * LIMIT);
    CHECK(total <= LIMIT && total >= LIMIT - LIMIT / 8);
    CHECK_EQ(fill(layer, "work/c", CHUNK), 0);
    CHECK_EQ(unlinkat(layer, "upper/a", 0), 0);
    CHECK(fill(layer, "upper/d", MIB) == MIB); /* what is deleted is free again */
}

TEST(disk, image_stops_a_writer_at_its_size)
{
    check_bytes(DISK_IMAGE);
}

TEST(disk, quota_stops_a_writer_at_the_limit)
{
    check_bytes(DISK_QUOTA);
}

static void check_inodes(enum disk_kind kind)
{
    uint64_t inodes = 0;
    auto_fd layer = -EBADF;

    open_host(kind);
    layer = open_limited(SLOT, DISK_BYTES_MIN);
    for (; inodes <= DISK_INODES_MIN; inodes++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "upper/%" PRIu64, inodes);
        if (mknodat(layer, name, S_IFREG | 0600, 0) < 0)
            break;
    }
    CHECK(errno == ENOSPC || errno == EDQUOT);
    CHECK(inodes <= DISK_INODES_MIN && inodes > DISK_INODES_MIN / 2);
}

TEST(disk, image_bounds_inodes)
{
    check_inodes(DISK_IMAGE);
}

TEST(disk, quota_bounds_inodes)
{
    check_inodes(DISK_QUOTA);
}

static void check_two(enum disk_kind kind)
{
    auto_fd small = -EBADF, large = -EBADF;

    open_host(kind);
    small = open_limited(SLOT, LIMIT / 2);
    large = open_limited(SLOT + 1, LIMIT * 2);
    CHECK(fill(small, "upper/a", LIMIT) < LIMIT);
    CHECK_EQ(fill(large, "upper/a", LIMIT), LIMIT);
}

TEST(disk, images_do_not_know_each_other)
{
    check_two(DISK_IMAGE);
}

TEST(disk, quotas_do_not_know_each_other)
{
    check_two(DISK_QUOTA);
}

/* Whether a loop device has a file of ours, also a deleted one. */
static bool loop_is_attached(void)
{
    for (int i = 0; i < 256; i++) {
        AUTO_BUF(text, 4096);
        char path[64];

        (void)snprintf(path, sizeof(path), "/sys/block/loop%d/loop/backing_file", i);
        if (io_read_file(AT_FDCWD, path, 4096, &text, NULL) >= 0 && strstr(text.p, at.name))
            return true;
    }
    return false;
}

/* Others may look at it still, and the kernel takes its time. */
static void wait_until_detached(void)
{
    for (int i = 0; i < 5000 && loop_is_attached(); i++)
        (void)usleep(10000);
    CHECK(!loop_is_attached());
}

TEST(disk, image_goes_with_its_last_user)
{
    AUTO_BUF(mounts, 1 << 20);
    int layer;

    open_host(DISK_IMAGE);
    layer = open_limited(SLOT, LIMIT);
    CHECK(loop_is_attached());
    CHECK(io_read_file(AT_FDCWD, "/proc/self/mountinfo", 1 << 20, &mounts, NULL) >= 0);
    CHECK(!strstr(mounts.p, at.name));
    fd_close(layer);
    wait_until_detached();
}

TEST(disk, image_costs_the_host_what_it_holds)
{
    auto_fd layer = -EBADF;
    struct stat st;

    open_host(DISK_IMAGE);
    layer = open_limited(SLOT, (uint64_t)1 << 40);
    CHECK(fstatat(at.dir, "16300/disk.img", &st, 0) == 0);
    CHECK_EQ(st.st_size, (off_t)1 << 40);
    CHECK(st.st_blocks * 512 < 16 * MIB);
}

static void check_layer(int dir)
{
    struct err e = {0};
    auto_fd layer = disk_open_layer(dir, &e);
    auto_fd file = -EBADF;
    char text[4] = "";

    if (layer < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    file = openat(layer, "upper/a", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0 && read(file, text, sizeof(text)) == 3);
    CHECK_STR(text, "one");
}

TEST(disk, layer_is_found_while_it_is_used_and_after)
{
    auto_fd layer = -EBADF, file = -EBADF, dir = -EBADF;

    open_host(DISK_IMAGE);
    layer = open_limited(SLOT, LIMIT);
    dir = openat(at.dir, "16300", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    file = openat(layer, "upper/a", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(write(file, "one", 3) == 3);
    check_layer(dir); /* written a moment ago, synced never */
    fd_close(take_fd(&file));
    fd_close(take_fd(&layer));
    check_layer(dir);
    wait_until_detached();
    check_layer(dir);
}

TEST(disk, layer_without_an_image_is_the_directory)
{
    struct stat have, want;
    auto_fd layer = -EBADF;

    open_host(DISK_IMAGE);
    layer = disk_open_layer(at.dir, NULL);
    CHECK(fstat(layer, &have) == 0 && fstat(at.dir, &want) == 0);
    CHECK(have.st_ino == want.st_ino && have.st_dev == want.st_dev);
}

TEST(disk, too_small_a_limit_is_refused_with_the_least_one)
{
    struct disk_limit limit = {SLOT, OWNER, DISK_BYTES_MIN - 1};
    struct err e = {0};
    int mount;

    CHECK_EQ(disk_limit(&at.host, -EBADF, &limit, &mount, &e), -EINVAL);
    CHECK_STR(e.msg, "a disk limit of 4194303 bytes is below the least, 4194304");
}

/* A file system of `size` that nobody else sees and that goes with its descriptor. */
static int tiny_place(const char *size)
{
    char path[64];
    int fd;

    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    (void)snprintf(path, sizeof(path), "./%s", at.name);
    CHECK(mount("tmpfs", path, "tmpfs", 0, size) == 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(umount2(path, MNT_DETACH) == 0);
    return fd;
}

TEST(disk, reports_a_full_host_with_the_step_that_failed)
{
    struct disk_limit limit = {SLOT, OWNER, LIMIT};
    auto_fd dir = -EBADF;
    struct err e = {0};
    int mount;

    open_host(DISK_IMAGE);
    dir = tiny_place("size=16k");
    CHECK_EQ(disk_limit(&at.host, dir, &limit, &mount, &e), -ENOSPC);
    CHECK_STR(e.msg, "write the image: No space left on device");
}

TEST(disk, reports_absent_loop_devices)
{
    struct disk_limit limit = {SLOT, OWNER, LIMIT};
    struct err e = {0};
    int mounted;

    open_host(DISK_IMAGE);
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("/dev/null", "/dev/loop-control", NULL, MS_BIND, NULL) == 0);
    CHECK(disk_limit(&at.host, at.dir, &limit, &mounted, &e) < 0);
    CHECK_STR(e.msg, "find a free loop device: Inappropriate ioctl for device");
}

TEST(disk, host_finds_a_way_and_leaves_nothing)
{
    struct stat before, after;

    open_host(DISK_IMAGE);
    CHECK(fstat(at.dir, &before) == 0);
    disk_host_open(&at.host, at.dir);
    CHECK(at.host.kind == DISK_IMAGE || at.host.kind == DISK_QUOTA);
    CHECK(fstat(at.dir, &after) == 0);
    CHECK_EQ(after.st_nlink, before.st_nlink);
}
