#include "server/oidc/sessions.h"

#include <assert.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sha.h"

enum { HASH_TEXT_MAX = HEX_TEXT_MAX(SHA256_BYTES) };

struct session {
    struct principal principal;
    int64_t ends_s;
};

struct sessions {
    struct map by_hash; /* of struct session, the oldest first */
};
static_assert(sizeof(SESSION_PREFIX) + BASE64_TEXT_MAX(SESSION_BYTES) <= SESSION_TEXT_MAX, "fits");

struct sessions *sessions_new(void)
{
    struct sessions *s = mem_new(struct sessions);

    map_init(&s->by_hash, SESSIONS_MAX, free);
    return s;
}

void sessions_free(struct sessions *s)
{
    if (!s)
        return;
    map_done(&s->by_hash);
    free(s);
}

static void hash_of(struct str secret, char ret[HASH_TEXT_MAX])
{
    uint8_t digest[SHA256_BYTES];

    hmac_sha256_of(STR("opensandbox session"), secret, digest);
    (void)hex_encode(str_make((const char *)digest, sizeof(digest)), ret);
}

/* Removes sessions that are over, and the oldest of a user, or of all, when there are too many. */
static void make_room(struct sessions *s, const struct principal *p, int64_t now_s)
{
    struct str key, oldest = STR_NONE, oldest_own = STR_NONE;
    size_t at = 0, own = 0;
    void *value;

    while (map_next(&s->by_hash, &at, &key, &value)) {
        const struct session *one = value;

        if (one->ends_s <= now_s) {
            (void)map_remove(&s->by_hash, key);
            continue;
        }
        if (!oldest.p)
            oldest = key;
        if (strcmp(one->principal.key_id, p->key_id) != 0)
            continue;
        own++;
        if (!oldest_own.p)
            oldest_own = key;
    }
    if (own >= SESSIONS_PER_USER_MAX)
        (void)map_remove(&s->by_hash, oldest_own);
    else if (s->by_hash.n >= SESSIONS_MAX)
        (void)map_remove(&s->by_hash, oldest);
}

int sessions_add(struct sessions *s, const struct principal *principal, int64_t now_s,
                 int64_t ends_s, char ret_secret[SESSION_TEXT_MAX])
{
    struct session *one = mem_new(struct session);
    char hash[HASH_TEXT_MAX], secret[SESSION_TEXT_MAX] = SESSION_PREFIX;
    unsigned char bytes[SESSION_BYTES];
    int r;

    id_random_bytes(bytes, sizeof(bytes));
    (void)base64_encode(str_make((const char *)bytes, sizeof(bytes)), BASE64_URL | BASE64_NO_PAD,
                        secret + strlen(SESSION_PREFIX));
    make_room(s, principal, now_s);
    *one = (struct session){*principal, ends_s};
    hash_of(str_of(secret), hash);
    r = map_add(&s->by_hash, str_of(hash), one);
    if (r < 0) {
        free(one);
        return r;
    }
    memcpy(ret_secret, secret, sizeof(secret));
    return 0;
}

const struct principal *sessions_find(const struct sessions *s, struct str secret, int64_t now_s)
{
    const struct session *one;
    char hash[HASH_TEXT_MAX];

    if (!str_starts(secret, STR(SESSION_PREFIX)) || secret.n >= SESSION_TEXT_MAX)
        return NULL;
    hash_of(secret, hash);
    one = map_get(&s->by_hash, str_of(hash));
    return one && one->ends_s > now_s ? &one->principal : NULL;
}

void sessions_end(struct sessions *s, struct str secret)
{
    char hash[HASH_TEXT_MAX];

    hash_of(secret, hash);
    (void)map_remove(&s->by_hash, str_of(hash));
}

size_t sessions_count(const struct sessions *s)
{
    return s->by_hash.n;
}

bool sessions_held_by(struct str text)
{
    return str_find_str(text, STR(SESSION_PREFIX)) < text.n;
}
