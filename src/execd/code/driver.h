/* driver.h - languages with a built-in driver: the image's interpreter runs a small program of
 * execd that reads cells and reports events. docs/internals/execd.md describes the protocol.
 *
 * kernel_driver (kernel.h) runs them; this is the table of languages. */
#pragma once

#include "execd/code/kernel.h"

enum { DRIVER_PROGRAMS_MAX = 3 };

struct driver_language {
    const char *name;
    /* Each NULL-terminated; argv[0] is looked up in PATH. The first one found runs. */
    const char *const *programs[DRIVER_PROGRAMS_MAX];
    const char *needs;  /* another program that is required, or NULL */
    const char *script; /* passed as descriptor 5 of the process */
    const size_t *script_bytes;
    bool unsure;         /* has requirements that only its script can check */
    const char *install; /* advice that follows "... is not in this image: " */
};

/* NULL if the language has no driver. */
const struct driver_language *driver_language_find(struct str name);
