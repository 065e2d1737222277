/* credentials.h - user names and passwords of registries, as ~/.docker/config.json keeps them.
 * Pure. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

enum { IMAGE_CREDENTIALS_BYTES_MAX = 1 << 20, IMAGE_AUTH_BYTES_MAX = 16 * 1024 };

/* All empty: ask as nobody. */
struct image_auth {
    struct str username, password;
    struct str identity_token; /* instead of a password, for the server that gives out tokens */
};

static inline bool image_auth_is_set(const struct image_auth *auth)
{
    return auth->username.n > 0 || auth->identity_token.n > 0;
}

/* Checks what a request brings: -EINVAL for a user name with a colon, control characters, or a
 * password without a user name. */
int image_auth_check(const struct image_auth *auth, struct err *e);

/* Finds what the file's text has for a repository: 1, or 0 when there is nothing. Of several
 * entries for a registry the one with the longest path counts; docker.io is known by all its names.
 * -EINVAL for a file that is not of that form; -ENOTSUP for credential helpers, which are not run.
 */
int image_credentials_find(struct arena *a, struct str text, struct str registry,
                           struct str repository, struct image_auth *ret, struct err *e);
