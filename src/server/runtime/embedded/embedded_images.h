/* embedded_images.h - sandboxes of images that come from the store, or have to be pulled first. */
#pragma once

#include "server/runtime/embedded/embedded_internal.h"

/* Opens the store. BLOCKS. */
int embedded_images_start(struct embedded *em, struct err *e);

/* Whether the request's image, which no root is mapped to, can be had at all. */
int embedded_image_check(const struct api_create *spec, struct embedded_plan *plan,
                         struct api_fail *f);
/* Whether an image of our own in the store, localhost/opensandbox/NAME:latest, stands for the
 * request's image opensandbox/NAME, of any registry and tag: when that itself is not in the store,
 * and neither a digest nor the policy Always asks for it. BLOCKS. */
bool embedded_image_local(struct embedded *em, const struct api_create *spec,
                          struct image_reference *ret);
/* As create() of runtime.h, for such an image. */
int embedded_image_create(struct embedded *em, struct runtime_create *c, struct err *e);
