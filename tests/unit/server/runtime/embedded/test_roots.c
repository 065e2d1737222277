#include "server/runtime/embedded/roots.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/tree.h"
#include "test.h"

enum { STRANGER = 54322 };

/* A directory of root that contains a directory of another user. */
struct home {
    char path[sizeof("/tmp/test-roots-XXXXXX")];
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
    struct home h = {"/tmp/test-roots-XXXXXX"};

    CHECK(mkdtemp(h.path));
    CHECK_EQ(mkdir(below(&h, "theirs"), 0755), 0);
    CHECK_EQ(chown(below(&h, "theirs"), STRANGER, STRANGER), 0);
    CHECK_EQ(mkdir(below(&h, "elsewhere"), 0755), 0);
    return h;
}
#define AUTO_HOME(name) __attribute__((cleanup(home_done))) struct home name = home_make()

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

TEST(roots, says_why_a_host_path_is_not_made)
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
    CHECK(strstr(lines.p, "leads through a link that users other than root could have made"));
}

TEST(roots, warns_only_of_host_paths_that_are_new)
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
