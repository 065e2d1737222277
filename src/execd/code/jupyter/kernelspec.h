/* kernelspec.h - Jupyter kernelspecs: which kernels an image has, and how one is started.
 *
 * A spec is a folder with a kernel.json. Looked for, the first of a name wins, in
 *
 *   each of JUPYTER_PATH /kernels
 *   JUPYTER_DATA_DIR, or XDG_DATA_HOME/jupyter, or ~/.local/share/jupyter, /kernels
 *   share/jupyter/kernels beside the bin/ of VIRTUAL_ENV, CONDA_PREFIX, and of python3 on PATH
 *   /usr/local/share/jupyter/kernels, /usr/share/jupyter/kernels
 *
 * Reads small files: loop thread is fine. Everything found is in the arena. */
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
    const char *name; /* of its folder */
    const char *dir;  /* absolute */
    struct str language;
    struct str *argv; /* with {connection_file} and {resource_dir} to be filled in; never empty */
    size_t argv_count;
    struct json_pair *env; /* beside ours; values may name variables: ${NAME} */
    size_t env_count;
    bool interrupt_by_message; /* else SIGINT */
};

/* The one called `name`; without a name (NULL), one for the language, in any case. Of several the
 * one the API's images call so comes first ("gonb" for go), then one of the language's own name,
 * then the first by name. -ENOENT, with a sentence that says what to install. */
int kernelspec_find(struct arena *a, const char *const *env, struct str language, const char *name,
                    const struct kernelspec **ret, struct err *e) MUST_USE;

/* What to execute: argv filled in and NULL-terminated; *ret_program is the file. A "python..."
 * without a path is the one of the prefix in which the spec lies, if it has one, since that is
 * where its modules are. -ENOENT when there is no such program. */
int kernelspec_command(struct arena *a, const struct kernelspec *spec, const char *const *env,
                       const char *connection_file, const char **ret_program,
                       const char *const **ret_argv, struct err *e) MUST_USE;

/* Our environment and the spec's. -ENOMEM. */
int kernelspec_env(struct arena *a, const struct kernelspec *spec, const char *const *env,
                   const char *const **ret) MUST_USE;

/* Reads the text of a kernel.json. -EBADMSG with a sentence. */
int kernelspec_parse(struct arena *a, struct str text, struct kernelspec *ret,
                     struct err *e) MUST_USE;
