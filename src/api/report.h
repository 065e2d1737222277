/* report.h - what PID 1 of a sandbox leaves for readers outside: how its entrypoint fares, and what
 * that printed last.
 *
 * Two files, written by execd alone, in the byte order of the machine. Their reader must not trust
 * them: whoever takes over PID 1 writes what it likes. The functions here check all they return.
 *
 * The exit report is one struct exit_report at offset 0, replaced as a whole. A reader may meet a
 * write half way; the checksum tells.
 *
 * The entrypoint's log is a ring: a struct entry_log_head at offset 0, and from
 * ENTRY_LOG_DATA_OFFSET on, ENTRY_LOG_BYTES of data. The byte that was the o-th ever written, from
 * 0, is at o % ENTRY_LOG_BYTES of the data. The writer first writes at most ENTRY_LOG_CHUNK_MAX
 * bytes of data, then the head that counts them. So the oldest ENTRY_LOG_CHUNK_MAX bytes of a full
 * ring may be in the middle of being replaced, and readers leave them alone.
 *
 * Behind the data stands a ring of ENTRY_LOG_MARKS times, each set before the data it is about, and
 * none sooner than ENTRY_LOG_MARK_MS after the last. One that is zero was never set. */
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
    ENTRY_LOG_MARKS = 16 << 10, /* more than the lines anybody may ask for */
    ENTRY_LOG_MARK_MS = 10,
    ENTRY_LOG_READ_MAX = ENTRY_LOG_BYTES - ENTRY_LOG_CHUNK_MAX, /* what a full ring can give */
};

#define EXIT_REPORT_MAGIC "osbexit"
#define ENTRY_LOG_MAGIC   "osbelog"

enum report_phase {
    REPORT_STARTING = 1, /* PID 1 is up, the entrypoint not yet */
    REPORT_RUNNING,
    REPORT_EXITED, /* the entrypoint ended: exit_code or exit_signal says how */
    REPORT_FAILED, /* it never ran: error_code and message say why */
};

struct exit_report {
    char magic[8];       /* EXIT_REPORT_MAGIC */
    uint32_t version;    /* REPORT_VERSION */
    uint32_t phase;      /* enum report_phase */
    int32_t entry_pid;   /* as the sandbox counts; 0 when there is no process (idle, or not yet) */
    int32_t exit_code;   /* 0..255, when it exited; else 0 */
    int32_t exit_signal; /* the signal that ended it; else 0 */
    int32_t error_code;  /* positive errno of REPORT_FAILED; else 0 */
    int64_t started_us;  /* wall clock, microseconds since 1970; 0 = not yet */
    int64_t ended_us;
    char message[REPORT_MESSAGE_MAX];
    uint32_t reserved;
    uint64_t sum; /* report_sum of all that stands before it */
};
static_assert(sizeof(struct exit_report) == 8 + 6 * 4 + 2 * 8 + 252 + 4 + 8, "no padding");

struct entry_log_head {
    char magic[8];     /* ENTRY_LOG_MAGIC */
    uint32_t version;  /* REPORT_VERSION */
    uint32_t capacity; /* ENTRY_LOG_BYTES */
    uint64_t written;  /* bytes since the start */
    uint64_t sum;      /* report_sum of all that stands before it */
};
static_assert(sizeof(struct entry_log_head) == 32, "no padding");

struct entry_log_mark {
    uint64_t at; /* the place in the stream from which on */
    int64_t us;  /* bytes were written at this time, wall clock, or later */
};
static_assert(sizeof(struct entry_log_mark) == 16, "no padding");

/* `tail -f /dev/null` asks for a sandbox that only stays: execd starts no process for it. */
bool entry_is_idle(const char *const *argv);

uint64_t report_sum(const void *p, size_t n); /* FNV-1a; against torn reads, not against malice */

/* -ENODATA while nothing was written, -EBADMSG when it is no valid report. On success the message
 * is terminated and the phase is one of the above. */
int exit_report_read(int fd, struct exit_report *ret) MUST_USE;

/* Appends the last `bytes_max` bytes of the log to `out`, or as many as there are: at most
 * ENTRY_LOG_READ_MAX once the ring is full, and fewer when the writer ran over some meanwhile.
 * *ret_written (may be NULL) is the place in the stream of the end of what was read. Fails as
 * exit_report_read does, with -EAGAIN when the writer ran over all of it each time we looked, and
 * with -EMSGSIZE past out's ceiling; `out` is then as it was. */
int entry_log_read(int fd, size_t bytes_max, struct buf *out, uint64_t *ret_written) MUST_USE;

/* Appends the last `lines_max` lines, each behind the time at which it began, or "-" when that is
 * no longer known; a log without times is all "-". since_us > 0: of them those that began then or
 * later, if the log has times. *ret_cut: there were more, in the log or before what it
 * holds. Fails as above. */
int entry_log_read_lines(int fd, int64_t since_us, uint32_t lines_max, struct buf *out,
                         bool *ret_cut) MUST_USE;
