/* report.h - two files that PID 1 of a sandbox writes for readers outside: the state of its
 * entrypoint and the entrypoint's latest output.
 *
 * Only execd writes them, in the byte order of the machine. Readers must not trust them: code that
 * takes over PID 1 can write anything. The functions here check all they return.
 *
 * The exit report is one struct exit_report at offset 0, replaced as a whole. A reader may see a
 * partial write; the checksum detects it.
 *
 * The entrypoint's log is a ring: a struct entry_log_head at offset 0, and ENTRY_LOG_BYTES of data
 * from ENTRY_LOG_DATA_OFFSET on. Byte number o of the stream, from 0, is at o % ENTRY_LOG_BYTES of
 * the data. The writer first writes at most ENTRY_LOG_CHUNK_MAX bytes of data, then the head that
 * counts them. So the oldest ENTRY_LOG_CHUNK_MAX bytes of a full ring may be half overwritten, and
 * readers skip them.
 *
 * After the data is a ring of ENTRY_LOG_MARKS timestamps. Each is set before the data it is for,
 * and at least ENTRY_LOG_MARK_MS after the previous one. A zero one was never set. */
#pragma once

#include "base/buf.h"
#include "base/defs.h"
#include <assert.h>

enum {
    REPORT_VERSION = 1,
    REPORT_MESSAGE_MAX = 252, /* with the NUL */
    ENTRY_LOG_BYTES = 1 << 20,
    ENTRY_LOG_CHUNK_MAX = 64 << 10,
    ENTRY_LOG_DATA_OFFSET = 4096,
    ENTRY_LOG_MARKS_OFFSET = ENTRY_LOG_DATA_OFFSET + ENTRY_LOG_BYTES,
    ENTRY_LOG_MARKS = 16 << 10, /* more than the lines that a client may ask for */
    ENTRY_LOG_MARK_MS = 10,
    ENTRY_LOG_READ_MAX = ENTRY_LOG_BYTES - ENTRY_LOG_CHUNK_MAX, /* readable bytes of a full ring */
};

#define EXIT_REPORT_MAGIC "osbexit"
#define ENTRY_LOG_MAGIC   "osbelog"

enum report_phase {
    REPORT_STARTING = 1, /* PID 1 runs, the entrypoint does not yet */
    REPORT_RUNNING,
    REPORT_EXITED, /* the entrypoint ended: see exit_code or exit_signal */
    REPORT_FAILED, /* it never ran: see error_code and message */
};

struct exit_report {
    char magic[8];     /* EXIT_REPORT_MAGIC */
    uint32_t version;  /* REPORT_VERSION */
    uint32_t phase;    /* enum report_phase */
    int32_t entry_pid; /* in the sandbox's PID namespace; 0 without a process (idle, or not yet) */
    int32_t exit_code; /* 0..255 if it exited; else 0 */
    int32_t exit_signal; /* the signal that ended it; else 0 */
    int32_t error_code;  /* positive errno of REPORT_FAILED; else 0 */
    int64_t started_us;  /* wall clock, microseconds since 1970; 0 = not yet */
    int64_t ended_us;
    char message[REPORT_MESSAGE_MAX];
    uint32_t reserved;
    uint64_t sum; /* report_sum of all fields before it */
};
static_assert(sizeof(struct exit_report) == 8 + 6 * 4 + 2 * 8 + 252 + 4 + 8, "no padding");

struct entry_log_head {
    char magic[8];     /* ENTRY_LOG_MAGIC */
    uint32_t version;  /* REPORT_VERSION */
    uint32_t capacity; /* ENTRY_LOG_BYTES */
    uint64_t written;  /* bytes since the start */
    uint64_t sum;      /* report_sum of all fields before it */
};
static_assert(sizeof(struct entry_log_head) == 32, "no padding");

struct entry_log_mark {
    uint64_t at; /* offset in the stream: from here on */
    int64_t us;  /* bytes were written at this time (wall clock) or later */
};
static_assert(sizeof(struct entry_log_mark) == 16, "no padding");

/* `tail -f /dev/null` means a sandbox without a program: execd starts no process for it. */
bool entry_is_idle(const char *const *argv);

uint64_t report_sum(const void *p, size_t n); /* FNV-1a; detects torn reads, not tampering */

/* -ENODATA while nothing was written, -EBADMSG for an invalid report. On success the message is
 * NUL-terminated and the phase is valid. */
int exit_report_read(int fd, struct exit_report *ret) MUST_USE;

/* Appends the last `bytes_max` bytes of the log to `out`, or as many as there are: at most
 * ENTRY_LOG_READ_MAX once the ring is full, and fewer when the writer overwrote some meanwhile.
 * *ret_written (may be NULL) is the stream offset of the end of what was read. Fails as
 * exit_report_read does, with -EAGAIN when the writer overwrote all of it at each try, and with
 * -EMSGSIZE past the limit of `out`; on failure `out` is unchanged. */
int entry_log_read(int fd, size_t bytes_max, struct buf *out, uint64_t *ret_written) MUST_USE;

/* Appends the last `lines_max` lines, each after the time at which it began, or "-" when that is
 * not known; in a log without times all are "-". since_us > 0: only those that began then or
 * later, if the log has times. *ret_cut: there were more, in the log or before its start. Fails
 * as above. */
int entry_log_read_lines(int fd, int64_t since_us, uint32_t lines_max, struct buf *out,
                         bool *ret_cut) MUST_USE;
