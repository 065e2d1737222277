#include "execd/target.h"

#include "folder.h"

static int target_write(const char *path, const char *text)
{
    struct target t;
    struct err e = {0};
    int r = target_open(&t, path, &e);

    if (r < 0)
        return r;
    CHECK_EQ(write(t.fd, text, strlen(text)), strlen(text));
    return target_commit(&t, &e);
}

TEST(target, appears_whole)
{
    AUTO_FOLDER(folder);
    struct target t;
    struct stat st;

    (void)umask(027);
    CHECK_EQ(target_open(&t, "new", NULL), 0);
    CHECK_EQ(write(t.fd, "1", 1), 1);
    CHECK_EQ(access("new", F_OK), -1);
    CHECK_EQ(target_commit(&t, NULL), 0);
    CHECK_STR(file_read("new"), "1");
    CHECK_EQ(stat("new", &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0750);
}

TEST(target, keeps_mode_and_follows_links)
{
    AUTO_FOLDER(folder);
    struct stat before, after;

    file_write("f", "old and long");
    CHECK_EQ(chmod("f", 0604), 0);
    CHECK_EQ(symlink("f", "l"), 0);
    CHECK_EQ(stat("f", &before), 0);
    CHECK_EQ(target_write("l", "new"), 0);
    CHECK_STR(file_read("f"), "new");
    CHECK_EQ(lstat("l", &after), 0);
    CHECK(S_ISLNK(after.st_mode));
    CHECK_EQ(stat("f", &after), 0);
    CHECK_EQ(after.st_mode, before.st_mode);
    CHECK(after.st_ino != before.st_ino);
}

TEST(target, leaves_nothing_when_dropped)
{
    AUTO_FOLDER(folder);
    struct target t = TARGET_NONE;

    target_drop(&t); /* not open is fine */
    file_write("f", "old");
    CHECK_EQ(target_open(&t, "f", NULL), 0);
    CHECK(t.temp[0] && access(t.temp, F_OK) == 0);
    CHECK_EQ(write(t.fd, "new", 3), 3);
    {
        char temp[FS_TEMP_NAME_MAX];

        memcpy(temp, t.temp, sizeof(temp));
        target_drop(&t);
        CHECK_EQ(access(temp, F_OK), -1);
    }
    CHECK_STR(file_read("f"), "old");
}

TEST(target, writes_in_place_what_is_no_regular_file)
{
    AUTO_FOLDER(folder);
    auto_fd reader = -EBADF;
    char text[8] = {0};

    CHECK_EQ(target_write("/dev/null", "x"), 0);
    CHECK_EQ(mkfifo("p", 0600), 0);
    CHECK_EQ(target_write("p", "x"), -ENXIO); /* nobody reads, and we do not wait */
    reader = open("p", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK_EQ(target_write("p", "x"), 0);
    CHECK_EQ(read(reader, text, sizeof(text)), 1);
}

TEST(target, refuses_directories_and_places_that_are_not)
{
    AUTO_FOLDER(folder);

    CHECK_EQ(mkdir("d", 0755), 0);
    CHECK_EQ(target_write("d", ""), -EISDIR);
    CHECK_EQ(target_write("d/", ""), -EISDIR);
    CHECK_EQ(target_write("", ""), -EISDIR);
    CHECK_EQ(target_write("no/such", ""), -ENOENT);
    CHECK_EQ(symlink("l", "l"), 0);
    CHECK_EQ(target_write("l", ""), -ELOOP);
}
