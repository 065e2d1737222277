/* overlay.h - mounts an overlay. No allocation: runs in a sandbox's child. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

struct overlay {
    const int *lowers; /* directories on mounts of our namespace, topmost first */
    size_t lower_count;
    int dir;                  /* has the upper and work directories ... */
    const char *upper, *work; /* ... by these names */
    bool lasts;               /* the upper directory must survive a crash of the host */
};

/* Mounts it on the directory `place`, nosuid and nodev. */
int overlay_mount(const struct overlay *o, int place, struct err *e);
