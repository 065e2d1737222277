#include "execd/command/command_log.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "test.h"

enum { CAPACITY = 10 };

static struct command_log open_log(void)
{
    return COMMAND_LOG_NONE(CAPACITY);
}

TEST(command_log, reads_back_what_was_added)
{
    struct command_log log = open_log();
    char out[32];

    CHECK_EQ(command_log_read(&log, 0, out, sizeof(out)), 0);
    CHECK_EQ(command_log_add(&log, STR("abc\n")), 0);
    CHECK_EQ(command_log_read(&log, 0, out, sizeof(out)), 4);
    CHECK_EQ(memcmp(out, "abc\n", 4), 0);
    CHECK_EQ(command_log_read(&log, 2, out, 1), 1);
    CHECK_EQ(out[0], 'c');
    CHECK_EQ(command_log_read(&log, 4, out, sizeof(out)), 0);
    CHECK_EQ(command_log_bytes(&log), 4);
    command_log_close(&log);
    CHECK_EQ(command_log_read(&log, 0, out, sizeof(out)), -ESTALE);
    CHECK_EQ(command_log_add(&log, STR("x")), 0); /* nobody wants it any more */
    CHECK_EQ(command_log_bytes(&log), 0);
}

TEST(command_log, is_opened_ahead_and_given_back_unused)
{
    struct command_log log = open_log();
    char out[4];

    command_log_open(&log);
    CHECK(log.fd >= 0);
    command_log_spare(&log);
    CHECK_EQ(log.fd, -EBADF);
    CHECK(!command_log_is_gone(&log));
    CHECK_EQ(command_log_add(&log, STR("late")), 0);
    command_log_spare(&log);
    CHECK_EQ(command_log_read(&log, 0, out, sizeof(out)), 4);
    command_log_close(&log);
}

TEST(command_log, keeps_the_last_and_says_what_is_gone)
{
    struct command_log log = open_log();
    char out[32];
    uint64_t at;
    ssize_t n;

    CHECK_EQ(command_log_add(&log, STR("0123456")), 0);
    CHECK_EQ(command_log_add(&log, STR("789abcdefghijklmnopqrst")), 0); /* more than it holds */
    CHECK_EQ(log.written, 30);
    CHECK_EQ(command_log_read(&log, 19, out, sizeof(out)), -ESTALE);
    at = command_log_seek(&log, 0);
    CHECK_EQ(at, 20);
    CHECK_EQ(command_log_seek(&log, 25), 25);
    n = command_log_read(&log, at, out, sizeof(out));
    CHECK_EQ(n, 10);
    CHECK_EQ(memcmp(out, "klmnopqrst", 10), 0);
    CHECK_EQ(command_log_add(&log, STR("uv")), 0);
    n = command_log_read(&log, 22, out, sizeof(out)); /* up to the end of the ring */
    CHECK_EQ(n, 8);
    CHECK_EQ(command_log_read(&log, 30, out, sizeof(out)), 2);
    CHECK_EQ(memcmp(out, "uv", 2), 0);
    CHECK_EQ(command_log_bytes(&log), CAPACITY);
    command_log_close(&log);
}

TEST(command_log, has_no_name_and_needs_no_tmpdir)
{
    struct command_log log;
    struct stat st;

    CHECK_EQ(setenv("TMPDIR", "/nonexistent", 1), 0);
    log = open_log();
    CHECK(log.fd < 0 && !command_log_is_gone(&log)); /* made for the first byte */
    CHECK_EQ(command_log_add(&log, STR("x")), 0);
    CHECK_EQ(fstat(log.fd, &st), 0);
    CHECK_EQ(st.st_nlink, 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    command_log_close(&log);
}

TEST(command_log, begins_behind_what_the_disk_did_not_take)
{
    struct command_log log = open_log();
    struct rlimit limit = {4, RLIM_INFINITY}, before;
    char out[32];

    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit.rlim_max = before.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(command_log_add(&log, STR("abcdef")), -EFBIG);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK_EQ(log.written, 6);
    CHECK_EQ(command_log_seek(&log, 0), 6);
    CHECK_EQ(command_log_read(&log, 2, out, sizeof(out)), -ESTALE);
    CHECK_EQ(command_log_add(&log, STR("gh")), 0);
    CHECK_EQ(command_log_read(&log, 6, out, sizeof(out)), 2);
    CHECK_EQ(memcmp(out, "gh", 2), 0);
    command_log_close(&log);
}
