#include "api/report.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

static int file_of(const void *p, size_t n)
{
    int fd = memfd_create("report", MFD_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, p, n, 0), (ssize_t)n);
    return fd;
}

static struct exit_report report_make(void)
{
    struct exit_report report = {
        .magic = EXIT_REPORT_MAGIC,
        .version = REPORT_VERSION,
        .phase = REPORT_EXITED,
        .exit_code = 3,
    };

    return report;
}

static int report_roundtrip(struct exit_report report, struct exit_report *ret)
{
    auto_fd fd = -EBADF;

    report.sum = report_sum(&report, offsetof(struct exit_report, sum));
    fd = file_of(&report, sizeof(report));
    return exit_report_read(fd, ret);
}

static int log_head_roundtrip(struct entry_log_head head)
{
    AUTO_BUF(out, ENTRY_LOG_BYTES);
    auto_fd fd = -EBADF;
    int r;

    head.sum = report_sum(&head, offsetof(struct entry_log_head, sum));
    fd = file_of(&head, sizeof(head));
    r = entry_log_read(fd, 10, &out, NULL);
    CHECK_EQ(out.n, 0);
    return r;
}

TEST(report, reads_what_is_valid)
{
    struct exit_report got = {0};

    CHECK_EQ(report_roundtrip(report_make(), &got), 0);
    CHECK_EQ(got.phase, REPORT_EXITED);
    CHECK_EQ(got.exit_code, 3);
}

TEST(report, says_when_nothing_was_written_yet)
{
    struct exit_report got;
    AUTO_BUF(out, 100);
    auto_fd fd = file_of("", 0);

    CHECK_EQ(exit_report_read(fd, &got), -ENODATA);
    CHECK_EQ(entry_log_read(fd, 10, &out, NULL), -ENODATA);
}

TEST(report, refuses_a_stranger_s_bytes)
{
    struct exit_report report = report_make(), got;
    auto_fd garbage = file_of("hello there, this is no report", 30);

    CHECK_EQ(exit_report_read(garbage, &got), -EBADMSG);
    report.phase = REPORT_FAILED + 1;
    CHECK_EQ(report_roundtrip(report, &got), -EBADMSG);
    report = report_make();
    report.version++;
    CHECK_EQ(report_roundtrip(report, &got), -EBADMSG);
    report = report_make();
    report.magic[0] = 'x';
    CHECK_EQ(report_roundtrip(report, &got), -EBADMSG);
}

TEST(report, refuses_a_report_whose_sum_is_wrong)
{
    struct exit_report report = report_make(), got;
    auto_fd fd = -EBADF;

    report.sum = report_sum(&report, offsetof(struct exit_report, sum));
    report.exit_code = 4;
    fd = file_of(&report, sizeof(report));
    CHECK_EQ(exit_report_read(fd, &got), -EBADMSG);
}

TEST(report, terminates_a_message_that_is_not)
{
    struct exit_report report = report_make(), got;

    memset(report.message, 'm', sizeof(report.message));
    CHECK_EQ(report_roundtrip(report, &got), 0);
    CHECK_EQ(strlen(got.message), REPORT_MESSAGE_MAX - 1);
}

TEST(report, refuses_a_log_head_that_lies)
{
    struct entry_log_head head = {ENTRY_LOG_MAGIC, REPORT_VERSION, ENTRY_LOG_BYTES, 0, 0};

    CHECK_EQ(log_head_roundtrip(head), 0);
    head.written = 5; /* of which the file has none */
    CHECK_EQ(log_head_roundtrip(head), -EBADMSG);
    head.written = UINT64_MAX;
    CHECK_EQ(log_head_roundtrip(head), -EBADMSG);
    head.written = 0;
    head.capacity = 1 << 30;
    CHECK_EQ(log_head_roundtrip(head), -EBADMSG);
}
