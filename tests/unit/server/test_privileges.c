#include "server/privileges.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/tree.h"
#include "server/runtime/embedded/embedded.h"
#include "test.h"

enum { ACCOUNT = 54321, STRANGER = 54322 };

/* A directory of root's with one of a stranger's in it. */
struct home {
    char path[sizeof("/tmp/test-privileges-XXXXXX")];
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
    struct home h = {"/tmp/test-privileges-XXXXXX"};

    CHECK(mkdtemp(h.path));
    CHECK_EQ(mkdir(below(&h, "theirs"), 0755), 0);
    CHECK_EQ(chown(below(&h, "theirs"), STRANGER, STRANGER), 0);
    CHECK_EQ(mkdir(below(&h, "elsewhere"), 0755), 0);
    return h;
}
#define AUTO_HOME(name) __attribute__((cleanup(home_done))) struct home name = home_make()

static int prepare(const char *dir, struct err *e)
{
    struct config config = {.dir = mem_strdup(dir), .embedded.user = "54321"};
    int r = data_dir_prepare(&config, e);

    free((char *)config.dir);
    return r;
}

static bool is_of_account(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_uid == ACCOUNT && (st.st_mode & 0777) == 0700;
}

TEST(privileges, makes_the_data_directory_and_what_leads_there)
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

TEST(privileges, follows_links_of_root)
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

TEST(privileges, follows_no_link_that_others_can_have_made)
{
    struct err e = {0};

    if (geteuid() != 0)
        test_skip("needs root");
    AUTO_HOME(h);
    CHECK_EQ(symlink(below(&h, "elsewhere"), below(&h, "theirs/link")), 0);
    CHECK_EQ(prepare(below(&h, "theirs/link/data"), &e), -EPERM);
    CHECK_EQ(access(below(&h, "elsewhere/data"), F_OK), -1);
    CHECK_STR(strstr(e.msg, "leads over a link"),
              "leads over a link that others than root can have put there");
    CHECK_EQ(prepare(below(&h, "theirs/link"), NULL), -EPERM);

    CHECK_EQ(mkdir(below(&h, "shared"), 0777), 0);
    CHECK_EQ(chmod(below(&h, "shared"), 01777), 0); /* as /tmp is */
    CHECK_EQ(symlink("../elsewhere", below(&h, "shared/link")), 0);
    CHECK_EQ(prepare(below(&h, "shared/link/data"), NULL), -EPERM);
    CHECK_EQ(access(below(&h, "elsewhere/data"), F_OK), -1);
}

/* --- directories that sandboxes may mount --- */

static void keep_line(void *user, enum log_level level UNUSED, const char *message UNUSED,
                      struct str line)
{
    CHECK_EQ(buf_add(user, line), 0);
}

static void log_into(struct buf *lines)
{
    log_init(&(struct log_conf){.level = LOG_WARN, .sink = keep_line, .sink_user = lines});
}

/* The configuration must outlive them. */
static struct roots *open_roots(struct config *config, const char *const *path, struct roots *older)
{
    config->storage.allowed_host_paths = (struct config_list){path, 1};
    return roots_open(config, older);
}

static void close_roots(struct roots *r)
{
    for (size_t i = 0; i < r->host_path_count; i++)
        CHECK_EQ(close(r->host_paths[i].fd), 0);
    free(r->images);
    free(r->host_paths);
    free(r);
}

TEST(privileges, says_why_a_host_path_is_not_made)
{
    const char *path;
    struct config config = {0};
    struct roots *roots;
    AUTO_BUF(lines, 4096);

    if (geteuid() != 0)
        test_skip("needs root");
    AUTO_HOME(h);
    log_into(&lines);
    path = below(&h, "new/one");
    roots = open_roots(&config, &path, NULL);
    CHECK_EQ(roots->host_path_count, 1);
    close_roots(roots);
    CHECK_STR(lines.n ? lines.p : "", "");

    CHECK_EQ(symlink(below(&h, "elsewhere"), below(&h, "theirs/link")), 0);
    path = below(&h, "theirs/link/data");
    roots = open_roots(&config, &path, NULL);
    CHECK_EQ(roots->host_path_count, 0);
    close_roots(roots);
    CHECK(strstr(lines.p, "leads over a link that others than root can have put there"));
}

TEST(privileges, warns_only_of_host_paths_that_are_new)
{
    static const struct {
        const char *before, *now;
        bool warns;
    } rows[] = {
        {"/usr",      "/usr",          false},
        {"/usr/",     "/usr/bin",      false},
        {"/usr//",    "/usr",          false},
        {"/usr",      "/usr/",         false},
        {"/",         "/usr",          false},
        {"/proc/sys", "/proc/sysvipc", true },
        {"/usr/",     "/tmp",          true },
    };
    AUTO_BUF(lines, 4096);

    log_into(&lines);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct config before = {0}, now = {0};
        struct roots *old = open_roots(&before, &rows[i].before, NULL);
        struct roots *new = open_roots(&now, &rows[i].now, old);

        buf_clear(&lines);
        roots_warn_new(new);
        CHECK_EQ(lines.n > 0, rows[i].warns);
        close_roots(new);
        close_roots(old);
    }
}
