/* words.h - a command line into words, by the quoting rules of a POSIX shell and nothing else of
 * it.
 */
#pragma once

#include "base/arena.h"

/* Words in the arena. Quotes and backslashes group as in sh; there are no operators, variables or
 * globs. -EINVAL for a quote that is not closed, -ENOMEM past the arena. */
int words_split(struct arena *a, struct str line, struct str **ret_words, size_t *ret_count);
