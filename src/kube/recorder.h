/* recorder.h - Kubernetes events: what happened to an object, for `kubectl describe`. Loop thread
 * only.
 *
 * The same event (object, type, reason, message) again within 10 minutes raises the count of the
 * first one by a patch. Per object 25 at once, then one in 5 minutes; the rest is dropped, as are
 * events while KUBE_EVENTS_QUEUED wait. Failures are dropped, too: events are not the truth. */
#pragma once

#include "kube/client.h"

struct kube_recorder;

enum { KUBE_EVENTS_QUEUED = 1024, KUBE_EVENT_MESSAGE_MAX = 1024 };
enum kube_event_type { KUBE_EVENT_NORMAL, KUBE_EVENT_WARNING };

/* component: "pool-controller"; instance: this process. Both are copied. */
int kube_recorder_new(struct kube_client *client, const char *component, const char *instance,
                      struct kube_recorder **ret, struct err *e);
void kube_recorder_free(struct kube_recorder *r); /* NULL is fine; waiting events are lost */

/* reason: CamelCase, at most 128 characters. A longer message is cut. */
void kube_record(struct kube_recorder *r, const struct kube_kind *kind,
                 const struct kube_object *about, enum kube_event_type type, const char *reason,
                 const char *fmt, ...) PRINTF_LIKE(6, 7);
