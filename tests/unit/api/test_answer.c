#include "api/answer.h"

#include "test.h"

static struct api_sandbox sandbox_make(void)
{
    return (struct api_sandbox){
        .id = STR("5bcf5cf1-bd21-437a-be5a-0872b1dc0e4e"),
        .image = STR("python:3.11"),
        .os = STR("linux"),
        .arch = STR("amd64"),
        .status = {SANDBOX_RUNNING, STR("CONTAINER_RUNNING"), STR("it runs"), 2000000000000000},
        .metadata = STR("{\"team\":\"a\"}"),
        .entrypoint = STR("[\"tail\",\"-f\"]"),
        .created_us = 2000000000000000,
        .expires_us = 2000000060000120,
    };
}

#define STATUS                                                                                     \
    "\"status\":{\"state\":\"Running\",\"reason\":\"CONTAINER_RUNNING\",\"message\":\"it runs\","  \
    "\"lastTransitionAt\":\"2033-05-18T03:33:20Z\"}"
#define ID "\"id\":\"5bcf5cf1-bd21-437a-be5a-0872b1dc0e4e\""

TEST(answer, writes_a_new_sandbox_in_the_order_of_create)
{
    struct api_sandbox s = sandbox_make();
    AUTO_BUF(out, 1 << 16);

    CHECK_EQ(api_created_write(&out, &s), 0);
    CHECK_STR(out.p, "{" ID "," STATUS ",\"metadata\":{\"team\":\"a\"},"
                     "\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"},"
                     "\"expiresAt\":\"2033-05-18T03:34:20.000120Z\","
                     "\"createdAt\":\"2033-05-18T03:33:20Z\",\"entrypoint\":[\"tail\",\"-f\"]}");
}

TEST(answer, writes_a_sandbox_in_the_order_of_get)
{
    struct api_sandbox s = sandbox_make();
    AUTO_BUF(out, 1 << 16);

    CHECK_EQ(api_sandbox_write(&out, &s), 0);
    CHECK_STR(out.p, "{" ID ",\"image\":{\"uri\":\"python:3.11\"},"
                     "\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"}," STATUS
                     ",\"metadata\":{\"team\":\"a\"},\"entrypoint\":[\"tail\",\"-f\"],"
                     "\"expiresAt\":\"2033-05-18T03:34:20.000120Z\","
                     "\"createdAt\":\"2033-05-18T03:33:20Z\"}");
}

TEST(answer, leaves_out_what_is_not_there)
{
    struct api_sandbox s = {
        .id = STR("x"),
        .snapshot_id = STR("snap"),
        .status = {.state = SANDBOX_PENDING},
        .metadata = STR("{}"),
        .created_us = 2000000000000000,
    };
    AUTO_BUF(out, 1 << 16);

    CHECK_EQ(api_sandbox_write(&out, &s), 0);
    CHECK_STR(out.p, "{\"id\":\"x\",\"snapshotId\":\"snap\",\"status\":{\"state\":\"Pending\"},"
                     "\"entrypoint\":[],\"createdAt\":\"2033-05-18T03:33:20Z\"}");
    buf_clear(&out);
    CHECK_EQ(api_created_write(&out, &s), 0);
    CHECK_STR(out.p, "{\"id\":\"x\",\"status\":{\"state\":\"Pending\"},"
                     "\"createdAt\":\"2033-05-18T03:33:20Z\",\"entrypoint\":[]}");
}

static void page_write(struct buf *out, uint32_t page, int items, uint64_t total)
{
    struct api_sandbox s = {.id = STR("x"), .status = {.state = SANDBOX_PAUSED}};
    struct api_page p;

    buf_clear(out);
    api_page_begin(&p, out, page, 2);
    for (int i = 0; i < items; i++)
        api_page_add(&p, &s);
    CHECK_EQ(api_page_end(&p, total), 0);
}

TEST(answer, writes_pages)
{
    static const char item[] = "{\"id\":\"x\",\"status\":{\"state\":\"Paused\"},\"entrypoint\":[]}";
    AUTO_BUF(out, 1 << 16);
    char want[512];

    page_write(&out, 1, 0, 0);
    CHECK_STR(out.p, "{\"items\":[],\"pagination\":{\"page\":1,\"pageSize\":2,\"totalItems\":0,"
                     "\"totalPages\":0,\"hasNextPage\":false}}");
    page_write(&out, 1, 2, 3);
    snprintf(want, sizeof(want),
             "{\"items\":[%s,%s],\"pagination\":{\"page\":1,\"pageSize\":2,\"totalItems\":3,"
             "\"totalPages\":2,\"hasNextPage\":true}}",
             item, item);
    CHECK_STR(out.p, want);
    page_write(&out, 2, 0, 4);
    CHECK(strstr(out.p, "\"totalPages\":2,\"hasNextPage\":false"));
    page_write(&out, 9, 0, 4);
    CHECK(strstr(out.p, "\"items\":[]") && strstr(out.p, "\"hasNextPage\":false"));
}

TEST(answer, leaves_a_full_buffer_as_it_was)
{
    struct api_sandbox s = sandbox_make();
    struct api_page p;
    AUTO_BUF(out, 100);

    CHECK_EQ(buf_add(&out, STR("before")), 0);
    CHECK_EQ(api_sandbox_write(&out, &s), -EMSGSIZE);
    CHECK_STR(out.p, "before");
    api_page_begin(&p, &out, 1, 20);
    api_page_add(&p, &s);
    CHECK_EQ(api_page_end(&p, 1), -EMSGSIZE);
    CHECK_STR(out.p, "before");
}

TEST(answer, writes_endpoints_and_expiry)
{
    const struct json_pair headers[] = {
        {STR("OpenSandbox-Secure-Access"), STR("token")},
    };
    AUTO_BUF(out, 1 << 16);

    CHECK_EQ(api_endpoint_write(&out, STR("host:8080/sandboxes/x/proxy/80"), NULL, 0), 0);
    CHECK_STR(out.p, "{\"endpoint\":\"host:8080/sandboxes/x/proxy/80\"}");
    buf_clear(&out);
    CHECK_EQ(api_endpoint_write(&out, STR("h"), headers, 1), 0);
    CHECK_STR(out.p, "{\"endpoint\":\"h\",\"headers\":{\"OpenSandbox-Secure-Access\":\"token\"}}");
    buf_clear(&out);
    CHECK_EQ(api_expires_write(&out, 2000000000000001), 0);
    CHECK_STR(out.p, "{\"expiresAt\":\"2033-05-18T03:33:20.000001Z\"}");
}

TEST(answer, writes_diagnostics_and_counts_what_is_sent)
{
    AUTO_BUF(out, 1 << 16);

    CHECK_EQ(api_diag_write(&out, STR("x"), API_DIAG_LOGS, STR("container"), STR("text/plain"),
                            STR("a\xff\n\xc3\xa4"), true),
             0);
    CHECK_STR(out.p, "{\"sandboxId\":\"x\",\"kind\":\"logs\",\"scope\":\"container\","
                     "\"delivery\":\"inline\",\"contentType\":\"text/plain\","
                     "\"content\":\"a\\ufffd\\n\xc3\xa4\",\"contentLength\":7,\"truncated\":true}");
    buf_clear(&out);
    CHECK_EQ(api_diag_write(&out, STR("x"), API_DIAG_EVENTS, STR("all"), STR("text/plain"),
                            STR_NONE, false),
             0);
    CHECK(strstr(out.p, "\"kind\":\"events\""));
    CHECK(strstr(out.p, "\"content\":\"\",\"contentLength\":0,\"truncated\":false"));
}

TEST(answer, writes_maps_and_lists_to_be_stored)
{
    const struct json_pair pairs[] = {
        {STR("a"), STR("1")},
        {STR("b"), STR("") },
    };
    const struct str strs[] = {STR("sh"), STR("-c"), STR("")};
    AUTO_BUF(out, 1 << 16);

    CHECK_EQ(api_pairs_write(&out, pairs, 2), 0);
    CHECK_EQ(api_strs_write(&out, strs, 3), 0);
    CHECK_STR(out.p, "{\"a\":\"1\",\"b\":\"\"}[\"sh\",\"-c\",\"\"]");
}

/* --- what a client reads --- */

static const struct json *parsed(struct arena *a, const char *text)
{
    struct json *v;

    CHECK_EQ(json_parse(a, str_of(text), NULL, &v, NULL), 0);
    return v;
}

TEST(answer, reads_back_the_sandbox_it_wrote)
{
    struct api_sandbox s = sandbox_make(), got;
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 1 << 16);

    CHECK_EQ(api_sandbox_write(&out, &s), 0);
    CHECK_EQ(api_sandbox_read(&a, parsed(&a, out.p), &got, NULL), 0);
    CHECK(str_eq(got.id, s.id) && str_eq(got.image, s.image) && str_eq(got.arch, s.arch));
    CHECK_EQ(got.status.state, SANDBOX_RUNNING);
    CHECK(str_eq(got.status.reason, s.status.reason) && got.status.since_us == s.status.since_us);
    CHECK(str_eq(got.metadata, s.metadata) && str_eq(got.entrypoint, s.entrypoint));
    CHECK(got.created_us == s.created_us && got.expires_us == s.expires_us);
}

TEST(answer, reads_states_it_does_not_know_and_nulls)
{
    struct api_sandbox got;
    AUTO_ARENA(a, 1 << 20);
    struct err e = {0};

    CHECK_EQ(api_sandbox_read(&a,
                              parsed(&a, "{\"id\":\"x\",\"expiresAt\":null,\"new\":[],\"status\":"
                                         "{\"state\":\"Dreaming\",\"reason\":null}}"),
                              &got, NULL),
             0);
    CHECK_EQ(got.status.state, SANDBOX_STATE_COUNT);
    CHECK_EQ(got.expires_us, 0);
    CHECK_EQ(api_sandbox_read(&a, parsed(&a, "{\"id\":7}"), &got, &e), -EBADMSG);
    CHECK_STR(e.msg, "id: expected a string, got a number");
}

TEST(answer, reads_pages_and_endpoints)
{
    struct api_sandbox s = sandbox_make();
    struct json_pair header = {STR("K"), STR("v")};
    struct api_pagination numbers;
    struct api_endpoint endpoint;
    const struct json *items;
    struct api_page page;
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 1 << 16);

    api_page_begin(&page, &out, 2, 1);
    api_page_add(&page, &s);
    CHECK_EQ(api_page_end(&page, 3), 0);
    CHECK_EQ(api_page_read(&a, parsed(&a, out.p), &items, &numbers, NULL), 0);
    CHECK(json_count(items) == 1 && numbers.page == 2 && numbers.total_pages == 3);
    CHECK(numbers.has_next);
    CHECK_EQ(api_page_read(&a, parsed(&a, "[]"), &items, &numbers, NULL), -EBADMSG);

    buf_clear(&out);
    CHECK_EQ(api_endpoint_write(&out, STR("h:1/x"), &header, 1), 0);
    CHECK_EQ(api_endpoint_read(&a, parsed(&a, out.p), &endpoint, NULL), 0);
    CHECK(str_eq(endpoint.endpoint, STR("h:1/x")) && endpoint.headers_count == 1);
    CHECK(str_eq(endpoint.headers[0].value, STR("v")));
}
