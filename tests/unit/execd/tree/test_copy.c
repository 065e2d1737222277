#include "execd/tree/copy.h"

#include "folder.h"

static int copy_all(const char *path, const char *as)
{
    auto_fd here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct err e = {0};
    struct copy c;
    int r = copy_open(&c, path, here, as, &e);

    if (r == 0)
        do
            r = copy_step(&c, &e);
        while (r > 0);
    copy_done(&c);
    return r;
}

TEST(copy, keeps_content_modes_times_and_kinds)
{
    AUTO_FOLDER(folder);
    struct timespec times[2] = {
        {11, 0 },
        {22, 33}
    };
    char target[16] = {0};
    struct stat st;

    CHECK_EQ(mkdir("t", 0755), 0);
    CHECK_EQ(mkdir("t/d", 0700), 0);
    file_write("t/d/f", "content");
    CHECK_EQ(chmod("t/d/f", 04711), 0);
    CHECK_EQ(symlink("d/f", "t/l"), 0);
    CHECK_EQ(mkfifo("t/p", 0600), 0);
    CHECK_EQ(utimensat(AT_FDCWD, "t/d/f", times, 0), 0);
    CHECK_EQ(chmod("t/d", 0555), 0);
    CHECK_EQ(utimensat(AT_FDCWD, "t/d", times, 0), 0);
    CHECK_EQ(copy_all("t", "u"), 0);
    CHECK_STR(file_read("u/d/f"), "content");
    CHECK_EQ(stat("u/d/f", &st), 0);
    CHECK_EQ(st.st_mode & 07777, 04711);
    CHECK(st.st_mtim.tv_sec == 22 && st.st_mtim.tv_nsec == 33);
    CHECK_EQ(stat("u/d", &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0555);
    CHECK_EQ(st.st_mtim.tv_sec, 22);
    CHECK_EQ(readlink("u/l", target, sizeof(target) - 1), 3);
    CHECK_STR(target, "d/f");
    CHECK_EQ(lstat("u/p", &st), 0);
    CHECK(S_ISFIFO(st.st_mode));
    CHECK_EQ(chmod("t/d", 0755), 0);
    CHECK_EQ(chmod("u/d", 0755), 0);
}

static ino_t inode_of(const char *path)
{
    struct stat st = {0};

    CHECK_EQ(lstat(path, &st), 0);
    return st.st_ino;
}

TEST(copy, keeps_names_of_one_file_together)
{
    AUTO_FOLDER(folder);
    struct stat st;

    CHECK_EQ(mkdir("t", 0755), 0);
    CHECK_EQ(mkdir("t/d", 0755), 0);
    file_write("t/d/f", "content");
    file_write("t/alone", "content");
    CHECK_EQ(link("t/d/f", "t/d/g"), 0);
    CHECK_EQ(link("t/d/f", "t/h"), 0);
    CHECK_EQ(link("t/d/f", "outside"), 0);
    CHECK_EQ(link("t/alone", "outside2"), 0);
    CHECK_EQ(copy_all("t", "u"), 0);
    CHECK_EQ(stat("u/h", &st), 0);
    CHECK_EQ(st.st_nlink, 3);
    CHECK(inode_of("u/d/f") == st.st_ino && inode_of("u/d/g") == st.st_ino);
    CHECK(inode_of("u/alone") != st.st_ino && inode_of("t/h") != st.st_ino);
    CHECK_STR(file_read("u/h"), "content");
}

/* Copies two names of one file, which gets `text` and a time of its own between them. */
static void copy_while_written(const char *text, time_t modified)
{
    AUTO_FOLDER(folder);
    auto_fd here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct timespec times[2] = {{1}, {1}};
    struct err e = {0};
    struct copy c;
    bool f_first;
    int r;

    CHECK_EQ(mkdir("t", 0755), 0);
    file_write("t/f", "before");
    CHECK_EQ(link("t/f", "t/g"), 0);
    CHECK_EQ(utimensat(AT_FDCWD, "t/f", times, 0), 0);
    CHECK_EQ(copy_open(&c, "t", here, "u", &e), 0);
    do /* until one of them was begun, and ended */
        r = copy_step(&c, &e);
    while (r > 0 && ((access("u/f", F_OK) < 0 && access("u/g", F_OK) < 0) || c.file_in >= 0));
    f_first = access("u/f", F_OK) == 0;
    CHECK(access(f_first ? "u/g" : "u/f", F_OK) < 0);

    file_write("t/f", text);
    times[1].tv_sec = modified;
    CHECK_EQ(utimensat(AT_FDCWD, "t/f", times, 0), 0);
    while (r > 0)
        r = copy_step(&c, &e);
    CHECK_EQ(r, 0);
    CHECK_STR(file_read(f_first ? "u/f" : "u/g"), "before");
    CHECK_STR(file_read(f_first ? "u/g" : "u/f"), text);
    copy_done(&c);
}

TEST(copy, copies_anew_what_was_written_between_two_names)
{
    copy_while_written("longer than before", 1);
    copy_while_written("behind", 2);
}

TEST(copy, copies_what_it_cannot_link)
{
    AUTO_FOLDER(folder);
    char name[16], other[16];
    struct stat st;

    CHECK_EQ(mkdir("t", 0755), 0);
    for (int i = 0; i <= COPY_LINKS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "t/a%05d", i);
        (void)snprintf(other, sizeof(other), "t/b%05d", i);
        file_write(name, "");
        CHECK_EQ(link(name, other), 0);
    }
    CHECK_EQ(copy_all("t", "u"), 0);
    CHECK_EQ(stat("u/b00000", &st), 0);
    CHECK_EQ(st.st_nlink, 2);
    (void)snprintf(name, sizeof(name), "u/b%05d", COPY_LINKS_MAX);
    CHECK_EQ(stat(name, &st), 0);
    CHECK_EQ(st.st_nlink, 1);
}

TEST(copy, takes_single_files_of_any_kind)
{
    AUTO_FOLDER(folder);
    struct stat st;

    file_write("f", "1");
    file_write("empty", "");
    CHECK_EQ(symlink("f", "l"), 0);
    CHECK_EQ(copy_all("f", "f2"), 0);
    CHECK_EQ(copy_all("empty", "empty2"), 0);
    CHECK_EQ(copy_all("l", "l2"), 0);
    CHECK_STR(file_read("f2"), "1");
    CHECK_STR(file_read("empty2"), "");
    CHECK_EQ(lstat("l2", &st), 0);
    CHECK(S_ISLNK(st.st_mode));
}

TEST(copy, overwrites_nothing_and_needs_a_source)
{
    AUTO_FOLDER(folder);
    struct copy c = {0};

    copy_done(&c); /* zeroed is fine */
    file_write("f", "1");
    file_write("g", "2");
    CHECK_EQ(copy_all("f", "g"), -EEXIST);
    CHECK_STR(file_read("g"), "2");
    CHECK_EQ(copy_all("nothing", "x"), -ENOENT);
}

TEST(copy, does_not_copy_itself)
{
    AUTO_FOLDER(folder);
    auto_fd inner = -EBADF;
    struct err e = {0};
    struct copy c;
    int r;

    CHECK_EQ(mkdir("t", 0755), 0);
    inner = open("t", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(inner >= 0);
    CHECK_EQ(copy_open(&c, "t", inner, "copy", &e), 0);
    do
        r = copy_step(&c, &e);
    while (r > 0);
    CHECK_EQ(r, -EINVAL);
    copy_done(&c);
}

TEST(copy, keeps_holes)
{
    AUTO_FOLDER(folder);
    auto_fd fd = open("f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct stat st;
    char c;

    CHECK_EQ(pwrite(fd, "x", 1, 1 << 30), 1);
    CHECK_EQ(ftruncate(fd, (1LL << 30) + (10 << 20)), 0);
    CHECK_EQ(copy_all("f", "g"), 0);
    CHECK_EQ(stat("g", &st), 0);
    CHECK_EQ(st.st_size, (1LL << 30) + (10 << 20));
    CHECK(st.st_blocks * 512 < 1 << 20);
    auto_fd copy = open("g", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(pread(copy, &c, 1, 1 << 30), 1);
    CHECK_EQ(c, 'x');
}
