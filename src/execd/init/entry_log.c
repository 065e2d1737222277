#include "execd/init/entry_log.h"

#include <errno.h>
#include <unistd.h>

#include "api/report.h"
#include "base/fd.h"
#include "base/time.h"

static int log_write_head(const struct entry_log *log)
{
    struct entry_log_head head = {
        .magic = ENTRY_LOG_MAGIC,
        .version = REPORT_VERSION,
        .capacity = ENTRY_LOG_BYTES,
        .written = log->written,
    };

    head.sum = report_sum(&head, offsetof(struct entry_log_head, sum));
    return fd_pwrite_all(log->fd, &head, sizeof(head), 0);
}

int entry_log_init(struct entry_log *log, int fd)
{
    *log = (struct entry_log){.fd = fd};
    if (fd < 0)
        return 0;
    if (ftruncate(fd, 0) < 0)
        return -errno;
    return log_write_head(log);
}

/* Time marks are optional: if one cannot be written, the data is written all the same. */
static void log_mark(struct entry_log *log)
{
    uint64_t now_ms = time_mono_ms();
    struct entry_log_mark mark = {log->written, time_wall_us()};
    off_t at = (off_t)(ENTRY_LOG_MARKS_OFFSET + log->marks % ENTRY_LOG_MARKS * sizeof(mark));

    if (log->marks > 0 && now_ms - log->marked_ms < ENTRY_LOG_MARK_MS)
        return;
    if (fd_pwrite_all(log->fd, &mark, sizeof(mark), at) < 0)
        return;
    log->marks++;
    log->marked_ms = now_ms;
}

int entry_log_add(struct entry_log *log, struct str data)
{
    int r = 0;

    if (log->fd >= 0 && data.n > 0)
        log_mark(log);
    while (log->fd >= 0 && r >= 0 && data.n > 0) {
        size_t at = log->written % ENTRY_LOG_BYTES;
        size_t n = min_size(min_size(data.n, ENTRY_LOG_CHUNK_MAX), ENTRY_LOG_BYTES - at);

        r = fd_pwrite_all(log->fd, data.p, n, (off_t)(ENTRY_LOG_DATA_OFFSET + at));
        if (r < 0)
            break;
        log->written += n;
        r = log_write_head(log);
        data = str_skip(data, n);
    }
    return r;
}
