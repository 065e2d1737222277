/* layer_ids.h - who owns the files of unpacked image layers.
 *
 * Layers lie on disk in a range of ids that belongs to nobody, so that a setuid file of an image is
 * a file of no user of the host. Id 0..65535 of an image is LAYER_UID_FIRST.. on disk; a mount maps
 * it to the range of the slot that uses it. */
#pragma once

#include "sandbox/plan.h"
#include "sandbox/slot.h"
#include <assert.h>

#define LAYER_UID_FIRST (SLOT_UID_FIRST + (uint32_t)SLOT_COUNT_MAX * PLAN_UID_RANGE)
enum { LAYER_UID_COUNT = PLAN_UID_RANGE };

static_assert(LAYER_UID_FIRST == 0xb0000000, "behind the ranges of all slots, and never moved: the "
                                             "owner of files on disk");
