/* sandbox_index.c - sandboxes by tenant and by a pair of metadata, so that the first page of a list
 * costs the same with 100 sandboxes as with 10,000.
 *
 * A facet has the visible sandboxes of one tenant, or of all, and of one pair, or of any: an array
 * in the order of the table, and a count for each state. A sandbox enters its facets when a list is
 * asked for, as it becomes visible on a worker; until then, and again after a change of its tenant
 * or metadata, it waits in `unindexed`. Loop thread only. */
#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/core/sandboxes_internal.h"

enum {
    FACETS_MAX = 1 << 24,
    KEY_BYTES_MAX = 1 << 20,
    METADATA_ARENA_MAX = 4 << 20,
    ROOM_MIN = 4,
};

struct facet {
    struct buf key;
    struct sandbox **at; /* the oldest first */
    size_t n, room;
    size_t by_state[SANDBOX_STATE_COUNT];
};

static void facet_free(void *value)
{
    struct facet *f = value;

    buf_done(&f->key);
    free(f->at);
    free(f);
}

void sandbox_index_init(struct sandboxes *t)
{
    map_init(&t->facets, FACETS_MAX, facet_free);
    list_init(&t->unindexed);
}

void sandbox_index_done(struct sandboxes *t)
{
    map_done(&t->facets);
}

/* --- facets --- */

/* No name of a tenant has a NUL. */
static int write_key(struct buf *out, struct str tenant, const struct json_pair *pair)
{
    int r = buf_add(out, tenant);

    if (pair && r == 0)
        r = buf_add_char(out, '\0');
    if (pair && r == 0)
        r = buf_add(out, pair->key);
    if (pair && r == 0)
        r = buf_add_char(out, '\0');
    return pair && r == 0 ? buf_add(out, pair->value) : r;
}

static struct facet *find(const struct sandboxes *t, struct str tenant,
                          const struct json_pair *pair)
{
    AUTO_BUF(key, KEY_BYTES_MAX);

    return write_key(&key, tenant, pair) < 0 ? NULL : map_get(&t->facets, buf_str(&key));
}

static struct facet *find_or_add(struct sandboxes *t, struct str tenant,
                                 const struct json_pair *pair)
{
    struct facet *f = find(t, tenant, pair);

    if (f)
        return f;
    f = mem_new(struct facet);
    buf_init(&f->key, KEY_BYTES_MAX);
    if (write_key(&f->key, tenant, pair) == 0 && map_add(&t->facets, buf_str(&f->key), f) == 0)
        return f;
    facet_free(f);
    return NULL;
}

/* The place of the first sandbox with this number or a higher one. */
static size_t place_of(const struct facet *f, uint64_t number)
{
    size_t low = 0, high = f->n;

    if (high && f->at[high - 1]->number < number)
        return high; /* the usual one */
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (f->at[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void facet_add(struct facet *f, struct sandbox *sb)
{
    size_t place = place_of(f, sb->number);

    if (f->n == f->room) {
        size_t room = f->room ? 2 * f->room : ROOM_MIN;
        struct sandbox **at = mem_new_array(struct sandbox *, room);

        if (f->n)
            memcpy(at, f->at, f->n * sizeof(*at));
        free(f->at);
        f->at = at;
        f->room = room;
    }
    memmove(f->at + place + 1, f->at + place, (f->n - place) * sizeof(*f->at));
    f->at[place] = sb;
    f->n++;
    f->by_state[sb->state]++;
    sb->facets[sb->facet_count++] = f;
}

static void facet_remove(struct sandboxes *t, struct facet *f, const struct sandbox *sb)
{
    size_t place = place_of(f, sb->number);

    f->n--;
    f->by_state[sb->state]--;
    memmove(f->at + place, f->at + place + 1, (f->n - place) * sizeof(*f->at));
    if (!f->n)
        (void)map_remove(&t->facets, buf_str(&f->key)); /* frees it */
}

/* --- sandboxes --- */

static void put(struct sandbox *sb)
{
    AUTO_ARENA(arena, METADATA_ARENA_MAX);
    const struct str tenants[] = {STR(""), str_of(sb->owner.tenant)};
    const size_t tenant_count = tenants[1].n ? 2 : 1;
    struct json *object = NULL;
    size_t pairs = 0;

    if (sb->metadata && sb->metadata[0] &&
        json_parse(&arena, str_of(sb->metadata), NULL, &object, NULL) == 0 &&
        object->type == JSON_OBJECT)
        pairs = object->count;
    sb->facets = mem_new_array(struct facet *, tenant_count * (1 + pairs));
    for (size_t i = 0; i < tenant_count; i++) {
        struct facet *f = find_or_add(sb->table, tenants[i], NULL);

        if (f)
            facet_add(f, sb);
        sb->table->is_partial |= !f;
        for (const struct json *v = pairs ? object->first : NULL; v; v = v->next) {
            const struct json_pair pair = {v->key, v->string};

            if (v->type != JSON_STRING)
                continue;
            f = find_or_add(sb->table, tenants[i], &pair);
            if (f)
                facet_add(f, sb);
            sb->table->is_partial |= !f;
        }
    }
}

static void take_out(struct sandbox *sb)
{
    for (size_t i = 0; i < sb->facet_count; i++)
        facet_remove(sb->table, sb->facets[i], sb);
    free(sb->facets);
    sb->facets = NULL;
    sb->facet_count = 0;
}

void sandbox_index_changed(struct sandbox *sb)
{
    take_out(sb);
    if (!sb->gone)
        list_move(&sb->table->unindexed, &sb->index_link);
}

void sandbox_index_remove(struct sandbox *sb)
{
    take_out(sb);
    list_remove(&sb->index_link);
}

void sandbox_index_state(struct sandbox *sb, enum sandbox_state next)
{
    for (size_t i = 0; i < sb->facet_count; i++) {
        sb->facets[i]->by_state[sb->state]--;
        sb->facets[i]->by_state[next]++;
    }
}

static void catch_up(struct sandboxes *t)
{
    LIST_EACH(&t->unindexed, at)
    {
        struct sandbox *sb = container_of(at, struct sandbox, index_link);

        if (!sb->hidden && !atomic_load_explicit(&sb->stored, memory_order_acquire))
            continue;
        list_remove(at); /* a hidden one comes back when it is claimed */
        if (!sb->hidden)
            put(sb);
    }
}

/* --- lists --- */

static const struct facet *smallest(const struct sandboxes *t, struct str tenant,
                                    const struct json_pair *pairs, size_t pair_count)
{
    const struct facet *best = find(t, tenant, pair_count ? &pairs[0] : NULL);

    for (size_t i = 1; best && i < pair_count; i++) {
        const struct facet *f = find(t, tenant, &pairs[i]);

        if (!f || f->n < best->n)
            best = f;
    }
    return best;
}

void sandboxes_walk(struct sandboxes *t, struct str tenant, const struct json_pair *pairs,
                    size_t pair_count, struct sandboxes_walk *ret)
{
    const struct facet *f;

    catch_up(t);
    *ret = (struct sandboxes_walk){.table = t};
    if (t->is_partial) {
        ret->next = sandboxes_newest(t);
        return;
    }
    ret->is_exact = pair_count <= 1;
    f = smallest(t, tenant, pairs, pair_count);
    if (!f)
        return;
    ret->at = f->at;
    ret->left = f->n;
    memcpy(ret->by_state, f->by_state, sizeof(ret->by_state));
}

struct sandbox *sandboxes_walk_next(struct sandboxes_walk *w)
{
    struct sandbox *sb = w->next;

    if (sb)
        w->next = sandboxes_older(w->table, sb);
    else if (w->left)
        sb = w->at[--w->left];
    return sb;
}
