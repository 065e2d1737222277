/* envs.h - the environment of a command: ours, overlaid by the EXECD_ENVS file, overlaid by what
 * the request brings. Secrets of the daemon stay behind, wherever the rest comes from us.
 *
 * The file has a NAME=VALUE per line. Blank lines and those that begin with '#' are skipped, and so
 * is what has no name. $NAME and ${NAME} in a value are those of our own environment, and empty
 * where it has none. Later lines win.
 *
 * Quotes are part of a value, but for the two forms that clients write since they can set variables
 * themselves: '...' is taken as it is, also over several lines; and "..." with a ' inside, which
 * has no other place to be, has \\ \" \n \r \t for what they stand for. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_bind.h"

enum { ENVS_FILE_BYTES_MAX = 1 << 20 };
#define ENVS_FILE "/opt/opensandbox/.env" /* where clients look for it unless told otherwise */

/* "NAME=VALUE" rows up to a NULL, in `a`, each name once. `file` is the text of the file, `extra`
 * the request's own. -ENOMEM when the arena is full. */
int envs_make(struct arena *a, const char *const *ours, struct str file,
              const struct json_pair *extra, size_t extra_count, const char *const **ret) MUST_USE;

/* Sets EXECD_ENVS for us and our children, unless it is. For start-up. The name, not "". */
const char *envs_name_file(void);
/* Reads the file that EXECD_ENVS names, if any, into `out`; a file that cannot be read is a warning
 * in our log, and empty; one that is not there is just empty. Reads a small file: loop thread is
 * fine. */
void envs_read_file(const char *const *ours, struct buf *out);

/* Whether the kernel takes it as the name of a variable. */
bool envs_is_name(struct str name);
/* -EINVAL and a sentence when one of them cannot be a variable. */
int envs_check(const struct json_pair *envs, size_t count, struct err *e) MUST_USE;
