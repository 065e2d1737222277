/* glob.h - file name patterns, matched without backtracking.
 *
 *     *        any characters but a slash
 *     **       any characters; before a slash, any number of whole directories
 *     ?        one character but a slash
 *     [a-z]    one character of a class; after ! or ^, one not in the class; no slash
 *     {a,b}    either; may nest
 *     !(x|y)   anything without a slash but these
 *     \c       c itself
 *
 * Characters are UTF-8; an invalid byte counts as one character. In a class '-' stands for itself
 * at either end, and ']' needs a backslash. A '!' is an error except before a group or in a class,
 * as in the pattern language that this one follows. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum {
    GLOB_BYTES_MAX = 1024, /* of a pattern */
    GLOB_TEXT_MAX = 4096,  /* of the text; longer text matches nothing */
    GLOB_DEPTH_MAX = 16,   /* of nested groups */
};

struct glob;

/* -EINVAL with "syntax error in pattern" for an invalid pattern, or one past a limit. */
int glob_new(struct str pattern, struct glob **ret, struct err *e) MUST_USE;
void glob_free(struct glob *g); /* NULL is fine */

/* Whether the pattern contains a '/', so that it applies to paths and not to names. */
bool glob_has_slash(const struct glob *g);

/* 1 when all of `text` matches, 0 when not. The work is bounded for every pattern: -ELOOP when
 * negations would need more. Uses memory of the glob: one call at a time. */
int glob_match(struct glob *g, struct str text) MUST_USE;
