/* shell_stop.c - ends the run of a shell, and if possible not the shell.
 *
 * - at once: SHELL_BREAK to the shell, which returns to its loop, and SIGINT to its children.
 *   Background jobs ignore SIGINT, as in any shell. A shell without a handler gets SIGINT with its
 *   process group.
 * - soon: SIGINT for processes that the shell was just starting.
 * - then, after STOP_LOOK_MS: SIGINT alternately to its children and to all, in case the shell
 *   continued with other code. The interval grows by half each time: a signal delays a shell that
 *   is returning, which takes long on a busy machine.
 * - at kill_ns: SIGKILL to the remaining processes of the run, in whatever process group.
 * - at replace_ns: SIGKILL to the shell. If the machine is too busy for it to return, at
 *   patience_ns. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "execd/core/duration.h"
#include "execd/core/exit_text.h"
#include "execd/core/kin.h"
#include "execd/shell/shell_internal.h"

enum {
    STOP_FIRST_MS = 10, /* doubled until it reaches STOP_LOOK_MS */
    STOP_LOOK_MS = 100,
    INTERRUPT_KILL_MS = 2000,
    TIMEOUT_KILL_MS = 300,
    REPLACE_MS = 3000, /* after the first SIGKILL */
    PATIENCE_MS = 20 * 1000,
    CHANCE_MS = 200, /* CPU time, far more than the return takes */
    STATUS_BYTES_MAX = 4096,
};

static void stop_signal(const struct shell *s, int signo)
{
    (void)kill(-s->child.pid, signo);
}

/* Signals what the shell started since then, but not the shell. In an isolated session the shell
 * does not lead its session: another process does (isolated_box.h). */
static size_t stop_kin(const struct shell *s, uint64_t since_ticks, int signo)
{
    return kin_signal(s->child.pid, s->pid, since_ticks, signo);
}

/* To the shell itself, not to the process that leads its session: the signal must arrive before the
 * child that the shell waits for ends. */
static void stop_break(const struct shell *s)
{
    (void)kill(s->pid, SHELL_BREAK);
}

/* Whether the shell has a handler for SHELL_BREAK. Without one, such as after an exec of another
 * program, the signal would kill it. */
static bool stop_can_break(const struct shell *s)
{
    char path[32], text[STATUS_BYTES_MAX + 1];
    const char *caught;
    auto_fd fd = -EBADF;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)s->pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    caught = strstr(text, "\nSigCgt:");
    return caught && (strtoull(caught + strlen("\nSigCgt:"), NULL, 16) >> (SHELL_BREAK - 1) & 1);
}

/* A shell without children that has not returned is blocked in a system call, such as open of a
 * FIFO. Only SIGINT interrupts that, and the shell does not fork meanwhile. */
static void stop_interrupt_again(struct shell *s)
{
    bool can_break = stop_can_break(s), all = s->looks++ % 2 == 1 || s->lost;
    size_t found = 0;

    s->lost = false;
    if (can_break || !all)
        found = stop_kin(s, s->since_ticks, SIGINT);
    /* The shell may already be returning and wait for its children before it reports: a signal
     * would delay it. So every other signal goes only to its children. */
    if (all && can_break && found > 0)
        stop_break(s);
    else if (all)
        stop_signal(s, SIGINT);
}

static void stop_look_soon(struct shell *s)
{
    if (s->lost && stop_can_break(s))
        stop_break(s);
    s->lost = false;
    (void)stop_kin(s, s->stop_ticks, SIGINT);
    s->look_ms *= 2;
}

uint64_t shell_stop_next_ns(const struct shell *s, uint64_t now_ns)
{
    uint64_t look_ns = now_ns + s->look_ms * TIME_NS_PER_MS;
    uint64_t due_ns = now_ns < s->kill_ns      ? s->kill_ns
                      : now_ns < s->replace_ns ? s->replace_ns
                                               : s->patience_ns;

    return look_ns < due_ns ? look_ns : due_ns;
}

/* Whether a process is runnable but got less than CHANCE_MS of CPU time since `ran_ms`. */
static bool is_held_up(pid_t pid, uint64_t ran_ms)
{
    struct kin_stat it;

    return kin_look(pid, &it) && it.state == 'R' && it.ran_ms - ran_ms < CHANCE_MS;
}

/* Whether lack of CPU time kept the shell from returning: the shell or the leader of its session
 * did not get to run, or a killed process has not got to exit yet. */
static bool stop_is_starved(const struct shell *s)
{
    size_t left = stop_kin(s, s->since_ticks, 0), young = stop_kin(s, s->kill_ticks + 1, 0);

    return left > young || is_held_up(s->pid, s->ran_ms) || is_held_up(s->child.pid, 0);
}

static void stop_kill(struct shell *s, uint64_t now_ns)
{
    if (s->stop != SHELL_STOP_KILLED) {
        s->stop = SHELL_STOP_KILLED;
        s->kill_ticks = kin_now_ticks();
        s->replace_ns = now_ns + REPLACE_MS * TIME_NS_PER_MS;
        s->patience_ns = now_ns + PATIENCE_MS * TIME_NS_PER_MS;
    }
    (void)stop_kin(s, s->since_ticks, SIGKILL);
}

static void stop_on_look(struct loop_timer *t)
{
    struct shell *s = container_of(t, struct shell, stopping);
    uint64_t now = loop_now_ns(s->conf.loop);

    if (s->over || s->child.pid == 0)
        return;
    s->starved = now >= s->replace_ns && stop_is_starved(s);
    if (now >= (s->starved ? s->patience_ns : s->replace_ns)) {
        s->stop = SHELL_STOP_REPLACED;
        stop_signal(s, SIGKILL);
        return;
    }
    if (now >= s->kill_ns)
        stop_kill(s, now);
    (void)!shell_keep_loop(s);
    if (s->look_ms < STOP_LOOK_MS) {
        stop_look_soon(s);
        s->look_ms = s->look_ms < STOP_LOOK_MS ? s->look_ms : STOP_LOOK_MS;
    } else {
        stop_interrupt_again(s);
        s->look_ms += s->look_ms / 2;
    }
    loop_timer_set(s->conf.loop, t, shell_stop_next_ns(s, now), stop_on_look);
}

void shell_stop_run(struct shell *s, bool timed_out)
{
    uint64_t now = loop_now_ns(s->conf.loop);
    uint64_t kill_ms = timed_out ? TIMEOUT_KILL_MS : INTERRUPT_KILL_MS;
    struct kin_stat it;

    if (s->stop != SHELL_STOP_NOT)
        return; /* already stopping */
    s->stop = SHELL_STOP_ASKED;
    s->looks = 0;
    s->lost = false;
    s->end.timed_out = timed_out;
    s->kill_ns = now + kill_ms * TIME_NS_PER_MS;
    s->replace_ns = s->patience_ns = UINT64_MAX;
    s->stop_ticks = kin_now_ticks();
    s->look_ms = STOP_LOOK_MS;
    if (s->pid == 0)
        s->pid = s->conf.place.box ? kin_child(s->child.pid) : s->child.pid;
    s->ran_ms = kin_look(s->pid, &it) ? it.ran_ms : 0;
    if (stop_can_break(s)) {
        s->look_ms = STOP_FIRST_MS;
        stop_break(s);
        (void)stop_kin(s, s->since_ticks, SIGINT);
    } else {
        stop_signal(s, SIGINT);
    }
    stop_signal(s, SIGCONT); /* a stopped process could not handle the signal */
    loop_timer_set(s->conf.loop, &s->stopping, shell_stop_next_ns(s, now), stop_on_look);
}

void shell_stop_text(const struct shell *s, const struct proc_exit *how, struct buf *out)
{
    static const struct proc_exit interrupted = {.by_signal = true, .code = SIGINT};

    if (s->end.timed_out)
        (void)buf_addf(out, "timeout after %s: ", duration_text_of_ms(s->timeout_ms).s);
    exit_text_add(out, how->by_signal && how->code != SHELL_BREAK ? how : &interrupted);
    if (s->stop == SHELL_STOP_REPLACED)
        (void)buf_addf(out,
                       "; the shell had to be ended with it%s: a new one will have its directory "
                       "and exported variables, and nothing else",
                       s->starved ? ", as the machine gave it no time" : "");
}
