#include "api/image.h"

#include <errno.h>

#include "test.h"

#define JSON STR("application/json")

TEST(api_image, writes_pulls_that_the_server_reads)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 4096);
    struct api_fail f = {0};
    struct api_image_pull pull = {.image = STR("a:1"), .policy = API_PULL_ALWAYS}, got;
    uint64_t bytes;

    CHECK_EQ(api_image_pull_write(&out, &pull), 0);
    CHECK_STR(out.p, "{\"image\":{\"uri\":\"a:1\"},\"policy\":\"Always\"}");
    buf_clear(&out);
    pull.auth_user = STR("me");
    pull.auth_password = STR("pw");
    pull.platform = STR("linux/arm64");
    CHECK_EQ(api_image_pull_write(&out, &pull), 0);
    CHECK_EQ(api_image_pull_parse(&a, JSON, buf_str(&out), &got, &f), 0);
    CHECK_SPAN(got.auth_password, "pw");
    CHECK_SPAN(got.platform, "linux/arm64");
    CHECK_EQ(got.policy, API_PULL_ALWAYS);
    buf_clear(&out);
    CHECK_EQ(api_image_prune_write(&out, UINT64_MAX), 0);
    CHECK_STR(out.p, "{}");
    buf_clear(&out);
    CHECK_EQ(api_image_prune_write(&out, 0), 0);
    CHECK_EQ(api_image_prune_parse(&a, JSON, buf_str(&out), &bytes, &f), 0);
    CHECK_EQ(bytes, 0);
}

static int read_event(struct arena *a, const char *text, struct api_pull_event *ret)
{
    struct json *v;
    struct err e;

    CHECK_EQ(json_parse(a, str_of(text), NULL, &v, &e), 0);
    return api_pull_event_read(a, v, ret, &e);
}

TEST(api_image, reads_events_of_a_pull)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_pull_event event;

    CHECK_EQ(read_event(&a,
                        "{\"type\":\"progress\",\"message\":\"m\",\"bytesDone\":5,"
                        "\"bytesTotal\":9}",
                        &event),
             0);
    CHECK_EQ(event.type, API_PULL_PROGRESS);
    CHECK_EQ(event.bytes_done, 5);
    CHECK_EQ(event.bytes_total, 9);
    CHECK_EQ(read_event(&a, "{\"type\":\"done\",\"image\":{\"id\":\"x\"}}", &event), 0);
    CHECK(event.type == API_PULL_DONE && event.image->type == JSON_OBJECT);
    CHECK_EQ(read_event(&a, "{\"type\":\"error\",\"code\":\"A::B\",\"message\":\"no\"}", &event),
             0);
    CHECK_EQ(event.type, API_PULL_ERROR);
    CHECK_SPAN(event.code, "A::B");
    CHECK_EQ(read_event(&a, "{\"type\":\"of a later server\"}", &event), 0);
    CHECK_EQ(event.type, API_PULL_OTHER);
    CHECK_EQ(read_event(&a, "{\"type\":1}", &event), -EBADMSG);
    CHECK_EQ(read_event(&a, "{}", &event), -EBADMSG);
    CHECK_EQ(read_event(&a, "{\"type\":\"progress\",\"bytesDone\":-1}", &event), -EBADMSG);
}
