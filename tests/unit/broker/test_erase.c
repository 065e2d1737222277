#include "broker/erase.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mount_api.h"
#include "test.h"

/* A ramfs that is mounted nowhere. Its directories count: an entry's position changes with every
 * one before it that is removed. */
static int ramfs_open(void)
{
    auto_fd fs = mnt_fs_open("ramfs");
    int mount = fs < 0 || mnt_fs_create(fs) < 0 ? -EPERM : mnt_fs_mount(fs, 0);

    if (mount < 0)
        test_skip("this user may not mount a ramfs");
    return mount;
}

static int count_entries(int dir)
{
    DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int n = -2; /* its dots */

    CHECK(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

TEST(erase, erases_all_where_positions_change)
{
    auto_fd top = ramfs_open();

    for (int i = 0; i < 40; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%d", i);
        CHECK_EQ(mkdirat(top, name, 0700), 0);
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof(name), "%d/%d", i, k);
            CHECK_EQ(mkdirat(top, name, 0700), 0);
            snprintf(name, sizeof(name), "%d/%d/file", i, k);
            CHECK_EQ(mknodat(top, name, S_IFREG | 0600, 0), 0);
        }
    }
    CHECK_EQ(erase_some(top, 20, NULL), 1);
    CHECK(count_entries(top) > 0);
    CHECK_EQ(erase_tree(top, NULL), 0);
    CHECK_EQ(erase_some(top, 20, NULL), 0);
    CHECK_EQ(count_entries(top), 0);
}

TEST(erase, erases_what_is_nested_deeper_than_it_can_hold_open)
{
    auto_fd top = ramfs_open();
    int at = fcntl(top, F_DUPFD_CLOEXEC, 0);

    for (int i = 0; i < 2000; i++) {
        int next;

        CHECK_EQ(mkdirat(at, "d", 0700), 0);
        CHECK_EQ(mknodat(at, "file", S_IFREG | 0600, 0), 0);
        next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        CHECK(next >= 0);
        fd_close(at);
        at = next;
    }
    fd_close(at);
    CHECK_EQ(erase_tree(top, NULL), 0);
    CHECK_EQ(count_entries(top), 0);
}
