/* tenants_internal.h - shared by the files of tenants.h. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "server/tenants/tenants.h"

#define TENANT_KIND STR("tenant")
#define KEY_KIND    STR("api_key")
#define RECORD_LIVE STR("live") /* the state of all of them */

enum { TENANT_RECORD_MAX = 4096, TENANT_CHANGES_MAX = 256 };

struct tenants {
    struct tenants_conf conf;
    struct map by_name;  /* of struct tenant */
    struct map keys;     /* of struct api_key, by id */
    struct map hashes;   /* the same, by hash and old_hash */
    struct list changes; /* of struct tenant_change; the first one is under way */
    size_t change_count;
    uint64_t changed; /* grows by two with each change */
    bool busy;        /* the first one is with a worker */
};

/* --- tenants.c --- */

struct tenant *tenant_add(struct tenants *t, struct str name, int64_t created_us);
int tenant_load(struct tenants *t, const struct store_record *record);
void tenant_set_quota(struct tenant *tenant, const struct quota *quota);
int tenant_print(const struct quota *quota, struct buf *out);

/* --- keys.c --- */

void key_hash(struct str secret, char ret[KEY_HASH_MAX]);
int key_print(const struct api_key *key, struct buf *out);
int key_load(struct tenants *t, const struct store_record *record);
int key_add(struct tenants *t, struct api_key *key); /* takes it over on success */
void key_remove(struct tenants *t, struct api_key *key);
/* Replaces what it opens by. */
void key_set_hash(struct tenants *t, struct api_key *key, const struct api_key *now);
