/* words.h - splits a command line into words by the quoting rules of a POSIX shell. */
#pragma once

#include "base/arena.h"

/* Words are in the arena. Quotes and backslashes work as in sh; operators, variables and globs have
 * no meaning. -EINVAL for an unclosed quote, -ENOMEM when the arena is full. */
int words_split(struct arena *a, struct str line, struct str **ret_words, size_t *ret_count);
