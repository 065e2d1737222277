#include "server/config/dirs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tree.h"
#include "test.h"

enum { ACCOUNT = 54321, STRANGER = 54322 };

/* A directory of root that contains a directory of another user. */
struct home {
    char path[sizeof("/tmp/test-dirs-XXXXXX")];
};

static void home_done(struct home *h)
{
    CHECK_EQ(tree_remove(AT_FDCWD, h->path, NULL), 0);
}

static const char *below(const struct home *h, const char *name)
{
    static char paths[4][PATH_MAX];
    static size_t next;
    char *path = paths[next++ % ARRAY_LEN(paths)];

    (void)snprintf(path, PATH_MAX, "%s/%s", h->path, name);
    return path;
}

static struct home home_make(void)
{
    struct home h = {"/tmp/test-dirs-XXXXXX"};

    CHECK(mkdtemp(h.path));
    CHECK_EQ(mkdir(below(&h, "theirs"), 0755), 0);
    CHECK_EQ(chown(below(&h, "theirs"), STRANGER, STRANGER), 0);
    CHECK_EQ(mkdir(below(&h, "elsewhere"), 0755), 0);
    return h;
}
#define AUTO_HOME(name) __attribute__((cleanup(home_done))) struct home name = home_make()

static int prepare(const char *dir, struct err *e)
{
    struct config config = {.dir = mem_strdup(dir), .server.user = "54321"};
    int r = dirs_prepare(&config, config.dir, e);

    free((char *)config.dir);
    return r;
}

static bool is_of_account(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_uid == ACCOUNT && (st.st_mode & 0777) == 0700;
}

TEST(dirs, makes_the_data_directory_and_what_leads_there)
{
    struct stat st;

    if (geteuid() != 0)
        test_skip("needs root");
    AUTO_HOME(h);
    for (int again = 0; again < 2; again++)
        CHECK_EQ(prepare(below(&h, "a//b/data/"), NULL), 0);
    CHECK(is_of_account(below(&h, "a/b/data")));
    CHECK_EQ(stat(below(&h, "a/b"), &st), 0);
    CHECK(st.st_uid == 0 && (st.st_mode & 0777) == 0755);
    CHECK_EQ(prepare(below(&h, "theirs/data"), NULL), 0);
    CHECK(is_of_account(below(&h, "theirs/data")));
    CHECK_EQ(prepare(below(&h, "elsewhere"), NULL), -EPERM); /* it was there, and is root's */
}

TEST(dirs, follows_links_of_root)
{
    if (geteuid() != 0)
        test_skip("needs root");
    AUTO_HOME(h);
    CHECK_EQ(symlink("elsewhere", below(&h, "relative")), 0);
    CHECK_EQ(symlink(below(&h, "relative"), below(&h, "absolute")), 0);
    CHECK_EQ(symlink("circle", below(&h, "circle")), 0);
    CHECK_EQ(prepare(below(&h, "absolute/x/data"), NULL), 0);
    CHECK(is_of_account(below(&h, "elsewhere/x/data")));
    CHECK_EQ(prepare(below(&h, "circle/data"), NULL), -ELOOP);
}

TEST(dirs, follows_no_link_that_others_can_have_made)
{
    struct err e = {0};

    if (geteuid() != 0)
        test_skip("needs root");
    AUTO_HOME(h);
    CHECK_EQ(symlink(below(&h, "elsewhere"), below(&h, "theirs/link")), 0);
    CHECK_EQ(prepare(below(&h, "theirs/link/data"), &e), -EPERM);
    CHECK_EQ(access(below(&h, "elsewhere/data"), F_OK), -1);
    CHECK_STR(strstr(e.msg, "leads through a link"),
              "leads through a link that users other than root could have made");
    CHECK_EQ(prepare(below(&h, "theirs/link"), NULL), -EPERM);

    CHECK_EQ(mkdir(below(&h, "shared"), 0777), 0);
    CHECK_EQ(chmod(below(&h, "shared"), 01777), 0); /* as /tmp is */
    CHECK_EQ(symlink("../elsewhere", below(&h, "shared/link")), 0);
    CHECK_EQ(prepare(below(&h, "shared/link/data"), NULL), -EPERM);
    CHECK_EQ(access(below(&h, "elsewhere/data"), F_OK), -1);
}
