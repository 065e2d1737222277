#include "execd/command/command.h"

#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/time.h"
#include "execd/command/command_input.h"
#include "test.h"

/* A loop that reaps, and one command whose output is collected. */
struct rig {
    struct loop *loop;
    struct reaper reaper;
    struct loop_signals signals;
    struct commands *all;
    struct buf out[COMMAND_STREAMS];
    size_t full_at; /* of stdout: then on_output says no, once; 0 = never */
    int starts, ends;
    struct command *command;
    char error[256];
    int exit_code;
};

static void rig_on_signal(struct loop_signals *s, int signo UNUSED)
{
    while (reaper_reap(&container_of(s, struct rig, signals)->reaper) > 0)
        ;
}

static void rig_open(struct rig *g)
{
    static const struct child_place place = {0};
    sigset_t set;

    *g = (struct rig){.exit_code = -99};
    CHECK_EQ(loop_new(&g->loop, NULL), 0);
    reaper_init(&g->reaper);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    CHECK_EQ(loop_signals_start(g->loop, &g->signals, &set, rig_on_signal, NULL), 0);
    commands_new(g->loop, &g->reaper, &place, &g->all);
    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        buf_init(&g->out[i], 16 << 20);
}

static void rig_close(struct rig *g)
{
    commands_free(g->all);
    loop_signals_stop(&g->signals);
    loop_free(g->loop);
    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        buf_done(&g->out[i]);
}

static void rig_on_start(void *user, struct command *c)
{
    struct rig *g = user;

    CHECK(c == g->command);
    CHECK_EQ(g->ends, 0);
    g->starts++;
}

static bool rig_on_output(void *user, enum command_stream from, struct str data)
{
    struct rig *g = user;

    CHECK(data.n > 0 && data.n <= COMMAND_READ_BYTES && g->ends == 0);
    CHECK_EQ(buf_add(&g->out[from], data), 0);
    if (g->full_at == 0 || g->out[0].n < g->full_at)
        return true;
    loop_stop(g->loop);
    return false;
}

static void rig_on_end(void *user, const struct command *c)
{
    struct rig *g = user;

    CHECK(!c->running && c->ended_us >= c->started_us);
    g->exit_code = c->exit_code;
    snprintf(g->error, sizeof(g->error), "%s", c->error ? c->error : "");
    g->ends++;
    loop_stop(g->loop);
}

static const struct command_ops rig_ops = {rig_on_start, rig_on_output, rig_on_end};

static void start(struct rig *g, const char *text, bool background, struct command_spec spec)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};

    spec.env = env;
    spec.shell = spec.shell ? spec.shell : "/bin/sh";
    CHECK_EQ(command_new(g->all, str_of(text), background, &g->command, NULL), 0);
    CHECK_EQ(strlen(g->command->id), COMMAND_ID_MAX - 1);
    CHECK(commands_find(g->all, str_of(g->command->id)) == g->command);
    command_run(g->command, &spec, &rig_ops, g);
}

static void run(struct rig *g, const char *text, struct command_spec spec)
{
    start(g, text, false, spec);
    if (g->ends == 0)
        CHECK_EQ(loop_run(g->loop, NULL), 0);
    CHECK_EQ(g->ends, 1);
}

static void turn_for(struct rig *g, uint32_t ms);

TEST(command, gives_its_output_and_then_its_end)
{
    struct rig g;

    rig_open(&g);
    run(&g, "echo out; echo err >&2; exit 3", (struct command_spec){0});
    CHECK_EQ(g.starts, 1);
    CHECK_EQ(g.exit_code, 3);
    CHECK_STR(g.error, "exit status 3");
    CHECK_STR(g.out[COMMAND_STDOUT].p, "out\n");
    CHECK_STR(g.out[COMMAND_STDERR].p, "err\n");
    CHECK(!g.command->running && command_group(g.command) == 0);
    rig_close(&g);
}

TEST(command, says_why_it_cannot_start)
{
    struct rig g;

    rig_open(&g);
    run(&g, "true", (struct command_spec){.shell = "/no/such/shell"});
    CHECK_EQ(g.starts, 0);
    CHECK_EQ(g.exit_code, COMMAND_CANNOT_START);
    CHECK(!g.command->started);
    CHECK_STR(g.error, "exec '/no/such/shell': No such file or directory");
    rig_close(&g);
}

TEST(command, names_signals_and_timeouts)
{
    struct rig g;

    rig_open(&g);
    run(&g, "kill -TERM $$", (struct command_spec){0});
    CHECK_EQ(g.exit_code, -1);
    CHECK_STR(g.error, "signal: terminated");
    rig_close(&g);
    rig_open(&g);
    run(&g, "sleep 100", (struct command_spec){.timeout_ms = 50});
    CHECK_EQ(g.exit_code, -1);
    CHECK_STR(g.error, "timeout after 50ms: signal: killed");
    rig_close(&g);
}

TEST(command, runs_on_without_a_follower)
{
    struct rig g;

    rig_open(&g);
    g.full_at = 1;
    start(&g, "echo first; seq 100000; exit 5", false, (struct command_spec){0});
    CHECK_EQ(loop_run(g.loop, NULL), 0);
    command_forget(g.command);
    while (g.command->running)
        turn_for(&g, 10);
    CHECK_EQ(g.command->exit_code, 5);
    CHECK_EQ(g.ends, 0);
    rig_close(&g);
}

TEST(command, keeps_the_output_of_the_background_in_order)
{
    struct rig g;
    char out[64];

    rig_open(&g);
    start(&g, "echo 1; echo 2 >&2; echo 3; (sleep 0.2; echo late) & exit 0", true,
          (struct command_spec){0});
    CHECK_EQ(loop_run(g.loop, NULL), 0);
    CHECK_EQ(g.exit_code, 0);
    CHECK_EQ(command_log_read(&g.command->logs[0], 0, out, 6), 6);
    CHECK_EQ(memcmp(out, "1\n2\n3\n", 6), 0);
    while (g.command->logs[0].written < 11) /* of one it left behind */
        turn_for(&g, 10);
    CHECK_EQ(command_log_read(&g.command->logs[0], 6, out, sizeof(out)), 5);
    CHECK_EQ(memcmp(out, "late\n", 5), 0);
    rig_close(&g);
}

TEST(command, reads_what_it_is_given)
{
    struct rig g;

    rig_open(&g);
    run(&g, "cat; echo end",
        (struct command_spec){.has_input = true, .input = STR_INIT("one\ntwo\n")});
    CHECK_STR(g.out[COMMAND_STDOUT].p, "one\ntwo\nend\n");
    rig_close(&g);
}

struct typist {
    struct command_writer writer;
    struct rig *rig;
    int rooms, gone;
};

static void typist_on_room(struct command_writer *w)
{
    struct typist *t = container_of(w, struct typist, writer);

    t->rooms++;
    loop_stop(t->rig->loop);
}

static void typist_on_gone(struct command_writer *w)
{
    container_of(w, struct typist, writer)->gone++;
}

static struct typist typist_make(struct rig *g)
{
    return (struct typist){
        {.on_room = typist_on_room, .on_gone = typist_on_gone},
        .rig = g
    };
}

TEST(command, waits_for_its_follower_before_it_ends)
{
    struct command_spec spec = {.has_input = true, .input_open = true};
    struct typist t;
    struct rig g;

    rig_open(&g);
    t = typist_make(&g);
    g.full_at = 1;
    start(&g, "echo first; read go; echo second; exit 4", false, spec);
    CHECK_EQ(command_input_claim(g.command, &t.writer, NULL), 0);
    CHECK_EQ(loop_run(g.loop, NULL), 0); /* until it is full */
    CHECK_STR(g.out[0].p, "first\n");
    CHECK_EQ(command_input_write(&t.writer, STR("\n")), 1);
    while (g.command->running) /* its leader ends meanwhile, which is no secret */
        turn_for(&g, 10);
    CHECK_EQ(g.command->exit_code, 4);
    CHECK_STR(g.out[0].p, "first\n");
    CHECK_EQ(g.ends, 0);
    g.full_at = 0;
    command_resume(g.command);
    CHECK_EQ(g.ends, 1);
    CHECK_STR(g.out[0].p, "first\nsecond\n");
    rig_close(&g);
}

TEST(command, takes_input_from_one_writer_at_its_pace)
{
    static char data[200000];
    struct command_spec spec = {.has_input = true, .input_open = true, .input = STR_INIT("x")};
    struct rig g;
    struct typist t, other;
    size_t sent = 0;

    rig_open(&g);
    t = typist_make(&g);
    other = typist_make(&g);
    start(&g, "sleep 0.1; wc -c", false, spec);
    CHECK_EQ(command_input_claim(g.command, &t.writer, NULL), 0);
    CHECK_EQ(command_input_claim(g.command, &other.writer, NULL), -EBUSY);
    while (sent < sizeof(data)) {
        ssize_t n = command_input_write(&t.writer, str_make(data + sent, sizeof(data) - sent));

        CHECK(n >= 0);
        sent += (size_t)n;
        if (sent < sizeof(data))
            CHECK_EQ(loop_run(g.loop, NULL), 0); /* until there is room */
    }
    CHECK(t.rooms > 1);
    command_input_release(&t.writer, false);
    CHECK_EQ(command_input_claim(g.command, &other.writer, NULL), 0);
    command_input_release(&other.writer, true);
    CHECK_EQ(command_input_claim(g.command, &t.writer, NULL), -ENOTCONN);
    CHECK_EQ(loop_run(g.loop, NULL), 0);
    CHECK_STR(g.out[COMMAND_STDOUT].p, "200001\n");
    CHECK_EQ(t.gone + other.gone, 0);
    rig_close(&g);
}

TEST(command, tells_its_writer_when_it_is_gone)
{
    struct command_spec spec = {.has_input = true, .input_open = true};
    struct rig g;
    struct typist t;

    rig_open(&g);
    t = typist_make(&g);
    start(&g, "exec <&-; echo closed; sleep 100", false, spec);
    CHECK_EQ(command_input_claim(g.command, &t.writer, NULL), 0);
    while (g.out[COMMAND_STDOUT].n == 0)
        turn_for(&g, 10);
    CHECK_EQ(command_input_write(&t.writer, STR("x")), -EPIPE);
    CHECK(!t.writer.command);
    CHECK_EQ(kill(-command_group(g.command), SIGKILL), 0);
    CHECK_EQ(loop_run(g.loop, NULL), 0);
    CHECK_EQ(t.gone, 0);
    rig_close(&g);
    rig_open(&g);
    t = typist_make(&g);
    start(&g, "exit 0", false, spec);
    CHECK_EQ(command_input_claim(g.command, &t.writer, NULL), 0);
    CHECK_EQ(loop_run(g.loop, NULL), 0);
    CHECK_EQ(t.gone, 1);
    CHECK_EQ(command_input_claim(g.command, &t.writer, NULL), -ENOTCONN);
    rig_close(&g);
}

TEST(command, logs_each_stream_of_the_foreground)
{
    struct rig g;
    char out[16];

    rig_open(&g);
    run(&g, "echo out; echo err >&2", (struct command_spec){0});
    CHECK_EQ(command_log_read(&g.command->logs[COMMAND_STDOUT], 0, out, sizeof(out)), 4);
    CHECK_EQ(memcmp(out, "out\n", 4), 0);
    CHECK_EQ(command_log_read(&g.command->logs[COMMAND_STDERR], 0, out, sizeof(out)), 4);
    CHECK_EQ(memcmp(out, "err\n", 4), 0);
    g.ends = 0;
    run(&g, "true", (struct command_spec){0});
    CHECK(g.command->logs[COMMAND_STDOUT].fd < 0); /* for nothing, nothing is made */
    CHECK(!command_log_is_gone(&g.command->logs[COMMAND_STDOUT]));
    rig_close(&g);
}

TEST(command, remembers_a_bounded_number)
{
    struct rig g;
    struct command *c;
    char first[COMMAND_ID_MAX];

    rig_open(&g);
    for (int i = 0; i < COMMANDS_KEPT_MAX + 10; i++) {
        struct command_spec spec = {.shell = "/"};

        g.ends = 0;
        run(&g, "x", spec);
        if (i == 9)
            memcpy(first, g.command->id, sizeof(first));
        if (i == 10)
            CHECK(commands_find(g.all, str_of(first)));
    }
    CHECK_EQ(commands_count(g.all), COMMANDS_KEPT_MAX);
    CHECK(!commands_find(g.all, str_of(first)));
    for (int i = 0; i < COMMANDS_RUNNING_MAX; i++)
        CHECK_EQ(command_new(g.all, STR("x"), false, &c, NULL), 0);
    CHECK_EQ(command_new(g.all, STR("x"), false, &c, NULL), -EAGAIN);
    rig_close(&g);
}

TEST(command, finds_programs_on_a_path)
{
    AUTO_BUF(out, 4096);

    CHECK(command_find_program(STR("/nonexistent::/etc:/bin"), "sh", &out));
    CHECK_STR(out.p, "/bin/sh");
    buf_clear(&out);
    CHECK(!command_find_program(STR("/nonexistent:/etc"), "sh", &out));
    CHECK(!command_find_program(STR_NONE, "sh", &out));
    CHECK_EQ(out.n, 0);
}

struct pause {
    struct loop_timer timer;
    struct loop *loop;
};

static void pause_on_due(struct loop_timer *t)
{
    loop_stop(container_of(t, struct pause, timer)->loop);
}

static void turn_for(struct rig *g, uint32_t ms)
{
    struct pause p = {.loop = g->loop};

    loop_timer_set(g->loop, &p.timer, deadline_in_ms(ms), pause_on_due);
    CHECK_EQ(loop_run(g->loop, NULL), 0);
    loop_timer_stop(g->loop, &p.timer);
}
