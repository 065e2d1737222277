#include "execd/tree/remove.h"

#include "folder.h"

static int remove_all(const char *path)
{
    struct remove rm;
    int r = remove_open(&rm, path, NULL);

    if (r == 0)
        do
            r = remove_step(&rm, NULL);
        while (r > 0);
    remove_done(&rm);
    return r;
}

TEST(remove, takes_trees_files_and_links)
{
    AUTO_FOLDER(folder);

    CHECK_EQ(mkdir("t", 0755), 0);
    CHECK_EQ(mkdir("t/a", 0755), 0);
    CHECK_EQ(mkdir("t/a/b", 0755), 0);
    CHECK_EQ(mkdir("keep", 0755), 0);
    file_write("keep/f", "1");
    file_write("t/a/f", "");
    CHECK_EQ(symlink("../keep", "t/link"), 0);
    CHECK_EQ(symlink("keep", "link"), 0);
    CHECK_EQ(remove_all("t/"), 0);
    CHECK_EQ(remove_all("link"), 0);
    CHECK_EQ(access("t", F_OK), -1);
    CHECK_STR(file_read("keep/f"), "1");
    CHECK_EQ(remove_all("keep/f"), 0);
    CHECK_EQ(remove_all("keep"), 0);
}

TEST(remove, has_nothing_to_do_for_what_is_absent)
{
    AUTO_FOLDER(folder);
    struct remove rm = {0};

    remove_done(&rm); /* zeroed is fine */
    CHECK_EQ(remove_all("nothing"), 0);
    CHECK_EQ(remove_all("no/such/place"), 0);
}

TEST(remove, refuses_what_is_not_one_thing)
{
    CHECK_EQ(remove_all("/"), -EINVAL);
    CHECK_EQ(remove_all("."), -EINVAL);
    CHECK_EQ(remove_all("/tmp/.."), -EINVAL);
}

TEST(remove, stops_where_a_directory_was_moved)
{
    AUTO_FOLDER(folder);
    struct remove rm;
    int r;

    CHECK_EQ(mkdir("t", 0755), 0);
    CHECK_EQ(mkdir("t/a", 0755), 0);
    file_write("t/a/f", "");
    CHECK_EQ(mkdir("other", 0755), 0);
    file_write("other/f", "1");
    CHECK_EQ(remove_open(&rm, "t", NULL), 0);
    do
        r = remove_step(&rm, NULL);
    while (r > 0 && rm.depth < 2); /* in t/a now */
    CHECK_EQ(rm.depth, 2);
    CHECK_EQ(rename("t/a", "other/a"), 0);
    do
        r = remove_step(&rm, NULL);
    while (r > 0);
    CHECK_EQ(r, -ESTALE);
    remove_done(&rm);
    CHECK_STR(file_read("other/f"), "1");
}
