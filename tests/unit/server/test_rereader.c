#include "server/rereader.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tree.h"
#include "test.h"

static char dir[] = "/tmp/test_rereader.XXXXXX";
static char path[64];

static void put(const char *text)
{
    auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
}

static void begin(struct rereader *r)
{
    struct err e = {0};

    if (geteuid() != 0)
        test_skip("needs root");
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof(path), "%s/conf", dir);
    put("first");
    CHECK_EQ(rereader_start(path, r, &e), 0);
}

static void end(struct rereader *r)
{
    rereader_stop(r);
    CHECK_EQ(tree_remove(AT_FDCWD, dir, NULL), 0);
}

static void check_reads(struct rereader *r, const char *text)
{
    struct err e = {0};
    auto_fd fd = rereader_open(r, &e);
    char got[64] = {0};

    CHECK_STR(e.msg, "");
    CHECK(fd >= 0);
    CHECK(read(fd, got, sizeof(got) - 1) >= 0);
    CHECK_STR(got, text);
}

TEST(rereader, opens_what_is_at_the_path_now)
{
    struct rereader r;

    begin(&r);
    check_reads(&r, "first");
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rereader_open(&r, NULL), -ENOENT);
    put("second");
    check_reads(&r, "second");
    end(&r);
}

TEST(rereader, opens_no_link_and_no_second_name)
{
    struct rereader r;
    char other[128];

    begin(&r);
    (void)snprintf(other, sizeof(other), "%s/other", dir);
    CHECK_EQ(link(path, other), 0);
    CHECK_EQ(rereader_open(&r, NULL), -EINVAL);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(symlink(other, path), 0);
    CHECK_EQ(rereader_open(&r, NULL), -ELOOP);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(mkfifo(path, 0600), 0);
    CHECK_EQ(rereader_open(&r, NULL), -EINVAL);
    end(&r);
}

TEST(rereader, ends_with_the_server_though_standard_input_was_closed)
{
    struct rereader r;

    (void)close(STDIN_FILENO);
    begin(&r);
    CHECK(r.sock > STDERR_FILENO);
    check_reads(&r, "first");
    fd_close(r.sock); /* as when the server is killed: without rereader_stop() */
    CHECK_EQ(waitpid(r.pid, NULL, 0), r.pid);
    r = REREADER_NONE;
    end(&r);
}

TEST(rereader, is_not_waited_for_when_it_hangs)
{
    struct rereader r;

    begin(&r);
    CHECK_EQ(kill(r.pid, SIGSTOP), 0);
    end(&r);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(rereader, does_not_take_a_late_answer_for_the_next)
{
    struct rereader r;
    struct pollfd late;

    begin(&r);
    CHECK_EQ(kill(r.pid, SIGSTOP), 0);
    CHECK_EQ(rereader_open(&r, NULL), -EAGAIN);
    CHECK_EQ(kill(r.pid, SIGCONT), 0);
    late = (struct pollfd){.fd = r.sock, .events = POLLIN};
    CHECK_EQ(poll(&late, 1, -1), 1);
    CHECK_EQ(unlink(path), 0);
    put("second");
    check_reads(&r, "second");
    check_reads(&r, "second");
    end(&r);
}
