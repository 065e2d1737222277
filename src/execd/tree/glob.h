/* glob.h - file name patterns, matched without backtracking.
 *
 *     *        any characters but a slash
 *     **       any characters; with a slash behind it, any number of whole folders
 *     ?        one character but a slash
 *     [a-z]    one character of a class, or with ! or ^ in front one of all others; no slash
 *     {a,b}    either; may nest
 *     !(x|y)   anything without a slash but these
 *     \c       c itself
 *
 * Characters are those of UTF-8; a byte that is none counts as one. In a class '-' stands for
 * itself at either end, and ']' needs a backslash. A '!' elsewhere than before a group or in a
 * class is a mistake, as in the pattern language this one follows. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum {
    GLOB_BYTES_MAX = 1024, /* of a pattern */
    GLOB_TEXT_MAX = 4096,  /* of what is matched; longer text matches nothing */
    GLOB_DEPTH_MAX = 16,   /* of nested groups */
};

struct glob;

/* -EINVAL with "syntax error in pattern" for what is no pattern, or is one past a limit. */
int glob_new(struct str pattern, struct glob **ret, struct err *e) MUST_USE;
void glob_free(struct glob *g); /* NULL is fine */

/* Whether a '/' stands in the pattern, and so paths are meant and not names. */
bool glob_has_slash(const struct glob *g);

/* 1 when all of `text` matches, 0 when not. The work is bounded whatever the pattern: -ELOOP when
 * negations would need more. Uses memory of the glob: one call at a time. */
int glob_match(struct glob *g, struct str text) MUST_USE;
