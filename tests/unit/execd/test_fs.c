#include "execd/fs.h"

#include <limits.h>

#include "folder.h"

TEST(fs, makes_directories_on_the_way)
{
    AUTO_FOLDER(folder);
    bool made = false;
    struct stat st;

    (void)umask(022);
    CHECK_EQ(fs_make_dirs("a//b/c/", 0777, &made), 0);
    CHECK(made);
    CHECK_EQ(stat("a/b/c", &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0755);
    CHECK_EQ(fs_make_dirs("a/b/c", 0777, &made), 0);
    CHECK(!made);
    file_write("file", "");
    CHECK_EQ(fs_make_dirs("file", 0777, NULL), -ENOTDIR);
    CHECK_EQ(fs_make_dirs("file/x/y", 0777, NULL), -ENOTDIR);
    CHECK_EQ(symlink("a", "link"), 0);
    CHECK_EQ(fs_make_dirs("link/d", 0777, NULL), 0);
    CHECK_EQ(stat("a/d", &st), 0);
    CHECK_EQ(fs_make_dirs("", 0777, NULL), -ENOENT);
}

static void check_follows(const char *path, const char *wanted)
{
    AUTO_BUF(out, PATH_MAX);

    CHECK_EQ(fs_follow(path, &out), 0);
    CHECK_STR(out.p, wanted);
}

TEST(fs, follows_links_to_their_end)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(out, PATH_MAX);

    CHECK_EQ(mkdir("d", 0755), 0);
    CHECK_EQ(symlink("d/b", "a"), 0);
    CHECK_EQ(symlink("c", "d/b"), 0);
    CHECK_EQ(symlink("/dev/null", "null"), 0);
    CHECK_EQ(symlink("circle", "circle"), 0);
    check_follows("a", "d/c"); /* which is not there */
    check_follows("./null", "/dev/null");
    check_follows("nothing", "nothing");
    CHECK_EQ(fs_follow("circle", &out), -ELOOP);
}

TEST(fs, opens_the_directory_of_a_name)
{
    AUTO_FOLDER(folder);
    static const char *const bad[] = {"", "/", ".", "..", "a/..", "a/."};
    struct str name;
    int fd = fs_open_parent("x//", &name);

    CHECK(fd >= 0);
    CHECK_SPAN(name, "x");
    fd_close(fd);
    fd = fs_open_parent("/etc/passwd", &name);
    CHECK(fd >= 0);
    CHECK_SPAN(name, "passwd");
    fd_close(fd);
    CHECK_EQ(fs_open_parent("no/such", &name), -ENOENT);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(fs_open_parent(bad[i], &name), -EINVAL);
}

TEST(fs, has_words_for_errors)
{
    CHECK_STR(fs_text(ENOENT), "no such file or directory");
    CHECK_STR(fs_text(EXDEV), "invalid cross-device link");
    CHECK(fs_text(EOWNERDEAD)[0] != '\0');
}

TEST(fs, makes_names_that_differ)
{
    char a[FS_TEMP_NAME_MAX], b[FS_TEMP_NAME_MAX];

    fs_temp_name(a);
    fs_temp_name(b);
    CHECK_EQ(strlen(a), FS_TEMP_NAME_MAX - 1);
    CHECK(strcmp(a, b) != 0);
}
