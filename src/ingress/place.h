/* place.h - where a sandbox is, as far as it is known; and a table of places for all threads. */
#pragma once

#include <pthread.h>

#include "base/map.h"

struct server;

enum {
    PLACE_TOKEN_MAX = 256,
    PLACE_HOST_MAX = 254,
    PLACES_MAX = 1 << 20,
};

enum place_state {
    PLACE_READY,
    PLACE_NOT_READY,
    PLACE_PAUSED,    /* not ready, until it is resumed */
    PLACE_NONE,      /* there is no such sandbox */
    PLACE_AMBIGUOUS, /* several namespaces have one of this name */
    PLACE_FAILED,    /* it could not be found out */
    PLACE_LATER,     /* not known yet: it must be asked for */
    PLACE_STATE_COUNT,
};

struct place {
    enum place_state state;
    char token[PLACE_TOKEN_MAX]; /* "" = not protected */
    char host[PLACE_HOST_MAX];   /* of its pod or service; "" if `server` is set */
    const struct server *server; /* whose gateway leads to it; NULL = none */
    const char *why;             /* constant text, of a sandbox that is not ready */
};

/* Places of Kubernetes objects, by name; the same name may occur in several namespaces. */
struct places {
    pthread_rwlock_t lock;
    struct map names; /* of struct named */
};

void places_init(struct places *t);
void places_done(struct places *t);

/* -ENOSPC, -ENOMEM: the table is as before. */
int places_set(struct places *t, struct str ns, struct str name,
               const struct place *place) MUST_USE;
void places_remove(struct places *t, struct str ns, struct str name);
/* A copy; PLACE_NONE or PLACE_AMBIGUOUS if there is not exactly one. */
void places_find(struct places *t, struct str name, struct place *ret);
size_t places_count(struct places *t);
