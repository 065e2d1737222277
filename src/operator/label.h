/* label.h - names that fit where Kubernetes allows 63 characters. */
#pragma once

#include "base/arena.h"

/* `name` and `suffix` as they are when both fit into 63 characters; otherwise the beginning of the
 * name, "-", 8 hexadecimal digits of its SHA-256, and the suffix. In the arena. */
struct str label_fit(struct arena *a, struct str name, struct str suffix);
