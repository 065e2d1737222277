/* worker.c - a thread with a loop: connections that the control loop gave it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "ingress/ingress.h"

enum {
    KEPT_MAX = 1024,
    BACKEND_IDLE_MS = 60 * 1000,
    CONNECT_MS = 10 * 1000,
    LOOKUP_MS = FINDER_ASK_MS + 2000,
    NAME_MS = 10 * 1000,
    NOTE_MAX_S = 300,
    POLL_MS = 20,
};

static const struct http_route routes[] = {
    {HTTP_ANY_METHOD, "/*", ROUTE_STREAM_BODY, serve_request},
};

/* --- connections --- */

static void on_gone(void *user)
{
    struct arrival *a = user;
    struct ingress *g = a->worker->ingress;

    limits_disconnect(&g->limits, &a->source);
    atomic_fetch_sub(&a->worker->connections, 1);
    atomic_fetch_sub(&g->connections, 1);
    metric_add(&a->worker->metrics, METRIC_CONNECTIONS_NOW, -1);
    free(a);
}

static void on_arrival(struct loop_task *t)
{
    struct arrival *a = container_of(t, struct arrival, task);
    struct worker *w = a->worker;
    struct http_server_guest guest = {
        .tls = w->tls ? tls_server_security(w->tls) : NULL,
        .peer = a->peer,
        .user = a,
        .on_gone = on_gone,
    };

    metric_add(&w->metrics, METRIC_CONNECTIONS_NOW, 1);
    if (w->drained || w->stopping) {
        fd_close(a->fd);
        on_gone(a);
    } else if (http_server_adopt(w->server, a->fd, &guest, NULL) < 0) {
        on_gone(a);
    }
}

void worker_give(struct worker *w, struct arrival *a)
{
    a->worker = w;
    atomic_fetch_add(&w->connections, 1);
    atomic_fetch_add(&w->ingress->connections, 1);
    loop_post(w->loop, &a->task, on_arrival);
}

/* --- intents of long connections --- */

static uint64_t note_ms(const struct ingress *g)
{
    int64_t s = g->options.min_interval_s;

    return (s < 1 || s > NOTE_MAX_S ? NOTE_MAX_S : (uint64_t)s) * 1000;
}

static void on_note(struct loop_timer *t)
{
    struct worker *w = container_of(t, struct worker, note);
    struct intents *i = w->ingress->intents;
    uint64_t now = loop_now_ns(w->loop);

    LIST_EACH(&w->live, at)
    {
        const struct visit *v = container_of(at, struct visit, link);

        intents_note(i, v->route.id, v->route.port, STR_NONE, now);
    }
    LIST_EACH(&w->tunnels_open, at)
    {
        const struct tunnel_note *n = container_of(at, struct tunnel_note, link);

        intents_note(i, str_of(n->id), n->port, STR_NONE, now);
    }
    loop_timer_after(w->loop, t, note_ms(w->ingress), on_note);
}

/* --- the end --- */

static void worker_end(struct worker *w)
{
    atomic_store(&w->ended, true);
    loop_stop(w->loop);
}

static void on_poll(struct loop_timer *t)
{
    struct worker *w = container_of(t, struct worker, drained_poll);

    if (w->tunnels.count && deadline_passed(w->drain_deadline_ns))
        http_tunnels_cut(&w->tunnels);
    if (w->drained && !w->tunnels.count)
        worker_end(w);
    else
        loop_timer_after(w->loop, t, POLL_MS, on_poll);
}

static void on_drained(void *user)
{
    ((struct worker *)user)->drained = true;
}

static void on_drain(struct loop_task *t)
{
    struct worker *w = container_of(t, struct worker, drain);
    uint64_t ms = w->ingress->options.drain_s * 1000;

    w->drain_deadline_ns = deadline_in_ms(ms);
    http_server_drain(w->server, (uint32_t)ms, on_drained, w);
    loop_timer_after(w->loop, &w->drained_poll, 1, on_poll);
}

void worker_drain(struct worker *w)
{
    loop_post(w->loop, &w->drain, on_drain);
}

/* --- settings that are read again --- */

static struct tls_server_conf tls_conf(const struct options *o)
{
    return (struct tls_server_conf){
        .cert_file = o->tls_cert,
        .key_file = o->tls_key,
        .client_ca_file = o->tls_client_ca,
    };
}

static int load_keys(struct worker *w, struct err *e)
{
    const struct options *o = &w->ingress->options;
    AUTO_BUF(text, ACCESS_KEYS_TEXT_MAX);
    struct access_keys keys;
    int r;

    buf_keep_secret(&text);
    r = io_read_file(AT_FDCWD, o->keys_file, ACCESS_KEYS_TEXT_MAX, &text, e);
    if (r == 0)
        r = access_keys_parse(buf_str(&text), &keys, e);
    if (r == 0)
        w->keys = keys;
    mem_wipe(&keys, sizeof(keys));
    return r;
}

static void on_reload(struct loop_task *t)
{
    struct worker *w = container_of(t, struct worker, reload);
    const struct options *o = &w->ingress->options;
    struct tls_server_conf conf = tls_conf(o);
    struct err e = {0};

    if (o->keys_file[0] && load_keys(w, &e) < 0)
        (void)log_err(&e, "the keys stay as they were");
    if (w->tls && tls_server_reload(w->tls, &conf, &e) < 0)
        (void)log_err(&e, "the certificate stays as it was");
}

void worker_reload(struct worker *w)
{
    loop_post(w->loop, &w->reload, on_reload);
}

/* --- construction --- */

static void start_wake(void *user, struct str id, http_wait_done_fn *done, void *done_user)
{
    wake_start(user, id, done, done_user);
}

static void start_lookup(void *user, struct str id, http_wait_done_fn *done, void *done_user)
{
    struct worker *w = user;

    w->ingress->provider->ask(w, id, done, done_user);
}

static void start_name(void *user, struct str host, http_wait_done_fn *done, void *done_user)
{
    names_ask(&((struct worker *)user)->names, host, done, done_user);
}

static void waits_init(struct worker *w)
{
    struct http_waits waits = {
        .loop = w->loop,
        .wait_ms = LOOKUP_MS,
        .start = start_lookup,
        .serve = serve_again,
        .late = serve_late,
        .user = w,
        .owner = w,
    };

    w->lookups = waits;
    waits.wait_ms = NAME_MS;
    waits.start = start_name;
    w->name_lookups = waits;
    waits.wait_ms = (uint32_t)w->ingress->options.wake_s * 1000;
    waits.start = start_wake;
    waits.serve = serve_woken;
    w->wakes = waits;
    if (!w->ingress->servers.count)
        w->wakes.wait_ms = 0; /* no server could be asked */
    list_init(&w->lookups.all);
    list_init(&w->name_lookups.all);
    list_init(&w->wakes.all);
}

static int server_tls_init(struct worker *w, struct err *e)
{
    const struct servers *servers = &w->ingress->servers;
    int r = 0;

    w->server_tls = mem_new_array(struct tls_client *, servers->count + 1);
    w->calls.tls = mem_new_array(struct stream_security *, servers->count + 1);
    for (size_t i = 0; r == 0 && i < servers->count; i++) {
        const struct server *s = &servers->at[i];
        struct tls_client_conf conf = {.ca_file = s->ca_file[0] ? s->ca_file : NULL,
                                       .secret = true};

        if (!s->tls)
            continue;
        r = tls_client_new(&conf, &w->server_tls[i], e);
        if (r == 0)
            w->calls.tls[i] = tls_client_security(w->server_tls[i]);
    }
    return r;
}

static int worker_init(struct worker *w, struct err *e)
{
    const struct ingress *g = w->ingress;
    const struct options *o = &g->options;
    struct http_server_conf server = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .user = w,
        .on_request = serve_on_request,
        .on_unrouted = serve_on_unrouted,
        .on_done = serve_on_done,
        .connections_max = (uint32_t)(o->connections_max / g->worker_count + 1),
    };
    /* Sandboxes may take any time to answer and to read. */
    struct http_client_conf client = {
        .connect_ms = CONNECT_MS,
        .idle_ms = BACKEND_IDLE_MS,
        .stall_ms = UINT32_MAX,
        .kept_max = KEPT_MAX,
    };
    struct tls_server_conf tls = tls_conf(o);
    int r = loop_new(&w->loop, e);

    if (r == 0)
        r = http_server_new(w->loop, &server, &w->server, e);
    if (r == 0)
        r = http_client_new(w->loop, &client, &w->client, e);
    if (r == 0 && o->tls_cert[0])
        r = tls_server_new(&tls, &w->tls, e);
    w->calls.client = w->client;
    if (r == 0)
        r = server_tls_init(w, e);
    if (r < 0)
        return r;
    w->keys = g->keys;
    http_tunnels_init(&w->tunnels);
    names_init(&w->names, w->loop, g->pool);
    finder_init(&w->finder, &(struct finder_conf){.loop = w->loop,
                                                  .servers = &g->servers,
                                                  .calls = w->calls,
                                                  .keep_ms = (uint32_t)o->lookup_ttl_s * 1000,
                                                  .keep_no_ms = 1000});
    waits_init(w);
    return 0;
}

static void *worker_main(void *user)
{
    struct worker *w = user;
    struct err e = {0};

    if (loop_run(w->loop, &e) < 0)
        (void)log_err(&e, "a worker's loop ended");
    atomic_store(&w->ended, true);
    return NULL;
}

int worker_start(struct worker *w, struct ingress *g, struct err *e)
{
    int r;

    w->ingress = g;
    list_init(&w->live);
    list_init(&w->tunnels_open);
    list_init(&w->wakings);
    r = worker_init(w, e);
    if (r < 0)
        return r;
    if (g->intents)
        loop_timer_after(w->loop, &w->note, note_ms(g), on_note);
    r = pthread_create(&w->thread, NULL, worker_main, w);
    if (r)
        return err_sys(e, r, "start a thread");
    w->started = true;
    return 0;
}

void worker_join(struct worker *w)
{
    if (!w->loop)
        return;
    loop_stop(w->loop);
    if (w->started)
        (void)pthread_join(w->thread, NULL);
    w->stopping = true;
    loop_settle(w->loop); /* arrivals */
    http_server_free(w->server);
    if (w->wakes.loop) {
        http_waits_done(&w->lookups);
        http_waits_done(&w->name_lookups);
        http_waits_done(&w->wakes);
        http_tunnels_cut(&w->tunnels);
    }
    http_client_free(w->client);
    loop_settle(w->loop);
    if (w->wakes.loop) {
        finder_done(&w->finder);
        wake_done(w);
        names_done(&w->names);
    }
    loop_timer_stop(w->loop, &w->note);
    loop_timer_stop(w->loop, &w->drained_poll);
    for (size_t i = 0; w->server_tls && i < w->ingress->servers.count; i++)
        tls_client_free(w->server_tls[i]);
    free(w->server_tls);
    free(w->calls.tls);
    tls_server_free(w->tls);
    mem_wipe(&w->keys, sizeof(w->keys));
    loop_free(w->loop);
    w->loop = NULL;
}
