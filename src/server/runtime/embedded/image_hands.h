/* image_hands.h - what the image store needs the broker for: unpacking and erasing layers. */
#pragma once

#include "image/store.h"
#include "sandbox/unpack.h"

struct image_hands {
    const char *broker; /* path of its socket; borrowed */
    struct unpack_limits limits;
};

/* Hands that connect anew for each call; for any thread. `h` is borrowed. */
struct image_store_hands image_hands_of(struct image_hands *h);
