#include "execd/walk.h"

#include "folder.h"

/* Walks all of it, into directories too, as one line: "a a/x ^ b", where ^ is the way up. */
static void walk_all(const char *root, struct buf *out)
{
    struct walk_entry entry;
    struct err e = {0};
    struct walk w;
    int event;

    CHECK_EQ(walk_open(&w, root, &e), 0);
    while ((event = walk_next(&w, &entry, &e)) > WALK_END) {
        if (event == WALK_ENTRY)
            CHECK_EQ(buf_addf(out, "%s ", entry.path.p), 0);
        if (event == WALK_ENTRY && S_ISDIR(entry.st.st_mode))
            CHECK_EQ(walk_enter(&w, &entry, &e), 0);
        if (event == WALK_UP)
            CHECK_EQ(buf_addf(out, "^ "), 0);
    }
    CHECK_EQ(event, WALK_END);
    walk_done(&w);
}

TEST(walk, goes_in_order_of_names)
{
    AUTO_FOLDER(folder);
    AUTO_BUF(out, 4096);

    CHECK_EQ(mkdir("r", 0755), 0);
    CHECK_EQ(mkdir("r/b", 0755), 0);
    CHECK_EQ(mkdir("r/b/empty", 0755), 0);
    file_write("r/b/2", "");
    file_write("r/c", "");
    file_write("r/a", "");
    CHECK_EQ(symlink("b", "r/z"), 0);
    walk_all("r", &out);
    CHECK_STR(out.p, "r/a r/b r/b/2 r/b/empty ^ ^ r/c r/z ");
}

TEST(walk, sorts_directories_that_take_many_reads)
{
    AUTO_FOLDER(folder);
    struct walk_entry entry;
    struct walk w;
    char name[64], last[64] = "";
    int event, count = 0;

    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof(name), "%08x-a-name-of-some-length", i * 2654435761U);
        file_write(name, "");
    }
    CHECK_EQ(walk_open(&w, ".", NULL), 0);
    while ((event = walk_next(&w, &entry, NULL)) > WALK_END) {
        if (event != WALK_ENTRY)
            continue;
        CHECK(strcmp(last, entry.name.p) < 0);
        CHECK_EQ(str_copy(last, sizeof(last), entry.name), 0);
        count++;
    }
    CHECK_EQ(count, 5000);
    walk_done(&w);
}

TEST(walk, enters_no_link_and_no_file)
{
    AUTO_FOLDER(folder);
    struct walk_entry entry = {.name = STR("d")};
    struct err e = {0};
    struct walk w = {0};

    walk_done(&w); /* zeroed is fine */
    CHECK_EQ(mkdir("r", 0755), 0);
    CHECK_EQ(symlink("/etc", "r/d"), 0);
    CHECK_EQ(symlink("r", "link"), 0);
    CHECK_EQ(walk_open(&w, "link", &e), -ENOTDIR);
    walk_done(&w);
    CHECK_EQ(walk_open(&w, "r", &e), 0);
    CHECK(walk_enter(&w, &entry, &e) < 0);
    CHECK_EQ(walk_next(&w, &entry, &e), WALK_MORE); /* and goes on */
    walk_done(&w);
}

TEST(walk, notices_a_directory_that_moved)
{
    AUTO_FOLDER(folder);
    struct walk_entry entry;
    struct err e = {0};
    struct walk w;
    int event;

    CHECK_EQ(mkdir("r", 0755), 0);
    CHECK_EQ(mkdir("r/a", 0755), 0);
    CHECK_EQ(walk_open(&w, "r", &e), 0);
    do
        event = walk_next(&w, &entry, &e);
    while (event == WALK_MORE);
    CHECK_EQ(event, WALK_ENTRY);
    CHECK_EQ(walk_enter(&w, &entry, &e), 0);
    CHECK_EQ(rename("r/a", "elsewhere"), 0);
    do
        event = walk_next(&w, &entry, &e);
    while (event == WALK_MORE);
    CHECK_EQ(event, -ESTALE);
    walk_done(&w);
}
