#include "execd/core/child.h"

#include <grp.h>
#include <stdio.h>

#include "execd/command/workdir.h"
#include "folder.h"

/* What each says of a directory to be. */
static int looked_at(const char *path)
{
    AUTO_ARENA(a, 1 << 16);
    const char *ignored = NULL;

    return workdir_resolve(&a, str_of(path), NULL, &ignored, NULL);
}

static int made(const char *path)
{
    AUTO_ARENA(a, 1 << 16);
    const char *ignored = NULL;

    return workdir_make(&a, str_of(path), NULL, &(struct child_user){0}, &ignored, NULL);
}

TEST(child, enters_directories_by_name)
{
    AUTO_FOLDER(folder);

    CHECK_EQ(mkdir("dir", 0755), 0);
    CHECK_EQ(symlink("dir", "link"), 0);
    file_write("file", "");
    CHECK_EQ(child_enter("link"), 0);
    CHECK_EQ(child_enter("../dir"), 0);
    CHECK_EQ(child_enter("../file"), -ENOTDIR);
    CHECK_EQ(child_enter("nothing"), -ENOENT);
    CHECK_EQ(child_enter(folder.path), 0);
    CHECK_EQ(looked_at("link"), 0);
    CHECK_EQ(made("link/new"), 0);
    CHECK_EQ(access("dir/new", F_OK), 0);
}

/* One may be a directory of the host. */
TEST(child, enters_none_by_an_open_descriptor)
{
    AUTO_FOLDER(folder);
    auto_fd dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char paths[6][64];

    CHECK_EQ(mkdir("sub", 0755), 0);
    (void)snprintf(paths[0], sizeof(paths[0]), "/proc/self/fd/%d", dir);
    (void)snprintf(paths[1], sizeof(paths[1]), "/proc/%d/fd/%d", getpid(), dir);
    (void)snprintf(paths[2], sizeof(paths[2]), "/proc/thread-self/fd/%d", dir);
    (void)snprintf(paths[3], sizeof(paths[3]), "/proc/self/fd/%d/tmp", dir);
    (void)snprintf(paths[4], sizeof(paths[4]), "/proc/self/root");
    (void)snprintf(paths[5], sizeof(paths[5]), "%s/link", folder.path);
    CHECK_EQ(symlink(paths[0], "link"), 0);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        CHECK_EQ(child_enter(paths[i]), -ELOOP);
        CHECK_EQ(looked_at(paths[i]), -ELOOP);
        CHECK_EQ(made(paths[i]), -ELOOP);
    }
}

static int try_file(const char *path)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -errno : 0;
}

/* The files of a group that only one of both accounts is in. */
TEST(child, uses_the_groups_of_the_user_for_files)
{
    enum { USER = 12345, OURS = 23456, THEIRS = 34567 };
    const struct child_user user = {
        .change = true, .uid = USER, .gid = USER, .groups = &(gid_t){THEIRS}, .group_count = 1};
    AUTO_FOLDER(folder);
    struct child_fs fs;
    gid_t groups[2];

    if (geteuid() != 0 || setgroups(1, &(gid_t){OURS}) < 0)
        test_skip("only root may change its groups");
    CHECK_EQ(chmod(folder.path, 0755), 0);
    file_write("ours", "");
    file_write("theirs", "");
    CHECK(chown("ours", 0, OURS) == 0 && chmod("ours", 0640) == 0);
    CHECK(chown("theirs", 0, THEIRS) == 0 && chmod("theirs", 0640) == 0);

    child_fs_enter(&user, &fs);
    CHECK_EQ(try_file("theirs"), 0);
    CHECK_EQ(try_file("ours"), -EACCES);
    child_fs_leave(&fs);
    CHECK_EQ(getgroups(ARRAY_LEN(groups), groups), 1);
    CHECK_EQ(groups[0], OURS);
    CHECK_EQ(try_file("ours"), 0);

    child_fs_enter(&(struct child_user){0}, &fs);
    CHECK_EQ(getgroups(ARRAY_LEN(groups), groups), 1);
    child_fs_leave(&fs);
}
