#include "server/runtime/embedded/image_hands.h"

#include <errno.h>
#include <poll.h>

#include "base/codec.h"
#include "base/fd.h"
#include "base/time.h"
#include "broker/client.h"

enum {
    CANCEL_TURN_MS = 100, /* how late a cancellation is seen */
    SLACK_MS = 15 * 1000, /* for the broker's process to tell that time is over */
};

/* Waits for the report, and looks at *cancel now and then. */
static int await(int sock, uint32_t time_ms, const volatile bool *cancel, struct err *e)
{
    uint64_t deadline = deadline_in_ms((uint64_t)time_ms + SLACK_MS);
    struct pollfd p = {.fd = sock, .events = POLLIN};

    while (poll(&p, 1, CANCEL_TURN_MS) <= 0) {
        if (cancel && *cancel)
            return err_set(e, ECANCELED, "cancelled");
        if (deadline_passed(deadline))
            return err_set(e, ETIMEDOUT, "unpacking takes longer than allowed");
    }
    return 0;
}

static int hands_unpack(void *ctx, int blob, int dir, const volatile bool *cancel,
                        struct image_store_unpacked *ret, struct err *e)
{
    const struct image_hands *h = ctx;
    const struct broker_config config = {0};
    struct broker_client client;
    struct unpack_report report;
    auto_fd sock = -EBADF;
    int r = broker_connect(&client, h->broker, &config, e);

    if (r < 0)
        return r;
    r = sock = broker_unpack(&client, &h->limits, blob, dir, e);
    broker_close(&client);
    if (r >= 0)
        r = await(sock, h->limits.time_ms, cancel, e);
    if (r >= 0)
        r = broker_unpack_result(sock, 0, &report, e);
    if (r < 0)
        return r;
    *ret =
        (struct image_store_unpacked){.entries = report.entries, .file_bytes = report.file_bytes};
    memcpy(ret->diff_id.text, "sha256:", sizeof("sha256:"));
    (void)hex_encode(str_make((const char *)report.diff_id, sizeof(report.diff_id)),
                     ret->diff_id.text + sizeof("sha256:") - 1);
    return 0;
}

static int hands_erase(void *ctx, int parent, const char *name, struct err *e)
{
    const struct image_hands *h = ctx;
    const struct broker_config config = {0};
    struct broker_client client;
    int r = broker_connect(&client, h->broker, &config, e);

    if (r < 0)
        return r;
    r = broker_erase(&client, parent, name, e);
    broker_close(&client);
    return r;
}

struct image_store_hands image_hands_of(struct image_hands *h)
{
    return (struct image_store_hands){hands_unpack, hands_erase, h};
}
