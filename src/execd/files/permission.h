/* permission.h - who shall own a file and what may be done to it, as clients say it. */
#pragma once

#include <sys/types.h>

#include "base/json.h"

/* Texts are borrowed from the JSON. */
struct permission {
    struct str owner, group; /* names, or numbers where no such name is; "" = leave */
    int64_t mode;            /* the number 644 means 0644; 0 = leave */
};

/* Reads "owner", "group" and "mode" of an object; null is as absent. -EBADMSG and a sentence when
 * one is of another type. A permission that is null says nothing. */
int permission_read(const struct json *v, struct permission *ret, struct err *e) MUST_USE;

/* What it means here and now. */
struct permission_ids {
    uid_t uid; /* (uid_t)-1 = leave, as the next */
    gid_t gid;
    mode_t mode; /* nine bits */
    bool set_mode;
};

/* Looks names up. Reads files: /etc/passwd, /etc/group. -EINVAL for a mode that is not octal. */
int permission_resolve(const struct permission *p, struct permission_ids *ret,
                       struct err *e) MUST_USE;

/* Both follow links. */
int permission_apply(const struct permission_ids *ids, const char *path, struct err *e) MUST_USE;
int permission_apply_fd(const struct permission_ids *ids, int fd, struct err *e) MUST_USE;
