#include "execd/core/users.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/tree.h"
#include "test.h"

static void file_write(const char *name, const char *text)
{
    FILE *f = fopen(name, "we");

    CHECK(f && fputs(text, f) >= 0);
    CHECK_EQ(fclose(f), 0);
}

/* A root that holds nothing but the two files, and this test's process in it. */
struct root {
    int outside; /* the root it came from */
    char name[sizeof("test-users-XXXXXX")];
};

static void root_done(struct root *root)
{
    CHECK_EQ(fchdir(root->outside), 0);
    CHECK_EQ(chroot("."), 0); /* whatever looks at us on exit needs /proc */
    CHECK_EQ(chdir("/tmp"), 0);
    CHECK_EQ(tree_remove(AT_FDCWD, root->name, NULL), 0);
    fd_close(root->outside);
}
#define AUTO_ROOT(passwd, group)                                                                   \
    __attribute__((cleanup(root_done), unused)) struct root root = root_make((passwd), (group))

static struct root root_make(const char *passwd, const char *group)
{
    struct root root = {open("/", O_PATH | O_CLOEXEC), "test-users-XXXXXX"};

    CHECK_EQ(chdir("/tmp"), 0);
    CHECK(mkdtemp(root.name));
    CHECK_EQ(chdir(root.name), 0);
    CHECK_EQ(mkdir("etc", 0755), 0);
    if (passwd)
        file_write("etc/passwd", passwd);
    if (group)
        file_write("etc/group", group);
    if (chroot(".") < 0 && (unshare(CLONE_NEWUSER) < 0 || chroot(".") < 0)) {
        CHECK_EQ(chdir("/tmp"), 0);
        CHECK_EQ(tree_remove(AT_FDCWD, root.name, NULL), 0);
        test_skip("this user may not change the root directory");
    }
    return root;
}

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
                             "# a comment\n"
                             ":x:1:1:::\n"
                             "broken:x:many:0:::\n"
                             "ann:x:1000:100:Ann,,,:/home/ann:/bin/sh\n"
                             "twin:x:1000:101:::\n"
                             "42:x:7:7:::\n"
                             "unset:x:4294967295:0:::\n"
                             "last:x:9:9"; /* no newline, no home */
static const char group[] = "root:x:0:\nusers:x:100:\nwheel:x:10:bob,ann\nanno:x:11:anno\n"
                            "again:x:10:ann\nvideo:x:44:ann\nbad:x:-1:ann\n";

TEST(users, are_found_by_name_and_number)
{
    AUTO_ROOT(passwd, group);
    struct user u;

    CHECK_EQ(user_by_uid(1000, &u), 0);
    CHECK_STR(u.name, "ann"); /* the first line */
    CHECK_STR(u.home, "/home/ann");
    CHECK_EQ(u.gid, 100);
    CHECK_EQ(user_by_name(STR("twin"), &u), 0);
    CHECK_EQ(u.gid, 101);
    CHECK_EQ(user_by_name(STR("last"), &u), 0);
    CHECK_STR(u.home, "");
    CHECK_EQ(user_by_name(STR("broken"), &u), -ENOENT);
    CHECK_EQ(user_by_name(STR("unset"), &u), -ENOENT);
    CHECK_EQ(user_by_name(STR("an"), &u), -ENOENT);
    CHECK_EQ(user_by_uid(1, &u), -ENOENT);
}

TEST(users, have_groups)
{
    AUTO_ROOT(passwd, group);
    auto_free gid_t *gids = NULL;
    struct user u;
    struct group g;
    size_t n;

    CHECK_EQ(group_by_name(STR("wheel"), &g), 0);
    CHECK_EQ(g.gid, 10);
    CHECK_EQ(group_by_gid(44, &g), 0);
    CHECK_STR(g.name, "video");
    CHECK_EQ(group_by_gid(45, &g), -ENOENT);
    CHECK_EQ(user_by_name(STR("ann"), &u), 0);
    CHECK_EQ(user_groups(&u, &gids, &n), 0);
    CHECK_EQ(n, 3);
    CHECK_EQ(gids[0], 100);
    CHECK_EQ(gids[1], 10);
    CHECK_EQ(gids[2], 44);
}

TEST(users, may_be_numbers)
{
    AUTO_ROOT(passwd, group);
    struct err e = {0};
    uid_t uid;
    gid_t gid;

    CHECK_EQ(user_to_uid(STR("ann"), &uid, &e), 0);
    CHECK_EQ(uid, 1000);
    CHECK_EQ(user_to_uid(STR("42"), &uid, &e), 0);
    CHECK_EQ(uid, 7); /* a name goes first */
    CHECK_EQ(group_to_gid(STR("4711"), &gid, &e), 0);
    CHECK_EQ(gid, 4711);
    CHECK_EQ(group_to_gid(STR("-1"), &gid, &e), -ENOENT);
    CHECK_EQ(user_to_uid(STR("bob"), &uid, &e), -ENOENT);
    CHECK_STR(e.msg, "failed to lookup user bob: user: unknown user bob");
}

TEST(users, need_no_files)
{
    AUTO_ROOT(NULL, NULL);
    auto_free gid_t *gids = NULL;
    struct user_cache cache = {0};
    struct user u = {.uid = 5, .gid = 6, .name = "u"};
    size_t n;

    CHECK_EQ(user_by_uid(0, &u), -ENOENT);
    CHECK_EQ(user_groups(&u, &gids, &n), 0);
    CHECK_EQ(n, 1);
    CHECK_EQ(gids[0], 6);
    CHECK_STR(user_cache_name(&cache, 12), "12");
    CHECK_STR(group_cache_name(&cache, 4294967295), "4294967295");
}

TEST(users, stand_in_long_files_and_behind_long_lines)
{
    AUTO_ROOT(passwd, group);
    struct user u;
    FILE *f;

    f = fopen("/etc/passwd", "we");
    CHECK(f);
    for (int i = 0; i < 5000; i++)
        CHECK(fprintf(f, "user%d:x:%d:1::/home/user%d:/bin/sh\n", i, i, i) > 0);
    for (int i = 0; i < 300000; i++)
        CHECK(fputc('x', f) == 'x');
    CHECK(fprintf(f, ":x:8:8:::\nfar:x:9999:1::/far:/bin/sh\n") > 0);
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(user_by_name(STR("user4999"), &u), 0);
    CHECK_EQ(u.uid, 4999);
    CHECK_EQ(user_by_uid(9999, &u), 0);
    CHECK_STR(u.home, "/far");
}

TEST(users, are_remembered_by_a_cache)
{
    AUTO_ROOT(passwd, group);
    struct user_cache cache = {0};

    CHECK_STR(user_cache_name(&cache, 1000), "ann");
    CHECK_STR(group_cache_name(&cache, 100), "users");
    CHECK_EQ(unlink("/etc/passwd"), 0);
    CHECK_STR(user_cache_name(&cache, 1000), "ann");
    for (uid_t uid = 1; uid < 20; uid++)
        (void)user_cache_name(&cache, uid);
    CHECK_STR(user_cache_name(&cache, 1000), "1000"); /* forgotten, and gone */
}
