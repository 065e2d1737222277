/* finder.c - asks servers for a sandbox.
 *
 *   GET /v1/sandboxes/{id} at every server ──► 200 at one: its state
 *                                          └─► GET .../endpoints/44772 there: its token
 *   404 at all: there is none. Anything else: it could not be found out. */
#include "ingress/finder.h"

#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"

enum { KEEP_FAILED_MS = 500, JSON_ARENA_MAX = 16 << 20, TARGET_MAX = 192 };

struct kept {
    struct place place;
    uint64_t until_ns;
};

struct asked {
    struct ask *ask;
    const struct server *server;
    struct server_call *call; /* NULL: it answered */
};

/* An id that is being asked for. */
struct ask {
    struct list link;
    struct finder *finder;
    char id[FINDER_ID_MAX + 1];
    http_wait_done_fn *done;
    void *done_user;
    struct loop_timer late;
    struct place place;  /* as far as it is known */
    size_t open;         /* calls without an answer */
    bool failed;         /* of a server that gave no clear answer */
    struct asked *calls; /* by server */
};

void finder_init(struct finder *f, const struct finder_conf *conf)
{
    *f = (struct finder){.conf = *conf};
    map_init(&f->kept, FINDER_KEPT_MAX, free);
    list_init(&f->asks);
}

/* --- what is remembered --- */

static bool is_id(struct str id)
{
    if (id.n == 0 || id.n > FINDER_ID_MAX)
        return false;
    for (size_t i = 0; i < id.n; i++)
        if (!ascii_is_alpha(id.p[i]) && !ascii_is_digit(id.p[i]) && id.p[i] != '-' &&
            id.p[i] != '_')
            return false;
    return true;
}

void finder_find(struct finder *f, struct str id, struct place *ret)
{
    const struct kept *k = map_get(&f->kept, id);

    if (k && loop_now_ns(f->conf.loop) < k->until_ns) {
        *ret = k->place;
        f->hits++;
    } else {
        *ret = (struct place){.state = is_id(id) ? PLACE_LATER : PLACE_NONE};
    }
}

void finder_forget(struct finder *f, struct str id)
{
    (void)map_remove(&f->kept, id);
}

static void keep(struct finder *f, struct str id, const struct place *place)
{
    bool known = place->state <= PLACE_PAUSED;
    uint32_t ms = known                          ? f->conf.keep_ms
                  : place->state == PLACE_FAILED ? KEEP_FAILED_MS
                                                 : f->conf.keep_no_ms;
    struct kept *k = mem_new(struct kept);
    struct str oldest;
    size_t at = 0;

    if (known && place->state != PLACE_READY)
        ms = KEEP_FAILED_MS; /* it changes soon */
    *k = (struct kept){*place, deadline_in_ms(ms)};
    if (f->kept.n >= FINDER_KEPT_MAX && map_next(&f->kept, &at, &oldest, NULL))
        (void)map_remove(&f->kept, oldest);
    (void)map_remove(&f->kept, id); /* it becomes the newest */
    if (map_add(&f->kept, id, k) < 0)
        free(k);
}

/* --- asking --- */

static void ask_free(struct ask *a)
{
    for (size_t i = 0; i < a->finder->conf.servers->count; i++)
        if (a->calls[i].call)
            server_cancel(a->calls[i].call);
    loop_timer_stop(a->finder->conf.loop, &a->late);
    list_remove(&a->link);
    a->finder->ask_count--;
    mem_wipe(&a->place, sizeof(a->place));
    free(a->calls);
    free(a);
}

static void ask_end(struct ask *a)
{
    http_wait_done_fn *done = a->done;
    void *user = a->done_user;

    keep(a->finder, str_of(a->id), &a->place);
    ask_free(a);
    done(user, NULL);
}

static void on_late(struct loop_timer *t)
{
    struct ask *a = container_of(t, struct ask, late);

    a->place = (struct place){.state = PLACE_FAILED};
    ask_end(a);
}

static enum place_state state_of(struct str text)
{
    if (str_eq_nocase(text, STR("Running")))
        return PLACE_READY;
    if (str_eq_nocase(text, STR("Paused")) || str_eq_nocase(text, STR("Stopped")))
        return PLACE_PAUSED;
    return PLACE_NOT_READY;
}

static void on_token(void *user, int status, struct str body)
{
    struct asked *asked = user;
    struct ask *a = asked->ask;
    AUTO_ARENA(arena, JSON_ARENA_MAX);
    struct json *root = NULL;
    struct str token;

    asked->call = NULL;
    if (status != 200 || json_parse(&arena, body, NULL, &root, NULL) < 0) {
        a->place = (struct place){.state = status == 404 ? PLACE_NONE : PLACE_FAILED};
    } else if (json_to_str(
                   json_get(json_get(root, STR("headers")), STR("OpenSandbox-Secure-Access")),
                   &token) == 0 &&
               str_copy(a->place.token, sizeof(a->place.token), token) < 0) {
        a->place = (struct place){.state = PLACE_FAILED};
    }
    arena_wipe(&arena);
    ask_end(a);
}

static void ask_token(struct asked *asked)
{
    struct ask *a = asked->ask;
    char target[TARGET_MAX];

    for (size_t i = 0; i < a->finder->conf.servers->count; i++)
        if (a->calls[i].call) {
            server_cancel(a->calls[i].call);
            a->calls[i].call = NULL;
        }
    (void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/endpoints/44772?use_server_proxy=true",
                   a->id);
    asked->call =
        server_ask(&a->finder->conf.calls, asked->server, HTTP_GET, target, on_token, asked);
    if (!asked->call) {
        a->place = (struct place){.state = PLACE_FAILED};
        ask_end(a);
    }
}

static void on_sandbox(void *user, int status, struct str body)
{
    struct asked *asked = user;
    struct ask *a = asked->ask;
    AUTO_ARENA(arena, JSON_ARENA_MAX);
    struct json *root = NULL;
    struct str state = STR_NONE;

    asked->call = NULL;
    a->open--;
    if (status == 200 && json_parse(&arena, body, NULL, &root, NULL) == 0 &&
        json_to_str(json_get(json_get(root, STR("status")), STR("state")), &state) == 0) {
        a->place = (struct place){
            .state = state_of(state), .server = asked->server, .why = "the sandbox does not run"};
        if (str_eq_nocase(state, STR("Failed")) || str_eq_nocase(state, STR("Terminated")))
            ask_end(a); /* it has no endpoint any more */
        else
            ask_token(asked);
        return;
    }
    a->failed |= status != 404;
    if (a->open == 0) {
        a->place = (struct place){.state = a->failed ? PLACE_FAILED : PLACE_NONE};
        ask_end(a);
    }
}

void finder_ask(struct finder *f, struct str id, http_wait_done_fn *done, void *done_user)
{
    size_t count = f->conf.servers->count;
    struct ask *a;
    char target[TARGET_MAX];

    if (f->ask_count == FINDER_ASKS_MAX || !is_id(id)) {
        done(done_user, "too many sandboxes are being looked for");
        return;
    }
    a = mem_new(struct ask);
    a->calls = mem_new_array(struct asked, count);
    a->finder = f;
    a->done = done;
    a->done_user = done_user;
    (void)!str_copy(a->id, sizeof(a->id), id);
    list_push(&f->asks, &a->link);
    f->ask_count++;
    f->asked++;
    loop_timer_set(f->conf.loop, &a->late, deadline_in_ms(FINDER_ASK_MS), on_late);
    (void)snprintf(target, sizeof(target), "/v1/sandboxes/%s", a->id);
    for (size_t i = 0; i < count; i++) {
        struct asked *asked = &a->calls[i];

        *asked = (struct asked){a, &f->conf.servers->at[i], NULL};
        asked->call =
            server_ask(&f->conf.calls, asked->server, HTTP_GET, target, on_sandbox, asked);
        a->open += asked->call != NULL;
        a->failed |= asked->call == NULL;
    }
    if (a->open == 0) {
        a->place = (struct place){.state = PLACE_FAILED};
        ask_end(a);
    }
}

void finder_done(struct finder *f)
{
    LIST_EACH(&f->asks, at)
    ask_free(container_of(at, struct ask, link));
    map_done(&f->kept);
}
