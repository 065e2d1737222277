/* console_files.h - the files of the web console, built in; tools/build-console writes them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct console_file {
    const char *path; /* below /console/ */
    const char *type; /* of its content */
    const char *etag;
    bool immutable; /* its name changes with its content */
    const char *raw;
    size_t raw_len;
    const char *gzip;
    size_t gzip_len;
};

extern const struct console_file
    console_files[];                    /* one row more than there are, to be never empty */
extern const size_t console_file_count; /* 0 = the server was built without the console */
