/* k8s_template.h - the administrator's template of sandboxes: a manifest in YAML, over which each
 * request is laid (k8s_merge.h). */
#pragma once

#include "base/json.h"

enum { K8S_TEMPLATE_MAX = 1 << 20 };

/* *ret is NULL for an empty text or path. -EBADMSG with the line. */
int k8s_template_parse(struct arena *a, struct str text, const struct json **ret, struct err *e);
int k8s_template_load(struct arena *a, const char *path, const struct json **ret, struct err *e);
