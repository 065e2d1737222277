/* sdk_run.c - commands, sessions, code, terminals and figures through libopensandbox. */
#include "sdk_test.h"

struct seen {
    char text[4096];
    int inits, completes, errors, stop_after;
};

static int on_event(void *user, const struct osb_event *event)
{
    struct seen *s = user;
    size_t at = strlen(s->text);

    switch (osb_event_type(event)) {
    case OSB_EVENT_INIT:
        s->inits++;
        break;
    case OSB_EVENT_STDOUT:
        snprintf(s->text + at, sizeof(s->text) - at, "<%s>", osb_event_text(event, NULL));
        break;
    case OSB_EVENT_STDERR:
        snprintf(s->text + at, sizeof(s->text) - at, "{%s}", osb_event_text(event, NULL));
        break;
    case OSB_EVENT_COMPLETE:
        s->completes++;
        break;
    case OSB_EVENT_ERROR:
        s->errors++;
        break;
    default:
        break;
    }
    return s->stop_after && s->inits && s->text[0] ? 1 : 0;
}

TEST(run, streams_output_and_keeps_it)
{
    struct seen seen = {0};
    struct osb_pair env = {"WHO", "world"};
    struct osb_run run = {
        OSB_RUN,        .command = "echo hello $WHO; echo; sleep 0.05; echo oops >&2; pwd",
        .cwd = "/tmp",  .env = &env,
        .env_count = 1, .on_event = on_event,
        .user = &seen};
    struct osb_execution *done;

    open_box();
    GOOD(osb_command_run(box, &run, &done));
    CHECK(strstr(seen.text, "<hello world><\n>"));
    CHECK(strstr(seen.text, "{oops}"));
    CHECK(seen.inits == 1 && seen.completes == 1 && seen.errors == 0);
    CHECK_STR(osb_execution_stdout(done), "hello world\n\n/tmp\n");
    CHECK_STR(osb_execution_stderr(done), "oops\n");
    CHECK_EQ(osb_execution_exit_code(done), 0);
    CHECK(!osb_execution_failed(done) && osb_execution_id(done)[0]);
    osb_execution_free(done);
    close_all();
}

TEST(run, tells_how_a_command_failed)
{
    const char *const argv[] = {"sh", "-c", "exit $1", "x", "7", NULL};
    struct osb_execution *done;

    open_box();
    GOOD(osb_command_run(box, &(struct osb_run){OSB_RUN, .argv = argv}, &done));
    CHECK_EQ(osb_execution_exit_code(done), 7);
    CHECK(osb_execution_failed(done));
    CHECK_STR(osb_execution_error_name(done), "CommandExecError");
    osb_execution_free(done);
    CHECK_EQ(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "  "}, NULL), -EINVAL);
    CHECK_EQ(
        osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "id", .has_gid = true}, NULL),
        -EINVAL);
    CHECK(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "id", .cwd = "/none"}, NULL) <
          0);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "/none"));
    close_all();
}

TEST(run, cuts_output_at_its_limit)
{
    struct osb_run run = {OSB_RUN, .command = "seq 1 10000", .output_bytes_max = 100};
    struct osb_execution *done;

    open_box();
    GOOD(osb_command_run(box, &run, &done));
    CHECK(strlen(osb_execution_stdout(done)) <= 100);
    CHECK(osb_execution_truncated(done));
    osb_execution_free(done);
    run = (struct osb_run){OSB_RUN, .command = "seq 1 200000"};
    GOOD(osb_command_run(box, &run, &done));
    CHECK(!osb_execution_truncated(done));
    CHECK_EQ(strlen(osb_execution_stdout(done)), 1288895);
    osb_execution_free(done);
    close_all();
}

TEST(run, runs_in_the_background_and_reads_logs)
{
    struct osb_run run = {OSB_RUN, .command = "echo one; sleep 0.2; echo two", .background = true};
    struct osb_execution *done;
    struct osb_answer *a;
    int64_t cursor = 0;
    char all[64] = "";
    bool running = true;

    open_box();
    GOOD(osb_command_run(box, &run, &done));
    CHECK_EQ(osb_execution_exit_code(done), -1);
    while (running) {
        GOOD(osb_command_status(box, osb_execution_id(done), &a));
        running = osb_answer_bool(a, "running", false);
        if (!running)
            CHECK_EQ(osb_answer_int(a, "exit_code", -1), 0);
        osb_answer_free(a);
        GOOD(osb_command_logs(box, osb_execution_id(done), NULL, cursor, &a, &cursor));
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s", osb_answer_body(a, NULL));
        osb_answer_free(a);
        GOOD(osb_sleep(client, 10));
    }
    CHECK_STR(all, "one\ntwo\n");
    CHECK_EQ(osb_command_status(box, "nope", &a), -ENOENT);
    osb_execution_free(done);
    close_all();
}

static int feed(void *user, const struct osb_event *event)
{
    int *step = user;
    const char *id = osb_event_text(event, NULL);

    /* A call of its own, out of the callback of another. */
    if (osb_event_type(event) == OSB_EVENT_INIT) {
        *step = osb_command_write(box, id, "abc\n", 4, false);
        if (*step == 0)
            *step = osb_command_write(box, id, "def\n", 4, true);
    }
    return 0;
}

TEST(run, feeds_standard_input)
{
    struct osb_run run = {OSB_RUN, .command = "tr a-z A-Z", .input = "first\n", .input_bytes = 6};
    struct osb_execution *done;
    int step = -1;

    open_box();
    GOOD(osb_command_run(box, &run, &done));
    CHECK_STR(osb_execution_stdout(done), "FIRST\n");
    osb_execution_free(done);
    run = (struct osb_run){OSB_RUN, .command = "tr a-z A-Z", .keep_stdin_open = true,
                           .on_event = feed, .user = &step};
    GOOD(osb_command_run(box, &run, &done));
    GOOD(step);
    CHECK_STR(osb_execution_stdout(done), "ABC\nDEF\n");
    osb_execution_free(done);
    close_all();
}

static int interrupt(void *user, const struct osb_event *event)
{
    if (osb_event_type(event) == OSB_EVENT_INIT)
        *(int *)user = osb_command_interrupt(box, osb_event_text(event, NULL));
    return 0;
}

TEST(run, interrupts_stops_and_times_out)
{
    struct seen seen = {.stop_after = 1};
    struct osb_execution *done;
    int r = -1;
    struct osb_run run = {OSB_RUN, .command = "sleep 60", .on_event = interrupt, .user = &r};

    open_box();
    GOOD(osb_command_run(box, &run, &done));
    GOOD(r);
    CHECK(osb_execution_failed(done));
    osb_execution_free(done);
    run = (struct osb_run){OSB_RUN, .command = "echo x; sleep 60", .on_event = on_event,
                           .user = &seen};
    CHECK_EQ(osb_command_run(box, &run, &done), -ECANCELED);
    osb_client_set_timeout(client, 200);
    CHECK_EQ(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "sleep 60"}, &done),
             -ETIMEDOUT);
    osb_client_set_timeout(client, 0);
    osb_client_interrupt(client);
    CHECK_EQ(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "sleep 60"}, &done),
             -ECANCELED);
    GOOD(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "true"}, NULL));
    close_all();
}

TEST(run, keeps_the_state_of_a_session)
{
    struct osb_execution *done;
    char id[OSB_ID_MAX];

    open_box();
    GOOD(osb_session_create(box, "/tmp", id));
    GOOD(osb_session_run(box, id, &(struct osb_run){OSB_RUN, .command = "cd /usr; X=5"}, NULL));
    GOOD(osb_session_run(box, id, &(struct osb_run){OSB_RUN, .command = "pwd; echo $X; exit 3"},
                         &done));
    CHECK_STR(osb_execution_stdout(done), "/usr\n5\n");
    CHECK_EQ(osb_execution_exit_code(done), 3);
    osb_execution_free(done);
    GOOD(osb_session_delete(box, id));
    CHECK_EQ(osb_session_delete(box, id), -ENOENT);
    close_all();
}

TEST(run, runs_code_with_results)
{
    struct osb_execution *done;
    struct osb_answer *a;
    char id[OSB_ID_MAX];

    open_box();
    GOOD(osb_context_create(box, &(struct osb_context){OSB_CONTEXT, .language = "python"}, id));
    GOOD(osb_code_run(
        box, &(struct osb_code){OSB_CODE, .code = "x = 20\nprint('hi')\nx + 1", .context_id = id},
        &done));
    CHECK_STR(osb_execution_stdout(done), "hi\n");
    CHECK_EQ(osb_execution_result_count(done), 1);
    CHECK_STR(osb_execution_result(done, 0, "text/plain"), "21");
    CHECK(strstr(osb_execution_result_json(done, 0), "\"text/plain\":\"21\""));
    CHECK_EQ(osb_execution_count(done), 1);
    CHECK(!osb_execution_failed(done));
    osb_execution_free(done);
    GOOD(osb_code_run(box, &(struct osb_code){OSB_CODE, .code = "x / 0", .context_id = id}, &done));
    CHECK(osb_execution_failed(done));
    CHECK_STR(osb_execution_error_name(done), "ZeroDivisionError");
    CHECK(strstr(osb_execution_traceback(done), "ZeroDivisionError"));
    osb_execution_free(done);
    GOOD(osb_context_list(box, "python", &a));
    CHECK_STR(osb_answer_text(a, "[0].id"), id);
    osb_answer_free(a);
    GOOD(osb_context_get(box, id, &a));
    CHECK_STR(osb_answer_text(a, "language"), "python");
    osb_answer_free(a);
    GOOD(osb_code_interrupt(box, id));
    GOOD(osb_context_delete(box, id));
    CHECK_EQ(osb_context_get(box, id, &a), -ENOENT);
    GOOD(osb_context_delete_all(box, "python"));
    close_all();
}

static int three(void *user, const struct osb_metrics *m)
{
    CHECK(m->cpu_count > 0 && m->memory_total_mib > 0);
    return ++*(int *)user == 2;
}

TEST(run, reads_and_watches_figures)
{
    struct osb_metrics m = {0};
    int seen = 0;

    open_box();
    GOOD(osb_metrics_get(box, &m));
    CHECK(m.cpu_count > 0 && m.timestamp_ms > 0);
    GOOD(osb_metrics_watch(box, three, &seen));
    CHECK_EQ(seen, 2);
    close_all();
}

/* --- terminals --- */

/* Reads until the output holds the text. */
static void read_until(struct osb_pty *pty, char *all, size_t size, const char *text)
{
    size_t n = strlen(all);

    while (!strstr(all, text)) {
        long r = osb_pty_read(pty, all + n, size - n - 1, 30000);

        GOOD((int)r);
        CHECK(r > 0);
        n += (size_t)r;
        all[n] = '\0';
    }
}

/* Nothing waits for the answer to the close, and nothing is leaked. */
TEST(run, leaves_a_terminal_and_the_client_at_once)
{
    char id[OSB_ID_MAX];
    struct osb_pty *pty;

    open_box();
    GOOD(osb_pty_create(box, "/tmp", NULL, id));
    GOOD(osb_pty_open(box, id, NULL, &pty));
    osb_pty_close(pty);
    close_all();
}

TEST(run, talks_to_a_terminal)
{
    char id[OSB_ID_MAX], all[65536] = "", again[65536] = "";
    struct osb_pty *pty, *second;
    int64_t offset;
    char end[256];
    long r;

    open_box();
    GOOD(osb_pty_create(box, "/tmp", NULL, id));
    GOOD(osb_pty_open(box, id, NULL, &pty));
    GOOD(osb_pty_resize(pty, 91, 33));
    GOOD(osb_pty_write(pty, "stty size; echo A$((40+2))B\n", 28));
    read_until(pty, all, sizeof(all), "A42B\r\n");
    CHECK(strstr(all, "33 91"));
    offset = osb_pty_offset(pty);
    CHECK(offset > 0);
    CHECK_EQ(osb_pty_open(box, id, NULL, &second), -EBUSY);
    osb_pty_close(pty);

    /* What was printed is there again. */
    while ((r = osb_pty_open(box, id, NULL, &pty)) == -EBUSY)
        GOOD(osb_sleep(client, 10));
    GOOD((int)r);
    read_until(pty, again, sizeof(again), "A42B\r\n");
    GOOD(osb_pty_write(pty, "sleep 100\n", 10));
    GOOD(osb_pty_signal(pty, "SIGINT"));
    GOOD(osb_pty_write(pty, "exit 6\n", 7));
    while ((r = osb_pty_read(pty, end, sizeof(end), 30000)) > 0)
        continue;
    GOOD((int)r);
    CHECK_EQ(osb_pty_exit_code(pty), 6);
    osb_pty_close(pty);
    GOOD(osb_pty_delete(box, id));
    CHECK_EQ(osb_pty_open(box, id, NULL, &pty), -ENOENT);
    close_all();
}
