/* embedded_layers.h - what sandboxes and snapshots are made of: a base (the host's /usr, an
 * unpacked root, or an image of the store) and layers of snapshots above it; and which
 * sandboxes use which layer.
 *
 * `snapshots/<id>` of the data directory is a layer, named after the snapshot it was made for, and
 * `snapshots/<id>.json` a snapshot: its source, and the commit of both. `sandboxes/<id>/source` has
 * the source of a sandbox. A layer is erased once no file of either kind names it. Blocks; any
 * thread. */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "base/map.h"
#include "broker/client.h"
#include "image/digest.h"
#include <pthread.h>

struct embedded;

enum { SOURCE_BASE_MAX = 4096 };

#define EMBEDDED_SOURCE_FILE "source" /* in the directory of a sandbox */
#define EMBEDDED_FILES_SUFFIX                                                                      \
    ".files" /* snapshots/<sandbox>.files: what a persistent one wrote   \
                                        */

struct embedded_source {
    char base[SOURCE_BASE_MAX];                /* "host", "dir:" and a path, "image:" and an id */
    char layers[PLAN_LAYERS_MAX][ID_UUID_MAX]; /* topmost first */
    size_t count;
    uint64_t size_bytes, frozen_us; /* of a snapshot */
};

struct embedded_layers {
    int dir;              /* snapshots/ */
    pthread_mutex_t lock; /* protects the fields below, and changes of the files that name layers */
    /* Protects task->of_runtime. Of its own, as the loop takes it and the other is held during
     * calls to the broker. */
    pthread_mutex_t work_lock;
    struct map users; /* of layers: how many files, and calls under way, name them */
    bool doubtful;    /* a file could not be read, so nothing is known to be unused */
};

int embedded_layers_open(struct embedded *em, struct err *e); /* opens the directory */
/* Counts the users of each layer, and erases what no file names. Once, before all others. */
int embedded_layers_load(struct embedded *em, struct err *e);
void embedded_layers_done(struct embedded_layers *l);

#define EMBEDDED_MEMORY_SUFFIX ".memory" /* of the directory with the memory of a snapshot */
#define EMBEDDED_IMAGE_PREFIX  "image:"  /* of a base, before the id */

/* 1 and the id of the image of the store that is its base; 0 when that is none. */
int embedded_source_image(const struct embedded_source *s, struct image_digest *ret);

/* dir/name as a source. -ENOENT when there is none. */
int embedded_source_read(int dir, const char *name, struct embedded_source *ret, struct err *e);
/* Writes it to dir/name, which did not exist; its layers have one user more. -ESTALE when one of
 * them is not there any more. */
int embedded_source_write(struct embedded *em, int dir, const char *name,
                          const struct embedded_source *s, bool lasting, struct err *e);
/* The same in place of what dir/name has, at once; its layers lose a user. */
int embedded_source_replace(struct embedded *em, int dir, const char *name,
                            const struct embedded_source *s, struct err *e);
/* Removes dir/name, and the layers that only it used. 1 when it was there, 0 when not. */
int embedded_source_remove(struct embedded *em, int dir, const char *name, struct err *e);

/* Counts a call as a user of the layers of dir/name, and reads it. Release it with the same. */
int embedded_source_hold(struct embedded *em, int dir, const char *name,
                         struct embedded_source *ret, struct err *e);
void embedded_source_release(struct embedded *em, const struct embedded_source *s);

/* Opens its layers with O_PATH, as many as there are. The caller owns the descriptors; on failure
 * none is open. */
int embedded_source_open(struct embedded *em, const struct embedded_source *s, int *fds,
                         struct err *e);

/* Has the broker remove snapshots/<name>, if it is there. */
int embedded_layer_erase(struct embedded *em, const char *name, struct err *e);
