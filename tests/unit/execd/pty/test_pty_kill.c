#include "execd/pty/pty_kill.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

TEST(pty_kill, reads_whose_session_a_process_is_of)
{
    CHECK_EQ(pty_kill_group(STR("42 (sh) S 1 41 40 34816 42 0"), 40), 41);
    CHECK_EQ(pty_kill_group(STR("42 (sh) S 1 41 40 34816 42 0"), 41), 0);
    CHECK_EQ(pty_kill_group(STR("42 (a) S 1 9 40 (b) R 1 41 40 0"), 40), 41);
    CHECK_EQ(pty_kill_group(STR("42 (sh) Z 1 41 40 34816 42 0"), 40), 0); /* over */
    CHECK_EQ(pty_kill_group(STR("1 (init) S 0 1 1 0"), 1), 0);            /* -1 is every process */
    CHECK_EQ(pty_kill_group(STR("2 (kthreadd) S 0 0 0 0"), 0), 0);
}

TEST(pty_kill, reads_nothing_from_what_is_no_such_text)
{
    static const char *const texts[] = {"",       ")",           "1 (x)",
                                        "1 (x) ", "1 (x) S 1 2", "1 (x) S 1 a b c"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        CHECK_EQ(pty_kill_group(str_of(texts[i]), 2), 0);
}

/* --- on real processes --- */

static int done;

static void note_done(struct pty_kill *k)
{
    done++;
    loop_stop(k->slice.loop);
}

/* A child that leads a session, with three others in groups of their own; all of them hold the
 * writing end of a pipe. */
static pid_t start_session(int pipe_end)
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    (void)setsid();
    (void)signal(SIGHUP, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        if (fork() > 0)
            continue;
        (void)setpgid(0, 0);
        (void)!write(pipe_end, "x", 1);
        (void)pause();
    }
    (void)!write(pipe_end, "x", 1);
    (void)pause();
    _exit(0);
}

TEST(pty_kill, ends_every_group_of_a_session)
{
    struct pty_kill k = {0};
    struct loop *loop;
    int fds[2];
    char room[8];
    pid_t pid;

    CHECK_EQ(loop_new(&loop, NULL), 0);
    CHECK_EQ(pipe(fds), 0);
    pid = start_session(fds[1]);
    close(fds[1]);
    for (size_t n = 0; n < 4;)
        n += (size_t)read(fds[0], room, sizeof(room));
    pty_kill_start(&k, loop, pid, note_done);
    if (!done) /* many processes: it goes on in the next turn */
        CHECK_EQ(loop_run(loop, NULL), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(read(fds[0], room, sizeof(room)), 0); /* nobody holds it any more */
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    pty_kill_stop(&k);
    loop_free(loop);
}
