/* yaml.h - YAML 1.1 as JSON text, by libyaml: for files that people write, such as a kubeconfig or
 * a template of pods. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum { KUBE_YAML_BYTES_MAX = 4 << 20, KUBE_YAML_DEPTH_MAX = 64 };

/* Appends the first document. Plain scalars become null, booleans (true, false only, as in YAML
 * 1.2), numbers or strings; keys must be scalars, and differ. Aliases are expanded: past the limit
 * of `out` that is -EMSGSIZE, as is text past KUBE_YAML_BYTES_MAX. -EBADMSG with the line for text
 * that is no YAML; "null" for an empty one. On failure `out` is unchanged. */
int kube_yaml_to_json(struct str text, struct buf *out, struct err *e);
