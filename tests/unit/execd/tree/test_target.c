#include "execd/tree/target.h"

#include <dirent.h>
#include <sys/resource.h>

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
    CHECK_EQ(write(t.fd, "new", 3), 3);
    target_drop(&t);
    CHECK_STR(file_read("f"), "old");
    CHECK_EQ(unlink("f"), 0); /* and the folder is empty: it can be removed */
    CHECK_EQ(rmdir(folder.path), 0);
    CHECK_EQ(mkdir(folder.path, 0700), 0);
}

static size_t names_in_folder(void)
{
    DIR *dir = opendir(".");
    size_t count = 0;

    CHECK(dir);
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count - 2; /* . and .. */
}

static void need_nameless(void)
{
    auto_fd fd = open(".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);

    if (fd < 0)
        test_skip("no files without a name here");
}

/* As a process does that is killed in the middle. */
TEST(target, has_no_name_before_it_is_whole)
{
    AUTO_FOLDER(folder);
    struct target t;

    need_nameless();
    file_write("f", "old");
    CHECK_EQ(target_open(&t, "f", NULL), 0);
    CHECK_EQ(write(t.fd, "new", 3), 3);
    CHECK_EQ(names_in_folder(), 1);
    CHECK_STR(file_read("f"), "old");
    CHECK_EQ(target_commit(&t, NULL), 0); /* over the old one */
    CHECK_STR(file_read("f"), "new");
    CHECK_EQ(names_in_folder(), 1);
    target_drop(&t); /* committed is fine */
    CHECK_STR(file_read("f"), "new");
}

TEST(target, is_committed_when_no_descriptor_is_left)
{
    AUTO_FOLDER(folder);
    struct rlimit few, before;
    struct target t;
    int r;

    CHECK_EQ(target_open(&t, "f", NULL), 0);
    CHECK_EQ(write(t.fd, "x", 1), 1);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 0;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    r = target_commit(&t, NULL);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_EQ(r, 0);
    CHECK_STR(file_read("f"), "x");
    CHECK_EQ(names_in_folder(), 1);
}

TEST(target, leaves_nothing_when_it_cannot_be_placed)
{
    AUTO_FOLDER(folder);
    struct target t;

    CHECK_EQ(target_open(&t, "f", NULL), 0);
    CHECK_EQ(mkdir("f", 0755), 0);
    CHECK_EQ(target_commit(&t, NULL), -EISDIR);
    CHECK_EQ(names_in_folder(), 1);
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
