/* upload_kept.h - uploaded files of a form, invisible until the form is complete: then all appear,
 * or none does.
 *
 * The first ones are unnamed (O_TMPFILE) and use a descriptor each: nothing of them is left if the
 * process is killed. Beyond UPLOAD_NAMELESS_MAX of them, over all forms, files have temporary names
 * and use memory for their paths only. Undoing a form also removes the directories made for it,
 * unless they are not empty, or POST /directories has meanwhile found a directory to exist. A shell
 * or session started in such an empty directory loses it. Loop thread only. */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "execd/tree/slice.h"
#include "execd/tree/target.h"

enum { UPLOAD_NAMELESS_MAX = 256 };

struct upload_kept;

struct uploads {         /* shared by all forms, which it outlives */
    size_t nameless;     /* open unnamed files */
    uint64_t dirs_found; /* how often POST /directories found one to exist */
    struct list undoing; /* forms that are being undone */
};

void uploads_init(struct uploads *all);

/* `bytes_max` limits the memory for the paths of all files. */
struct upload_kept *upload_kept_new(size_t bytes_max, struct uploads *all);

/* Creates the parent directories of the next file, with `mode` minus the umask. */
int upload_kept_make_parent(struct upload_kept *k, const char *path, mode_t mode,
                            struct err *e) MUST_USE;
/* Opens the target of that file. */
int upload_kept_open(struct upload_kept *k, const char *path, struct target *ret,
                     struct err *e) MUST_USE;
/* Takes over the written target and closes it. A target that was written in place is already
 * visible. `name` is borrowed until the file is placed. */
int upload_kept_add(struct upload_kept *k, struct target *t, struct str name,
                    struct err *e) MUST_USE;

/* Moves the first file to its place. 1, or 0 when none is left; on failure *ret_name tells which
 * one failed. */
int upload_kept_place(struct upload_kept *k, struct str *ret_name, struct err *e) MUST_USE;
/* Removes the last file and the directories made for it. False when none is left. */
bool upload_kept_undo(struct upload_kept *k);

/* Undoes the remaining files in slices, one per step, and frees `k`. */
void upload_kept_free(struct upload_kept *k, struct loop *loop);
/* Undoes at once every form that upload_kept_free() is still undoing: the loop has ended. */
void uploads_finish(struct uploads *all);
