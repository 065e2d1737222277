/* events.h - what happens to sandboxes, told to the watchers.
 *
 * The last EVENTS_KEPT events are kept, so that a watcher that was away can go on where it was. An
 * id is "<start of the server, hexadecimal>-<number>": one of another start is not found. Loop
 * thread only. */
#pragma once

#include "base/list.h"
#include "server/core/sandboxes.h"

struct events;
struct webhook;

enum { EVENTS_KEPT = 4096, EVENT_ID_MAX = 48, EVENT_TYPE_MAX = 32, EVENT_JSON_MAX = 8 << 10 };

#define EVENT_RESET "reset" /* some were missed: a watcher lists sandboxes anew */

struct event {
    char id[EVENT_ID_MAX];
    char type[EVENT_TYPE_MAX]; /* "sandbox.running" */
    char tenant[PRINCIPAL_TENANT_MAX];
    char sandbox[ID_UUID_MAX];
    bool foreign; /* another server told it */
    char *json;   /* LifecycleEvent; of EVENT_RESET {} */
};

/* A watcher: it is told of each event. */
struct event_watcher {
    struct list link;
    void (*on_event)(struct event_watcher *w, const struct event *event, const struct sandbox *sb);
    void (*on_stop)(struct event_watcher *w); /* no more will come: the server stops */
};

struct events *events_new(struct webhook *webhook); /* NULL = none */
void events_free(struct events *e);                 /* NULL is fine */

/* `kind`: "created", "deleted", or NULL for its state. `sb` is as it is now; hidden ones are not
 * told of. */
void events_publish(struct events *e, const struct sandbox *sb, const char *kind);

/* What another server told of one of its sandboxes: a LifecycleEvent, which gets an id of this
 * server. Not for the webhook: that server has its own. -EBADMSG when it is none. */
int events_relay(struct events *e, struct str json);
/* Some of another server were missed. */
void events_relay_reset(struct events *e);

void events_watch(struct events *e, struct event_watcher *w);
void event_watcher_stop(struct event_watcher *w);
/* The server stops: tells the watchers, which would keep it from its end otherwise. */
void events_stop(struct events *e);

/* Visits kept events after `id`, oldest first. False: `id` is not known, and none was visited. An
 * empty id visits none. */
bool events_after(struct events *e, struct str id,
                  bool (*visit)(void *user, const struct event *event), void *user);
/* The id of the newest; never empty. */
void events_last_id(const struct events *e, char ret[EVENT_ID_MAX]);
