/* sdk_hostile.c - libopensandbox against a peer that is slow, lies, sends garbage or breaks off.
 * The peer is test_sdk_c_hostile.py: the id of a sandbox names what it does. */
#include <time.h>

#include "sdk_test.h"

struct osb_client *client;
struct osb_sandbox *box;

static void start(const char *id)
{
    struct osb_config config = {OSB_CONFIG, .request_timeout_ms = 1000, .idle_timeout_ms = 300};
    char why[OSB_MESSAGE_MAX];

    CHECK_EQ(osb_client_open(&config, &client, why), 0);
    if (id)
        GOOD(osb_sandbox_connect(client, id, &box));
}

static void stop(void)
{
    osb_sandbox_free(box);
    osb_client_close(client);
}

/* A command whose stream goes wrong: the result, and a word of the message. */
static void run_fails(const char *id, int result, const char *word)
{
    struct osb_execution *done = NULL;

    start(id);
    CHECK_EQ(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "x"}, &done), result);
    CHECK(!done);
    if (!strstr(osb_error_message(osb_client_error(client)), word))
        test_fail(__FILE__, __LINE__, "no '%s' in '%s'", word,
                  osb_error_message(osb_client_error(client)));
    stop();
}

TEST(hostile, a_stream_without_its_last_event_is_an_error)
{
    run_fails("no-end", -EPROTO, "without its last event");
}

TEST(hostile, a_stream_that_is_cut_is_an_error)
{
    run_fails("cut", -EPROTO, "broke its answer off");
}

TEST(hostile, a_stream_of_garbage_is_an_error)
{
    run_fails("garbage", -EPROTO, "no event");
    run_fails("half-json", -EBADMSG, "no JSON");
    run_fails("no-type", -EBADMSG, "type");
    run_fails("bad-chunk", -EPROTO, "broke its answer off");
}

TEST(hostile, a_line_without_an_end_is_an_error)
{
    run_fails("endless", -EPROTO, "more than 16 MiB");
}

TEST(hostile, a_silent_stream_is_an_error)
{
    run_fails("silent", -ETIMEDOUT, "within the time limit");
}

TEST(hostile, an_answer_that_is_no_http_is_an_error)
{
    run_fails("no-http", -EPROTO, "127.0.0.1");
}

TEST(hostile, a_slow_stream_in_any_form_is_fine)
{
    static const char *const ids[] = {"slow", "data", "crlf", "unknown-events"};
    struct osb_execution *done;

    for (size_t i = 0; i < 4; i++) {
        start(ids[i]);
        GOOD(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "x"}, &done));
        CHECK_STR(osb_execution_stdout(done), "hello\n");
        CHECK_EQ(osb_execution_exit_code(done), 0);
        osb_execution_free(done);
        stop();
    }
}

TEST(hostile, a_server_that_does_not_answer_times_out)
{
    struct osb_answer *a;

    start(NULL);
    CHECK_EQ(osb_sandbox_get(client, "never", &a), -ETIMEDOUT);
    osb_client_set_timeout(client, 100);
    CHECK_EQ(osb_sandbox_get(client, "never", &a), -ETIMEDOUT);
    osb_client_set_timeout(client, 0);
    CHECK_EQ(osb_sandbox_get(client, "half-body", &a), -ETIMEDOUT);
    GOOD(osb_sandbox_get(client, "good", &a)); /* and the client works on */
    CHECK_STR(osb_info_state(osb_info_at(a, 0)), "Of tomorrow");
    osb_answer_free(a);
    stop();
}

TEST(hostile, answers_that_do_not_fit_are_errors)
{
    struct osb_answer *a;

    start(NULL);
    CHECK_EQ(osb_sandbox_get(client, "not-json", &a), -EBADMSG);
    CHECK_EQ(osb_sandbox_get(client, "wrong-type", &a), -EBADMSG);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "id: expected a string"));
    CHECK_EQ(osb_sandbox_get(client, "no-body", &a), -EBADMSG);
    CHECK_EQ(osb_sandbox_get(client, "deep", &a), -EBADMSG);
    CHECK_EQ(osb_sandbox_connect(client, "bad-endpoint", &box), -EBADMSG);
    CHECK_EQ(osb_sandbox_connect(client, "bad-header", &box), -EBADMSG);
    CHECK(osb_sandbox_get(client, "big-head", &a) < 0);
    CHECK(osb_sandbox_get(client, "reset", &a) < 0);
    stop();
}

TEST(hostile, errors_in_any_form_are_told)
{
    struct osb_answer *a;
    const struct osb_error *e;

    start(NULL);
    CHECK_EQ(osb_sandbox_get(client, "html", &a), -EREMOTEIO);
    e = osb_client_error(client);
    CHECK_STR(osb_error_code(e), "UNEXPECTED_RESPONSE");
    CHECK_STR(osb_error_message(e), "<html>502</html>");
    CHECK_EQ(osb_sandbox_get(client, "detail", &a), -EBUSY);
    e = osb_client_error(client);
    CHECK_STR(osb_error_code(e), "SOME::CODE");
    CHECK_STR(osb_error_message(e), "the message");
    CHECK_STR(osb_error_request_id(e), "req-7");
    CHECK_EQ(osb_sandbox_get(client, "later", &a), -EAGAIN);
    CHECK_EQ(osb_error_retry_after_s(osb_client_error(client)), 17);
    CHECK_EQ(osb_sandbox_get(client, "empty-error", &a), -ENOENT);
    stop();
}

TEST(hostile, a_sandbox_that_failed_is_noticed_at_once)
{
    struct timespec from, to;

    start(NULL);
    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK_EQ(osb_sandbox_create(
                 client,
                 &(struct osb_create){OSB_CREATE, .image = "failed", .ready_timeout_ms = 60000},
                 &box),
             -EREMOTEIO);
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK(to.tv_sec - from.tv_sec < 10);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "no such image"));
    stop();
}

TEST(hostile, an_early_refusal_ends_an_upload)
{
    static char big[4 << 20];

    start("refuse");
    CHECK_EQ(osb_file_put(box, "/x", big, sizeof(big), 0), -EFBIG);
    CHECK_EQ(osb_error_status(osb_client_error(client)), 413);
    stop();
}

/* Nothing may be written outside of the directory, whatever the archive says. */
TEST(hostile, an_archive_cannot_leave_its_directory)
{
    static const char *const ids[] = {"tar-up", "tar-root", "tar-link", "tar-cut", "tar-garbage"};
    char dir[] = "/tmp/osb-hostile-XXXXXX", inner[64], outside[64];
    FILE *f;

    CHECK(mkdtemp(dir));
    snprintf(inner, sizeof(inner), "%s/in", dir);
    snprintf(outside, sizeof(outside), "%s/evil", dir);
    for (size_t i = 0; i < 5; i++) {
        start(ids[i]);
        CHECK(osb_tree_download(box, "/x", inner, NULL) < 0);
        f = fopen(outside, "re");
        CHECK(!f);
        stop();
    }
    snprintf(outside, sizeof(outside), "rm -r %s", dir);
    CHECK_EQ(system(outside), 0);
}
