/* driver_events.c - parses a driver's events and reports them to the owner. */
#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/json.h"
#include "execd/code/driver_internal.h"

enum {
    ARENA_BYTES_MAX = 64 << 20, /* the text of an event twice, and its tree */
    NODES_MAX = 256 << 10,
};

static struct str member(const struct json *event, struct str key)
{
    struct str s = STR("");

    (void)json_to_str(json_get(event, key), &s);
    return s;
}

static int check_id(const struct driver *d, const struct json *event, struct err *e)
{
    if (!d->busy || !str_eq(member(event, STR("id")), str_of(d->id)))
        return err_set(e, EPROTO, "an event for a cell that does not run");
    return 0;
}

/* Values must be strings, except for JSON types: the owner expects no others. */
static int check_bundle(const struct json *bundle, struct err *e)
{
    if (!bundle || bundle->type != JSON_OBJECT)
        return err_set(e, EPROTO, "data is not an object");
    json_each(value, bundle)
    {
        bool json =
            str_eq(value->key, STR("application/json")) || str_ends(value->key, STR("+json"));

        if (!json && value->type != JSON_STRING)
            return err_set(e, EPROTO, "'%.*s' of data is not a string", STR_ARG(value->key));
    }
    return 0;
}

static int take_ready(struct driver *d, const struct json *event UNUSED, struct err *e UNUSED)
{
    d->ready = true;
    loop_timer_stop(d->loop, &d->timer);
    driver_send(d);
    d->kernel.unsure = false;
    if (d->owner->on_ready)
        d->owner->on_ready(d->user);
    return 0;
}

/* The driver cannot start, and ends now. */
static int take_failed(struct driver *d, const struct json *event, struct err *e)
{
    struct str why = member(event, STR("message"));

    if (d->ready)
        return err_set(e, EPROTO, "the event failed after ready");
    (void)snprintf(d->why, sizeof(d->why), "%.*s", (int)min_size(why.n, sizeof(d->why)), why.p);
    return 0;
}

static int take_begin(struct driver *d, const struct json *event, struct err *e)
{
    int r = check_id(d, event, e);

    if (r == 0)
        driver_begun(d);
    return r;
}

static int take_display(struct driver *d, const struct json *event, struct err *e)
{
    const struct json *data = json_get(event, STR("data"));
    bool update = false;
    int r = check_bundle(data, e);

    if (r < 0 || !d->begun)
        return r; /* from a leftover of an earlier cell: no listener */
    (void)json_to_bool(json_get(event, STR("update")), &update);
    d->owner->on_display(d->user, member(event, STR("id")), update, data);
    return 0;
}

static int take_result(struct driver *d, const struct json *event, struct err *e)
{
    const struct json *data = json_get(event, STR("data"));
    int r = check_bundle(data, e);

    if (r < 0 || !d->begun)
        return r;
    d->owner->on_result(d->user, d->count, data);
    return 0;
}

static int take_error(struct driver *d, const struct json *event, struct err *e)
{
    const struct json *traceback = json_get(event, STR("traceback"));

    json_each(line, traceback)
    {
        if (line->type != JSON_STRING)
            return err_set(e, EPROTO, "a line of a traceback is not a string");
    }
    if (!d->begun || d->failed)
        return 0;
    d->failed = true;
    if (!d->timed_out)
        d->owner->on_error(d->user, member(event, STR("ename")), member(event, STR("evalue")),
                           traceback);
    return 0;
}

static int take_done(struct driver *d, const struct json *event, struct err *e)
{
    int r = check_id(d, event, e);

    if (r < 0)
        return r;
    loop_timer_stop(d->loop, &d->timer);
    d->busy = d->begun = false;
    d->owner->on_done(d->user, d->timed_out ? KERNEL_TIMEOUT
                               : d->failed  ? KERNEL_FAILED
                                            : KERNEL_OK);
    return 0;
}

static const struct {
    const char *type;
    int (*take)(struct driver *d, const struct json *event, struct err *e);
} events[] = {
    {"ready",   take_ready  },
    {"failed",  take_failed },
    {"begin",   take_begin  },
    {"display", take_display},
    {"result",  take_result },
    {"error",   take_error  },
    {"done",    take_done   },
};

static int take_line(struct driver *d, struct str line, struct err *e)
{
    static const struct json_limits limits = {
        .text_bytes_max = DRIVER_LINE_BYTES_MAX,
        .nodes_max = NODES_MAX,
        .duplicates = JSON_DUPLICATES_LAST,
        .replace_invalid = true,
    };
    AUTO_ARENA(arena, ARENA_BYTES_MAX);
    struct json *event;
    struct str type;
    int r = json_parse(&arena, line, &limits, &event, e);

    if (r < 0)
        return r;
    type = member(event, STR("type"));
    for (size_t i = 0; i < ARRAY_LEN(events); i++)
        if (str_eq(type, str_of(events[i].type)))
            return events[i].take(d, event, e);
    return err_set(e, EPROTO, "an unknown event, '%.*s'", (int)min_size(type.n, 40), type.p);
}

bool driver_has_event(struct driver *d)
{
    struct str rest = str_skip(buf_str(&d->lines), d->looked);

    d->looked += str_find(rest, '\n');
    return d->looked < d->lines.n;
}

int driver_take_event(struct driver *d, struct err *e)
{
    int r = take_line(d, str_make(d->lines.p, d->looked), e);

    buf_drop_front(&d->lines, d->looked + 1);
    d->looked = 0;
    if (d->lines.n == 0 && d->lines.cap > DRIVER_READ_BYTES)
        buf_done(&d->lines); /* to use little memory when idle */
    return r;
}
