/* kernelspec.h - Jupyter kernelspecs: which kernels an image has, and how to start one.
 *
 * A spec is a directory with a kernel.json. Searched in this order; the first of a name wins:
 *
 *   each of JUPYTER_PATH /kernels
 *   JUPYTER_DATA_DIR, or XDG_DATA_HOME/jupyter, or ~/.local/share/jupyter, /kernels
 *   share/jupyter/kernels beside the bin/ of VIRTUAL_ENV, CONDA_PREFIX, and of python3 on PATH
 *   /usr/local/share/jupyter/kernels, /usr/share/jupyter/kernels
 *
 * Reads small files: may run on the loop thread. All results are in the arena. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json_bind.h"

enum {
    KERNELSPEC_BYTES_MAX = 64 << 10,
    KERNELSPECS_MAX = 256,
    KERNELSPEC_ARENA_BYTES_MAX = 4 << 20,
};

struct kernelspec {
    const char *name; /* of its directory */
    const char *dir;  /* absolute */
    struct str language;
    struct str *argv; /* with {connection_file} and {resource_dir} to replace; never empty */
    size_t argv_count;
    struct json_pair *env; /* added to ours; values may refer to variables: ${NAME} */
    size_t env_count;
    bool interrupt_by_message; /* else SIGINT */
};

/* Finds the spec called `name`; if NULL, one for the language, ignoring case. Preference: the name
 * that the API's images use ("gonb" for go), then the language's own name, then the first by name.
 * -ENOENT with a message that says what to install. */
int kernelspec_find(struct arena *a, const char *const *env, struct str language, const char *name,
                    const struct kernelspec **ret, struct err *e) MUST_USE;

/* Builds the command: argv with placeholders replaced, NULL-terminated; *ret_program is the file. A
 * "python..." without a path is taken from the prefix that contains the spec, if it has one,
 * because its modules are there. -ENOENT: no such program. */
int kernelspec_command(struct arena *a, const struct kernelspec *spec, const char *const *env,
                       const char *connection_file, const char **ret_program,
                       const char *const **ret_argv, struct err *e) MUST_USE;

/* Merges our environment and the spec's. -ENOMEM. */
int kernelspec_env(struct arena *a, const struct kernelspec *spec, const char *const *env,
                   const char *const **ret) MUST_USE;

/* Parses a kernel.json. -EBADMSG with a message. */
int kernelspec_parse(struct arena *a, struct str text, struct kernelspec *ret,
                     struct err *e) MUST_USE;
