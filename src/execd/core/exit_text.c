#include "execd/core/exit_text.h"

#include <signal.h>
#include <unistd.h>

#include "execd/core/fields.h"

enum {
    SHELL_SIGNAL_EXIT = 128
}; /* plus the signal: what a shell exits with after its child's end */

static const char *signal_text(int signo)
{
    static const char *const names[] = {
        [SIGHUP] = "hangup",
        [SIGINT] = "interrupt",
        [SIGQUIT] = "quit",
        [SIGILL] = "illegal instruction",
        [SIGTRAP] = "trace/breakpoint trap",
        [SIGABRT] = "aborted",
        [SIGBUS] = "bus error",
        [SIGFPE] = "floating point exception",
        [SIGKILL] = "killed",
        [SIGUSR1] = "user defined signal 1",
        [SIGSEGV] = "segmentation fault",
        [SIGUSR2] = "user defined signal 2",
        [SIGPIPE] = "broken pipe",
        [SIGALRM] = "alarm clock",
        [SIGTERM] = "terminated",
    };

    return signo > 0 && (size_t)signo < ARRAY_LEN(names) ? names[signo] : NULL;
}

void exit_text_add(struct buf *out, const struct proc_exit *how)
{
    const char *name = how->by_signal ? signal_text(how->code) : NULL;

    if (name)
        (void)buf_addf(out, "signal: %s", name);
    else if (how->by_signal)
        (void)buf_addf(out, "signal: signal %d", how->code);
    else if (how->code != 0)
        (void)buf_addf(out, "exit status %d", how->code);
    if (how->core_dumped)
        (void)buf_add(out, STR(" (core dumped)"));
}

uint64_t exit_oom_kills(const struct child_memory *m)
{
    char text[1024]; /* a few lines of a name and a number */
    ssize_t n = m->events_fd > 0 ? pread(m->events_fd, text, sizeof(text), 0) : -1;
    uint64_t kills = 0;

    if (n > 0 && fields_find(str_make(text, (size_t)n), "oom_kill", &kills) < 0)
        kills = 0;
    return kills;
}

bool exit_was_killed(const struct proc_exit *how)
{
    return how->code == (how->by_signal ? SIGKILL : SHELL_SIGNAL_EXIT + SIGKILL);
}

void exit_text_add_memory(struct buf *out, const struct child_memory *m, uint64_t before,
                          bool killed)
{
    if (out->n == 0 || exit_oom_kills(m) <= before)
        return;
    if (!killed)
        (void)buf_add(out, STR("; meanwhile the kernel killed a process of this sandbox"));
    if (m->limit_bytes > 0)
        (void)buf_addf(out, ": out of memory (limit %llu MiB)",
                       (unsigned long long)(m->limit_bytes >> 20));
    else
        (void)buf_add(out, STR(": out of memory"));
}
