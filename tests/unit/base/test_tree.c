#include "base/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

static int scratch(char path[32])
{
    memcpy(path, "/tmp/tree-XXXXXX", sizeof("/tmp/tree-XXXXXX"));
    CHECK(mkdtemp(path));
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

TEST(tree, removes_files_links_and_directories)
{
    char path[32];
    auto_fd top = scratch(path);

    CHECK_EQ(mkdirat(top, "a", 0755), 0);
    CHECK_EQ(mkdirat(top, "a/b", 0755), 0);
    CHECK_EQ(mkdirat(top, "a/b/c", 0), 0);
    CHECK_EQ(mkdirat(top, "kept", 0755), 0);
    CHECK_EQ(symlinkat("../../kept", top, "a/b/link"), 0);
    CHECK_EQ(mknodat(top, "a/fifo", S_IFIFO | 0600, 0), 0);
    for (int i = 0; i < 300; i++) {
        char name[32];

        snprintf(name, sizeof(name), "a/b/file-%d", i);
        CHECK_EQ(mknodat(top, name, S_IFREG | 0600, 0), 0);
    }
    CHECK_EQ(tree_remove(top, "a", NULL), 0);
    CHECK_EQ(faccessat(top, "a", F_OK, 0), -1);
    CHECK_EQ(faccessat(top, "kept", F_OK, 0), 0); /* behind a link: not ours to remove */
    CHECK_EQ(tree_remove(top, "a", NULL), 0);
    CHECK_EQ(tree_remove(AT_FDCWD, path, NULL), 0);
}

/* Deeper than any path name can say, and than we may have descriptors. */
TEST(tree, removes_what_is_very_deep)
{
    char path[32];
    auto_fd top = scratch(path);
    int at = dup(top);

    for (int i = 0; i < 5000; i++) {
        int down;

        CHECK_EQ(mkdirat(at, "deeper", 0700), 0);
        down = openat(at, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(down >= 0);
        close(at);
        at = down;
    }
    close(at);
    CHECK_EQ(tree_remove(AT_FDCWD, path, NULL), 0);
    CHECK_EQ(access(path, F_OK), -1);
}

TEST(tree, removes_so_much_and_no_more_when_asked)
{
    char path[32];
    auto_fd top = scratch(path);
    int calls = 1;

    CHECK_EQ(mkdirat(top, "a", 0700), 0);
    for (int i = 0; i < 300; i++) {
        char name[32];

        snprintf(name, sizeof(name), "a/%d", i);
        CHECK_EQ(mkdirat(top, name, 0700), 0);
    }
    CHECK_EQ(tree_remove_some(top, "a", 100, NULL), 1);
    CHECK_EQ(faccessat(top, "a", F_OK, 0), 0);
    while (tree_remove_some(top, "a", 100, NULL) == 1)
        calls++;
    CHECK(calls >= 3 && calls <= 5);
    CHECK_EQ(faccessat(top, "a", F_OK, 0), -1);
    CHECK_EQ(tree_remove_some(top, "a", 100, NULL), 0);
    CHECK_EQ(tree_remove(AT_FDCWD, path, NULL), 0);
}

/* Each level has more to remove once what is below is gone, and there are more levels than places
 * are remembered of. */
TEST(tree, goes_on_where_it_was_on_each_level)
{
    char path[32];
    auto_fd top = scratch(path);
    int at = dup(top);

    for (int i = 0; i < 600; i++) {
        char name[300];
        int down;

        for (int k = 0; k < (i % 200 ? i % 10 == 0 : 20); k++) {
            snprintf(name, sizeof(name), "%0200d", k);
            CHECK_EQ(mkdirat(at, name, 0700), 0);
            snprintf(name, sizeof(name), "%0200d/below", k);
            CHECK_EQ(mkdirat(at, name, 0700), 0);
        }
        CHECK_EQ(mkdirat(at, "deeper", 0700), 0);
        down = openat(at, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(down >= 0);
        close(at);
        at = down;
    }
    close(at);
    CHECK_EQ(tree_remove(AT_FDCWD, path, NULL), 0);
    CHECK_EQ(access(path, F_OK), -1);
}

static int is_empty(int at, const char *name)
{
    auto_fd dir = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return tree_is_empty(dir);
}

TEST(tree, tells_an_empty_directory)
{
    char path[32];
    auto_fd top = scratch(path), file = -EBADF;

    CHECK_EQ(is_empty(top, "."), 1);
    CHECK_EQ(mkdirat(top, "sub", 0700), 0);
    CHECK_EQ(is_empty(top, "."), 0);
    CHECK_EQ(is_empty(top, "sub"), 1);
    file = openat(top, "sub/.file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK_EQ(is_empty(top, "sub"), 0);
    CHECK_EQ(tree_is_empty(file), -ENOTDIR);
    CHECK_EQ(tree_is_empty(-EBADF), -EBADF);
    CHECK_EQ(tree_remove(AT_FDCWD, path, NULL), 0);
}

TEST(tree, makes_directories)
{
    char path[32], at[64];
    auto_fd top = scratch(path);
    struct stat st;

    (void)snprintf(at, sizeof(at), "%s/a//b/c/", path);
    CHECK_EQ(tree_make(at, 0700), 0);
    CHECK_EQ(tree_make(at, 0700), 0); /* exists */
    CHECK_EQ(fstatat(top, "a/b/c", &st, 0), 0);
    CHECK_EQ(st.st_mode, S_IFDIR | 0700);
    CHECK_EQ(mknodat(top, "a/file", S_IFREG | 0600, 0), 0);
    (void)snprintf(at, sizeof(at), "%s/a/file/b", path);
    CHECK_EQ(tree_make(at, 0700), -ENOTDIR);
    CHECK_EQ(fchdir(top), 0);
    CHECK_EQ(tree_make("x/y", 0700), 0);
    CHECK_EQ(fstatat(top, "x/y", &st, 0), 0);
    CHECK_EQ(tree_make("", 0700), -ENOENT);
    CHECK_EQ(chdir("/"), 0);
    CHECK_EQ(tree_remove(AT_FDCWD, path, NULL), 0);
}
