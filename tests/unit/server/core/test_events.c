#include "server/core/events.h"

#include <errno.h>

#include "test.h"

#define LIFE(type, more)                                                                           \
    "{\"id\":\"99-7\",\"type\":\"" type "\",\"time\":\"2026-01-02T03:04:05Z\",\"tenant\":\"t\","   \
    "\"sandboxId\":\"s\",\"state\":\"Running\"" more "}"

struct seen {
    struct event_watcher watcher;
    size_t count, stops;
    struct event last;
    char json[EVENT_JSON_MAX];
};

static void keep(struct seen *s, const struct event *event)
{
    s->count++;
    s->last = *event;
    (void)!str_copy(s->json, sizeof(s->json), str_of(event->json));
}

static void on_event(struct event_watcher *w, const struct event *event, const struct sandbox *sb)
{
    CHECK(!sb);
    keep(container_of(w, struct seen, watcher), event);
}

static void on_stop(struct event_watcher *w)
{
    container_of(w, struct seen, watcher)->stops++;
    event_watcher_stop(w); /* as one does that ends then */
}

static bool on_kept(void *user, const struct event *event)
{
    keep(user, event);
    return true;
}

static struct seen watching(void)
{
    return (struct seen){
        .watcher = {.on_event = on_event, .on_stop = on_stop}
    };
}

TEST(events, of_another_server_get_ids_of_this_one_and_are_kept)
{
    struct events *e = events_new(NULL);
    struct seen s = watching(), late = {0};
    AUTO_BUF(expected, EVENT_JSON_MAX);
    char before[EVENT_ID_MAX];

    events_watch(e, &s.watcher);
    events_last_id(e, before);
    CHECK_EQ(events_relay(e, STR(LIFE("sandbox.running", ",\"reason\":\"R\",\"message\":\"m\""))),
             0);
    CHECK_EQ(s.count, 1);
    CHECK(s.last.foreign);
    CHECK_STR(s.last.type, "sandbox.running");
    CHECK_STR(s.last.tenant, "t");
    CHECK_STR(s.last.sandbox, "s");
    CHECK_EQ(buf_addf(&expected,
                      "{\"id\":\"%s\",\"type\":\"sandbox.running\",\"time\":"
                      "\"2026-01-02T03:04:05Z\",\"tenant\":\"t\",\"sandboxId\":\"s\","
                      "\"state\":\"Running\",\"reason\":\"R\",\"message\":\"m\"}",
                      s.last.id),
             0);
    CHECK_STR(s.json, expected.p);
    CHECK_EQ(events_relay(e, STR(LIFE("sandbox.deleted", ""))), 0);
    CHECK_EQ(s.count, 2);
    CHECK(events_after(e, str_of(before), on_kept, &late));
    CHECK_EQ(late.count, 2);
    CHECK_STR(late.last.type, "sandbox.deleted");
    CHECK(!events_after(e, STR("99-7"), on_kept, &late)); /* the id that it came with */
    events_relay_reset(e);
    CHECK_STR(s.last.type, EVENT_RESET);
    CHECK_STR(s.json, "{}");
    events_free(e);
}

TEST(events, refuses_what_is_no_event)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"type\":\"sandbox.running\"}",
        LIFE("", ""),
        LIFE("a-type-that-is-longer-than-any-that-there-is", ""),
        "{\"type\":1,\"time\":\"t\",\"tenant\":\"t\",\"sandboxId\":\"s\",\"state\":\"Running\"}",
        "{\"type\":\"x\",\"time\":\"t\",\"tenant\":\"t\",\"state\":\"Running\"}",
    };
    struct events *e = events_new(NULL);
    struct seen s = watching();

    events_watch(e, &s.watcher);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(events_relay(e, str_of(bad[i])), -EBADMSG);
    CHECK_EQ(s.count, 0);
    events_free(e);
}

TEST(events, each_watcher_hears_of_the_end)
{
    struct events *e = events_new(NULL);
    struct seen s[3] = {watching(), watching(), watching()};

    for (size_t i = 0; i < ARRAY_LEN(s); i++)
        events_watch(e, &s[i].watcher);
    events_stop(e);
    for (size_t i = 0; i < ARRAY_LEN(s); i++)
        CHECK_EQ(s[i].stops, 1);
    CHECK_EQ(events_relay(e, STR(LIFE("sandbox.running", ""))), 0);
    CHECK_EQ(s[0].count, 0);
    events_free(e);
}
