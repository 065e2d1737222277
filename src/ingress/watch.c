/* watch.c - keeps the table of places in step with the cluster: one informer, on the control
 * loop. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "ingress/ingress.h"
#include "ingress/kube_place.h"
#include "kube/informer.h"

struct watch {
    struct ingress *ingress;
    struct kube_config *config;
    struct kube_client *client;
    struct kube_informer *informer;
    struct kube_handler handler;
    void (*place_of)(const struct kube_object *o, struct place *ret);
    uint64_t full; /* objects that found no room in the table */
};

static void on_add(struct kube_handler *h, struct kube_object *o)
{
    struct watch *w = container_of(h, struct watch, handler);
    struct place place;

    w->place_of(o, &place);
    if (places_set(&w->ingress->places, o->ns, o->name, &place) < 0 && w->full++ == 0)
        log_event(LOG_ERROR, "the table of sandboxes is full: some are not found",
                  LOG_STR("sandbox", o->name));
}

static void on_update(struct kube_handler *h, struct kube_object *old UNUSED, struct kube_object *o)
{
    on_add(h, o);
}

static void on_delete(struct kube_handler *h, struct kube_object *last)
{
    struct watch *w = container_of(h, struct watch, handler);

    places_remove(&w->ingress->places, last->ns, last->name);
}

static int start(struct ingress *g, const struct kube_kind *kind,
                 void (*place_of)(const struct kube_object *, struct place *), struct err *e)
{
    struct watch *w = mem_new(struct watch);
    struct kube_informer_conf conf = {
        .kind = kind, .ns = g->options.watch_ns, .reduce = kube_place_reduce};
    int r;

    g->watch = w;
    w->ingress = g;
    w->place_of = place_of;
    w->handler.on_add = on_add;
    w->handler.on_update = on_update;
    w->handler.on_delete = on_delete;
    r = kube_config_load(g->options.kubeconfig, NULL, &w->config, e);
    if (r == 0)
        r = kube_client_new(&(struct kube_client_conf){.loop = g->loop,
                                                       .config = w->config,
                                                       .user_agent = "opensandbox-ingress"},
                            &w->client, e);
    conf.client = w->client;
    if (r == 0)
        r = kube_informer_new(&conf, &w->informer, e);
    if (r == 0)
        kube_informer_add_handler(w->informer, &w->handler);
    return r;
}

int watch_start_batch(struct ingress *g, struct err *e)
{
    return start(g, &kube_batch_sandboxes, kube_place_of_batch, e);
}

int watch_start_agent(struct ingress *g, struct err *e)
{
    return start(g, &kube_place_agent_sandboxes, kube_place_of_agent, e);
}

void watch_stop(struct watch *w)
{
    if (!w)
        return;
    kube_informer_free(w->informer);
    kube_client_free(w->client);
    loop_settle(w->ingress->loop);
    kube_config_free(w->config);
    free(w);
}

bool watch_is_synced(const struct watch *w)
{
    return kube_informer_is_synced(w->informer);
}

int64_t watch_lag_s(const struct watch *w)
{
    return w ? (int64_t)kube_informer_lag_s(w->informer) : -1;
}

void watch_problem(const struct watch *w, char *out, size_t size)
{
    struct kube_informer_stats stats;

    kube_informer_stats(w->informer, &stats);
    (void)snprintf(out, size, "%s", stats.last_error);
}
