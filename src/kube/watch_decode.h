/* watch_decode.h - splits the stream of a watch into events: one JSON document per line.
 *
 * Pure: no socket, no clock. Lines come in pieces of any size; memory is bounded by one event. */
#pragma once

#include "base/buf.h"
#include "kube/error.h"
#include "kube/object.h"

enum kube_event_kind {
    KUBE_ADDED,
    KUBE_MODIFIED,
    KUBE_DELETED,
    KUBE_BOOKMARK, /* the object has only its resourceVersion */
    KUBE_ERROR,    /* the object is a Status */
};

struct kube_watch_decoder {
    struct buf line; /* the part of an event that came */
    /* What happened. The object is borrowed. -errno ends the decoding with that error. */
    int (*on_event)(void *user, enum kube_event_kind kind, struct kube_object *o, struct err *e);
    void *user;
};

void kube_watch_decoder_init(struct kube_watch_decoder *d,
                             int (*on_event)(void *user, enum kube_event_kind kind,
                                             struct kube_object *o, struct err *e),
                             void *user);
void kube_watch_decoder_done(struct kube_watch_decoder *d);
/* -EBADMSG for what is no event, -EMSGSIZE for one past KUBE_OBJECT_BYTES_MAX, or as on_event. */
int kube_watch_decode(struct kube_watch_decoder *d, struct str piece, struct err *e);
