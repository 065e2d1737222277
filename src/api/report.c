#include "api/report.h"

#include <errno.h>

#include "base/io.h"

enum { LOOKS_MAX = 8 }; /* a torn read is rare, two in a row are rarer */

uint64_t report_sum(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    uint64_t sum = 0xcbf29ce484222325;

    for (size_t i = 0; i < n; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3;
    return sum;
}

/* Reads a record that begins with `magic` and ends with its checksum. */
static int record_read(int fd, void *record, size_t size, const char magic[8])
{
    const char *bytes = record;
    uint64_t sum;
    size_t n;
    int r;

    for (int look = 0; look < LOOKS_MAX; look++) {
        r = io_pread_full(fd, record, size, 0, &n);
        if (r < 0)
            return r;
        if (n == 0)
            return -ENODATA;
        if (n != size || memcmp(bytes, magic, 8) != 0)
            return -EBADMSG;
        memcpy(&sum, bytes + size - sizeof(sum), sizeof(sum));
        if (sum == report_sum(bytes, size - sizeof(sum)))
            return 0;
    }
    return -EBADMSG;
}

bool entry_is_idle(const char *const *argv)
{
    static const char *const idle[] = {"tail", "-f", "/dev/null"};

    for (size_t i = 0; i < ARRAY_LEN(idle); i++)
        if (!argv[i] || strcmp(argv[i], idle[i]) != 0)
            return false;
    return !argv[ARRAY_LEN(idle)];
}

int exit_report_read(int fd, struct exit_report *ret)
{
    struct exit_report report;
    int r = record_read(fd, &report, sizeof(report), EXIT_REPORT_MAGIC);

    if (r < 0)
        return r;
    if (report.version != REPORT_VERSION || report.phase < REPORT_STARTING ||
        report.phase > REPORT_FAILED)
        return -EBADMSG;
    report.message[sizeof(report.message) - 1] = '\0';
    *ret = report;
    return 0;
}

static int log_head_read(int fd, uint64_t *ret_written)
{
    struct entry_log_head head;
    int r = record_read(fd, &head, sizeof(head), ENTRY_LOG_MAGIC);

    if (r < 0)
        return r;
    if (head.version != REPORT_VERSION || head.capacity != ENTRY_LOG_BYTES ||
        head.written > INT64_MAX)
        return -EBADMSG;
    *ret_written = head.written;
    return 0;
}

/* Appends the bytes from..to of the stream: two pieces where the ring wraps. */
static int log_data_read(int fd, uint64_t from, uint64_t to, struct buf *out)
{
    int r = buf_reserve(out, to - from);

    while (r >= 0 && from < to) {
        size_t at = from % ENTRY_LOG_BYTES, n = min_size(to - from, ENTRY_LOG_BYTES - at), got;

        r = io_pread_full(fd, out->p + out->n, n, (off_t)(ENTRY_LOG_DATA_OFFSET + at), &got);
        if (r >= 0 && got < n)
            r = -EBADMSG; /* fewer bytes than the head counts */
        if (r >= 0)
            buf_claim(out, n);
        from += n;
    }
    return r;
}

/* Reads the last n bytes, without those at the front that the writer may have overwritten
 * meanwhile. */
static int log_tail_read(int fd, size_t n, struct buf *out, uint64_t *ret_written)
{
    uint64_t written, after, lost;
    int r = log_head_read(fd, &written);

    n = r < 0 ? 0 : min_size(n, written);
    if (r >= 0)
        r = log_data_read(fd, written - n, written, out);
    if (r >= 0)
        r = log_head_read(fd, &after);
    if (r < 0)
        return r;
    if (after < written)
        return -EBADMSG;
    lost =
        after - written > ENTRY_LOG_READ_MAX - n ? after - written - (ENTRY_LOG_READ_MAX - n) : 0;
    if (lost > 0 && lost >= n)
        return -EAGAIN;
    buf_drop_front(out, lost);
    *ret_written = written;
    return 0;
}

int entry_log_read(int fd, size_t bytes_max, struct buf *out, uint64_t *ret_written)
{
    AUTO_BUF(tail, ENTRY_LOG_READ_MAX);
    uint64_t written = 0;
    int r = -EAGAIN;

    for (int look = 0; look < LOOKS_MAX && r == -EAGAIN; look++) {
        buf_clear(&tail);
        r = log_tail_read(fd, min_size(bytes_max, ENTRY_LOG_READ_MAX), &tail, &written);
    }
    if (r >= 0)
        r = buf_add(out, buf_str(&tail));
    if (r >= 0 && ret_written)
        *ret_written = written;
    return r;
}
