/* keys.c - the table of API keys that clients made. A key is "osbk_", its id, "_" and a secret. The
 * secret is random, so a plain hash of it is enough: there is nothing to guess. */
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/json_bind.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha.h"
#include "base/time.h"
#include "server/tenants/tenants_internal.h"

enum { RECORD_ARENA_MAX = 64 << 10 };

#define KEY_PREFIX "osbk_"

void key_hash(struct str secret, char ret[KEY_HASH_MAX])
{
    uint8_t digest[SHA256_BYTES];

    hmac_sha256_of(STR("opensandbox api key"), secret, digest);
    ret[hex_encode(str_make((const char *)digest, sizeof(digest)), ret)] = '\0';
}

const struct principal *keys_find_secret(struct tenants *t, struct str secret)
{
    int64_t now_us;
    char hash[KEY_HASH_MAX];
    struct api_key *key;

    if (!str_starts(secret, STR(KEY_PREFIX)) || secret.n >= KEY_TEXT_MAX)
        return NULL;
    key_hash(secret, hash);
    key = map_get(&t->hashes, str_of(hash));
    if (!key)
        return NULL;
    now_us = time_wall_us();
    if (key->expires_us && key->expires_us <= now_us)
        return NULL;
    if (strcmp(hash, key->hash) != 0 && key->old_until_us <= now_us)
        return NULL;
    key->used_us = now_us;
    return &key->principal;
}

bool keys_held_by(struct str text)
{
    return str_find_str(text, STR(KEY_PREFIX)) < text.n;
}

struct api_key *keys_find(struct tenants *t, struct str id)
{
    return map_get(&t->keys, id);
}

struct api_key *keys_next(struct tenants *t, size_t *at)
{
    void *key = NULL;

    return map_next(&t->keys, at, NULL, &key) ? key : NULL;
}

/* --- members --- */

static int hashes_add(struct tenants *t, struct api_key *key)
{
    int r = map_set(&t->hashes, str_of(key->hash), key);

    if (r == 0 && key->old_hash[0])
        r = map_set(&t->hashes, str_of(key->old_hash), key);
    return r;
}

static void hashes_remove(struct tenants *t, const struct api_key *key)
{
    (void)map_take(&t->hashes, str_of(key->hash));
    if (key->old_hash[0])
        (void)map_take(&t->hashes, str_of(key->old_hash));
}

int key_add(struct tenants *t, struct api_key *key)
{
    int r = map_add(&t->keys, str_of(key->id), key);

    if (r == 0)
        r = hashes_add(t, key);
    if (r < 0) {
        hashes_remove(t, key);
        (void)map_take(&t->keys, str_of(key->id));
    }
    return r;
}

void key_remove(struct tenants *t, struct api_key *key)
{
    hashes_remove(t, key);
    (void)map_remove(&t->keys, str_of(key->id)); /* frees it */
}

void key_set_hash(struct tenants *t, struct api_key *key, const struct api_key *now)
{
    hashes_remove(t, key);
    memcpy(key->hash, now->hash, sizeof(key->hash));
    memcpy(key->old_hash, now->old_hash, sizeof(key->old_hash));
    key->old_until_us = now->old_until_us;
    key->rotated_us = now->rotated_us;
    (void)hashes_add(t, key); /* there is room for two of each key */
}

/* --- records --- */

int key_print(const struct api_key *key, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("name"), str_of(key->name));
    json_member_string(&w, STR("role"), str_of(principal_role_name(key->principal.role)));
    json_member_bool(&w, STR("everywhere"), key->principal.everywhere);
    json_member_string(&w, STR("sandbox"), str_of(key->principal.sandbox));
    if (key->principal.user[0])
        json_member_string(&w, STR("user"), str_of(key->principal.user));
    json_member_i64(&w, STR("rotated_us"), key->rotated_us);
    json_member_i64(&w, STR("expires_us"), key->expires_us);
    json_member_string(&w, STR("hash"), str_of(key->hash));
    json_member_string(&w, STR("old_hash"), str_of(key->old_hash));
    json_member_i64(&w, STR("old_until_us"), key->old_until_us);
    json_write_object_end(&w);
    return json_write_end(&w);
}

struct key_record {
    struct str name, role, sandbox, user, hash, old_hash;
    bool everywhere;
    int64_t rotated_us, expires_us, old_until_us;
};
static const struct json_field key_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct key_record, name),
    JSON_FIELD("role", JSON_AS_STR, JSON_REQUIRED, struct key_record, role),
    JSON_FIELD("sandbox", JSON_AS_STR, JSON_REQUIRED, struct key_record, sandbox),
    JSON_FIELD("everywhere", JSON_AS_BOOL, JSON_REQUIRED, struct key_record, everywhere),
    JSON_FIELD("rotated_us", JSON_AS_I64, JSON_REQUIRED, struct key_record, rotated_us),
    JSON_FIELD("expires_us", JSON_AS_I64, JSON_REQUIRED, struct key_record, expires_us),
    JSON_FIELD("user", JSON_AS_STR, 0, struct key_record, user),
    JSON_FIELD("hash", JSON_AS_STR, JSON_REQUIRED, struct key_record, hash),
    JSON_FIELD("old_hash", JSON_AS_STR, JSON_REQUIRED, struct key_record, old_hash),
    JSON_FIELD("old_until_us", JSON_AS_I64, JSON_REQUIRED, struct key_record, old_until_us),
};
static const struct json_table key_table = JSON_TABLE(struct key_record, key_fields, 0);

static int key_fill(struct api_key *key, const struct store_record *record,
                    const struct key_record *in)
{
    struct principal *p = &key->principal;

    if (str_copy(key->id, sizeof(key->id), record->id) < 0 ||
        str_copy(key->name, sizeof(key->name), in->name) < 0 ||
        str_copy(key->created_by, sizeof(key->created_by), record->owner) < 0 ||
        str_copy(key->hash, sizeof(key->hash), in->hash) < 0 ||
        str_copy(key->old_hash, sizeof(key->old_hash), in->old_hash) < 0 ||
        str_copy(p->tenant, sizeof(p->tenant), record->tenant) < 0 ||
        str_copy(p->sandbox, sizeof(p->sandbox), in->sandbox) < 0 ||
        str_copy(p->user, sizeof(p->user), in->user) < 0 ||
        principal_role_parse(in->role, &p->role) < 0)
        return -EBADMSG;
    (void)snprintf(p->key_id, sizeof(p->key_id), "key:%s", key->id);
    p->everywhere = in->everywhere;
    key->created_us = record->created_us;
    key->rotated_us = in->rotated_us;
    key->expires_us = in->expires_us;
    key->old_until_us = in->old_until_us;
    return 0;
}

int key_load(struct tenants *t, const struct store_record *record)
{
    AUTO_ARENA(arena, RECORD_ARENA_MAX);
    struct api_key *key = mem_new(struct api_key);
    struct key_record in = {0};
    struct json *root = NULL;

    if (json_parse(&arena, record->json, NULL, &root, NULL) < 0 ||
        json_bind(&arena, root, &key_table, &in, NULL) < 0 || key_fill(key, record, &in) < 0 ||
        key_add(t, key) < 0) {
        free(key);
        log_event(LOG_ERROR, "a record of an API key is damaged, it opens nothing",
                  LOG_STR("key", record->id));
    }
    return 0;
}
