/* upload_kept.h - files of a form that are written and wait for the rest of it, out of sight: all
 * appear once the form is complete, or none does.
 *
 * The first wait without a name, and cost a descriptor each: of those nothing is left if the
 * process is killed. When there are UPLOAD_NAMELESS_MAX of them, in whatever forms, others cost no
 * more than their paths. Directories that were made for files go with them, unless somebody else
 * has put something there, or POST /directories has answered meanwhile that one was there already.
 * A shell or a session that was started in an empty one loses it. Loop thread only. */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "execd/tree/slice.h"
#include "execd/tree/target.h"

enum { UPLOAD_NAMELESS_MAX = 256 };

struct upload_kept;

struct uploads {         /* shared by all forms, outlives them */
    size_t nameless;     /* files without a name */
    uint64_t dirs_found; /* how often POST /directories was asked for one that was there */
    struct list undoing; /* forms that are being undone */
};

void uploads_init(struct uploads *all);

/* `bytes_max` is for the paths of all files. */
struct upload_kept *upload_kept_new(size_t bytes_max, struct uploads *all);

/* Makes the directories above the next file, with `mode` minus the umask. */
int upload_kept_make_parent(struct upload_kept *k, const char *path, mode_t mode,
                            struct err *e) MUST_USE;
/* Opens the target of that file. */
int upload_kept_open(struct upload_kept *k, const char *path, struct target *ret,
                     struct err *e) MUST_USE;
/* The same target, written: it is closed. What was written in place is there already. `name` is
 * borrowed until the file is placed. */
int upload_kept_add(struct upload_kept *k, struct target *t, struct str name,
                    struct err *e) MUST_USE;

/* Puts the first file in its place. 1, or 0 when there is none left; *ret_name (on failure) is
 * which one it was. */
int upload_kept_place(struct upload_kept *k, struct str *ret_name, struct err *e) MUST_USE;
/* Removes the last file, and what was made for it. False when there is none left. */
bool upload_kept_undo(struct upload_kept *k);

/* Undoes what is left, a little per turn of the loop. */
void upload_kept_free(struct upload_kept *k, struct loop *loop);
/* Undoes every form that upload_kept_free() is still undoing, at once: the loop has ended. */
void uploads_finish(struct uploads *all);
