/* object_internal.h - for answers that are longer than one object. */
#pragma once

#include "kube/object.h"

int kube_object_parse_max(struct str text, size_t bytes_max, struct kube_object **ret,
                          struct err *e);
