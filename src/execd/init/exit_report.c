#include "execd/init/exit_report.h"

#include "base/fd.h"
#include "base/time.h"

static int report_write(struct exit_reporter *r, enum report_phase phase)
{
    r->now.phase = phase;
    r->now.sum = report_sum(&r->now, offsetof(struct exit_report, sum));
    return r->fd < 0 ? 0 : fd_pwrite_all(r->fd, &r->now, sizeof(r->now), 0);
}

int exit_report_starting(struct exit_reporter *r, int fd)
{
    *r = (struct exit_reporter){
        .fd = fd,
        .now = {.magic = EXIT_REPORT_MAGIC, .version = REPORT_VERSION},
    };
    return report_write(r, REPORT_STARTING);
}

int exit_report_running(struct exit_reporter *r, pid_t entry_pid)
{
    r->now.entry_pid = entry_pid;
    r->now.started_us = time_wall_us();
    return report_write(r, REPORT_RUNNING);
}

int exit_report_exited(struct exit_reporter *r, int exit_code, int exit_signal)
{
    r->now.exit_code = exit_code;
    r->now.exit_signal = exit_signal;
    r->now.ended_us = time_wall_us();
    return report_write(r, REPORT_EXITED);
}

int exit_report_failed(struct exit_reporter *r, const struct err *why)
{
    static_assert(sizeof(r->now.message) >= sizeof(why->msg), "every message fits");
    r->now.error_code = why->code;
    memcpy(r->now.message, why->msg, sizeof(why->msg));
    r->now.ended_us = time_wall_us();
    return report_write(r, REPORT_FAILED);
}
