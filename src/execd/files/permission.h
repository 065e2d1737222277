/* permission.h - owner, group and mode of a file, as clients specify them. */
#pragma once

#include <sys/types.h>

#include "base/json.h"

/* Texts are borrowed from the JSON. */
struct permission {
    struct str owner, group; /* names, else numbers; "" = keep */
    int64_t mode;            /* the number 644 means 0644; 0 = keep */
};

/* Reads "owner", "group" and "mode" of an object; null counts as absent, also for the whole object.
 * -EBADMSG and a message when one has another type. */
int permission_read(const struct json *v, struct permission *ret, struct err *e) MUST_USE;

/* A permission with its names resolved. */
struct permission_ids {
    uid_t uid; /* (uid_t)-1 = keep; likewise gid */
    gid_t gid;
    mode_t mode; /* nine bits */
    bool set_mode;
};

/* Looks the names up in /etc/passwd and /etc/group: reads these files. -EINVAL for a mode that is
 * not octal. */
int permission_resolve(const struct permission *p, struct permission_ids *ret,
                       struct err *e) MUST_USE;

/* Both follow symbolic links. */
int permission_apply(const struct permission_ids *ids, const char *path, struct err *e) MUST_USE;
int permission_apply_fd(const struct permission_ids *ids, int fd, struct err *e) MUST_USE;
