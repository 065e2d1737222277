/* exit_report.h - writes the entrypoint's state to a file that is read outside. See api/report.h.
 */
#pragma once

#include "api/report.h"
#include "base/err.h"
#include <sys/types.h>

struct exit_reporter {
    int fd; /* -EBADF: no report is wanted */
    struct exit_report now;
};

/* Each call writes the whole report and returns the error of that write. The caller keeps ownership
 * of `fd`. */
int exit_report_starting(struct exit_reporter *r, int fd) MUST_USE;
int exit_report_running(struct exit_reporter *r, pid_t entry_pid) MUST_USE; /* 0 = no process */
int exit_report_exited(struct exit_reporter *r, int exit_code, int exit_signal) MUST_USE;
int exit_report_failed(struct exit_reporter *r, const struct err *why) MUST_USE;
