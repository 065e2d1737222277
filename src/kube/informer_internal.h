/* informer_internal.h - what the files of an informer share: informer.c lists and watches,
 * informer_store.c holds the objects and tells the handlers. */
#pragma once

#include <pthread.h>

#include "base/map.h"
#include "kube/informer.h"
#include "kube/watch_decode.h"

enum { KUBE_KEY_MAX = 512 };

struct kube_informer {
    struct kube_informer_conf conf;
    struct arena arena; /* of the texts of conf, and the selector */
    struct kube_selector selector;

    /* The store. Changed on the loop thread, with the lock held; read there without it. */
    pthread_mutex_t lock;
    struct map objects; /* "namespace/name" */
    size_t bytes;
    uint64_t seen; /* the newest revision of list, watch or bookmark */
    struct list handlers;
    atomic_bool synced;
    atomic_ullong heard_ns;

    /* Posted by other threads; protected by the lock. */
    struct kube_object **inbox;
    size_t inbox_count, inbox_room;
    struct loop_task inbox_task;
    bool inbox_posted;

    /* What is under way. */
    struct kube_call *call; /* a page of a list, or a watch */
    struct map fresh;       /* a list so far */
    char *next_page;        /* the continue token; NULL = the first page */
    char version[64];       /* where the watch goes on */
    struct kube_watch_decoder decoder;
    struct loop_timer again;
    uint64_t begun_ns; /* the watch */
    uint32_t failures; /* in a row */
    bool must_list, no_pages, in_event, dead;
    struct kube_informer_stats stats;
};

int kube_key(struct str ns, struct str name, char out[KUBE_KEY_MAX], struct str *ret);
/* What the cache keeps of an object: a new reference. */
int kube_store_reduce(struct kube_informer *i, struct kube_object *full, struct kube_object **ret);
/* Puts a reduced object in, if it is newer, and tells. Takes the reference. */
void kube_store_put(struct kube_informer *i, struct kube_object *o);
void kube_store_remove(struct kube_informer *i, struct kube_object *last);
/* The list in i->fresh, as of `revision`, becomes the content; differences are told. */
void kube_store_replace(struct kube_informer *i, uint64_t revision);
void kube_store_tell_synced(struct kube_informer *i);
