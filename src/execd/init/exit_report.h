/* exit_report.h - tells the outside how the entrypoint fares. The form is that of api/report.h. */
#pragma once

#include "api/report.h"
#include "base/err.h"
#include <sys/types.h>

struct exit_reporter {
    int fd; /* -EBADF: nobody listens */
    struct exit_report now;
};

/* Each writes the whole report, and fails only as the file does. `fd` stays the caller's. */
int exit_report_starting(struct exit_reporter *r, int fd) MUST_USE;
int exit_report_running(struct exit_reporter *r, pid_t entry_pid) MUST_USE; /* 0 = no process */
int exit_report_exited(struct exit_reporter *r, int exit_code, int exit_signal) MUST_USE;
int exit_report_failed(struct exit_reporter *r, const struct err *why) MUST_USE;
