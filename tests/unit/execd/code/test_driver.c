#include "execd/code/driver.h"

#include <signal.h>

#include "base/buf.h"
#include "base/time.h"
#include "folder.h"

enum { LONG_ENOUGH_MS = 120 * 1000, HEARD_MAX = 9 };

/* A loop that reaps, and a driver of our own making: a shell script in the place of python3 that
 * speaks the protocol, or breaks it. What the owner hears is written down in one text. */
struct rig {
    struct loop *loop;
    struct reaper reaper;
    struct loop_signals signals;
    struct loop_timer timer;
    struct kernel *kernel;
    struct buf heard;
    int times;            /* it heard something; a script can wait for that */
    const char *pause_at; /* pauses as soon as this was heard; NULL = never */
    bool dead;
};

static void rig_on_signal(struct loop_signals *s, int signo UNUSED)
{
    while (reaper_reap(&container_of(s, struct rig, signals)->reaper) > 0)
        ;
}

static PRINTF_LIKE(2, 3) void hear(struct rig *g, const char *fmt, ...)
{
    char name[32];
    va_list ap;

    va_start(ap, fmt);
    CHECK_EQ(buf_vaddf(&g->heard, fmt, ap), 0);
    va_end(ap);
    (void)snprintf(name, sizeof(name), "heard-%d", ++g->times);
    if (g->times <= HEARD_MAX)
        file_write(name, "");
    if (g->pause_at && str_find_str(buf_str(&g->heard), str_of(g->pause_at)) < g->heard.n)
        g->kernel->ops->pause(g->kernel, true);
}

static void on_stream(void *user, const char *type, struct str text)
{
    hear(user, "%s[%.*s] ", type, STR_ARG(text));
}

static struct str plain(const struct json *bundle)
{
    struct str s = STR("?");

    CHECK_EQ(json_to_str(json_get(bundle, STR("text/plain")), &s), 0);
    return s;
}

static void on_result(void *user, uint64_t count, const struct json *bundle)
{
    hear(user, "result %d[%.*s] ", (int)count, STR_ARG(plain(bundle)));
}

static void on_display(void *user, struct str id, bool update, const struct json *bundle)
{
    hear(user, "display %.*s%s[%.*s] ", STR_ARG(id), update ? "+" : "", STR_ARG(plain(bundle)));
}

static void on_error(void *user, struct str name, struct str value, const struct json *traceback)
{
    hear(user, "error[%.*s: %.*s, %zu lines] ", STR_ARG(name), STR_ARG(value),
         json_count(traceback));
}

static void on_done(void *user, enum kernel_end end)
{
    static const char *const names[] = {"ok", "failed", "timeout"};
    struct rig *g = user;

    hear(g, "done %s.", names[end]);
    loop_stop(g->loop);
}

static void on_death(void *user, const char *why)
{
    struct rig *g = user;

    hear(g, "dead: %s.", why);
    g->dead = true;
    g->kernel->ops->free(g->kernel);
    g->kernel = NULL;
    loop_stop(g->loop);
}

static const struct kernel_owner owner = {on_stream, on_result, on_display, on_error,
                                          on_done,   on_death,  NULL};

static int start(struct rig *g, const char *language, struct err *e)
{
    static char path[256];
    static const char *const env[] = {path, NULL};
    const struct kernel_conf conf = {
        .loop = g->loop, .reaper = &g->reaper, .env = env, .owner = &owner, .user = g};

    CHECK(getcwd(path + 5, sizeof(path) - 5));
    memcpy(path, "PATH=", 5);
    return kernel_driver.start(&conf, str_of(language), &g->kernel, e);
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
    buf_init(&g->heard, 1 << 20);
}

/* Starts a driver whose program is this text. */
static void rig_start(struct rig *g, const char *script)
{
    struct err e = {0};

    rig_open(g);
    file_write("python3",
               "#!/bin/sh\nPATH=/usr/bin:/bin\n"
               "say() { printf '%s\\n' \"$1\" >&4; }\n"
               "cell() { read -r request <&3 || exit 0\n"
               "         id=${request#*\\\"id\\\":\\\"}; id=${id%%\\\"*}; }\n"
               "begin() { cell; say \"{\\\"type\\\":\\\"begin\\\",\\\"id\\\":\\\"$id\\\"}\"; }\n"
               "end() { say \"{\\\"type\\\":\\\"done\\\",\\\"id\\\":\\\"$id\\\"}\"; }\n"
               "ready() { say '{\"type\":\"ready\"}'; }\n"
               "heard() { until [ -e ${0%/*}/heard-$1 ]; do sleep 0.01; done; }\n");
    {
        auto_fd fd = open("python3", O_WRONLY | O_APPEND | O_CLOEXEC);

        CHECK_EQ(write(fd, script, strlen(script)), strlen(script));
        CHECK_EQ(fchmod(fd, 0755), 0);
    }
    if (start(g, "python", &e) < 0)
        test_fail(__FILE__, __LINE__, "start: %s", e.msg);
}

static void rig_close(struct rig *g)
{
    if (g->kernel)
        g->kernel->ops->free(g->kernel);
    loop_timer_stop(g->loop, &g->timer);
    loop_settle(g->loop);
    loop_signals_stop(&g->signals);
    loop_free(g->loop);
    buf_done(&g->heard);
}

static void rig_too_late(struct loop_timer *t)
{
    loop_stop(container_of(t, struct rig, timer)->loop);
}

static void turn_for(struct rig *g, uint64_t ms)
{
    loop_timer_set(g->loop, &g->timer, deadline_in_ms(ms), rig_too_late);
    CHECK_EQ(loop_run(g->loop, NULL), 0);
}

static void run(struct rig *g, uint64_t timeout_ms)
{
    CHECK_EQ(g->kernel->ops->run(g->kernel, STR("code"), timeout_ms, NULL), 0);
    turn_for(g, LONG_ENOUGH_MS);
}

TEST(driver, tells_what_a_cell_did_in_its_order)
{
    AUTO_FOLDER(folder);
    struct rig g;

    rig_start(&g, "ready; begin; printf a; printf b >&2\n"
                  "say '{\"type\":\"display\",\"id\":\"d\",\"update\":true,"
                  "\"data\":{\"text/plain\":\"D\"}}'\n"
                  "heard 3; printf c\n" /* else it might overtake the event */
                  "say '{\"type\":\"result\",\"data\":{\"text/plain\":\"R\"}}'\n"
                  "heard 5; printf d; end\n"
                  "begin; say '{\"type\":\"error\",\"ename\":\"E\",\"evalue\":\"v\","
                  "\"traceback\":[\"1\",\"2\"]}'; end; cell");
    run(&g, 0);
    CHECK_STR(g.heard.p,
              "stdout[a] stderr[b] display d+[D] stdout[c] result 1[R] stdout[d] done ok.");
    buf_clear(&g.heard);
    run(&g, 0);
    CHECK_STR(g.heard.p, "error[E: v, 2 lines] done failed.");
    CHECK_STR(g.kernel->name, "driver");
    rig_close(&g);
}

TEST(driver, reads_all_that_was_printed_before_it_believes_an_end)
{
    AUTO_FOLDER(folder);
    struct rig g;

    rig_start(&g, "ready; begin; head -c 60000 /dev/zero | tr '\\0' x; end; cell");
    run(&g, 0);
    CHECK(str_ends(buf_str(&g.heard), STR("x] done ok.")));
    CHECK(g.heard.n >= 60000);
    rig_close(&g);
}

TEST(driver, keeps_characters_whole)
{
    AUTO_FOLDER(folder);
    struct rig g;

    rig_start(&g, "ready; begin; printf 'a\\342\\202'; heard 1; printf '\\254b\\342'; end; cell");
    run(&g, 0);
    CHECK_STR(g.heard.p, "stdout[a] stdout[\xe2\x82\xac"
                         "b] done ok.");
    rig_close(&g);
}

TEST(driver, takes_one_cell_at_a_time_and_one_before_it_is_ready)
{
    AUTO_FOLDER(folder);
    struct rig g;
    struct err e = {0};

    rig_start(&g, "sleep 0.1; ready; begin; printf x; end; cell");
    CHECK_EQ(g.kernel->ops->run(g.kernel, STR("code"), 0, NULL), 0);
    CHECK_EQ(g.kernel->ops->run(g.kernel, STR("code"), 0, &e), -EBUSY);
    turn_for(&g, LONG_ENOUGH_MS);
    CHECK_STR(g.heard.p, "stdout[x] done ok.");
    rig_close(&g);
}

TEST(driver, tells_how_the_process_ended)
{
    static const struct {
        const char *script, *begin, *end;
    } rows[] = {
        {"ready; begin; printf x; exit 3",                              "stdout[x] dead: /", "/python3 ended: exit status 3."               },
        {"ready; begin; kill -9 $$",                                    "dead: /",           "/python3 ended: signal: killed."              },
        {"ready; begin; kill -40 $$",                                   "dead: /",           "/python3 ended: signal: signal 40."           },
        {"exit 7",                                                      "dead: /",           "exit status 7: install python3, 3.6 or newer."},
        {"say '{\"type\":\"failed\",\"message\":\"no luck\"}'; exit 1", "dead: no luck.",    ""                                             },
        {"ready; begin; end; exit 2",                                   "done ok.",          "."                                            }, /* or more */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FOLDER(folder);
        struct rig g;

        rig_start(&g, rows[i].script);
        run(&g, 0);
        if (!str_starts(buf_str(&g.heard), str_of(rows[i].begin)) ||
            !str_ends(buf_str(&g.heard), str_of(rows[i].end)))
            test_fail(__FILE__, __LINE__, "'%s' says: %s", rows[i].script, g.heard.p);
        rig_close(&g);
    }
}

TEST(driver, ends_one_that_breaks_the_protocol)
{
    static const struct {
        const char *script, *why;
    } rows[] = {
        {"ready; begin; say nonsense; sleep 60",                                     "its protocol: "    },
        {"ready; begin; say '{\"type\":\"done\",\"id\":\"x\"}'; sleep 60",           "does not run"      },
        {"say '{\"type\":\"begin\",\"id\":\"\"}'; sleep 60",                         "does not run"      },
        {"ready; begin; say '{\"type\":\"sing\"}'; sleep 60",                        "event, 'sing'"     },
        {"ready; begin; say '{\"type\":\"result\"}'; sleep 60",                      "not an object"     },
        {"ready; begin; say '{\"type\":\"result\",\"data\":{\"a/b\":1}}'; sleep 60",
         "'a/b' of data is not"                                                                          },
        {"ready; begin; say '{\"type\":\"error\",\"traceback\":[1]}'; sleep 60",     "not a string"      },
        {"ready; begin; say '{\"type\":\"failed\"}'; sleep 60",                      "failed after ready"},
        {"ready; begin; head -c 20000000 /dev/zero >&4; sleep 60",                   "larger than 16 MiB"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FOLDER(folder);
        struct rig g;

        rig_start(&g, rows[i].script);
        run(&g, 0);
        CHECK(g.dead);
        if (str_find_str(buf_str(&g.heard), str_of(rows[i].why)) == g.heard.n)
            test_fail(__FILE__, __LINE__, "'%s' says: %s", rows[i].script, g.heard.p);
        rig_close(&g);
    }
}

TEST(driver, passes_json_values_on_as_they_are)
{
    AUTO_FOLDER(folder);
    struct rig g;

    rig_start(&g, "ready; begin\n"
                  "say '{\"type\":\"result\",\"data\":{\"text/plain\":\"j\","
                  "\"application/json\":{\"a\":[1]},\"application/vnd.x+json\":null}}'; end; cell");
    run(&g, 0);
    CHECK_STR(g.heard.p, "result 1[j] done ok.");
    rig_close(&g);
}

TEST(driver, interrupts_a_cell_as_soon_as_it_has_begun)
{
    AUTO_FOLDER(folder);
    struct rig g;

    /* SIGINT before `begin` would kill it: the trap is not there yet. */
    rig_start(&g, "sleep 0.1; ready; sleep 0.1; trap 'printf int; end; cell' INT; begin\n"
                  "while :; do sleep 0.05; done");
    CHECK_EQ(g.kernel->ops->interrupt(g.kernel), 0); /* nothing runs */
    CHECK_EQ(g.kernel->ops->run(g.kernel, STR("code"), 0, NULL), 0);
    CHECK_EQ(g.kernel->ops->interrupt(g.kernel), 0);
    turn_for(&g, LONG_ENOUGH_MS);
    CHECK_STR(g.heard.p, "stdout[int] done ok.");
    rig_close(&g);
}

/* It is killed instead where the machine is too busy for it to end within a second. */
TEST(driver, ends_a_cell_whose_time_is_up)
{
    AUTO_FOLDER(folder);
    struct rig g = {.dead = true};

    for (int i = 0; i < 5 && g.dead; i++) {
        rig_start(&g,
                  "ready; trap 'say \"{\\\"type\\\":\\\"error\\\",\\\"ename\\\":\\\"I\\\"}\"; end;"
                  " cell' INT; begin; while :; do sleep 0.05; done");
        run(&g, 100);
        if (!g.dead)
            CHECK_STR(g.heard.p, "done timeout.");
        rig_close(&g);
    }
    CHECK(!g.dead);
}

TEST(driver, kills_a_cell_that_does_not_end_when_its_time_is_up)
{
    AUTO_FOLDER(folder);
    struct rig g;

    rig_start(&g, "ready; trap '' INT; begin; while :; do sleep 0.05; done");
    run(&g, 100);
    CHECK(str_starts(buf_str(&g.heard), STR("dead: timeout after 100ms;")));
    rig_close(&g);
}

TEST(driver, says_nothing_while_it_is_paused)
{
    AUTO_FOLDER(folder);
    struct rig g;

    rig_start(&g, "ready; begin; printf stop; heard 1; head -c 200000 /dev/zero | tr '\\0' x\n"
                  "end; cell");
    g.pause_at = "stop";
    CHECK_EQ(g.kernel->ops->run(g.kernel, STR("code"), 0, NULL), 0);
    turn_for(&g, 500);
    CHECK_STR(g.heard.p, "stdout[stop] ");
    g.pause_at = NULL;
    g.kernel->ops->pause(g.kernel, false);
    CHECK_STR(g.heard.p, "stdout[stop] "); /* never from within */
    turn_for(&g, LONG_ENOUGH_MS);
    CHECK(str_ends(buf_str(&g.heard), STR("x] done ok.")));
    CHECK(g.heard.n > 200000);
    rig_close(&g);
}

TEST(driver, tells_of_a_death_also_while_paused)
{
    AUTO_FOLDER(folder);
    struct rig g;

    rig_start(&g, "ready; begin; printf stop; heard 1; printf more; exit 1");
    g.pause_at = "stop";
    run(&g, 0);
    CHECK(g.dead);
    CHECK(str_starts(buf_str(&g.heard), STR("stdout[stop] stdout[more] dead: ")));
    rig_close(&g);
}

TEST(driver, says_what_to_install)
{
    AUTO_FOLDER(folder);
    struct err e = {0};
    struct rig g;

    rig_open(&g);
    CHECK_EQ(start(&g, "python", &e), -ENOENT);
    CHECK_STR(e.msg, "python is not in this image: install python3, 3.6 or newer");
    CHECK_EQ(start(&g, "cobol", &e), -ENOTSUP);
    file_write("java", "#!/bin/sh\n"); /* of a JRE: there is no jshell */
    CHECK_EQ(chmod("java", 0755), 0);
    CHECK_EQ(start(&g, "java", &e), -ENOENT);
    CHECK(str_find_str(str_of(e.msg), STR("install a JDK")) < strlen(e.msg));
    rig_close(&g);
}

/* The embedded driver in the real language, where there is one. */
TEST(driver, runs_python)
{
    AUTO_FOLDER(folder);
    struct rig g;
    char real[256];
    ssize_t n = readlink("/usr/bin/python3", real, sizeof(real));

    if (n < 0)
        test_skip("there is no /usr/bin/python3");
    rig_open(&g);
    CHECK_EQ(symlink("/usr/bin/python3", "python3"), 0);
    CHECK_EQ(start(&g, "python", NULL), 0);
    CHECK_EQ(g.kernel->ops->run(g.kernel, STR("print('\xe2\x82\xac')\n6 * 7"), 0, NULL), 0);
    turn_for(&g, LONG_ENOUGH_MS);
    CHECK_STR(g.heard.p, "stdout[\xe2\x82\xac\n] result 1[42] done ok.");
    rig_close(&g);
}

/* A pipe's worth waits with us when we pause, and one in the pipe when the driver ends. */
TEST(driver, ignores_processes_that_a_dead_driver_left_behind)
{
    static const char event[] =
        "{\"type\":\"display\",\"id\":\"d\",\"data\":{\"text/plain\":\"D\"}}\n";
    size_t pipe_words = (64 << 10) / strlen(event) * strlen("display d[D] ");
    AUTO_FOLDER(folder);
    struct rig g;

    rig_start(&g, "ready; begin\n"
                  "yes '{\"type\":\"display\",\"id\":\"d\",\"data\":{\"text/plain\":\"D\"}}' >&4 "
                  "2>/dev/null &\n"
                  "sleep 0.3; exit 3");
    g.pause_at = "display";
    run(&g, 0);
    CHECK(g.dead);
    CHECK(str_ends(buf_str(&g.heard), STR("ended: exit status 3.")));
    CHECK(g.heard.n < 5 * pipe_words / 2);
    rig_close(&g);
}
