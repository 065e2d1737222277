#include "server/gateway/previews.h"

#include <string.h>

#include "base/mem.h"

struct previews {
    struct preview at[PREVIEWS_MAX];
    size_t count;
};

struct previews *previews_new(void)
{
    return mem_new(struct previews);
}

void previews_free(struct previews *p)
{
    free(p);
}

/* A free place, or that of the preview that ends first. */
static struct preview *previews_place(struct previews *p)
{
    struct preview *first = &p->at[0];

    if (p->count < PREVIEWS_MAX)
        return &p->at[p->count++];
    for (size_t i = 1; i < PREVIEWS_MAX; i++)
        if (p->at[i].ends_s < first->ends_s)
            first = &p->at[i];
    return first;
}

const struct preview *previews_add(struct previews *p, struct str sandbox_id, uint16_t port,
                                   int64_t now_s)
{
    struct preview *one;

    if (sandbox_id.n >= PREVIEW_SANDBOX_ID_MAX)
        return NULL;
    one = previews_place(p);
    *one = (struct preview){
        .port = port,
        .ends_s = now_s + PREVIEW_IDLE_S,
        .ends_last_s = now_s + PREVIEW_LIFE_S,
    };
    id_token(one->ticket);
    memcpy(one->sandbox_id, sandbox_id.p, sandbox_id.n);
    return one;
}

const struct preview *previews_use(struct previews *p, struct str ticket, int64_t now_s)
{
    struct preview *found = NULL;

    for (size_t i = 0; i < p->count; i++) /* all, so that the time does not show which */
        found = str_eq_secret(ticket, str_of(p->at[i].ticket)) ? &p->at[i] : found;
    if (!found || found->ends_s <= now_s)
        return NULL;
    found->ends_s = now_s + PREVIEW_IDLE_S;
    if (found->ends_s > found->ends_last_s)
        found->ends_s = found->ends_last_s;
    return found;
}
