#include "execd/core/kin.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "test.h"

TEST(kin, reads_parent_session_and_start_of_a_process)
{
    struct kin_stat it = {0};

    CHECK(kin_parse(STR("42 (a (b) c) S 39 40 41 0 -1 4194560 1 0 0 0 3 4 0 0 20 0 1 0 777 2 3"),
                    &it));
    CHECK_EQ(it.state, 'S');
    CHECK_EQ(it.ran_ms, 7 * 1000 / sysconf(_SC_CLK_TCK));
    CHECK_EQ(it.parent, 39);
    CHECK_EQ(it.sid, 41);
    CHECK_EQ(it.start_ticks, 777);
}

TEST(kin, passes_over_zombies_and_nonsense)
{
    static const struct str texts[] = {
        STR_INIT("42 (x) Z 1 40 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 2 3"),
        STR_INIT(""),
        STR_INIT("42 (x"),
        STR_INIT("42 (x) S 1 40 x 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 2 3"),
        STR_INIT("42 (x) S 1 40"),
    };
    struct kin_stat it = {.sid = -1, .start_ticks = 5};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        CHECK(!kin_parse(texts[i], &it));
    CHECK(it.sid == -1 && it.start_ticks == 5);
}

/* A shell that leads a session and waits, with a child in a group of its own and an orphan. */
static struct proc family(void)
{
    static const char *const argv[] = {
        "sh", "-c", "set -m; sleep 100 & (sleep 101 & sleep 102 &) & wait", NULL};
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/sh", argv);
    struct proc p;

    spec.env = env;
    spec.flags = PROC_NEW_SESSION;
    CHECK_EQ(proc_spawn(&spec, &p, NULL), 0);
    while (kin_signal(p.pid, 0, 0, 0) < 3)
        usleep(1000);
    return p;
}

TEST(kin, ends_all_of_a_session_but_its_leader)
{
    struct proc p = family();
    struct proc_exit how;

    CHECK_EQ(kin_signal(p.pid, 0, kin_now_ticks() + 1000, 0), 0);
    CHECK_EQ(kin_signal(getpid(), 0, 0, 0), 0);
    kin_kill(p.pid, 0);
    while (kin_signal(p.pid, 0, 0, 0) > 0) /* they have the signal, and die of it in a moment */
        usleep(1000);
    CHECK_EQ(proc_wait(p.pidfd, UINT64_MAX, &how), 0); /* it had no child to wait for any more */
    CHECK(!how.by_signal);
    proc_close(&p);
}

TEST(kin, counts_time_as_the_kernel_does)
{
    uint64_t before = kin_now_ticks(), started;
    struct proc p = family();
    struct proc_exit how;

    CHECK_EQ(proc_start_time(p.pid, &started), 0);
    CHECK(started >= before && started <= kin_now_ticks());
    CHECK(kin_signal(p.pid, 0, before, 0) >= 3);
    kin_kill(p.pid, before);
    CHECK_EQ(proc_wait(p.pidfd, UINT64_MAX, &how), 0);
    proc_close(&p);
}

TEST(kin, looks_at_one_that_runs)
{
    struct kin_stat before, now;

    CHECK(kin_look(getpid(), &before));
    CHECK_EQ(before.state, 'R');
    CHECK_EQ(before.parent, getppid());
    do
        CHECK(kin_look(getpid(), &now));
    while (now.ran_ms == before.ran_ms);
    CHECK(!kin_look(INT_MAX, &now));
}

TEST(kin, finds_an_only_child_and_spares_it)
{
    static const char *const argv[] = {"sh", "-c", "sleep 100; :", NULL};
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/sh", argv);
    struct proc_exit how;
    struct proc p;
    pid_t child;

    spec.env = env;
    spec.flags = PROC_NEW_SESSION;
    CHECK_EQ(proc_spawn(&spec, &p, NULL), 0);
    while (!(child = kin_child(p.pid)))
        usleep(1000);
    CHECK_EQ(kin_child(child), 0);
    CHECK_EQ(kin_signal(p.pid, 0, 0, 0), 1);
    CHECK_EQ(kin_signal(p.pid, child, 0, SIGKILL), 0);
    CHECK_EQ(kin_signal(p.pid, 0, 0, SIGKILL), 1);
    CHECK_EQ(proc_wait(p.pidfd, UINT64_MAX, &how), 0);
    proc_close(&p);
}
