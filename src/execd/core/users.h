/* users.h - who has which number, from /etc/passwd and /etc/group of the sandbox's own root.
 *
 * Read anew by each call, as images and their programs change them, and by our own parser: a static
 * program cannot load what a C library would ask. Lines that make no sense are skipped; a file that
 * is missing has no lines. Reads one or two small files: ~0.1 ms. Loop thread is fine. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum {
    USER_NAME_BYTES_MAX = 64,      /* longer names are not seen */
    USER_HOME_BYTES_MAX = 256,     /* a longer one reads as "" */
    USER_GROUPS_MAX = 1024,        /* supplementary groups; further ones are left out */
    USER_FILE_BYTES_MAX = 4 << 20, /* of passwd and group; what is beyond is not seen */
};

struct user {
    uid_t uid;
    gid_t gid; /* the primary group */
    char name[USER_NAME_BYTES_MAX + 1];
    char home[USER_HOME_BYTES_MAX + 1];
};

struct group {
    gid_t gid;
    char name[USER_NAME_BYTES_MAX + 1];
};

/* The first line that fits. -ENOENT when there is none, or why the file cannot be read. */
int user_by_uid(uid_t uid, struct user *ret);
int user_by_name(struct str name, struct user *ret);
int group_by_gid(gid_t gid, struct group *ret);
int group_by_name(struct str name, struct group *ret);

/* Groups whose lines list the user, and the primary one first, each once. The caller frees
 * *ret_gids; it is never empty. */
int user_groups(const struct user *u, gid_t **ret_gids, size_t *ret_count) MUST_USE;

/* A name, else decimal digits: the number behind it. -ENOENT with a sentence when it is neither. */
int user_to_uid(struct str text, uid_t *ret, struct err *e);
int group_to_gid(struct str text, gid_t *ret, struct err *e);

/* Answers many uids and gids without reading the files for each: for listings. Zeroed is empty. */
struct user_cache {
    struct user_cache_row {
        uint32_t id;
        bool known;
        char name[USER_NAME_BYTES_MAX + 1]; /* or the number, when nobody has it */
    } users[8], groups[8];
    unsigned users_next, groups_next;
};

/* Borrowed until the next call of the same kind. */
const char *user_cache_name(struct user_cache *c, uid_t uid);
const char *group_cache_name(struct user_cache *c, gid_t gid);
