/* roots.h - the directories of the configuration that sandboxes are made of: unpacked images, and
 * paths of the host that they may mount. */
#pragma once

#include "server/config/config.h"
#include "server/runtime/embedded/embedded.h"

/* Directories opened before root was dropped, or at a reload. Older sets are kept for workers. */
struct roots {
    struct embedded_root *images;     /* as config->images */
    struct embedded_path *host_paths; /* as storage.allowed_host_paths */
    size_t host_path_count;
    const struct config *config;
    struct roots *next; /* the set before this one */
};

/* Opens the directories of `config`; as root it creates missing host paths. Warns of those that it
 * cannot open. Takes images that only root can open from `older` sets, and keeps these. */
struct roots *roots_open(const struct config *config, struct roots *older);
/* Closes the directories of this set and of the older ones. NULL is fine. */
void roots_free(struct roots *r);
/* The files of an image; NULL when there is no such image. Any thread. */
const struct embedded_root *roots_find(const struct roots *roots, struct str image);
/* The unpacked image at `path`; NULL when there is none. Any thread. */
const struct embedded_root *roots_find_dir(const struct roots *roots, struct str path);
/* Logs a warning for each directory unknown to a broker that was started with the oldest set. */
void roots_warn_new(const struct roots *now);
