/* A document as a server or a sandbox may answer. What is taken for a sandbox is written so that it
 * reads back the same. */
#include "api/answer.h"
#include "api/execd.h"
#include "fuzz.h"

enum { ROOM = 16 << 20 };

static void check_sandbox(struct arena *a, const struct api_sandbox *s)
{
    struct api_sandbox again;
    struct json *tree;
    AUTO_BUF(out, ROOM);

    if (s->status.state == SANDBOX_STATE_COUNT || api_sandbox_write(&out, s) < 0)
        return;
    FUZZ_CHECK(json_parse(a, buf_str(&out), NULL, &tree, NULL) == 0);
    FUZZ_CHECK(api_sandbox_read(a, tree, &again, NULL) == 0);
    FUZZ_CHECK(str_eq(again.id, s->id) && str_eq(again.image, s->image));
    FUZZ_CHECK(again.status.state == s->status.state && again.expires_us == s->expires_us);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA(a, ROOM);
    struct api_pagination numbers;
    struct api_endpoint endpoint;
    struct api_metrics metrics;
    struct api_sandbox sandbox;
    struct api_event event;
    struct api_file file;
    const struct json *items;
    struct json *tree;
    struct err e;
    int64_t us;

    if (json_parse(&a, str_make((const char *)data, size), NULL, &tree, NULL) < 0)
        return 0;
    if (api_sandbox_read(&a, tree, &sandbox, &e) == 0)
        check_sandbox(&a, &sandbox);
    else
        FUZZ_CHECK(e.msg[0]);
    (void)api_page_read(&a, tree, &items, &numbers, &e);
    (void)api_endpoint_read(&a, tree, &endpoint, &e);
    (void)api_expires_read(&a, tree, &us, &e);
    if (api_file_read(&a, tree, &file, &e) == 0)
        FUZZ_CHECK(file.mode <= 07777);
    (void)api_metrics_read(&a, tree, &metrics, &e);
    (void)api_event_read(&a, tree, &event, &e);
    return 0;
}
