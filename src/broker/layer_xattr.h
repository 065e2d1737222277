/* layer_xattr.h - ids and extended attributes of files that move between id ranges. */
#pragma once

#include "base/err.h"
#include "sandbox/layer_ids.h"
#include <stdbool.h>

/* From the ids first, first + 1, ... to LAYER_UID_FIRST, LAYER_UID_FIRST + 1, ... */
struct shift {
    uint32_t first;
};

/* An id of no sandbox becomes that of nobody. */
static inline uint32_t shift_id(const struct shift *s, uint32_t id)
{
    uint32_t inside = id - s->first;

    return LAYER_UID_FIRST + (inside < PLAN_UID_RANGE ? inside : PLAN_UID_RANGE - 1);
}

/* Copies the attributes that a layer needs: those of users, access lists, capabilities, and the
 * mark of an opaque directory. */
int xattrs_copy(int from, int to, const struct shift *s, struct err *e);

/* Whether a directory hides those of the same name in the layers below. */
bool xattr_is_opaque(int dir);
int xattr_make_opaque(int dir, struct err *e);
