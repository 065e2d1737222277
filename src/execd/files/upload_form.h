/* upload_form.h - one "metadata" part of an upload: the path, owner and mode of the file. */
#pragma once

#include "execd/files/permission.h"

struct upload_meta {
    struct str path; /* as the client wrote it; never "" */
    struct permission permission;
};

/* Reads {"path": ..., "owner"?, "group"?, "mode"?} into the arena. -EBADMSG for anything else,
 * -ENOKEY when the path is missing or empty, -ENOMEM when the arena is full. */
int upload_meta_read(struct arena *a, struct str text, struct upload_meta *ret,
                     struct err *e) MUST_USE;
