#include "base/log_rotate.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tree.h"
#include "test.h"

struct folder {
    char path[32];
    int fd;
};

static struct folder folder_open(void)
{
    struct folder f = {"/tmp/test-rotate-XXXXXX", -EBADF};

    CHECK(mkdtemp(f.path));
    f.fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(f.fd >= 0);
    return f;
}

static void folder_close(struct folder *f)
{
    CHECK_EQ(tree_remove(AT_FDCWD, f->path, NULL), 0);
    fd_close(f->fd);
}

static void put(const struct folder *f, const char *name, const char *text)
{
    auto_fd fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static const char *got(const struct folder *f, const char *name)
{
    static char text[16];
    auto_fd fd = openat(f->fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    return n < 0 ? "none" : text;
}

TEST(log_rotate, keeps_so_many)
{
    struct folder f = folder_open();

    CHECK_EQ(log_rotate(f.fd, "log", 2), 0); /* none yet */
    for (char c = 'a'; c <= 'd'; c++) {
        put(&f, "log", (char[]){c, '\0'});
        CHECK_EQ(log_rotate(f.fd, "log", 2), 0);
    }
    CHECK_STR(got(&f, "log"), "none");
    CHECK_STR(got(&f, "log.1"), "d");
    CHECK_STR(got(&f, "log.2"), "c");
    CHECK_STR(got(&f, "log.3"), "none");
    folder_close(&f);
}

TEST(log_rotate, replaces_what_cannot_be_renamed)
{
    struct folder f = folder_open();

    CHECK_EQ(mkdirat(f.fd, "log.2", 0700), 0);
    put(&f, "log", "new");
    put(&f, "log.1", "old");
    CHECK_EQ(log_rotate(f.fd, "log", 2), 0);
    CHECK_STR(got(&f, "log.1"), "new");
    CHECK_EQ(unlinkat(f.fd, "log.1", 0), 0);
    CHECK_EQ(mkdirat(f.fd, "log.1", 0700), 0);
    put(&f, "log", "stuck");
    CHECK_EQ(log_rotate(f.fd, "log", 1), -EISDIR);
    CHECK_STR(got(&f, "log"), "stuck");
    folder_close(&f);
}

TEST(log_rotate, drops_old_ones)
{
    struct folder f = folder_open();
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

    put(&f, "log", "log");
    put(&f, "log.1", "young");
    put(&f, "log.2", "old");
    CHECK_EQ(utimensat(f.fd, "log", old, 0), 0);
    CHECK_EQ(utimensat(f.fd, "log.2", old, 0), 0);
    log_rotate_drop(f.fd, "log", 2, 2000);
    CHECK_STR(got(&f, "log"), "log");
    CHECK_STR(got(&f, "log.1"), "young");
    CHECK_STR(got(&f, "log.2"), "none");
    folder_close(&f);
}
