/* sessions.h - sessions of signed-in users: hashed secrets and principals, in memory.
 *
 * A secret is random; its hash is what is kept, and looked up. A session ends after its time, when
 * its user signs out, and with the server. Loop thread only. */
#pragma once

#include "base/str.h"
#include "server/tenants/principal.h"

struct sessions;

enum {
    SESSIONS_MAX = 10 * 1000, /* one more ends the oldest */
    SESSIONS_PER_USER_MAX = 16,
    SESSION_BYTES = 32,
    SESSION_TEXT_MAX = 64, /* of a secret */
};

#define SESSION_PREFIX "osbs_" /* of what must not reach a sandbox */

struct sessions *sessions_new(void);
void sessions_free(struct sessions *s); /* NULL is fine */

/* Begins a session until `ends_s`, since 1970. -ENOMEM. */
int sessions_add(struct sessions *s, const struct principal *principal, int64_t now_s,
                 int64_t ends_s, char ret_secret[SESSION_TEXT_MAX]) MUST_USE;
/* NULL: there is none, or it has ended. Valid until the next call of the others. */
const struct principal *sessions_find(const struct sessions *s, struct str secret, int64_t now_s);
void sessions_end(struct sessions *s, struct str secret);
size_t sessions_count(const struct sessions *s);
/* Whether the text contains something of the form of such a secret. */
bool sessions_held_by(struct str text);
