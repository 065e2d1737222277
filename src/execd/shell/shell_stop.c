/* shell_stop.c - ending what a shell runs, and not the shell, if there is a way.
 *
 *   at once        SHELL_BREAK to the shell, which goes back to its loop, and SIGINT to what it
 *                  started. Jobs in the background ignore it, as everywhere. A shell that has no
 *                  handler gets SIGINT with its whole process group.
 *   soon           SIGINT for what the shell was just starting
 *   then           SIGINT after STOP_LOOK_MS, to what it started and to all of them by turns, for
 *                  what the shell went on with instead; each time later by half, as a signal throws
 *                  a shell back that is on its way, and on a busy machine the way is long
 *   at kill_ns     SIGKILL to whoever the run started and is left, in whatever group
 *   at replace_ns  SIGKILL to the shell, unless the machine is too busy to let it come back: then
 *                  it has until patience_ns */
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
    STOP_FIRST_MS = 10, /* then twice that, until it is: */
    STOP_LOOK_MS = 100,
    INTERRUPT_KILL_MS = 2000,
    TIMEOUT_KILL_MS = 300,
    REPLACE_MS = 3000, /* after that */
    PATIENCE_MS = 20 * 1000,
    CHANCE_MS = 200, /* of a CPU: far more than the way back takes */
    STATUS_BYTES_MAX = 4096,
};

static void stop_signal(const struct shell *s, int signo)
{
    (void)kill(-s->child.pid, signo);
}

/* To what the shell has started since then, which is not the shell. In an isolated session it does
 * not lead its session: somebody stands in for it (isolated_box.h). */
static size_t stop_kin(const struct shell *s, uint64_t since_ticks, int signo)
{
    return kin_signal(s->child.pid, s->pid, since_ticks, signo);
}

/* Past whoever stands in for the shell: it must have come when what the shell waits for ends. */
static void stop_break(const struct shell *s)
{
    (void)kill(s->pid, SHELL_BREAK);
}

/* Whether the shell has a handler for SHELL_BREAK: it would end any other program, which the
 * shell may have become. */
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

/* A shell that started nobody and is still there is in the kernel's hands, opening a FIFO perhaps:
 * only SIGINT gets it out, and it does not fork meanwhile. */
static void stop_interrupt_again(struct shell *s)
{
    bool can_break = stop_can_break(s), all = s->looks++ % 2 == 1 || s->lost;
    size_t found = 0;

    s->lost = false;
    if (can_break || !all)
        found = stop_kin(s, s->since_ticks, SIGINT);
    /* The shell may be on its way back already, and wait for what it started before it says so: a
     * signal would only throw it back. So every other one is for what it started alone. */
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

/* Whether a process waits for a CPU, and had next to none since it had had so much. */
static bool is_held_up(pid_t pid, uint64_t ran_ms)
{
    struct kin_stat it;

    return kin_look(pid, &it) && it.state == 'R' && it.ran_ms - ran_ms < CHANCE_MS;
}

/* Whether it is for want of time that the shell did not come back: it was not let run, nor was who
 * stands in for it, or it waits for somebody who was killed, and was not let die. */
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
        return; /* on its way already */
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
    stop_signal(s, SIGCONT); /* whoever is stopped could not end */
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
