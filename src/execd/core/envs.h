/* envs.h - the environment of a command: execd's own, overlaid by the EXECD_ENVS file, overlaid by
 * the variables of the request. Secrets of execd's own environment are left out, also as $NAME.
 *
 * The file has one NAME=VALUE per line. Blank lines, lines that begin with '#' and lines without a
 * name are skipped. $NAME and ${NAME} in a value are taken from execd's own environment, and are
 * empty where it lacks them. Later lines win.
 *
 * Quotes are part of a value, except in the two forms that clients write. '...' is taken literally,
 * also over several lines. "..." with a ' inside has the escapes \\ \" \n \r \t. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_bind.h"

enum { ENVS_FILE_BYTES_MAX = 1 << 20 };
#define ENVS_FILE "/opt/opensandbox/.env" /* the default that clients expect */

/* NULL-terminated "NAME=VALUE" rows in `a`, each name once. `file` is the text of the file, `extra`
 * the variables of the request. -ENOMEM when the arena is full. */
int envs_make(struct arena *a, const char *const *ours, struct str file,
              const struct json_pair *extra, size_t extra_count, const char *const **ret) MUST_USE;

/* Sets EXECD_ENVS for execd and its children, unless it is set. For start-up. Returns the file's
 * name, never "". */
const char *envs_name_file(void);
/* Reads the file that EXECD_ENVS names, if any, into `out`. An unreadable file logs a warning and
 * counts as empty; so does a missing one, without a warning. Reads one small file: fine on the loop
 * thread. */
void envs_read_file(const char *const *ours, struct buf *out);

/* Whether the kernel accepts it as the name of a variable. */
bool envs_is_name(struct str name);
/* -EINVAL and a message when one of them cannot be a variable. */
int envs_check(const struct json_pair *envs, size_t count, struct err *e) MUST_USE;
