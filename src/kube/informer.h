/* informer.h - a cache of all objects of one kind, kept up to date by list and watch.
 *
 * It lists in pages, then watches from there with bookmarks. A watch that ends is continued from
 * the last seen revision; one that is too old (410) lists anew; one that is silent for longer than
 * the server promised is cut. Failures back off with jitter, 0.2 s to 30 s. Of two versions of an
 * object the newer stays, and what was deleted does not come back by a late answer.
 *
 * Runs on the client's loop. kube_informer_get and kube_informer_list may be called from any
 * thread; everything else on the loop thread. */
#pragma once

#include "base/json_write.h"
#include "kube/client.h"
#include "kube/selector.h"

struct kube_informer;

/* What happens, told on the loop thread. Any may be NULL. Objects are borrowed. After a gap
 * (410, a lost connection) the list's differences are told as the same calls. */
struct kube_handler {
    struct list link; /* private */
    void (*on_add)(struct kube_handler *h, struct kube_object *o);
    void (*on_update)(struct kube_handler *h, struct kube_object *old, struct kube_object *o);
    void (*on_delete)(struct kube_handler *h, struct kube_object *last);
    void (*on_synced)(struct kube_handler *h); /* once: the first list is complete */
};

struct kube_informer_conf {
    struct kube_client *client;
    const struct kube_kind *kind;
    const char *ns;             /* NULL or "" = all; copied, as are the selectors */
    const char *label_selector; /* sent to the server; NULL = none */
    const char *field_selector;
    /* Writes what is worth keeping of an object: the cache then holds only that. It must keep
     * metadata.name, namespace, uid, resourceVersion. NULL = all but managedFields. */
    void (*reduce)(const struct json *full, struct json_writer *w);
    /* 0 means the default given in the comment. */
    uint32_t page;        /* 500 objects in one answer */
    uint32_t watch_s;     /* 300: the server is asked to end a watch after that, or up to twice */
    uint32_t silence_s;   /* 90 without a byte: the connection is dead. Bookmarks come about once a
                           * minute */
    uint32_t objects_max; /* 1 Mi; a list with more fails, and is tried again */
};

/* Starts at once. */
int kube_informer_new(const struct kube_informer_conf *conf, struct kube_informer **ret,
                      struct err *e);
void kube_informer_free(struct kube_informer *i); /* NULL is fine; handlers are told nothing */

/* A handler that comes late is told of what is there (on_add, on_synced) before this returns. */
void kube_informer_add_handler(struct kube_informer *i, struct kube_handler *h);
void kube_informer_remove_handler(struct kube_informer *i, struct kube_handler *h);

bool kube_informer_is_synced(const struct kube_informer *i); /* any thread */
/* Seconds since the server was last heard of, at most about 60 while all is well. Any thread. */
uint32_t kube_informer_lag_s(const struct kube_informer *i);

/* The caller's to unref; NULL when there is none. Any thread. */
struct kube_object *kube_informer_get(struct kube_informer *i, struct str ns, struct str name);
/* On the loop thread: borrowed until the loop thread returns to the loop. */
struct kube_object *kube_informer_peek(struct kube_informer *i, struct str ns, struct str name);

struct kube_objects {
    struct kube_object **rows;
    size_t count;
};
/* All in `ns` ("" = any) that match (NULL = all), in order of appearance. Any thread. */
int kube_informer_list(struct kube_informer *i, struct str ns, const struct kube_selector *match,
                       struct kube_objects *ret);
void kube_objects_done(struct kube_objects *list);
#define auto_objects __attribute__((cleanup(kube_objects_done))) struct kube_objects

/* Visits all, on the loop thread, borrowed: for (size_t at = 0; (o = kube_informer_next(i, &at));).
 * The cache must not change meanwhile. */
struct kube_object *kube_informer_next(const struct kube_informer *i, size_t *at);
size_t kube_informer_count(const struct kube_informer *i);

/* Puts the answer to a write of our own into the cache, unless the cache knows better: handlers are
 * told before this returns, and before the watch would. Loop thread. */
void kube_informer_apply(struct kube_informer *i, struct kube_object *o);
/* The same from any thread: it happens on the loop, soon. */
void kube_informer_post(struct kube_informer *i, struct kube_object *o);

struct kube_informer_stats {
    uint64_t lists, watches, events, failures;
    size_t objects, bytes;
    char last_error[160]; /* "" = none since the last success */
};
void kube_informer_stats(struct kube_informer *i, struct kube_informer_stats *ret);
