/* file_info.h - metadata of a file as JSON. */
#pragma once

#include <sys/stat.h>

#include "base/json_write.h"
#include "execd/core/users.h"

/* The fields that are reported; small, as a listing keeps thousands. */
struct file_facts {
    mode_t mode;
    uid_t uid;
    gid_t gid;
    int64_t size;
    struct timespec modified, changed;
};

struct file_facts file_facts_of(const struct stat *st);

/* Writes the object: path, type, size, modified_at, created_at (the time of the last status
 * change), owner, group, mode (0644 as the number 644). */
void file_info_write(struct json_writer *w, struct str path, const struct file_facts *f,
                     struct user_cache *users);
