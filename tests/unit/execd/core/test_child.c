#include "execd/core/child.h"

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
