#include "execd/init/exit_report.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "test.h"

static struct exit_report read_back(int fd)
{
    struct exit_report got = {0};

    CHECK_EQ(exit_report_read(fd, &got), 0);
    return got;
}

TEST(exit_report, follows_a_life_from_start_to_end)
{
    auto_fd fd = memfd_create("report", MFD_CLOEXEC);
    struct exit_reporter r;
    struct exit_report got;
    int64_t before = time_wall_us();

    CHECK_EQ(exit_report_starting(&r, fd), 0);
    got = read_back(fd);
    CHECK_EQ(got.phase, REPORT_STARTING);
    CHECK_EQ(got.started_us, 0);

    CHECK_EQ(exit_report_running(&r, 42), 0);
    got = read_back(fd);
    CHECK_EQ(got.phase, REPORT_RUNNING);
    CHECK_EQ(got.entry_pid, 42);
    CHECK(got.started_us >= before);

    CHECK_EQ(exit_report_exited(&r, 0, 9), 0);
    got = read_back(fd);
    CHECK_EQ(got.phase, REPORT_EXITED);
    CHECK_EQ(got.exit_code, 0);
    CHECK_EQ(got.exit_signal, 9);
    CHECK(got.ended_us >= got.started_us);
}

TEST(exit_report, carries_the_reason_of_a_failed_start)
{
    auto_fd fd = memfd_create("report", MFD_CLOEXEC);
    struct exit_reporter r;
    struct exit_report got;
    struct err e = {0};

    CHECK_EQ(exit_report_starting(&r, fd), 0);
    (void)err_sys(&e, ENOENT, "exec 'no-such'");
    CHECK_EQ(exit_report_failed(&r, &e), 0);
    got = read_back(fd);
    CHECK_EQ(got.phase, REPORT_FAILED);
    CHECK_EQ(got.error_code, ENOENT);
    CHECK_STR(got.message, "exec 'no-such': No such file or directory");
}

TEST(exit_report, says_when_it_cannot_be_written)
{
    struct exit_reporter r;

    CHECK_EQ(exit_report_starting(&r, 1000), -EBADF);
    CHECK_EQ(exit_report_starting(&r, -EBADF), 0); /* no report was requested */
}
