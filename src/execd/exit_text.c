#include "execd/exit_text.h"

#include <signal.h>

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
