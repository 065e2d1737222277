#include "execd/core/reaper.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

struct child {
    struct reaper_child child;
    struct proc_exit how;
    int told;
};

static void on_exit_told(struct reaper_child *c, const struct proc_exit *how)
{
    struct child *child = container_of(c, struct child, child);

    CHECK_EQ(c->pid, 0);
    child->how = *how;
    child->told++;
}

/* A child that exits with `status`, or kills itself with -status. */
static pid_t start(int status)
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        if (status < 0)
            raise(-status);
        _exit(status);
    }
    return pid;
}

static void wait_dead(pid_t pid)
{
    siginfo_t info;

    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

TEST(reaper, reports_each_exit_to_the_watcher_of_that_pid)
{
    struct child a = {0}, b = {0};
    struct reaper r;
    pid_t pid_a = start(7), pid_b = start(-SIGKILL), stranger = start(1);

    reaper_init(&r);
    reaper_watch(&r, &a.child, pid_a, on_exit_told);
    reaper_watch(&r, &b.child, pid_b, on_exit_told);
    wait_dead(pid_a);
    wait_dead(pid_b);
    wait_dead(stranger);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(reaper_reap(&r), 1);
    CHECK_EQ(reaper_reap(&r), -ECHILD);
    CHECK(a.told == 1 && !a.how.by_signal && a.how.code == 7);
    CHECK(b.told == 1 && b.how.by_signal && b.how.code == SIGKILL);
}

TEST(reaper, says_when_none_has_ended)
{
    struct reaper r;
    pid_t pid = fork();

    if (pid == 0)
        pause();
    reaper_init(&r);
    CHECK_EQ(reaper_reap(&r), 0);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    wait_dead(pid);
    CHECK_EQ(reaper_reap(&r), 1);
}

TEST(reaper, reaps_in_silence_what_is_not_watched_any_more)
{
    struct child a = {0};
    struct reaper r;
    pid_t pid = start(0);

    reaper_init(&r);
    reaper_watch(&r, &a.child, pid, on_exit_told);
    reaper_unwatch(&a.child);
    reaper_unwatch(&a.child);
    wait_dead(pid);
    CHECK_EQ(reaper_reap(&r), 1);
    CHECK_EQ(a.told, 0);
}

TEST(reaper, tells_apart_numbers_of_the_same_bucket)
{
    struct child children[3 * REAPER_BUCKETS] = {0};
    struct reaper r;

    reaper_init(&r);
    for (size_t i = 0; i < ARRAY_LEN(children); i++)
        reaper_watch(&r, &children[i].child, start((int)i), on_exit_told);
    for (size_t i = 0; i < ARRAY_LEN(children); i++) {
        CHECK_EQ(waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
        CHECK_EQ(reaper_reap(&r), 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(children); i++)
        CHECK(children[i].told == 1 && children[i].how.code == (int)i);
}
