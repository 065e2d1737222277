/* Living shells as code contexts use them: kernel.h's promises. Sessions are tested from outside,
 * by tests/integration/test_execd_sessions.py. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/time.h"
#include "execd/code/kernel.h"
#include "test.h"

/* A loop that reaps, and one kernel whose words are collected. */
struct rig {
    struct loop *loop;
    struct reaper reaper;
    struct loop_signals signals;
    struct loop_timer timer;
    struct kernel *kernel;
    struct buf out, err, told; /* told: one word per call but on_stream */
    bool within;               /* a call of ours, from which nothing may be told */
    size_t pause_at;
    bool interrupt_soon;
};

static void rig_on_signal(struct loop_signals *s, int signo UNUSED)
{
    while (reaper_reap(&container_of(s, struct rig, signals)->reaper) > 0)
        ;
}

static void rig_on_stream(void *user, const char *type, struct str text)
{
    struct rig *g = user;

    CHECK(!g->within && text.n > 0);
    CHECK_EQ(buf_add(strcmp(type, "stdout") == 0 ? &g->out : &g->err, text), 0);
    if (g->pause_at > 0 && g->out.n >= g->pause_at) {
        g->kernel->ops->pause(g->kernel, true);
        loop_stop(g->loop);
    }
    if (g->interrupt_soon)
        CHECK_EQ(g->kernel->ops->interrupt(g->kernel), 0);
}

static void rig_on_error(void *user, struct str name, struct str value,
                         const struct json *traceback)
{
    struct rig *g = user;

    CHECK(traceback->type == JSON_ARRAY && traceback->count == 1);
    CHECK_EQ(buf_addf(&g->told, "%.*s %.*s [%.*s] ", STR_ARG(name), STR_ARG(value),
                      STR_ARG(traceback->first->string)),
             0);
}

static void rig_on_done(void *user, enum kernel_end end)
{
    static const char *const ends[] = {"ok", "failed", "timeout"};
    struct rig *g = user;

    CHECK(!g->within);
    CHECK_EQ(buf_addf(&g->told, "%s", ends[end]), 0);
    loop_stop(g->loop);
}

static void rig_on_death(void *user, const char *why)
{
    struct rig *g = user;

    CHECK(!g->within);
    CHECK_EQ(buf_addf(&g->told, "%s", why), 0);
    loop_stop(g->loop);
}

static const struct kernel_owner rig_owner = {
    .on_stream = rig_on_stream,
    .on_error = rig_on_error,
    .on_done = rig_on_done,
    .on_death = rig_on_death,
};

static const char *const rig_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "RIG=it's", NULL};

static int rig_start(struct rig *g, const char *const *env, struct str language, struct err *e)
{
    struct kernel_conf conf = {
        .loop = g->loop,
        .reaper = &g->reaper,
        .env = env,
        .cwd = "/usr",
        .owner = &rig_owner,
        .user = g,
    };
    int r;

    g->within = true;
    r = kernel_shell.start(&conf, language, &g->kernel, e);
    g->within = false;
    return r;
}

static void rig_open(struct rig *g)
{
    sigset_t set;

    *g = (struct rig){0};
    CHECK_EQ(loop_new(&g->loop, NULL), 0);
    reaper_init(&g->reaper);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    CHECK_EQ(loop_signals_start(g->loop, &g->signals, &set, rig_on_signal, NULL), 0);
    buf_init(&g->out, 16 << 20);
    buf_init(&g->err, 1 << 20);
    buf_init(&g->told, 4096);
}

static void rig_close(struct rig *g)
{
    kernel_shell.free(g->kernel);
    loop_timer_stop(g->loop, &g->timer);
    loop_signals_stop(&g->signals);
    loop_free(g->loop);
    buf_done(&g->out);
    buf_done(&g->err);
    buf_done(&g->told);
}

static int rig_begin(struct rig *g, const char *code, uint64_t timeout_ms)
{
    int r;

    buf_clear(&g->out);
    buf_clear(&g->err);
    buf_clear(&g->told);
    g->within = true;
    r = g->kernel->ops->run(g->kernel, str_of(code), timeout_ms, NULL);
    g->within = false;
    return r;
}

static void rig_run(struct rig *g, const char *code, uint64_t timeout_ms)
{
    CHECK_EQ(rig_begin(g, code, timeout_ms), 0);
    CHECK_EQ(loop_run(g->loop, NULL), 0);
}

TEST(shell, keeps_its_state_and_tells_output_as_it_is)
{
    struct rig g;

    rig_open(&g);
    CHECK_EQ(rig_start(&g, rig_env, STR("bash"), NULL), 0);
    CHECK_STR(g.kernel->name, "shell");
    rig_run(&g, "x=5; f() { printf \"$1\\n\\n\"; }; pwd; echo \"$RIG\"", 0);
    CHECK_STR(g.out.p, "/usr\nit's\n");
    CHECK_STR(g.told.p, "ok");
    rig_run(&g, "f $x; echo e >&2", 0);
    CHECK_STR(g.out.p, "5\n\n");
    CHECK_STR(g.err.p, "e\n");
    rig_close(&g);
}

TEST(shell, tells_failures_by_their_exit_code)
{
    struct rig g;

    rig_open(&g);
    CHECK_EQ(rig_start(&g, rig_env, STR("bash"), NULL), 0);
    rig_run(&g, "(exit 3)", 0);
    CHECK_STR(g.told.p, "CommandExecError 3 [exit status 3] failed");
    rig_run(&g, "true", 0);
    CHECK_STR(g.told.p, "ok");
    rig_close(&g);
}

TEST(shell, is_interrupted_and_timed_out_and_goes_on)
{
    struct rig g;

    rig_open(&g);
    CHECK_EQ(rig_start(&g, rig_env, STR("bash"), NULL), 0);
    g.interrupt_soon = true;
    rig_run(&g, "kept=1; echo begun; while :; do :; done", 0);
    CHECK_STR(g.told.p, "KeyboardInterrupt -1 [signal: interrupt] failed");
    g.interrupt_soon = false;
    rig_run(&g, "sleep 100", 50);
    CHECK_STR(g.told.p, "timeout");
    rig_run(&g, "echo $kept", 0);
    CHECK_STR(g.out.p, "1\n");
    CHECK_EQ(g.kernel->ops->interrupt(g.kernel), 0); /* nothing runs */
    rig_run(&g, "echo $kept", 0);
    CHECK_STR(g.out.p, "1\n");
    rig_close(&g);
}

TEST(shell, takes_one_cell_at_a_time_and_dies_once)
{
    struct rig g;

    rig_open(&g);
    CHECK_EQ(rig_start(&g, rig_env, STR("bash"), NULL), 0);
    CHECK_EQ(rig_begin(&g, "echo out; exit 4", 0), 0);
    CHECK_EQ(g.kernel->ops->run(g.kernel, STR("true"), 0, NULL), -EBUSY);
    CHECK_EQ(loop_run(g.loop, NULL), 0);
    CHECK_STR(g.out.p, "out\n");
    CHECK_STR(g.told.p, "the shell ended: exit status 4");
    CHECK_EQ(g.kernel->ops->run(g.kernel, STR("true"), 0, NULL), -EPIPE);
    rig_close(&g);
}

TEST(shell, tells_a_death_between_cells)
{
    struct rig g;

    rig_open(&g);
    CHECK_EQ(rig_start(&g, rig_env, STR("bash"), NULL), 0);
    rig_run(&g, "echo $$", 0);
    buf_clear(&g.told);
    CHECK_EQ(kill((pid_t)strtol(g.out.p, NULL, 10), SIGKILL), 0);
    CHECK_EQ(loop_run(g.loop, NULL), 0);
    CHECK_STR(g.told.p, "the shell ended: signal: killed");
    rig_close(&g);
}

TEST(shell, holds_its_output_back_while_paused)
{
    struct rig g;
    size_t n;

    rig_open(&g);
    CHECK_EQ(rig_start(&g, rig_env, STR("bash"), NULL), 0);
    g.pause_at = 100000;
    rig_run(&g, "seq 200000", 0);
    n = g.out.n;
    CHECK(n >= 100000 && n < 300000 && g.told.n == 0);
    g.pause_at = 0;
    g.within = true;
    g.kernel->ops->pause(g.kernel, false);
    g.within = false;
    CHECK_EQ(loop_run(g.loop, NULL), 0);
    CHECK_STR(g.told.p, "ok");
    CHECK_EQ(g.out.n, 1288895);
    rig_close(&g);
}

TEST(shell, never_splits_a_character)
{
    struct rig g;

    rig_open(&g);
    CHECK_EQ(rig_start(&g, rig_env, STR("bash"), NULL), 0);
    rig_run(&g,
            "for b in '\\360' '\\237' '\\246' '\\200x' '\\303'; do printf \"$b\"; sleep 0.02; done",
            0);
    CHECK_STR(g.out.p, "\xf0\x9f\xa6\x80x\xc3");
    rig_close(&g);
}

TEST(shell, says_what_an_image_lacks)
{
    static const char *const nowhere[] = {"PATH=/nonexistent", NULL};
    struct err e = {0};
    struct rig g;

    rig_open(&g);
    CHECK_EQ(rig_start(&g, nowhere, STR("bash"), &e), -ENOENT);
    CHECK_STR(e.msg, "bash is not in this image: install bash");
    CHECK_EQ(rig_start(&g, rig_env, STR("python"), &e), -ENOTSUP);
    rig_close(&g);
}
