/* What a sandbox leaves in its report and its log, with sums made right so that the rest is looked
 * at: read or refused, and never more than the file holds. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/report.h"
#include "base/fd.h"
#include "fuzz.h"

enum { FILE_MAX = 1 << 16, TAIL_MAX = 5000 };

/* The bytes as a file, with the sum of a record that ends at `sum_at` + 8. */
static int file_with_sum(const uint8_t *data, size_t size, size_t sum_at)
{
    int fd = memfd_create("report", MFD_CLOEXEC);
    uint64_t sum = report_sum(data, sum_at < size ? sum_at : 0);

    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
    if (sum_at + sizeof(sum) <= size)
        FUZZ_CHECK(pwrite(fd, &sum, sizeof(sum), (off_t)sum_at) == (ssize_t)sizeof(sum));
    return fd;
}

static void try_exit_report(const uint8_t *data, size_t size)
{
    auto_fd fd = file_with_sum(data, size, offsetof(struct exit_report, sum));
    struct exit_report report;

    if (exit_report_read(fd, &report) < 0)
        return;
    FUZZ_CHECK(report.phase >= REPORT_STARTING && report.phase <= REPORT_FAILED);
    FUZZ_CHECK(memchr(report.message, '\0', sizeof(report.message)));
}

/* The input is also the marks. */
static void try_lines(int fd, const uint8_t *data, size_t size)
{
    AUTO_BUF(out, 1 << 20);
    bool cut;
    int r;

    FUZZ_CHECK(pwrite(fd, data, size, ENTRY_LOG_MARKS_OFFSET) == (ssize_t)size);
    r = entry_log_read_lines(fd, (int64_t)size, 100, &out, &cut);
    FUZZ_CHECK(r >= 0 || out.n == 0);
}

static void try_log(const uint8_t *data, size_t size)
{
    auto_fd fd = file_with_sum(data, size, offsetof(struct entry_log_head, sum));
    AUTO_BUF(out, TAIL_MAX);
    uint64_t written = 0;
    int r = entry_log_read(fd, TAIL_MAX, &out, &written);

    FUZZ_CHECK(r >= 0 || out.n == 0);
    try_lines(fd, data, size);
    if (r < 0)
        return;
    FUZZ_CHECK(out.n <= written && out.n <= TAIL_MAX);
    FUZZ_CHECK(out.n == 0 || out.n + ENTRY_LOG_DATA_OFFSET <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > FILE_MAX)
        return 0;
    try_exit_report(data, size);
    try_log(data, size);
    return 0;
}
