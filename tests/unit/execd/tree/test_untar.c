#include "execd/tree/untar.h"

#include "folder.h"

static void add(struct buf *out, enum tar_type type, const char *path, const char *text,
                uint32_t mode)
{
    static const char zeros[TAR_BLOCK_BYTES];
    bool file = type == TAR_FILE;
    struct tar_entry entry = {
        .type = type,
        .path = str_of(path),
        .target = file ? STR_NONE : str_of(text),
        .size = file ? strlen(text) : 0,
        .mode = mode,
        .mtime = 1000,
    };

    CHECK_EQ(tar_write_head(out, &entry), 0);
    CHECK_EQ(buf_add(out, str_make(text, entry.size)), 0);
    CHECK_EQ(buf_add(out, str_make(zeros, tar_padding(entry.size))), 0);
}

static int unpack(const struct buf *archive, const char *dir, struct err *e)
{
    struct untar u;
    int r = untar_open(&u, dir, false, e);

    for (size_t at = 0; r == 0 && at < archive->n; at += 100)
        r = untar_feed(&u, str_make(archive->p + at, min_size(100, archive->n - at)), e);
    if (r == 0)
        r = untar_end(&u, e);
    while (untar_finish_step(&u))
        ;
    untar_done(&u);
    return r;
}

TEST(untar, makes_files_directories_and_links)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(a, 64 << 10);
    struct err e = {0};
    struct stat st;

    add(&a, TAR_DIRECTORY, "./", "", 0700);
    add(&a, TAR_DIRECTORY, "d/", "", 0555);
    add(&a, TAR_FILE, "./d/f", "content", 04711);
    add(&a, TAR_FILE, "no/dir/f", "x", 0600);
    add(&a, TAR_LINK, "l", "d/f", 0777);
    add(&a, TAR_HARD_LINK, "h", "./d/f", 0);
    add(&a, TAR_FIFO, "p", "", 0600);
    CHECK_EQ(unpack(&a, "out", &e), 0);
    CHECK_STR(file_read("out/d/f"), "content");
    CHECK_STR(file_read("out/l"), "content");
    CHECK_STR(file_read("out/h"), "content");
    CHECK_STR(file_read("out/no/dir/f"), "x");
    CHECK_EQ(stat("out/d/f", &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0711); /* setuid is kept only with owners */
    CHECK_EQ(st.st_mtim.tv_sec, 1000);
    CHECK_EQ(st.st_nlink, 2);
    CHECK_EQ(stat("out/d", &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0555);
    CHECK_EQ(st.st_mtim.tv_sec, 1000);
    CHECK_EQ(lstat("out/p", &st), 0);
    CHECK(S_ISFIFO(st.st_mode));
    CHECK_EQ(chmod("out/d", 0755), 0);
}

TEST(untar, replaces_files_and_leaves_directories_as_they_are)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(a, 64 << 10);
    struct err e = {0};
    struct stat st;

    CHECK_EQ(mkdir("out", 0755), 0);
    CHECK_EQ(mkdir("out/d", 0711), 0);
    file_write("out/d/f", "old");
    file_write("outside", "mine");
    CHECK_EQ(symlink("../outside", "out/l"), 0);
    add(&a, TAR_DIRECTORY, "d", "", 0500);
    add(&a, TAR_FILE, "d/f", "new", 0644);
    add(&a, TAR_FILE, "l", "instead of a link", 0644);
    CHECK_EQ(unpack(&a, "out", &e), 0);
    CHECK_STR(file_read("out/d/f"), "new");
    CHECK_STR(file_read("out/l"), "instead of a link");
    CHECK_STR(file_read("outside"), "mine");
    CHECK_EQ(stat("out/d", &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0711);
}

/* An archive of a link and something through it, and what must come of that. */
TEST(untar, stays_below_its_directory)
{
    static const struct {
        enum tar_type type;
        const char *link_to, *path, *text;
        int code;
    } rows[] = {
        {TAR_FILE,      "x",     "/tmp/evil",    "x",            -EBADMSG},
        {TAR_FILE,      "x",     "../evil",      "x",            -EBADMSG},
        {TAR_FILE,      "x",     "a/../../evil", "x",            -EBADMSG},
        {TAR_FILE,      "x",     "a/..",         "x",            -EBADMSG},
        {TAR_FILE,      "..",    "link/evil",    "x",            -EACCES },
        {TAR_FILE,      "/tmp",  "link/evil",    "x",            -EACCES },
        {TAR_FILE,      "../..", "link/a/evil",  "x",            -EACCES },
        {TAR_DIRECTORY, "..",    "link/evil",    "",             -EACCES },
        {TAR_LINK,      "..",    "link/evil",    "x",            -EACCES },
        {TAR_HARD_LINK, "x",     "h",            "../outside",   -EBADMSG},
        {TAR_HARD_LINK, "..",    "h",            "link/outside", -EACCES },
        {TAR_HARD_LINK, "x",     "h",            "/etc/passwd",  -EBADMSG},
        {TAR_DIRECTORY, "/tmp",  "link",         "",             -EACCES },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FOLDER(folder);
        AUTO_BUF(a, 64 << 10);
        struct err e = {0};
        struct stat st;

        file_write("outside", "mine");
        add(&a, TAR_LINK, "link", rows[i].link_to, 0777);
        add(&a, rows[i].type, rows[i].path, rows[i].text, 0755);
        CHECK_EQ(unpack(&a, "out/er", &e), rows[i].code);
        CHECK(e.msg[0]);
        CHECK(access("evil", F_OK) < 0 && access("out/evil", F_OK) < 0);
        CHECK(access("/tmp/evil", F_OK) < 0);
        CHECK_EQ(stat("outside", &st), 0);
        CHECK_EQ(st.st_nlink, 1);
    }
}

TEST(untar, follows_links_that_stay_inside)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(a, 64 << 10);
    struct err e = {0};

    CHECK_EQ(mkdir("out", 0755), 0);
    CHECK_EQ(mkdir("out/v1", 0755), 0);
    CHECK_EQ(symlink("v1", "out/now"), 0);
    add(&a, TAR_DIRECTORY, "now", "", 0755);
    add(&a, TAR_FILE, "now/f", "1", 0644);
    CHECK_EQ(unpack(&a, "out", &e), 0);
    CHECK_STR(file_read("out/v1/f"), "1");
}

TEST(untar, leaves_no_half_file)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(a, 64 << 10);
    struct err e = {0};

    add(&a, TAR_FILE, "f", "content that is cut", 0644);
    buf_cut(&a, TAR_BLOCK_BYTES + 5);
    CHECK_EQ(unpack(&a, "out", &e), -EBADMSG);
    CHECK_EQ(rmdir("out"), 0); /* it is empty */
    CHECK_EQ(mkdir("out", 0755), 0);
}

TEST(untar, does_not_wait_for_the_reader_of_a_pipe)
{
    static char big[100 << 10];
    AUTO_FOLDER(folder);
    AUTO_BUF(a, 256 << 10);
    auto_fd reader = -EBADF;
    struct err e = {0};

    memset(big, 'x', sizeof(big) - 1);
    CHECK_EQ(mkfifo("p", 0600), 0);
    reader = open("p", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    add(&a, TAR_FILE, "p", big, 0600);
    CHECK_EQ(unpack(&a, ".", &e), -ETIMEDOUT);
}
