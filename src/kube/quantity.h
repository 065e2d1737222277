/* quantity.h - Kubernetes quantities: "100m", "1Gi", "2e3", "1.5", "-1k". Exact to a billionth;
 * finer fractions are rounded away from zero, as the server does. */
#pragma once

#include "base/err.h"
#include "base/json.h"

struct kube_quantity {
    __int128 nano;
    bool binary; /* it was written with Ki, Mi, ...: how it is written again */
};

/* -EINVAL for other text, -ERANGE past 2^63 - 1 units. */
int kube_quantity_parse(struct str text, struct kube_quantity *ret, struct err *e);
/* A string or a number, as JSON has them. */
int kube_quantity_of(const struct json *v, struct kube_quantity *ret, struct err *e);
int kube_quantity_cmp(struct kube_quantity a, struct kube_quantity b); /* <0, 0, >0 */
struct kube_quantity kube_quantity_add(struct kube_quantity a, struct kube_quantity b);
int64_t kube_quantity_units(struct kube_quantity q); /* rounded up: bytes of memory */
int64_t kube_quantity_milli(struct kube_quantity q); /* rounded up: of CPU; INT64_MAX at most */

enum { KUBE_QUANTITY_TEXT_MAX = 40 };
/* The server's canonical form: the largest suffix that leaves an integer. Returns the length. */
size_t kube_quantity_format(struct kube_quantity q, char out[KUBE_QUANTITY_TEXT_MAX]);
