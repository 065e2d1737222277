/* archive.h - images as files: archives of `docker save` and of OCI, and plain tar archives of a
 * root directory.
 *
 * Blocks; for workers. An archive is a stranger's: it is read by our own tar reader, without
 * privilege and with bounded memory; every digest that it names is checked. */
#pragma once

#include "image/store.h"

enum { IMAGE_IMPORTED_MAX = 64 };

struct image_import {
    int fd;           /* a regular file, from image_store_temp_open(); image_import closes it */
    const char *name; /* for the image; NULL: as the archive says. A plain tar archive needs one */
    struct image_platform platform; /* of an archive for several, and of a plain tar archive */
    const volatile bool *cancel;    /* may be NULL */
};

struct image_imported {
    char names[IMAGE_IMPORTED_MAX][IMAGE_REFERENCE_TEXT_MAX];
    size_t count;
};

/* Puts all images of the archive into the store. -EBADMSG for an archive that is none, or not
 * whole; -EINVAL when a name is needed. */
int image_import(struct image_store *s, const struct image_import *in, struct image_imported *ret,
                 struct err *e);

/* Where an exported archive goes; a result < 0 ends the export. */
typedef int image_export_write(void *ctx, struct str piece, struct err *e);

/* Writes an OCI archive of one image, byte for byte as it came. */
int image_export(struct image_store *s, const char *name, image_export_write *write, void *ctx,
                 struct err *e);
