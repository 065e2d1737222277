#include "execd/core/child_proc.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "rig.h"

/* What was told, in order: "run;", "no: REASON;", "exit 3;". */
struct told {
    struct child_proc child;
    char text[512];
    bool stop; /* in on_start */
};

static void add(struct told *t, const char *word, const char *more)
{
    size_t n = strlen(t->text);

    (void)snprintf(t->text + n, sizeof(t->text) - n, "%s%s;", word, more);
}

static void on_start(struct child_proc *p, const struct err *why)
{
    struct told *t = container_of(p, struct told, child);

    add(t, why ? "no: " : "run", why ? why->msg : "");
    if (t->stop)
        child_proc_stop(p);
}

static void on_exit_told(struct child_proc *p, const struct proc_exit *how)
{
    char code[16];

    CHECK_EQ(p->pid, 0);
    (void)snprintf(code, sizeof(code), "%d", how->code);
    add(container_of(p, struct told, child), how->by_signal ? "signal " : "exit ", code);
}

static const struct child_proc_ops ops = {"a test", on_start, on_exit_told};

static void start(struct rig *g, struct told *t, const char *path, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct proc_spec spec = PROC_SPEC(path, argv);

    CHECK_EQ(child_proc_start(&t->child, g->loop, &g->reaper, &spec, &ops, NULL), 0);
    CHECK(t->child.pid > 0);
}

TEST(child_proc, tells_start_then_exit)
{
    struct told t = {0};
    struct rig g = {0};

    rig_open(&g);
    child_proc_stop(&t.child); /* without a process */
    start(&g, &t, "/bin/sh", "exit 3");
    RIG_UNTIL(&g, strstr(t.text, "exit"));
    CHECK_STR(t.text, "run;exit 3;");
    child_proc_stop(&t.child);
    rig_close(&g);
}

static void wait_dead(pid_t pid)
{
    siginfo_t info;

    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* The exit is seen before the report. */
TEST(child_proc, tells_start_before_exit_in_any_order)
{
    static const struct {
        const char *path;
        bool stop;
        const char *text;
    } rows[] = {
        {"/bin/sh", false, "run;exit 3;"                                           },
        {"/bin/sh", true,  "run;"                                                  },
        {"/no/sh",  false, "no: exec '/no/sh': No such file or directory;exit 127;"},
        {"/no/sh",  true,  "no: exec '/no/sh': No such file or directory;"         },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct told t = {.stop = rows[i].stop};
        struct rig g = {0};

        rig_open(&g);
        start(&g, &t, rows[i].path, "exit 3");
        wait_dead(t.child.pid);
        CHECK_EQ(reaper_reap(&g.reaper), 1);
        CHECK_STR(t.text, rows[i].text);
        child_proc_stop(&t.child);
        rig_close(&g);
    }
}

/* Another process holds the report open, as a stopped one in an isolated session may. */
static int keep_report(void *user UNUSED, struct proc_step *ret_step UNUSED)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    _exit(5);
}

TEST(child_proc, does_not_wait_for_a_report_that_does_not_come)
{
    static const char *const argv[] = {"x", NULL};
    struct proc_spec spec = PROC_SPEC("x", argv);
    struct told t = {0};
    struct rig g = {0};
    pid_t pid;

    rig_open(&g);
    spec.prepare = keep_report;
    spec.flags = PROC_NEW_GROUP;
    CHECK_EQ(child_proc_start(&t.child, g.loop, &g.reaper, &spec, &ops, NULL), 0);
    pid = t.child.pid;
    wait_dead(pid);
    CHECK_EQ(reaper_reap(&g.reaper), 1);
    CHECK_STR(t.text, "run;exit 5;");
    CHECK_EQ(kill(-pid, SIGKILL), 0);
    rig_close(&g);
}

TEST(child_proc, takes_a_report_when_asked_and_forgets_when_stopped)
{
    struct told t = {0};
    struct rig g = {0};

    rig_open(&g);
    start(&g, &t, "/no/sh", "");
    wait_dead(t.child.pid);
    child_proc_check(&t.child);
    CHECK_STR(t.text, "no: exec '/no/sh': No such file or directory;");
    child_proc_check(&t.child); /* once */
    child_proc_stop(&t.child);
    CHECK_EQ(reaper_reap(&g.reaper), 1); /* reaped nevertheless */
    CHECK_STR(t.text, "no: exec '/no/sh': No such file or directory;");
    rig_close(&g);
}
