#include "server/core/events.h"

#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/audit/webhook.h"

enum { RELAY_ARENA_MAX = 64 << 10 };

struct events {
    struct webhook *webhook;
    uint64_t epoch, last;           /* number of the newest; 0 = none yet */
    struct event ring[EVENTS_KEPT]; /* number n is at n % EVENTS_KEPT */
    struct list watchers;
};

struct events *events_new(struct webhook *webhook)
{
    struct events *e = mem_new(struct events);

    e->webhook = webhook;
    e->epoch = (uint64_t)time_wall_us();
    list_init(&e->watchers);
    return e;
}

void events_free(struct events *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < EVENTS_KEPT; i++)
        free(e->ring[i].json);
    free(e);
}

static void make_id(const struct events *e, uint64_t number, char ret[EVENT_ID_MAX])
{
    (void)snprintf(ret, EVENT_ID_MAX, "%llx-%llu", (unsigned long long)e->epoch,
                   (unsigned long long)number);
}

void events_last_id(const struct events *e, char ret[EVENT_ID_MAX])
{
    make_id(e, e->last, ret);
}

static const char *type_of_state(enum sandbox_state state)
{
    static const char *const types[SANDBOX_STATE_COUNT] = {
        [SANDBOX_PENDING] = "sandbox.pending",       [SANDBOX_RUNNING] = "sandbox.running",
        [SANDBOX_PAUSING] = "sandbox.pausing",       [SANDBOX_PAUSED] = "sandbox.paused",
        [SANDBOX_RESUMING] = "sandbox.resuming",     [SANDBOX_STOPPING] = "sandbox.stopping",
        [SANDBOX_TERMINATED] = "sandbox.terminated", [SANDBOX_FAILED] = "sandbox.failed",
    };

    return types[state];
}

/* What an event says besides what its struct has. */
struct words {
    struct str time, state, reason, message;
    bool deleted; /* without reason and message */
};

static char *event_json(const struct event *event, const struct words *words)
{
    AUTO_BUF(out, EVENT_JSON_MAX);
    struct json_writer w;

    json_write_begin(&w, &out);
    json_write_object(&w);
    json_member_string(&w, STR("id"), str_of(event->id));
    json_member_string(&w, STR("type"), str_of(event->type));
    json_member_string(&w, STR("time"), words->time);
    json_member_string(&w, STR("tenant"), str_of(event->tenant));
    json_member_string(&w, STR("sandboxId"), str_of(event->sandbox));
    json_member_string(&w, STR("state"), words->state);
    if (!words->deleted) {
        json_member_string(&w, STR("reason"), words->reason);
        json_member_string(&w, STR("message"), words->message);
    }
    json_write_object_end(&w);
    return json_write_end(&w) < 0 ? NULL : buf_take(&out);
}

/* Keeps it, and tells the watchers. Its JSON is taken over. */
static void tell(struct events *e, const struct event *event, const struct sandbox *sb)
{
    struct event *slot = &e->ring[++e->last % EVENTS_KEPT];

    free(slot->json);
    *slot = *event;
    LIST_EACH(&e->watchers, at)
    {
        struct event_watcher *w = container_of(at, struct event_watcher, link);

        w->on_event(w, slot, sb);
    }
}

void events_publish(struct events *e, const struct sandbox *sb, const char *kind)
{
    bool deleted = kind && strcmp(kind, "sandbox.deleted") == 0;
    struct event event = {0};
    char time[TIME_TEXT_MAX];
    struct words words = {.deleted = deleted};

    if (!e || sb->hidden)
        return;
    make_id(e, e->last + 1, event.id);
    (void)snprintf(event.type, sizeof(event.type), "%s", kind ? kind : type_of_state(sb->state));
    memcpy(event.tenant, sb->owner.tenant, sizeof(event.tenant));
    memcpy(event.sandbox, sb->id, sizeof(event.sandbox));
    words.time = str_make(time, time_format(time_wall_us(), time));
    words.state = deleted ? STR("Deleted") : str_of(sandbox_state_name(sb->state));
    words.reason = str_of(sb->reason);
    words.message = str_of(sb->message ? sb->message : "");
    event.json = event_json(&event, &words);
    if (!event.json)
        return; /* not possible: a message has a limit */
    if (e->webhook)
        webhook_post(e->webhook, STR("application/json"), str_of(event.json));
    tell(e, &event, deleted ? NULL : sb);
}

/* --- of other servers --- */

static bool read_text(const struct json *object, struct str name, char *out, size_t size)
{
    struct str text;

    return json_to_str(json_get(object, name), &text) == 0 && text.n > 0 &&
           str_copy(out, size, text) == 0;
}

int events_relay(struct events *e, struct str json)
{
    AUTO_ARENA(arena, RELAY_ARENA_MAX);
    struct event event = {.foreign = true};
    struct json *root = NULL;
    struct words words = {0};

    if (json_parse(&arena, json, NULL, &root, NULL) < 0 ||
        !read_text(root, STR("type"), event.type, sizeof(event.type)) ||
        !read_text(root, STR("tenant"), event.tenant, sizeof(event.tenant)) ||
        !read_text(root, STR("sandboxId"), event.sandbox, sizeof(event.sandbox)) ||
        json_to_str(json_get(root, STR("time")), &words.time) < 0 ||
        json_to_str(json_get(root, STR("state")), &words.state) < 0)
        return -EBADMSG;
    words.deleted = json_to_str(json_get(root, STR("reason")), &words.reason) < 0 ||
                    json_to_str(json_get(root, STR("message")), &words.message) < 0;
    make_id(e, e->last + 1, event.id);
    event.json = event_json(&event, &words);
    if (!event.json)
        return -EBADMSG;
    tell(e, &event, NULL);
    return 0;
}

void events_relay_reset(struct events *e)
{
    struct event event = {.type = EVENT_RESET, .foreign = true};

    make_id(e, e->last + 1, event.id);
    event.json = mem_strdup("{}");
    tell(e, &event, NULL);
}

/* --- watchers --- */

void events_watch(struct events *e, struct event_watcher *w)
{
    list_push(&e->watchers, &w->link);
}

void event_watcher_stop(struct event_watcher *w)
{
    list_remove(&w->link);
}

void events_stop(struct events *e)
{
    LIST_EACH(&e->watchers, at)
    {
        struct event_watcher *w = container_of(at, struct event_watcher, link);

        w->on_stop(w);
    }
}

bool events_after(struct events *e, struct str id,
                  bool (*visit)(void *user, const struct event *event), void *user)
{
    struct str epoch;
    uint64_t start, from;

    if (!id.n)
        return true;
    if (!str_cut(&id, '-', &epoch) || str_to_hex_u64(epoch, &start) < 0 ||
        str_to_u64(id, &from) < 0 || start != e->epoch || from > e->last ||
        from + EVENTS_KEPT < e->last)
        return false;
    for (uint64_t n = from + 1; n <= e->last; n++)
        if (!visit(user, &e->ring[n % EVENTS_KEPT]))
            break;
    return true;
}
