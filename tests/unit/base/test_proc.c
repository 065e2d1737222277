#include "base/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "test.h"

static const char *const default_env[] = {"PATH=/usr/bin:/bin", "GREETING=hello there", NULL};

static uint64_t soon(void)
{
    return deadline_in_ms(60000);
}

static struct proc spawn(const struct proc_spec *spec)
{
    struct proc p = PROC_NONE;
    struct err e = {0};
    int r = proc_spawn(spec, &p, &e);

    if (r < 0)
        test_fail(__FILE__, __LINE__, "spawn: %s", e.msg);
    return p;
}

/* Runs a shell line and returns what it printed; checks that it exits with `status`. */
static const char *shell(struct proc_spec *spec, const char *line, int status)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    static char out[4096];
    struct proc_exit ex;
    size_t n = 0;
    int p[2];

    CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
    spec->path = "/bin/sh";
    spec->argv = argv;
    spec->env = default_env;
    spec->stdio[1] = p[1];
    {
        auto_proc child = spawn(spec);

        close(p[1]);
        CHECK_EQ(io_read_full(p[0], out, sizeof(out) - 1, soon(), &n), 0);
        out[n] = '\0';
        CHECK_EQ(proc_wait(child.pidfd, soon(), &ex), 0);
    }
    close(p[0]);
    CHECK(!ex.by_signal);
    CHECK_EQ(ex.code, status);
    return out;
}

TEST(proc, runs_a_program_with_its_environment_and_reports_its_status)
{
    struct proc_spec spec = PROC_SPEC(NULL, NULL);

    CHECK_STR(shell(&spec, "printf %s \"$GREETING\"; exit 7", 7), "hello there");
}

TEST(proc, gives_dev_null_for_standard_files_that_are_not_given)
{
    struct proc_spec spec = PROC_SPEC(NULL, NULL);

    CHECK_STR(shell(&spec, "readlink /proc/self/fd/0 /proc/self/fd/2", 0),
              "/dev/null\n/dev/null\n");
}

TEST(proc, connects_standard_files_also_when_they_cross)
{
    struct proc_spec spec = PROC_SPEC(NULL, NULL);
    const char *const argv[] = {"sh", "-c", "echo to-out; echo to-err >&2", NULL};
    struct proc_exit ex;
    char got[16];
    size_t n;
    int out[2], errs[2];
    pid_t pid = fork(); /* so that this process's own 1 and 2 may be rearranged */

    CHECK(pid >= 0);
    if (pid > 0) {
        int status;

        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return;
    }
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0)
        _exit(1);
    dup2(errs[1], 1); /* our 1 is to be its 2, our 2 its 1 */
    dup2(out[1], 2);
    spec.path = "/bin/sh";
    spec.argv = argv;
    spec.stdio[1] = 2;
    spec.stdio[2] = 1;
    {
        struct proc child = PROC_NONE;

        if (proc_spawn(&spec, &child, NULL) < 0 || proc_wait(child.pidfd, soon(), &ex) < 0)
            _exit(2);
    }
    if (io_read_full(out[0], got, 7, soon(), &n) < 0 || n != 7 || memcmp(got, "to-out\n", 7) != 0)
        _exit(3);
    if (io_read_full(errs[0], got, 7, soon(), &n) < 0 || n != 7 || memcmp(got, "to-err\n", 7) != 0)
        _exit(4);
    _exit(0);
}

TEST(proc, lets_no_other_descriptor_through)
{
    struct proc_spec spec = PROC_SPEC(NULL, NULL);

    CHECK_EQ(dup2(0, 77), 77); /* not CLOEXEC */
    CHECK_STR(shell(&spec, "for f in 0 1 2 77; do test -e /proc/$$/fd/$f && echo $f; done; :", 0),
              "0\n1\n2\n");
}

TEST(proc, hands_over_more_descriptors_in_any_order)
{
    struct proc_spec spec = PROC_SPEC(NULL, NULL);
    int p[2], more[3];

    CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
    CHECK_EQ(write(p[1], "read\n", 5), 5);
    more[0] = -EBADF;
    more[1] = p[0];
    more[2] = p[0];
    spec.more = more;
    spec.more_count = 3;
    CHECK_STR(shell(&spec, "readlink /proc/self/fd/3; read x <&4; echo $x; ls /proc/self/fd", 0),
              "/dev/null\nread\n0\n1\n2\n3\n4\n5\n6\n"); /* 6 is ls reading the directory */
}

TEST(proc, closes_descriptors_one_by_one_where_close_range_is_missing)
{
    const char *const argv[] = {"sh", "-c", "test ! -e /proc/self/fd/77", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/sh", argv);
    struct proc_exit ex;
    auto_proc child = PROC_NONE;

    CHECK_EQ(dup2(0, 77), 77);
    fault_arm(FAULT_SYSCALL, 1); /* met in the child's copy only */
    child = spawn(&spec);
    CHECK_EQ(proc_wait(child.pidfd, soon(), &ex), 0);
    CHECK_EQ(ex.code, 0);
}

TEST(proc, reports_a_child_without_a_descriptor_to_spare)
{
    const char *const argv[] = {"true", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/true", argv);
    struct proc p = PROC_NONE;
    struct err e = {0};
    struct rlimit limit = {0};
    int next = dup(0);

    close(next);
    limit.rlim_cur = limit.rlim_max = (rlim_t)next + 2; /* the pipe still fits */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(proc_spawn(&spec, &p, &e), -EMFILE);
    CHECK(str_starts(str_of(e.msg), STR("keep a descriptor '/bin/true': ")));
}

TEST(proc, starts_with_a_clean_slate_of_signals)
{
    struct proc_spec spec = PROC_SPEC(NULL, NULL);
    sigset_t all;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    CHECK_STR(shell(&spec, "grep -E '^Sig(Blk|Ign)' /proc/self/status", 0),
              "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(proc, changes_directory_and_session_on_request)
{
    struct proc_spec spec = PROC_SPEC(NULL, NULL);
    auto_fd root = open("/proc", O_PATH | O_CLOEXEC);
    char want[64];

    spec.cwd_fd = root;
    CHECK_STR(shell(&spec, "pwd", 0), "/proc\n");
    spec.flags = PROC_NEW_SESSION;
    /* Field 6 of stat is the session; the name "sh" holds no space. */
    CHECK_STR(shell(&spec,
                    "read -r p n s pp pg sid rest < /proc/$$/stat; "
                    "test $sid = $$ && test $pg = $$ && echo leads",
                    0),
              "leads\n");
    spec.flags = PROC_NEW_GROUP;
    snprintf(want, sizeof(want), "%d\n", (int)getsid(0));
    CHECK_STR(shell(&spec,
                    "read -r p n s pp pg sid rest < /proc/$$/stat; "
                    "test $pg = $$ && echo $sid",
                    0),
              want);
}

TEST(proc, names_the_step_that_failed_and_leaves_no_child)
{
    const char *const argv[] = {"x", NULL};
    struct proc_spec spec = PROC_SPEC("/nonexistent/x", argv);
    struct proc p = {4711, -EBADF};
    struct err e = {0};

    CHECK_EQ(proc_spawn(&spec, &p, &e), -ENOENT);
    CHECK_STR(e.msg, "exec '/nonexistent/x': No such file or directory");
    CHECK_EQ(e.code, ENOENT);
    spec.path = "/";
    CHECK_EQ(proc_spawn(&spec, &p, &e), -EACCES);
    spec.path = "/bin/sh";
    spec.cwd_fd = 0x7ffffff;
    CHECK_EQ(proc_spawn(&spec, &p, &e), -EBADF);
    CHECK_STR(e.msg, "change directory '/bin/sh': Bad file descriptor");
    spec.cwd_fd = -EBADF;
    spec.stdio[1] = 0x7ffffff;
    CHECK_EQ(proc_spawn(&spec, &p, &e), -EBADF);
    CHECK_STR(e.msg, "connect standard files '/bin/sh': Bad file descriptor");
    CHECK_EQ(p.pid, 4711); /* written only on success */
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
    CHECK_EQ(errno, ECHILD);
}

TEST(proc, tells_a_signal_from_an_exit)
{
    const char *const argv[] = {"sleep", "100", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/sleep", argv);
    auto_proc p = spawn(&spec);
    struct proc_exit ex;

    CHECK_EQ(proc_signal(p.pidfd, 0), 0);
    CHECK_EQ(proc_wait(p.pidfd, deadline_in_ms(20), &ex), -ETIMEDOUT);
    CHECK_EQ(proc_wait(p.pidfd, 0, &ex), -ETIMEDOUT);
    CHECK_EQ(proc_signal(p.pidfd, SIGTERM), 0);
    CHECK_EQ(proc_wait(p.pidfd, soon(), &ex), 0);
    CHECK(ex.by_signal);
    CHECK_EQ(ex.code, SIGTERM);
    CHECK_EQ(proc_wait(p.pidfd, soon(), &ex), -ECHILD);
    CHECK_EQ(proc_signal(p.pidfd, 0), -ESRCH);
    CHECK_EQ(proc_wait(-EBADF, soon(), &ex), -EBADF);
}

TEST(proc, kills_the_child_with_the_parent_on_request)
{
    const char *const argv[] = {"sleep", "100", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/sleep", argv);
    pid_t middle;
    int p[2];
    char c;
    size_t n;

    CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
    middle = fork();
    CHECK(middle >= 0);
    if (middle == 0) {
        struct proc child = PROC_NONE;

        spec.flags = PROC_DIE_WITH_US;
        spec.stdio[1] = p[1]; /* held open by the child alone, soon */
        _exit(proc_spawn(&spec, &child, NULL) < 0);
    }
    close(p[1]);
    CHECK_EQ(waitpid(middle, NULL, 0), middle);
    CHECK_EQ(io_read_full(p[0], &c, 1, soon(), &n), 0);
    CHECK_EQ(n, 0);
}

TEST(proc, opens_only_processes_that_exist)
{
    struct proc p = PROC_NONE;

    CHECK_EQ(proc_open(getpid(), &p), 0);
    CHECK_EQ(fcntl(p.pidfd, F_GETFD), FD_CLOEXEC);
    proc_close(&p);
    CHECK_EQ(p.pidfd, -EBADF);
    CHECK_EQ(proc_open(0, &p), -ESRCH);
    CHECK_EQ(proc_open(-1, &p), -ESRCH);
}

TEST(proc, finds_the_start_time_behind_any_name)
{
    uint64_t t = 0;

#define TAIL "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21\n"
    CHECK_EQ(proc_parse_start_time(STR("42 (sh) " TAIL), &t), 0);
    CHECK_EQ(t, 987654);
    t = 0;
    CHECK_EQ(proc_parse_start_time(STR("42 (a) S 9 (b) ) " TAIL), &t), 0);
    CHECK_EQ(t, 987654);
    t = 7;
    CHECK_EQ(proc_parse_start_time(STR(""), &t), -EINVAL);
    CHECK_EQ(proc_parse_start_time(STR("42 (sh)"), &t), -EINVAL);
    CHECK_EQ(proc_parse_start_time(STR("42 sh " TAIL), &t), -EINVAL);
    CHECK_EQ(proc_parse_start_time(STR("42 (sh) S 1 2 3"), &t), -EINVAL);
    CHECK_EQ(proc_parse_start_time(
                 STR("42 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 -1 20\n"), &t),
             -EINVAL);
    CHECK_EQ(t, 7);
}

TEST(proc, knows_when_this_process_started)
{
    uint64_t mine = 0, init = 0, again = 0;

    CHECK_EQ(prctl(PR_SET_NAME, "x) S 1 (y) Z "), 0);
    CHECK_EQ(proc_start_time(getpid(), &mine), 0);
    CHECK_EQ(proc_start_time(1, &init), 0);
    CHECK_EQ(proc_start_time(getpid(), &again), 0);
    CHECK(mine > 0 && mine >= init && mine == again); /* in ticks: init may be as young */
    CHECK_EQ(proc_start_time(0x3ffffff, &mine), -ESRCH);
}

TEST(proc, takes_a_zombie_for_dead)
{
    siginfo_t info = {0};
    uint64_t ticks = 7;
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    CHECK_EQ(proc_start_time(pid, &ticks), -ESRCH);
    CHECK_EQ(ticks, 7);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static int prepare_directory(void *user, struct proc_step *ret_step)
{
    *ret_step = (struct proc_step){"change directory to", user};
    return chdir(user) < 0 ? -errno : 0;
}

TEST(proc, prepares_the_child_as_its_last_step_before_exec)
{
    struct proc_spec spec = PROC_SPEC(NULL, NULL);

    spec.prepare = prepare_directory;
    spec.user = (void *)"/proc";
    CHECK_STR(shell(&spec, "pwd", 0), "/proc\n");
}

TEST(proc, reports_what_the_preparation_failed_at)
{
    const char *const argv[] = {"true", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/true", argv);
    struct proc p = PROC_NONE;
    struct err e = {0};

    spec.prepare = prepare_directory;
    spec.user = (void *)"/nonexistent";
    CHECK_EQ(proc_spawn(&spec, &p, &e), -ENOENT);
    CHECK_STR(e.msg, "change directory to '/nonexistent': No such file or directory");
}

TEST(proc, cuts_the_report_of_a_step_with_a_long_name)
{
    char name[600] = "";
    const char *const argv[] = {name, NULL};
    struct proc_spec spec = PROC_SPEC(name, argv);
    struct proc p = PROC_NONE;
    struct err e = {0};

    memset(name, 'n', sizeof(name) - 1);
    CHECK_EQ(proc_spawn(&spec, &p, &e), -ENAMETOOLONG);
    CHECK(str_starts(str_of(e.msg), STR("exec 'nnn")));
    CHECK(strlen(e.msg) < sizeof(e.msg));
}

TEST(proc, starts_without_waiting_and_reports_later)
{
    static const char *const argv[] = {"sh", "-c", "exit 5", NULL};
    struct proc_spec spec = PROC_SPEC("/bin/sh", argv);
    int report = -1, status = 0;
    pid_t pid = 0;

    spec.flags = PROC_NEW_GROUP;
    CHECK_EQ(proc_spawn_start(&spec, &pid, &report, NULL), 0);
    CHECK_EQ(getpgid(pid), pid); /* from the first moment on */
    CHECK_EQ(proc_spawn_result(report, "/bin/sh", NULL), 0);
    close(report);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

TEST(proc, reports_later_why_it_does_not_run)
{
    static const char *const argv[] = {"x", NULL};
    struct proc_spec spec = PROC_SPEC("/no/such", argv);
    struct err e = {0};
    int report = -1;
    pid_t pid = 0;

    CHECK_EQ(proc_spawn_start(&spec, &pid, &report, NULL), 0);
    CHECK_EQ(proc_spawn_result(report, "/no/such", &e), -ENOENT);
    CHECK_STR(e.msg, "exec '/no/such': No such file or directory");
    close(report);
    CHECK_EQ(waitpid(pid, NULL, 0), pid); /* ended by itself */
}

/* The real ones are in tests/unit/sandbox/test_cgroup.c. */
TEST(proc, moves_to_control_groups_where_it_cannot_be_born)
{
    auto_fd no_group = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int dirs[] = {-EBADF, no_group};
    struct proc_spec spec = PROC_SPEC(NULL, NULL);
    struct proc p = PROC_NONE;
    struct err e = {0};
    char text[8];
    int pipes[2][2];

    CHECK_EQ(pipe2(pipes[0], O_CLOEXEC), 0);
    CHECK_EQ(pipe2(pipes[1], O_CLOEXEC), 0);
    CHECK_EQ(dup3(pipes[0][1], 100, O_CLOEXEC), 100);
    CHECK_EQ(dup3(pipes[1][1], 101, O_CLOEXEC), 101);
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        spec.groups = &(struct proc_groups){dirs[i], 100, 2};
        CHECK_STR(shell(&spec, "echo in", 0), "in\n");
        for (size_t k = 0; k < ARRAY_LEN(pipes); k++) {
            CHECK_EQ(read(pipes[k][0], text, sizeof(text)), 1);
            CHECK_EQ(text[0], '0');
        }
    }
    spec.groups = &(struct proc_groups){no_group, 100, 3}; /* 102 is not open */
    CHECK_EQ(proc_spawn(&spec, &p, &e), -EBADF);
    CHECK_STR(e.msg, "enter the control groups of '/bin/sh': Bad file descriptor");
}

static int raise_usr1(void *user UNUSED, struct proc_step *ret_step UNUSED)
{
    (void)raise(SIGUSR1);
    return -EINTR;
}

/* Which goes to the number that libc has for its thread. */
TEST(proc, can_signal_itself_in_a_child_that_does_not_exec)
{
    struct proc_spec spec = PROC_SPEC("self", NULL);
    struct proc_exit how = {0};
    int fds[2], report = -1;
    struct proc p;
    pid_t pid = 0;

    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    spec.groups = &(struct proc_groups){-EBADF, fds[1], 1};
    spec.prepare = raise_usr1;
    CHECK_EQ(proc_spawn_start(&spec, &pid, &report, NULL), 0);
    CHECK_EQ(proc_open(pid, &p), 0);
    CHECK_EQ(proc_wait(p.pidfd, DEADLINE_NEVER, &how), 0);
    CHECK(how.by_signal && how.code == SIGUSR1);
    proc_close(&p);
    close(report);
    close(fds[0]);
    close(fds[1]);
}
