/* copy.h - deep copies of parsed requests, for what outlives the memory they were parsed in. */
#pragma once

#include "api/create.h"
#include "api/metadata.h"

/* Everything that *ret points to is in the arena. -ENOMEM past its limit. */
int api_create_copy(struct arena *a, const struct api_create *from, struct api_create *ret);
int api_patch_copy(struct arena *a, const struct api_patch *from, struct api_patch *ret);
