#include "ingress/place.h"

#include <errno.h>

#include "base/mem.h"

enum { NS_MAX = 64 };

/* An object; `next` has the same name in another namespace. */
struct named {
    struct named *next;
    char ns[NS_MAX];
    struct place place;
};

static void named_free(void *value)
{
    struct named *n = value;

    while (n) {
        struct named *next = n->next;

        free(n);
        n = next;
    }
}

void places_init(struct places *t)
{
    (void)pthread_rwlock_init(&t->lock, NULL);
    map_init(&t->names, PLACES_MAX, named_free);
}

void places_done(struct places *t)
{
    map_done(&t->names);
    (void)pthread_rwlock_destroy(&t->lock);
}

static struct named *named_find(struct named *n, struct str ns)
{
    while (n && !str_eq(str_of(n->ns), ns))
        n = n->next;
    return n;
}

int places_set(struct places *t, struct str ns, struct str name, const struct place *place)
{
    struct named *first, *n;
    int r = 0;

    (void)pthread_rwlock_wrlock(&t->lock);
    first = map_get(&t->names, name);
    n = named_find(first, ns);
    if (!n) {
        n = mem_new(struct named);
        r = str_copy(n->ns, sizeof(n->ns), ns);
        if (r == 0 && first) {
            n->next = first->next;
            first->next = n;
        } else if (r == 0) {
            r = map_add(&t->names, name, n);
        }
    }
    if (r == 0)
        n->place = *place;
    else
        free(n);
    (void)pthread_rwlock_unlock(&t->lock);
    return r;
}

void places_remove(struct places *t, struct str ns, struct str name)
{
    struct named *first, *n;

    (void)pthread_rwlock_wrlock(&t->lock);
    first = map_get(&t->names, name);
    n = named_find(first, ns);
    if (n && n == first && !n->next) {
        (void)map_remove(&t->names, name);
    } else if (n) {
        struct named *gone = n == first ? first->next : n;

        if (n == first) /* the map holds the first: the second takes its place */
            *first = *gone;
        else
            for (struct named *at = first; at; at = at->next)
                if (at->next == gone)
                    at->next = gone->next;
        free(gone);
    }
    (void)pthread_rwlock_unlock(&t->lock);
}

void places_find(struct places *t, struct str name, struct place *ret)
{
    const struct named *n;

    (void)pthread_rwlock_rdlock(&t->lock);
    n = map_get(&t->names, name);
    if (!n)
        *ret = (struct place){.state = PLACE_NONE};
    else if (n->next)
        *ret = (struct place){.state = PLACE_AMBIGUOUS};
    else
        *ret = n->place;
    (void)pthread_rwlock_unlock(&t->lock);
}

size_t places_count(struct places *t)
{
    size_t n;

    (void)pthread_rwlock_rdlock(&t->lock);
    n = t->names.n;
    (void)pthread_rwlock_unlock(&t->lock);
    return n;
}
