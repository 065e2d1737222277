#include "server/http/logfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/time.h"
#include "base/tree.h"
#include "test.h"

static char dir[] = "/tmp/test_logfile.XXXXXX";

static void read_back(const char *name, struct buf *out)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    buf_clear(out);
    (void)io_read_file(AT_FDCWD, path, 1 << 20, out, NULL);
}

static struct loop *loop;

static void on_stop(struct loop_timer *timer UNUSED)
{
    loop_stop(loop);
}

static void begin(void)
{
    CHECK(mkdtemp(dir) != NULL);
    CHECK_EQ(loop_new(&loop, NULL), 0);
}

static int open_log(const char *path, uint64_t bytes_max, unsigned backups, struct logfile **ret)
{
    struct logfile_conf conf = {path, bytes_max, backups, (uid_t)-1, (gid_t)-1};

    return logfile_open(loop, &conf, ret, NULL);
}

static void end(struct logfile *f)
{
    logfile_close(f);
    loop_free(loop);
    CHECK_EQ(tree_remove(AT_FDCWD, dir, NULL), 0);
}

static void run_ms(uint64_t ms)
{
    struct loop_timer timer = {0};

    loop_timer_set(loop, &timer, deadline_in_ms(ms), on_stop);
    CHECK_EQ(loop_run(loop, NULL), 0);
}

TEST(logfile, puts_the_file_aside_when_it_has_grown)
{
    AUTO_BUF(text, 1 << 20);
    struct logfile *f;
    char path[128];
    int fd;

    begin();
    (void)snprintf(path, sizeof(path), "%s/deep/er/log", dir);
    CHECK_EQ(open_log(path, 20, 2, &f), 0);
    fd = logfile_fd(f);
    for (int i = 0; i < 4; i++) {
        CHECK(dprintf(fd, "round %d, long enough to rotate\n", i) > 0);
        run_ms(1100);
    }
    CHECK(dprintf(logfile_fd(f), "last\n") > 0);
    CHECK_EQ(logfile_fd(f), fd);
    read_back("deep/er/log", &text);
    CHECK_STR(text.p, "last\n");
    read_back("deep/er/log.1", &text);
    CHECK_STR(text.p, "round 3, long enough to rotate\n");
    read_back("deep/er/log.2", &text);
    CHECK_STR(text.p, "round 2, long enough to rotate\n");
    read_back("deep/er/log.3", &text);
    CHECK_EQ(text.n, 0);
    end(f);
}

TEST(logfile, is_private_and_can_be_opened_anew)
{
    AUTO_BUF(text, 1 << 20);
    struct logfile *f;
    char path[128], moved[128];
    struct stat st;

    begin();
    (void)snprintf(path, sizeof(path), "%s/log", dir);
    (void)snprintf(moved, sizeof(moved), "%s/moved", dir);
    CHECK_EQ(open_log(path, 1 << 20, 0, &f), 0);
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    CHECK(dprintf(logfile_fd(f), "one\n") > 0);
    CHECK_EQ(rename(path, moved), 0);
    logfile_reopen(f);
    CHECK(dprintf(logfile_fd(f), "two\n") > 0);
    read_back("moved", &text);
    CHECK_STR(text.p, "one\n");
    read_back("log", &text);
    CHECK_STR(text.p, "two\n");
    end(f);
}

static void check_refused(const char *path, int error, const char *named)
{
    struct logfile_conf conf = {path, 1 << 20, 0, (uid_t)-1, (gid_t)-1};
    struct logfile *f;
    struct err e = {0};

    CHECK_EQ(logfile_open(loop, &conf, &f, &e), -error);
    if (!strstr(e.msg, named))
        test_fail(__FILE__, __LINE__, "\"%s\" does not name '%s'", e.msg, named);
}

TEST(logfile, makes_nothing_behind_a_link)
{
    static const char *const logs[] = {"log", "made/log", "/log", "./log", "made/er/log"};
    char path[256], away[128], link[128];

    begin();
    (void)snprintf(away, sizeof(away), "%s/away", dir);
    CHECK_EQ(mkdir(away, 0755), 0);
    (void)snprintf(link, sizeof(link), "%s/link", dir);
    CHECK_EQ(symlink(away, link), 0);
    for (size_t i = 0; i < ARRAY_LEN(logs); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", link, logs[i]);
        check_refused(path, ENOTDIR, link);
    }
    CHECK_EQ(rmdir(away), 0); /* still empty */
    check_refused(path, ENOTDIR, link);
    CHECK(access(away, F_OK) < 0);
    end(NULL);
}

TEST(logfile, is_no_link_and_has_one_name)
{
    char path[128], other[128];
    struct stat st;

    begin();
    (void)snprintf(path, sizeof(path), "%s/log", dir);
    (void)snprintf(other, sizeof(other), "%s/other", dir);
    CHECK_EQ(symlink(other, path), 0);
    check_refused(path, ELOOP, path);
    CHECK(access(other, F_OK) < 0);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(mknod(other, S_IFREG | 0600, 0), 0);
    CHECK_EQ(link(other, path), 0);
    check_refused(path, EINVAL, path);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(mkfifo(path, 0600), 0);
    check_refused(path, ENXIO, path);
    CHECK_EQ(stat(other, &st), 0);
    CHECK_EQ(st.st_size, 0);
    check_refused("log", EINVAL, "log");
    check_refused("some/log", EINVAL, "log");
    end(NULL);
}

TEST(logfile, hands_over_the_last_directory_that_it_made)
{
    struct logfile_conf conf = {NULL, 1 << 20, 0, 61700, 61701};
    struct logfile *f;
    char path[128];
    struct stat st;

    if (geteuid() != 0)
        test_skip("needs root");
    begin();
    (void)snprintf(path, sizeof(path), "%s/upper/lower/log", dir);
    conf.path = path;
    CHECK_EQ(logfile_open(loop, &conf, &f, NULL), 0);
    CHECK_EQ(stat(path, &st), 0);
    CHECK(st.st_uid == 61700 && st.st_gid == 61701);
    *strrchr(path, '/') = '\0';
    CHECK_EQ(stat(path, &st), 0);
    CHECK(st.st_uid == 61700 && st.st_gid == 61701);
    *strrchr(path, '/') = '\0';
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_uid, 0);
    end(f);
}
