/* options.h - the server's command line as a struct. */
#pragma once

#include "base/err.h"
#include "server/config/config.h"

enum options_mode {
    OPTIONS_RUN,
    OPTIONS_CHECK,
    OPTIONS_PRINT_CONFIG,
    OPTIONS_PRINT_REFERENCE,
    OPTIONS_PRINT_ROUTES,
    OPTIONS_INIT_CONFIG,
    OPTIONS_VERSION,
    OPTIONS_HELP,
    OPTIONS_MODE_COUNT,
};

/* Texts are borrowed from argv. NULL = not given. */
struct options {
    enum options_mode mode;
    struct config_options config;
    bool reload;           /* requested, but nothing can be reloaded */
    const char *init_path; /* of OPTIONS_INIT_CONFIG */
    const char *example;
    bool force;
};

/* The error is a sentence for the user. Values are checked where they are used. */
int options_parse(const char *const *argv, struct options *ret, struct err *e) MUST_USE;

extern const char options_help[];
