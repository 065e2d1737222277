/* driver.h - languages that need nothing but themselves: their own interpreter runs a small program
 * of ours that takes cells and tells what became of them. docs/internals/execd.md has the protocol.
 *
 * kernel_driver (kernel.h) runs them; here is the table of what it knows. */
#pragma once

#include "execd/code/kernel.h"

enum { DRIVER_PROGRAMS_MAX = 3 };

struct driver_language {
    const char *name;
    /* Each NULL-terminated, argv[0] to be looked up in PATH: the first that is there runs. */
    const char *const *programs[DRIVER_PROGRAMS_MAX];
    const char *needs;  /* another program that must be there, or NULL */
    const char *script; /* descriptor 5 of the process */
    const size_t *script_bytes;
    bool unsure;         /* has needs that only its script can look for */
    const char *install; /* what to do when none is there, behind "... is not in this image: " */
};

/* NULL when there is no driver for it. */
const struct driver_language *driver_language_find(struct str name);
