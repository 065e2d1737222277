/* discover.c - the ways to find sandboxes, a row for each. */
#include <stdio.h>

#include "ingress/ingress.h"

static void find_on_servers(struct worker *w, struct str id, struct place *ret)
{
    finder_find(&w->finder, id, ret);
}

static void ask_servers(struct worker *w, struct str id, http_wait_done_fn *done, void *done_user)
{
    finder_ask(&w->finder, id, done, done_user);
}

static void find_batch(struct worker *w, struct str id, struct place *ret)
{
    places_find(&w->ingress->places, id, ret);
}

/* The object's name is the id as a label, the id itself, or the id with a prefix. */
static void find_agent(struct worker *w, struct str id, struct place *ret)
{
    struct places *places = &w->ingress->places;
    char label[ROUTE_DNS_MAX], prefixed[sizeof("sandbox-") + ROUTE_ID_MAX];

    route_dns_label(id, label);
    places_find(places, str_of(label), ret);
    if (ret->state == PLACE_NONE && !str_eq(id, str_of(label)))
        places_find(places, id, ret);
    if (ret->state == PLACE_NONE && !str_starts(id, STR("sandbox-"))) {
        (void)snprintf(prefixed, sizeof(prefixed), "sandbox-%.*s", STR_ARG(id));
        places_find(places, str_of(prefixed), ret);
    }
}

static const struct provider providers[] = {
    {.name = "batchsandbox",      .start = watch_start_batch, .find = find_batch},
    {                 .name = "agent-sandbox", .start = watch_start_agent,         .find = find_agent                  },
    { .name = "servers",    .on_servers = true,            .find = find_on_servers,                   .ask = ask_servers},
};

const struct provider *provider_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(providers); i++)
        if (strcmp(providers[i].name, name) == 0)
            return &providers[i];
    return NULL;
}

void provider_names(struct buf *out)
{
    for (size_t i = 0; i < ARRAY_LEN(providers); i++)
        (void)buf_addf(out, "%s%s", i ? ", " : "", providers[i].name);
}
