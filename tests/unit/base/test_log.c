#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"
#include "base/trace.h"
#include "test.h"

static int log_pipe[2];

static void start(enum log_level level, enum log_format format)
{
    CHECK_EQ(pipe2(log_pipe, O_CLOEXEC | O_NONBLOCK), 0);
    log_init(&(struct log_conf){level, format, log_pipe[1], "test"});
}

/* What was logged since the last call, as one string. */
static const char *logged(void)
{
    static char out[65536];
    ssize_t n = read(log_pipe[0], out, sizeof(out) - 1);

    out[n > 0 ? n : 0] = '\0';
    return out;
}

/* The same without its time stamp, whose form is checked. */
static const char *logged_text(void)
{
    const char *line = logged();
    size_t n = strcspn(line, " ");
    int64_t us;

    CHECK_EQ(time_parse(str_make(line, n), &us, NULL), 0);
    return line + n + 1;
}

TEST(log, writes_a_line_of_text_with_fields)
{
    start(LOG_INFO, LOG_TEXT);
    log_event(LOG_INFO, "sandbox created", LOG_STR("sandbox", "5bcf"), LOG_U64("ms", 3),
              LOG_I64("delta", -4), LOG_BOOL("warm", true));
    CHECK_STR(logged_text(), "INFO test: sandbox created sandbox=5bcf ms=3 delta=-4 warm=true\n");
    log_event(LOG_ERROR, "nothing else");
    CHECK_STR(logged_text(), "ERROR test: nothing else\n");
    log_event(LOG_WARN, "extremes", LOG_U64("u", UINT64_MAX), LOG_I64("i", INT64_MIN));
    CHECK_STR(logged_text(), "WARN test: extremes u=18446744073709551615 i=-9223372036854775808\n");
}

TEST(log, quotes_values_that_a_reader_could_not_split)
{
    start(LOG_INFO, LOG_TEXT);
    log_event(LOG_INFO, "m", LOG_STR("a", "two words"), LOG_STR("b", ""), LOG_STR("c", "x=y"),
              LOG_STR("d", "say \"hi\" \\o/"), LOG_STR("e", STR("caf\xc3\xa9")),
              LOG_STR("f", STR_NONE));
    CHECK_STR(logged_text(), "INFO test: m a=\"two words\" b=\"\" c=\"x=y\" "
                             "d=\"say \\\"hi\\\" \\\\o/\" e=\"caf\xc3\xa9\" f=\"\"\n");
}

TEST(log, lets_no_value_forge_a_line_or_steer_a_terminal)
{
    start(LOG_INFO, LOG_TEXT);
    log_event(LOG_INFO, "bad\nmessage", LOG_STR("v", "x\r\n2026 INFO forged\x1b[2J\x7f\t"),
              LOG_STR("c1", "\xc2\x9b"), LOG_STR("raw", "\xff\xc0\xaf"),
              LOG_STR("nul", STR("a\0b")));
    CHECK_STR(logged_text(),
              "INFO test: bad\\nmessage v=\"x\\x0d\\n2026 INFO forged\\x1b[2J\\x7f\\x09\" "
              "c1=\"\\xc2\\x9b\" raw=\"\\xff\\xc0\\xaf\" nul=\"a\\x00b\"\n");
}

TEST(log, writes_a_line_elsewhere_whatever_the_level)
{
    int other[2], first;

    start(LOG_ERROR, LOG_TEXT);
    CHECK_EQ(pipe2(other, O_CLOEXEC | O_NONBLOCK), 0);
    log_fields_to(other[1], LOG_DEBUG, LOG_FIELDS("m", LOG_STR("a", "two words"), {.key = NULL}));
    CHECK_STR(logged(), "");
    first = log_pipe[0];
    log_pipe[0] = other[0];
    CHECK_STR(logged_text(), "DEBUG test: m a=\"two words\"\n");
    log_pipe[0] = first;
}

TEST(log, writes_json_objects)
{
    const char *line, *rest;

    start(LOG_DEBUG, LOG_JSON);
    log_request_id_set(STR("r-1"));
    log_event(LOG_DEBUG, "say \"hi\"\n", LOG_STR("s", "a\\b\x01\x7f"), LOG_U64("n", 7),
              LOG_BOOL("no", false), LOG_STR("bad", "x\xed\xa0\x80y\xf4\x90\x80\x80"),
              LOG_STR("c1", "\xc2\x9b"), LOG_STR("ok", "\xf0\x9f\x98\x80\xe2\x82\xac"));
    line = logged();
    CHECK(str_starts(str_of(line), STR("{\"time\":\"2")));
    rest = strstr(line, ",\"level\"");
    CHECK_STR(rest, ",\"level\":\"debug\",\"area\":\"test\",\"message\":\"say \\\"hi\\\"\\n\","
                    "\"s\":\"a\\\\b\\u0001\\u007f\",\"n\":7,\"no\":false,"
                    "\"bad\":\"x\\ufffd\\ufffd\\ufffdy\\ufffd\\ufffd\\ufffd\\ufffd\","
                    "\"c1\":\"\\u009b\",\"ok\":\"\xf0\x9f\x98\x80\xe2\x82\xac\","
                    "\"request_id\":\"r-1\"}\n");
}

TEST(log, writes_brief_json_objects)
{
    const char *line, *rest;
    struct str ts;
    int64_t us;

    start(LOG_INFO, LOG_JSON_BRIEF);
    log_event(LOG_WARN, "say \"hi\"", LOG_U64("n", 7));
    line = logged();
    CHECK(str_starts(str_of(line), STR("{\"level\":\"warn\",\"ts\":\"2")));
    rest = strstr(line, "\",\"msg\"");
    CHECK_STR(rest, "\",\"msg\":\"say \\\"hi\\\"\",\"n\":7}\n");
    ts = str_make(rest - 24, 24);
    CHECK_EQ(ts.p[19], '.');
    CHECK_EQ(time_parse(ts, &us, NULL), 0);
}

static char sunk[256];

static void sink(void *user, enum log_level level, const char *message, struct str line)
{
    CHECK(user == sunk);
    (void)snprintf(sunk, sizeof(sunk), "%d %s %.*s", (int)level, message, STR_ARG(line));
}

TEST(log, gives_lines_to_a_sink)
{
    log_init(&(struct log_conf){LOG_INFO, LOG_TEXT, -EBADF, "test", sink, sunk});
    log_event(LOG_ERROR, "down", LOG_U64("n", 1));
    CHECK(str_starts(str_of(sunk), STR("0 down 2")));
    CHECK(str_ends(str_of(sunk), STR(" ERROR test: down n=1\n")));
}

static int evaluated;

static uint64_t evaluate(void)
{
    evaluated++;
    return 1;
}

TEST(log, evaluates_nothing_below_its_level)
{
    start(LOG_WARN, LOG_TEXT);
    log_event(LOG_INFO, "quiet", LOG_U64("n", evaluate()));
    CHECK_EQ(evaluated, 0);
    CHECK_STR(logged(), "");
    log_set_level(LOG_DEBUG);
    log_event(LOG_DEBUG, "loud", LOG_U64("n", evaluate()));
    CHECK_EQ(evaluated, 1);
    CHECK_STR(logged_text(), "DEBUG test: loud n=1\n");
    log_set_level(LOG_ERROR);
    log_event(LOG_WARN, "quiet again");
    CHECK_STR(logged(), "");
}

TEST(log, redacts_secrets)
{
    const char *token = "hunter2";
    const char *line;

    start(LOG_INFO, LOG_TEXT);
    log_event(LOG_INFO, "login", LOG_SECRET("token", token));
    CHECK_STR(logged_text(), "INFO test: login token=<redacted>\n");
    start(LOG_INFO, LOG_JSON);
    log_event(LOG_INFO, "login", LOG_SECRET("token", token));
    line = logged();
    CHECK(strstr(line, "\"token\":\"<redacted>\""));
    CHECK(!strstr(line, "hunter2"));
}

static void *log_from_another_thread(void *arg)
{
    log_event(LOG_INFO, "other");
    return NULL;
}

TEST(log, carries_the_request_id_of_its_thread)
{
    char long_id[200];
    pthread_t thread;

    memset(long_id, 'x', sizeof(long_id));
    start(LOG_INFO, LOG_TEXT);
    log_request_id_set(STR("abc"));
    log_event(LOG_INFO, "mine", LOG_U64("n", 1));
    CHECK_STR(logged_text(), "INFO test: mine n=1 request_id=abc\n");
    CHECK_EQ(pthread_create(&thread, NULL, log_from_another_thread, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_STR(logged_text(), "INFO test: other\n");
    log_request_id_set(STR("a b\n"));
    log_event(LOG_INFO, "forged");
    CHECK_STR(logged_text(), "INFO test: forged request_id=\"a b\\n\"\n");
    log_request_id_set(str_make(long_id, sizeof(long_id)));
    CHECK_EQ(log_request_id().n, LOG_REQUEST_ID_MAX);
    log_request_id_set(STR_NONE);
    log_event(LOG_INFO, "none");
    CHECK_STR(logged_text(), "INFO test: none\n");
}

/* Every length of a value around the limit, in both formats, with the worst of ids. */
static void check_cuts(enum log_format format, char fill)
{
    static char value[LOG_LINE_MAX * 2];
    char id[LOG_REQUEST_ID_MAX];
    bool saw_whole = false, saw_cut = false;

    memset(value, fill, sizeof(value));
    memset(id, '\x01', sizeof(id));
    start(LOG_INFO, format);
    log_request_id_set(str_make(id, sizeof(id)));
    for (size_t n = 400; n < 5000; n++) {
        struct str line;
        const char *text;
        bool cut;

        log_event(LOG_INFO, "m", LOG_STR("first", str_make(value, n)), LOG_U64("second", n),
                  LOG_STR("third", "end"));
        text = logged();
        line = str_of(text);
        CHECK(line.n <= LOG_LINE_MAX);
        CHECK_EQ(str_find(line, '\n'), line.n - 1);
        cut = str_ends(line, format == LOG_JSON ? STR(",\"cut\":true}\n") : STR(" (cut)\n"));
        CHECK_EQ(cut, !strstr(text, format == LOG_JSON ? "\"third\":\"end\"" : "third=end"));
        CHECK(strstr(text, "request_id"));
        if (format == LOG_JSON)
            CHECK(str_ends(line, cut ? STR("\\u0001\",\"cut\":true}\n") : STR("\\u0001\"}\n")));
        saw_cut |= cut;
        saw_whole |= !cut;
    }
    CHECK(saw_whole && saw_cut);
}

TEST(log, cuts_long_lines_and_says_so)
{
    check_cuts(LOG_TEXT, 'x');
    check_cuts(LOG_JSON, 'x');
    check_cuts(LOG_TEXT, '\x01');
    check_cuts(LOG_JSON, '\x01');
    check_cuts(LOG_JSON, '"');
}

TEST(log, adds_nothing_behind_a_value_that_ends_at_the_limit)
{
    static char value[LOG_LINE_MAX * 2];

    memset(value, 'x', sizeof(value));
    start(LOG_INFO, LOG_JSON);
    for (size_t n = 3000; n < LOG_LINE_MAX; n++) {
        log_event(LOG_INFO, "m", LOG_STR("a", str_make(value, n)),
                  LOG_STR("b", str_make(value, sizeof(value))));
        CHECK(strlen(logged()) <= LOG_LINE_MAX);
    }
}

TEST(log, cuts_a_message_that_fills_the_line)
{
    static char message[LOG_LINE_MAX * 2];
    struct str line;

    memset(message, 'm', sizeof(message) - 1);
    start(LOG_INFO, LOG_JSON);
    log_event(LOG_INFO, message, LOG_U64("n", 1));
    line = str_of(logged());
    CHECK(line.n <= LOG_LINE_MAX && str_ends(line, STR("mmm\",\"cut\":true}\n")));
}

TEST(log, logs_an_error_with_its_context_and_returns_its_code)
{
    struct err e = {0};

    start(LOG_INFO, LOG_TEXT);
    err_set(&e, ENOENT, "no such sandbox");
    CHECK_EQ(log_err(&e, "sandbox=%s op=kill", "5bcf"), -ENOENT);
    CHECK_STR(logged_text(), "ERROR test: sandbox=5bcf op=kill: no such sandbox errno=2\n");
    CHECK_EQ(log_err(&e, "%s", ""), -ENOENT);
    CHECK_STR(logged_text(), "ERROR test: no such sandbox errno=2\n");
}

TEST(log, keeps_errno)
{
    start(LOG_INFO, LOG_TEXT);
    close(log_pipe[1]);
    errno = EXDEV;
    log_event(LOG_INFO, "lost");
    CHECK_EQ(errno, EXDEV);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 500; i++)
        log_event(LOG_INFO, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    return NULL;
}

TEST(log, limits_lines_per_second_and_counts_the_rest)
{
    const uint64_t second = 1000 * TIME_NS_PER_MS, begin = 5 * second + 7;
    struct log_limit limit = {0};

    CHECK_EQ(log_limit_take(&limit), 0);
    for (int i = 0; i < LOG_LIMIT_LINES; i++)
        CHECK(log_limit_pass(&limit, begin + (uint64_t)i));
    for (int i = 0; i < 1000; i++)
        CHECK(!log_limit_pass(&limit, begin + second - 1));
    for (int i = 0; i < LOG_LIMIT_LINES; i++)
        CHECK(log_limit_pass(&limit, begin + second));
    CHECK(!log_limit_pass(&limit, begin + 2 * second - 1));
    CHECK_EQ(log_limit_take(&limit), 1001);
    CHECK_EQ(log_limit_take(&limit), 0);
    CHECK(!log_limit_pass(&limit, begin + 2 * second - 1));
    CHECK(log_limit_pass(&limit, begin + 9 * second));
    CHECK_EQ(log_limit_take(&limit), 1);
}

TEST(log, never_mixes_lines_of_threads)
{
    pthread_t threads[4];
    char line[256];
    size_t n, lines = 0;
    FILE *in;

    start(LOG_INFO, LOG_TEXT);
    CHECK(fcntl(log_pipe[1], F_SETPIPE_SZ, 1 << 20) > 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    close(log_pipe[1]);
    in = fdopen(log_pipe[0], "r");
    CHECK(in);
    while (fgets(line, sizeof(line), in)) {
        n = strlen(line);
        CHECK(strchr(line, 'Z') && strstr(line, "Z INFO test: aaa") && line[n - 2] == 'a');
        lines++;
    }
    CHECK_EQ(lines, 2000);
    fclose(in);
}

TEST(log, has_the_ids_of_a_sampled_trace_even_in_a_cut_line)
{
    struct trace_context trace =
                             {
                                 {0xab, 1},
                                 {0xcd   },
                                 true
    },
                         before;
    static char text[LOG_LINE_MAX];
    const char *line;

    memset(text, 'x', sizeof(text) - 1);
    start(LOG_INFO, LOG_TEXT);
    before = trace_enter(&trace);
    log_event(LOG_INFO, "mine", LOG_U64("n", 1));
    CHECK_STR(logged_text(), "INFO test: mine n=1 trace_id=ab010000000000000000000000000000 "
                             "span_id=cd00000000000000\n");
    log_request_id_set(STR("abc"));
    log_event(LOG_INFO, "long", LOG_STR("a", text), LOG_STR("b", text));
    line = logged_text();
    CHECK(strstr(line, " request_id=abc trace_id=ab010000000000000000000000000000 "
                       "span_id=cd00000000000000 (cut)\n") != NULL);
    log_request_id_set(STR_NONE);
    trace.sampled = false;
    (void)trace_enter(&trace);
    log_event(LOG_INFO, "unsampled");
    CHECK_STR(logged_text(), "INFO test: unsampled\n");
    (void)trace_enter(&before);
}

static void count_tapped(void *user, enum log_level level, const char *message,
                         const struct log_field *fields)
{
    int *count = user;

    CHECK_EQ(level, LOG_WARN);
    CHECK_STR(message, "tapped");
    CHECK_STR(fields[0].key, "n");
    (*count)++;
}

TEST(log, gives_a_tap_what_it_writes)
{
    int count = 0;

    start(LOG_INFO, LOG_TEXT);
    log_set_tap(count_tapped, &count);
    log_event(LOG_WARN, "tapped", LOG_U64("n", 1));
    log_event(LOG_DEBUG, "not written");
    log_set_tap(NULL, NULL);
    log_event(LOG_INFO, "after");
    CHECK_EQ(count, 1);
    CHECK(strstr(logged(), "WARN test: tapped n=1\n") != NULL);
}
