/* users.h - names and ids of users and groups, from /etc/passwd and /etc/group in the sandbox's
 * root.
 *
 * Each call reads the files anew, as images and their programs change them, with its own parser: a
 * static program cannot load NSS modules. Malformed lines are skipped; a missing file counts as
 * empty. Reads one or two small files, ~0.1 ms: fine on the loop thread. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

enum {
    USER_NAME_BYTES_MAX = 64,      /* entries with longer names are ignored */
    USER_HOME_BYTES_MAX = 256,     /* a longer one reads as "" */
    USER_GROUPS_MAX = 1024,        /* supplementary groups; more are ignored */
    USER_FILE_BYTES_MAX = 4 << 20, /* of passwd and group; the rest is ignored */
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

/* The first matching line. -ENOENT when there is none, or the error of reading the file. */
int user_by_uid(uid_t uid, struct user *ret);
int user_by_name(struct str name, struct user *ret);
int group_by_gid(gid_t gid, struct group *ret);
int group_by_name(struct str name, struct group *ret);

/* The primary group, then the groups that list the user as a member, each once. The caller frees
 * *ret_gids; it is never empty. */
int user_groups(const struct user *u, gid_t **ret_gids, size_t *ret_count) MUST_USE;

/* Looks up a name, else accepts decimal digits. -ENOENT with a message when it is neither. */
int user_to_uid(struct str text, uid_t *ret, struct err *e);
int group_to_gid(struct str text, gid_t *ret, struct err *e);

/* Caches the names of uids and gids, for listings. All zero is an empty cache. */
struct user_cache {
    struct user_cache_row {
        uint32_t id;
        bool known;
        char name[USER_NAME_BYTES_MAX + 1]; /* or the number, if it has no name */
    } users[8], groups[8];
    unsigned users_next, groups_next;
};

/* Borrowed until the next call of the same kind. */
const char *user_cache_name(struct user_cache *c, uid_t uid);
const char *group_cache_name(struct user_cache *c, gid_t gid);
