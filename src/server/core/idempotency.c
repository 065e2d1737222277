#include "server/core/idempotency.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"

#define LIFE_US (24 * 3600 * TIME_US_PER_S)

struct made {
    char body[IDEMPOTENCY_HASH_MAX];
    char sandbox[ID_UUID_MAX]; /* "" = under way */
    int64_t at_us;
};

struct idempotency {
    struct map keys; /* of struct made, by the hash of the key */
};

struct idempotency *idempotency_new(void)
{
    struct idempotency *t = mem_new(struct idempotency);

    map_init(&t->keys, IDEMPOTENCY_MAX, free);
    return t;
}

void idempotency_free(struct idempotency *t)
{
    if (!t)
        return;
    map_done(&t->keys);
    free(t);
}

void idempotency_mark(const struct principal *by, struct str key, struct str body,
                      char ret[IDEMPOTENCY_MARK_MAX])
{
    const struct str parts[] = {str_of(by->tenant), str_of(by->key_id), str_of(by->user), key};
    uint8_t digest[SHA256_BYTES];
    struct sha256 s;
    size_t n;

    sha256_init(&s);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        sha256_add(&s, parts[i]);
        sha256_add(&s, str_make("", 1)); /* a NUL between them */
    }
    sha256_end(&s, digest);
    n = hex_encode(str_make((const char *)digest, sizeof(digest)), ret);
    ret[n++] = ':';
    sha256_of(body, digest);
    ret[n + hex_encode(str_make((const char *)digest, sizeof(digest)), ret + n)] = '\0';
}

/* False when the text is no mark. */
static bool split(struct str mark, struct str *ret_key, struct str *ret_body)
{
    *ret_body = mark;
    return str_cut(ret_body, ':', ret_key) && ret_key->n == IDEMPOTENCY_HASH_MAX - 1 &&
           ret_body->n == IDEMPOTENCY_HASH_MAX - 1;
}

/* Keys are in the order in which they came. */
static bool make_room(struct idempotency *t)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (t->keys.n < IDEMPOTENCY_MAX)
        return true;
    while (map_next(&t->keys, &at, &key, &value))
        if (((struct made *)value)->sandbox[0])
            return map_remove(&t->keys, key);
    return false;
}

static struct made *add(struct idempotency *t, struct str key, struct str body)
{
    struct made *m;

    if (!make_room(t))
        return NULL;
    m = mem_new(struct made);
    m->at_us = time_wall_us();
    (void)!str_copy(m->body, sizeof(m->body), body);
    if (map_set(&t->keys, key, m) < 0) {
        free(m);
        return NULL;
    }
    return m;
}

int idempotency_begin(struct idempotency *t, struct str mark, char ret_sandbox[ID_UUID_MAX])
{
    struct str key, body;
    struct made *m;

    if (!split(mark, &key, &body))
        return -EINVAL;
    m = map_get(&t->keys, key);
    if (m && m->sandbox[0] && time_wall_us() - m->at_us > LIFE_US) {
        (void)map_remove(&t->keys, key);
        m = NULL;
    }
    if (!m)
        return add(t, key, body) ? 0 : -ENOSPC;
    if (!str_eq(body, str_of(m->body)))
        return -EINVAL;
    if (!m->sandbox[0])
        return -EALREADY;
    memcpy(ret_sandbox, m->sandbox, sizeof(m->sandbox));
    return 1;
}

bool idempotency_has(const struct idempotency *t, struct str mark)
{
    struct str key, body;

    return split(mark, &key, &body) && map_has(&t->keys, key);
}

void idempotency_made(struct idempotency *t, struct str mark, const char *sandbox)
{
    struct str key, body;
    struct made *m = split(mark, &key, &body) ? map_get(&t->keys, key) : NULL;

    if (m)
        (void)snprintf(m->sandbox, sizeof(m->sandbox), "%s", sandbox);
}

void idempotency_failed(struct idempotency *t, struct str mark)
{
    struct str key, body;

    if (split(mark, &key, &body))
        (void)map_remove(&t->keys, key);
}

void idempotency_load(struct idempotency *t, struct str mark, const char *sandbox,
                      int64_t created_us)
{
    struct str key, body;
    struct made *m;

    if (!split(mark, &key, &body) || time_wall_us() - created_us > LIFE_US)
        return;
    m = add(t, key, body);
    if (!m)
        return;
    m->at_us = created_us;
    (void)snprintf(m->sandbox, sizeof(m->sandbox), "%s", sandbox);
}
