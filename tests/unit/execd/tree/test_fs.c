#include "execd/tree/fs.h"

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

TEST(fs, stays_below_a_root)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(inside, 4096);
    struct err e = {0};
    struct stat st;
    bool made;
    char path[256];

#define AT(rest) (snprintf(path, sizeof(path), "%s/%s", folder.path, rest), path)
    CHECK_EQ(mkdir("root", 0755), 0);
    CHECK_EQ(mkdir("rooted", 0755), 0);
    file_write("outside", "mine");
    file_write("root/f", "1");
    CHECK_EQ(symlink("f", "root/in"), 0);
    CHECK_EQ(symlink("../outside", "root/out"), 0);
    CHECK_EQ(symlink(folder.path, "root/up"), 0);
    CHECK_EQ(fs_confine("root", &e), 0);
    CHECK(fs_is_confined());
    CHECK_EQ(fs_stat(AT("root"), &st), 0);
    CHECK_EQ(fs_stat(AT("root/in"), &st), 0);
    CHECK_EQ(fs_lstat(AT("root/out"), &st), 0);
    CHECK(S_ISLNK(st.st_mode));
    CHECK_EQ(fs_stat(AT("root/out"), &st), -EACCES);
    CHECK_EQ(fs_stat(AT("root/up/outside"), &st), -EACCES);
    CHECK_EQ(fs_stat(AT("root/../outside"), &st), -EACCES);
    CHECK_EQ(fs_stat(AT("outside"), &st), -EACCES);
    CHECK_EQ(fs_stat(AT("rooted"), &st), -EACCES);
    CHECK_EQ(fs_stat("root/f", &st), -EACCES); /* paths are absolute */
    CHECK_EQ(fs_chmod(AT("root/out"), 0), -EACCES);
    CHECK_EQ(fs_chmod(AT("root/in"), 0600), 0);
    CHECK_EQ(fs_chown(AT("root/out"), 1, 1), -EACCES);
    CHECK_EQ(fs_unlink(AT("root/up/outside")), -EACCES);
    CHECK_EQ(fs_make_dirs(AT("root/a/b"), 0755, &made), 0);
    CHECK(made);
    CHECK_EQ(fs_make_dirs(AT("root/up/new"), 0755, &made), -EACCES);
    CHECK_EQ(fs_make_dirs(AT("new/a"), 0755, &made), -EACCES);
    CHECK_EQ(fs_rename_path_new(AT("root/f"), "/tmp/evil"), -EACCES);
    CHECK_STR(file_read("outside"), "mine");
#undef AT
}
