/* sdk_life.c - the lifecycle API through libopensandbox, and what its errors say. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "sdk_test.h"

struct osb_client *client;
struct osb_sandbox *box;

void open_client(void)
{
    char why[OSB_MESSAGE_MAX] = "";

    if (osb_client_open(NULL, &client, why) < 0)
        test_fail(__FILE__, __LINE__, "%s", why);
}

void open_box(void)
{
    open_client();
    GOOD(osb_sandbox_create(client, &(struct osb_create){OSB_CREATE, .image = "host"}, &box));
}

void close_all(void)
{
    if (box)
        GOOD(osb_sandbox_delete(client, osb_sandbox_id(box)));
    osb_sandbox_free(box);
    osb_client_close(client);
}

static const struct osb_pair labels[] = {
    {"suite", "c"},
    {"team",  "a"},
};

TEST(sdk, creates_looks_at_and_deletes_a_sandbox)
{
    struct osb_create create = {OSB_CREATE, .image = "host", .metadata = labels,
                                .metadata_count = 2, .timeout_s = 120};
    struct osb_answer *a;
    const struct osb_info *info;

    open_client();
    GOOD(osb_sandbox_create(client, &create, &box));
    GOOD(osb_sandbox_get(client, osb_sandbox_id(box), &a));
    info = osb_info_at(a, 0);
    CHECK_STR(osb_info_id(info), osb_sandbox_id(box));
    CHECK_STR(osb_info_state(info), "Running");
    CHECK_STR(osb_info_metadata(info, "team"), "a");
    CHECK(!osb_info_metadata(info, "none"));
    CHECK_EQ((osb_info_expires_us(info) - osb_info_created_us(info)) / 1000000, 120);
    CHECK_STR(osb_answer_text(a, "status.state"), "Running");
    CHECK_STR(osb_answer_text(a, "entrypoint[2]"), "/dev/null");
    CHECK_STR(osb_answer_text(a, "metadata.\"suite\""), "c");
    CHECK_EQ(osb_answer_count(a, "entrypoint"), 3);
    CHECK(osb_answer_request_id(a)[0]);
    osb_answer_free(a);
    CHECK_EQ(osb_sandbox_is_healthy(box), 1);
    close_all();
}

TEST(sdk, repeats_a_create_with_a_key_without_a_second_sandbox)
{
    char key[64];
    struct osb_create create = {OSB_CREATE, .image = "host", .idempotency_key = key};
    struct osb_sandbox *again = NULL;

    snprintf(key, sizeof(key), "sdk-c-%d-%lld", (int)getpid(), (long long)time(NULL));
    open_client();
    GOOD(osb_sandbox_create(client, &create, &box));
    GOOD(osb_sandbox_create(client, &create, &again));
    CHECK_STR(osb_sandbox_id(again), osb_sandbox_id(box));
    osb_sandbox_free(again);
    create.timeout_s = 120;
    CHECK(osb_sandbox_create(client, &create, &again) < 0);
    CHECK_STR(osb_error_code(osb_client_error(client)), "IDEMPOTENCY::KEY_REUSED");
    create.idempotency_key = "no\nheader";
    CHECK_EQ(osb_sandbox_create(client, &create, &again), -EINVAL);
    close_all();
}

TEST(sdk, creates_by_a_request_of_the_caller)
{
    struct osb_create create = {
        OSB_CREATE, .image = "not this one", .timeout_s = 7200,
        .request =
            "{\"image\":{\"uri\":\"host\"},\"timeout\":120,\"entrypoint\":[\"sleep\",\"600\"],"
            "\"resourceLimits\":{\"cpu\":\"1\",\"memory\":\"256Mi\"}}"};
    struct osb_answer *a;

    open_client();
    GOOD(osb_sandbox_create(client, &create, &box));
    CHECK_EQ(osb_sandbox_is_healthy(box), 1); /* it was waited for */
    GOOD(osb_sandbox_get(client, osb_sandbox_id(box), &a));
    CHECK_STR(osb_answer_text(a, "entrypoint[0]"), "sleep");
    CHECK_EQ((osb_info_expires_us(osb_info_at(a, 0)) - osb_info_created_us(osb_info_at(a, 0))) /
                 1000000,
             120);
    osb_answer_free(a);
    create.request = "{\"image\":";
    CHECK_EQ(osb_sandbox_create(client, &create, &box), -EINVAL);
    close_all();
}

TEST(sdk, renews_patches_pauses_and_resumes)
{
    struct osb_pair patch[] = {
        {"team", NULL},
        {"more", "1" },
    };
    struct osb_answer *a;

    open_box();
    GOOD(osb_sandbox_renew(client, osb_sandbox_id(box), 3600, &a));
    CHECK(osb_answer_text(a, "expiresAt"));
    osb_answer_free(a);
    GOOD(osb_sandbox_patch_metadata(client, osb_sandbox_id(box), patch, 2, &a));
    CHECK_STR(osb_info_metadata(osb_info_at(a, 0), "more"), "1");
    osb_answer_free(a);
    GOOD(osb_sandbox_pause(client, osb_sandbox_id(box)));
    GOOD(osb_sandbox_get(client, osb_sandbox_id(box), &a));
    CHECK(osb_info_state(osb_info_at(a, 0))[0] == 'P');
    osb_answer_free(a);
    while (osb_sandbox_resume(client, osb_sandbox_id(box)) == -EBUSY)
        GOOD(osb_sleep(client, 20));
    GOOD(osb_sandbox_wait_ready(box, 0, 0));
    close_all();
}

TEST(sdk, lists_page_by_page)
{
    enum { N = 5 };
    struct osb_pair mine[] = {
        {"page", "by/page"},
    };
    struct osb_filter filter = {OSB_FILTER, .metadata = mine, .metadata_count = 1, .page_size = 2};
    struct osb_sandbox *boxes[N];
    struct osb_iterator *it;
    const struct osb_info *info;
    struct osb_answer *a;
    int seen = 0;

    open_client();
    mine[0].value = "by-page";
    for (int i = 0; i < N; i++)
        GOOD(osb_sandbox_create(client,
                                &(struct osb_create){OSB_CREATE, .image = "host", .metadata = mine,
                                                     .metadata_count = 1},
                                &boxes[i]));
    GOOD(osb_sandbox_list(client, &filter, &a));
    CHECK_EQ(osb_info_count(a), 2);
    CHECK_EQ(osb_answer_int(a, "pagination.totalItems", 0), N);
    osb_answer_free(a);
    GOOD(osb_iterator_new(client, &filter, &it));
    while (osb_iterator_next(it, &info) == 1) {
        CHECK_STR(osb_info_metadata(info, "page"), "by-page");
        seen++;
    }
    CHECK_EQ(seen, N);
    osb_iterator_free(it);
    for (int i = 0; i < N; i++) {
        GOOD(osb_sandbox_delete(client, osb_sandbox_id(boxes[i])));
        osb_sandbox_free(boxes[i]);
    }
    close_all();
}

TEST(sdk, says_what_the_server_said)
{
    const struct osb_error *e;
    struct osb_answer *a = NULL;

    open_client();
    CHECK_EQ(osb_sandbox_get(client, "no-such", &a), -ENOENT);
    e = osb_client_error(client);
    CHECK_EQ(osb_error_status(e), 404);
    CHECK_EQ(osb_error_errno(e), ENOENT);
    CHECK_STR(osb_error_code(e), "DOCKER::SANDBOX_NOT_FOUND");
    CHECK(osb_error_message(e)[0] && osb_error_request_id(e)[0]);
    CHECK(!a);
    CHECK_EQ(osb_sandbox_get(client, "", &a), -EINVAL);
    CHECK_EQ(osb_sandbox_create(
                 client, &(struct osb_create){OSB_CREATE, .image = "host", .timeout_s = 5}, &box),
             -EINVAL);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "timeout"));
    close_all();
}

TEST(sdk, needs_the_right_key)
{
    char why[OSB_MESSAGE_MAX];
    struct osb_answer *a;

    CHECK_EQ(osb_client_open(&(struct osb_config){OSB_CONFIG, .api_key = "wrong"}, &client, why),
             0);
    CHECK_EQ(osb_sandbox_list(client, NULL, &a), -EACCES);
    CHECK_EQ(osb_error_status(osb_client_error(client)), 401);
    close_all();
}

TEST(sdk, trusts_only_whom_it_is_told)
{
    const char *ca = getenv("TEST_CA");
    char why[OSB_MESSAGE_MAX];
    struct osb_answer *a;

    if (!ca)
        test_skip("the server speaks http");
    unsetenv("SSL_CERT_FILE");
    open_client();
    CHECK(osb_sandbox_list(client, NULL, &a) < 0);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "certificate"));
    osb_client_close(client);
    CHECK_EQ(osb_client_open(&(struct osb_config){OSB_CONFIG, .ca_file = ca}, &client, why), 0);
    GOOD(osb_sandbox_list(client, NULL, &a));
    osb_answer_free(a);
    osb_client_close(client);
    CHECK_EQ(osb_client_open(&(struct osb_config){OSB_CONFIG, .insecure = true}, &client, why), 0);
    GOOD(osb_sandbox_list(client, NULL, &a));
    osb_answer_free(a);
    close_all();
}

TEST(sdk, gives_endpoints_snapshots_and_diagnostics)
{
    struct osb_answer *a;
    int r;

    open_box();
    GOOD(osb_endpoint_get(client, osb_sandbox_id(box), 8000, &a));
    CHECK(strstr(osb_answer_text(a, "endpoint"), "8000"));
    osb_answer_free(a);
    r = osb_endpoint_get_signed(client, osb_sandbox_id(box), 8000, time(NULL) + 600, &a);
    if (r == 0)
        osb_answer_free(a);
    else /* a server without a key for them says so */
        CHECK(osb_error_status(osb_client_error(client)) >= 400);
    GOOD(osb_diagnostics_get(client, osb_sandbox_id(box), "inspect", NULL, &a));
    CHECK(strstr(osb_answer_body(a, NULL), osb_sandbox_id(box)));
    osb_answer_free(a);
    GOOD(osb_diagnostics_get(client, osb_sandbox_id(box), "events", "lifecycle", &a));
    CHECK_STR(osb_answer_text(a, "sandboxId"), osb_sandbox_id(box));
    osb_answer_free(a);
    r = osb_snapshot_create(client, osb_sandbox_id(box), "one", &a);
    if (r == 0)
        osb_answer_free(a);
    else
        CHECK_EQ(r, -EOPNOTSUPP); /* where the runtime takes none */
    GOOD(osb_snapshot_list(client, &(struct osb_filter){OSB_FILTER, .page_size = 5}, &a));
    CHECK(osb_answer_has(a, "items"));
    osb_answer_free(a);
    CHECK(osb_snapshot_get(client, "no-such", &a) < 0);
    close_all();
}

TEST(sdk, fails_a_create_that_cannot_run_and_leaves_nothing)
{
    const char *const entry[] = {"/no/such/program", NULL};
    struct osb_create create = {OSB_CREATE, .image = "host", .entrypoint = entry};
    struct osb_pair label = {"left", "none"};
    struct osb_filter filter = {OSB_FILTER, .metadata = &label, .metadata_count = 1};
    struct osb_answer *a;

    create.metadata = &label;
    create.metadata_count = 1;
    open_client();
    CHECK(osb_sandbox_create(client, &create, &box) < 0);
    CHECK(!box);
    CHECK(osb_error_message(osb_client_error(client))[0]);
    GOOD(osb_sandbox_list(client, &filter, &a));
    CHECK_EQ(osb_info_count(a), 0);
    osb_answer_free(a);
    close_all();
}

TEST(sdk, sends_any_request)
{
    struct osb_request req = {OSB_REQUEST, .path = "/version"};
    struct osb_request put = {OSB_REQUEST, .method = "POST", .path = "/command",
                              .body = "{\"command\":\"echo by hand\"}", .body_bytes = 26};
    struct osb_answer *a;

    open_box();
    GOOD(osb_request(client, &req, &a));
    CHECK_EQ(osb_answer_status(a), 200);
    CHECK(osb_answer_body(a, NULL)[0] == '{');
    osb_answer_free(a);
    put.sandbox = box;
    GOOD(osb_request(client, &put, &a));
    CHECK(strstr(osb_answer_body(a, NULL), "by hand"));
    osb_answer_free(a);
    req.path = "/with space";
    CHECK_EQ(osb_request(client, &req, &a), -EINVAL);
    close_all();
}

TEST(sdk, keeps_the_key_out_of_sandboxes)
{
    struct osb_pair own = {"OPEN-SANDBOX-API-KEY", getenv("OPEN_SANDBOX_API_KEY")};
    struct osb_config config = {OSB_CONFIG, .headers = &own, .header_count = 1};
    const char *show = "import http.server,threading\n"
                       "class H(http.server.BaseHTTPRequestHandler):\n"
                       "    def do_GET(self):\n"
                       "        self.send_response(200); self.end_headers()\n"
                       "        self.wfile.write(str(self.headers).encode())\n"
                       "    def log_message(self, *a): pass\n"
                       "http.server.HTTPServer(('127.0.0.1', 8123), H).serve_forever()\n";
    struct osb_request req = {OSB_REQUEST, .path = "/x", .port = 8123};
    struct osb_run run = {OSB_RUN, .command = "python3 /tmp/show.py", .background = true};
    struct osb_answer *a;
    char why[OSB_MESSAGE_MAX];
    int r = -1;

    CHECK_EQ(osb_client_open(&config, &client, why), 0);
    GOOD(osb_sandbox_create(client, &(struct osb_create){OSB_CREATE, .image = "host"}, &box));
    GOOD(osb_file_put(box, "/tmp/show.py", show, strlen(show), 0644));
    GOOD(osb_command_run(box, &run, NULL));
    req.sandbox = box;
    for (int i = 0; i < 500 && (r = osb_request(client, &req, &a)) < 0; i++)
        GOOD(osb_sleep(client, 20));
    GOOD(r);
    CHECK(strstr(osb_answer_body(a, NULL), "User-Agent: OpenSandbox-C-SDK/"));
    CHECK(!strstr(osb_answer_body(a, NULL), own.value));
    osb_answer_free(a);
    close_all();
}
