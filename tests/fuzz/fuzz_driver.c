/* What a language's driver tells about a cell: whatever bytes come, the owner hears of one end per
 * cell at most, and only of values it can tell on. */
#include "base/mem.h"
#include "execd/code/driver_internal.h"
#include "execd/core/events.h"
#include "fuzz.h"

enum { INPUT_MAX = 1 << 14 };

struct seen {
    struct driver *driver;
    unsigned ends, errors;
};

static void on_stream(void *user UNUSED, const char *type UNUSED, struct str text UNUSED)
{
    FUZZ_CHECK(!"there is no output");
}

static void tell(const struct json *bundle, const struct event_display *display)
{
    AUTO_BUF(event, EVENT_LINE_BYTES_MAX);

    FUZZ_CHECK(event_result(&event, bundle, display) == 0);
    FUZZ_CHECK(str_find(buf_str(&event), '\n') == event.n - 2);
}

static void on_result(void *user, uint64_t count, const struct json *bundle)
{
    struct seen *s = user;

    FUZZ_CHECK(s->ends == 0 && count == 1);
    tell(bundle, NULL);
}

static void on_display(void *user, struct str id, bool update, const struct json *bundle)
{
    struct seen *s = user;
    struct event_display display = {id, update};

    FUZZ_CHECK(s->ends == 0);
    tell(bundle, &display);
}

static void on_error(void *user, struct str name, struct str value, const struct json *traceback)
{
    struct seen *s = user;
    AUTO_BUF(event, EVENT_LINE_BYTES_MAX);

    FUZZ_CHECK(s->ends == 0 && ++s->errors == 1);
    FUZZ_CHECK(event_failure(&event, name, value, traceback) == 0);
}

static void on_done(void *user, enum kernel_end end)
{
    struct seen *s = user;

    FUZZ_CHECK(++s->ends == 1);
    FUZZ_CHECK(end == (s->errors ? KERNEL_FAILED : KERNEL_OK));
}

static void on_death(void *user UNUSED, const char *why UNUSED)
{
    FUZZ_CHECK(!"nothing died");
}

static const struct kernel_owner owner = {on_stream, on_result, on_display,
                                          on_error,  on_done,   on_death};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver d = {.owner = &owner, .count = 1, .busy = true, .id = "1", .requests_fd = -EBADF};
    struct seen seen = {.driver = &d};
    struct err e = {0};
    int r;

    if (size > INPUT_MAX)
        return 0;
    d.user = &seen;
    r = loop_new(&d.loop, &e);
    FUZZ_CHECK(r == 0);
    buf_init(&d.lines, DRIVER_LINE_BYTES_MAX + DRIVER_READ_BYTES);
    FUZZ_CHECK(buf_add(&d.lines, str_make((const char *)data, size)) == 0);
    while (driver_has_event(&d) && driver_take_event(&d, &e) == 0)
        ;
    loop_timer_stop(d.loop, &d.timer);
    buf_done(&d.lines);
    loop_free(d.loop);
    return 0;
}
