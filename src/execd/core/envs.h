/* envs.h - the environment of a command: execd's own, overlaid by the file of a claim, by the
 * EXECD_ENVS file, and by the variables of the request. Secrets of execd's own environment are left
 * out, also as $NAME.
 *
 * The file of a claim is where the server writes the variables of a claim from a pool. It
 * is not the EXECD_ENVS file, because programs in the sandbox write that one, the entrypoint of
 * code-interpreter among them, and may do so at the same time.
 *
 * Each file has one NAME=VALUE per line. Blank lines, lines that begin with '#' and lines without a
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

enum {
    ENVS_FILE_BYTES_MAX = 1 << 20,
    ENVS_FILES_BYTES_MAX = 2 * ENVS_FILE_BYTES_MAX + 1, /* of all that envs_read_file() reads */
};
#define ENVS_FILE       "/opt/opensandbox/.env" /* the default that clients expect */
#define ENVS_CLAIM_FILE "/opt/opensandbox/.env.claim"

/* NULL-terminated "NAME=VALUE" rows in `a`, each name once. `file` is the text of the files,
 * `extra` the variables of the request. -ENOMEM when the arena is full. */
int envs_make(struct arena *a, const char *const *ours, struct str file,
              const struct json_pair *extra, size_t extra_count, const char *const **ret) MUST_USE;

/* Sets EXECD_ENVS for execd and its children, unless it is set. For start-up. Returns the file's
 * name, never "". */
const char *envs_name_file(void);
/* Reads the file of a claim and the one that EXECD_ENVS names, if any, into `out`. An unreadable
 * file logs a warning and counts as empty; so does a missing one, without a warning. Reads two
 * small files: fine on the loop thread. */
void envs_read_file(const char *const *ours, struct buf *out);

/* Whether the kernel accepts it as the name of a variable. */
bool envs_is_name(struct str name);
/* -EINVAL and a message when one of them cannot be a variable. */
int envs_check(const struct json_pair *envs, size_t count, struct err *e) MUST_USE;
