/* wake.c - resumes a paused sandbox by a lifecycle server, and looks until it runs.
 *
 *   POST /v1/sandboxes/{id}/resume ──► 2xx, or 409: it is resumed already ──► look until it runs
 *
 * Of a sandbox behind a server, that server is asked; of one in a cluster, those of the list in
 * turn, until one accepts. */
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "ingress/ingress.h"

enum { LOOK_FIRST_MS = 50, LOOK_MAX_MS = 500, TARGET_MAX = 64 + 3 * ROUTE_ID_MAX };

struct waking {
    struct list link; /* in worker->wakings */
    struct worker *worker;
    http_wait_done_fn *done;
    void *done_user;
    struct loop_timer look;
    uint64_t deadline_ns;
    uint32_t pause_ms;
    size_t next; /* server to ask */
    char id[ROUTE_ID_MAX + 1];
};

static void waking_end(struct waking *k, const char *why)
{
    http_wait_done_fn *done = k->done;
    void *user = k->done_user;

    loop_timer_stop(k->worker->loop, &k->look);
    list_remove(&k->link);
    free(k);
    done(user, why);
}

static void on_looked(void *user, const char *why);

static void on_look(struct loop_timer *t)
{
    struct waking *k = container_of(t, struct waking, look);
    struct worker *w = k->worker;

    if (w->ingress->provider->ask) {
        finder_forget(&w->finder, str_of(k->id));
        w->ingress->provider->ask(w, str_of(k->id), on_looked, k);
    } else {
        on_looked(k, NULL);
    }
}

static void look_soon(struct waking *k)
{
    loop_timer_after(k->worker->loop, &k->look, k->pause_ms, on_look);
    k->pause_ms = (uint32_t)min_size(2 * (size_t)k->pause_ms, LOOK_MAX_MS);
}

static void on_looked(void *user, const char *why UNUSED)
{
    struct waking *k = user;
    struct place place;

    k->worker->ingress->provider->find(k->worker, str_of(k->id), &place);
    if (place.state == PLACE_READY)
        waking_end(k, NULL);
    else if (deadline_passed(k->deadline_ns))
        waking_end(k, "it does not run yet");
    else
        look_soon(k);
}

static void ask_next(struct waking *k);

static void on_resumed(void *user, int status, struct str body UNUSED)
{
    struct waking *k = user;

    if (k->worker->stopping)
        waking_end(k, "the gateway ends");
    else if ((status >= 200 && status < 300) || status == 409)
        look_soon(k);
    else
        ask_next(k);
}

static void ask_next(struct waking *k)
{
    struct worker *w = k->worker;
    const struct servers *servers = &w->ingress->servers;
    char target[TARGET_MAX];

    (void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/resume", k->id);
    while (k->next < servers->count)
        if (server_ask(&w->calls, &servers->at[k->next++], HTTP_POST, target, on_resumed, k))
            return;
    waking_end(k, "no server resumes it");
}

static bool is_plain(struct str id)
{
    for (size_t i = 0; i < id.n; i++)
        if (!ascii_is_alpha(id.p[i]) && !ascii_is_digit(id.p[i]) && !strchr("-_.", id.p[i]))
            return false;
    return true;
}

void wake_start(struct worker *w, struct str id, http_wait_done_fn *done, void *done_user)
{
    struct waking *k = mem_new(struct waking);
    struct place place;

    *k = (struct waking){
        .worker = w,
        .done = done,
        .done_user = done_user,
        .deadline_ns = deadline_in_ms(w->wakes.wait_ms),
        .pause_ms = LOOK_FIRST_MS,
    };
    list_push(&w->wakings, &k->link);
    if (!is_plain(id) || str_copy(k->id, sizeof(k->id), id) < 0) {
        waking_end(k, "its id is none");
        return;
    }
    w->ingress->provider->find(w, id, &place);
    if (place.server && place.server->index < w->ingress->servers.count) {
        char target[TARGET_MAX];

        k->next = w->ingress->servers.count; /* no other has it */
        (void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/resume", k->id);
        if (!server_ask(&w->calls, place.server, HTTP_POST, target, on_resumed, k))
            waking_end(k, "its server cannot be asked");
        return;
    }
    ask_next(k);
}

void wake_done(struct worker *w)
{
    LIST_EACH(&w->wakings, at)
    waking_end(container_of(at, struct waking, link), "the gateway ends");
}
