/* requests.h - what tests of requests share: JSON that can be read, and refusals that say why. */
#pragma once

#include "api/fail.h"
#include "base/arena.h"
#include "test.h"

/* The text with 'single' quotes as double ones, in the arena. */
static inline struct str json_quoted(struct arena *a, const char *text)
{
    char *p = arena_strdup(a, str_of(text));

    for (char *at = p; at && *at; at++)
        *at = *at == '\'' ? '"' : *at;
    return str_of(p);
}

/* That a request was answered so; of the message, the beginning is compared. */
static inline void check_refusal(const char *file, int line, const struct api_fail *f,
                                 const char *code, const char *message)
{
    if (f->status != 400 || strcmp(f->code, code) != 0)
        test_fail(file, line, "%d %s, not 400 %s: %s", f->status, f->code, code, f->message);
    if (strncmp(f->message, message, strlen(message)) != 0)
        test_fail(file, line, "\"%s\" does not begin with \"%s\"", f->message, message);
}
