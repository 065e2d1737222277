#include "server/owner.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/tree.h"
#include "test.h"

static char dir[] = "/tmp/test-owner-XXXXXX";

static void remove_dir(void)
{
    (void)tree_remove(AT_FDCWD, dir, NULL);
}

static void make_dir(void)
{
    CHECK(mkdtemp(dir));
    CHECK_EQ(atexit(remove_dir), 0);
}

static void put(const char *text)
{
    char path[64];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/" OWNER_FILE, dir);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    CHECK_EQ(close(fd), 0);
}

TEST(owner, is_made_once_and_kept)
{
    char first[OWNER_MAX] = "", second[OWNER_MAX] = "";

    make_dir();
    CHECK_EQ(owner_load(dir, first, NULL), 0);
    CHECK_EQ(strlen(first), OWNER_MAX - 1);
    CHECK_EQ(owner_load(dir, second, NULL), 0);
    CHECK_STR(second, first);
}

TEST(owner, is_read_with_and_without_a_newline)
{
    char id[OWNER_MAX] = "";

    make_dir();
    put("0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c");
    CHECK_EQ(owner_load(dir, id, NULL), 0);
    CHECK_STR(id, "0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c");
    put("0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05d\n");
    CHECK_EQ(owner_load(dir, id, NULL), 0);
    CHECK_STR(id, "0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05d");
}

TEST(owner, is_not_replaced_when_the_file_is_damaged)
{
    static const char *const texts[] = {
        "",
        "\n",
        "0c6cb4a2",
        "0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05c and more",
        "0C6CB4A2-93DE-4F71-B1C4-2F26DD4AA05C",
        "0c6cb4a2-93de-4f71-b1c4-2f26dd4aa05/",
        "0c6cb4a2_93de-4f71-b1c4-2f26dd4aa05c",
    };
    char id[OWNER_MAX];
    struct err e = {0};

    make_dir();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        put(texts[i]);
        CHECK_EQ(owner_load(dir, id, &e), -EINVAL);
        CHECK(strstr(e.msg, dir) && strstr(e.msg, "remove it to have a new one"));
    }
}

TEST(owner, says_that_there_is_no_directory)
{
    char id[OWNER_MAX];

    CHECK_EQ(owner_load("/nowhere/at/all", id, NULL), -ENOENT);
}
