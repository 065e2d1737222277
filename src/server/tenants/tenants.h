/* tenants.h - tenants, their quotas and rates, and the API keys that clients make.
 *
 * Both are records of the store, of kinds "tenant" and "api_key"; a change is stored before it
 * counts. Of a key the store has a hash. What a tenant uses is counted here as sandboxes come and
 * go, so that quotas hold however many requests come at once. Loop thread only. */
#pragma once

#include "api/fail.h"
#include "api/limits.h"
#include "net/pool.h"
#include "server/store/store.h"
#include "server/tenants/principal.h"

struct tenants;

enum {
    TENANTS_MAX = 1000,
    TENANT_NAME_MAX = 40,
    KEYS_MAX = 10 * 1000,
    KEY_NAME_MAX = 64,
    KEY_ID_MAX = 12 + 1,
    KEY_HASH_MAX = 64 + 1,
    KEY_TEXT_MAX = 64, /* of a key itself */
    KEY_GRACE_S_MAX = 30 * 24 * 3600,
};

/* In the order of their names in the API. -1 = no limit. */
enum quota_kind {
    QUOTA_SANDBOXES,
    QUOTA_CPU, /* millicores */
    QUOTA_MEMORY,
    QUOTA_DISK,
    QUOTA_CREATES, /* per minute */
    QUOTA_RATE,    /* requests per second */
    QUOTA_KINDS,
};
struct quota {
    int64_t at[QUOTA_KINDS];
};
extern const struct quota quota_none; /* without limits */

struct tenant_usage {
    uint64_t sandboxes, cpu_millicores, memory_bytes, disk_bytes;
};

struct tenant {
    char name[TENANT_NAME_MAX + 1];
    int64_t created_us;
    struct quota quota;
    struct tenant_usage usage;
    int64_t *creates; /* times of the last ones, a ring of quota.at[QUOTA_CREATES] */
    size_t create_at;
    uint64_t rate_ns; /* when the requests of before are paid for */
};

struct api_key {
    char id[KEY_ID_MAX];
    char name[KEY_NAME_MAX];
    struct principal principal; /* tenant, role, sandbox */
    char created_by[PRINCIPAL_KEY_ID_MAX];
    int64_t created_us, rotated_us, expires_us;      /* 0 = not, never */
    int64_t used_us;                                 /* in memory only */
    char hash[KEY_HASH_MAX], old_hash[KEY_HASH_MAX]; /* hexadecimal; old: "" = none */
    int64_t old_until_us;
};

struct tenants_conf {
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct api_limits defaults; /* what a sandbox needs whose request says nothing */
};

struct tenants *tenants_new(const struct tenants_conf *conf);
void tenants_free(struct tenants *t); /* after the workers; NULL is fine */
/* Call before serving: reads the records. The tenant "default" is always there. BLOCKS. */
int tenants_load(struct tenants *t, struct err *e);

struct tenant *tenants_find(struct tenants *t, struct str name); /* NULL = none */
/* Oldest first; `at` begins as 0. */
struct tenant *tenants_next(struct tenants *t, size_t *at);

/* --- quotas --- */

/* Whether the tenant may have another sandbox now; counts it as a create of this minute if so. 403
 * or 429 in `f` if not. A tenant that is not known has no limits. */
int tenants_admit(struct tenants *t, const char *tenant, const struct api_limits *needs,
                  struct api_fail *f);
/* A sandbox that needs this is there (1), or gone (-1). */
void tenants_count(struct tenants *t, const char *tenant, const struct api_limits *needs, int by);
/* Milliseconds until the tenant may send another request; 0 = now, and it counts. */
uint32_t tenants_rate(struct tenants *t, const char *tenant);

/* The same where several servers share the store, which counts for all of them: what a sandbox of
 * this tenant brings with its row. `name` must live as long as the result. */
void tenants_share(const struct tenants *t, const char *name, const struct api_limits *asked,
                   struct store_share *ret);

/* --- other servers that share the store --- */

/* Differs after each change that was made here, and while one is under way. */
uint64_t tenants_version(const struct tenants *t);
/* The records of all tenants and keys are these now. */
void tenants_replace(struct tenants *t, const struct store_record *records, size_t count);

/* --- keys --- */

/* The principal of a key that has not expired; NULL = none. */
const struct principal *keys_find_secret(struct tenants *t, struct str secret);
/* Whether the text contains something of the form of such a key. */
bool keys_held_by(struct str text);
struct api_key *keys_find(struct tenants *t, struct str id);
struct api_key *keys_next(struct tenants *t, size_t *at);

/* --- changes ---
 *
 * done is called exactly once, on the loop; fail is NULL on success. Changes are made one after the
 * other. */

typedef void tenant_done_fn(void *user, const struct tenant *tenant, const struct api_fail *fail);
void tenant_create(struct tenants *t, const struct principal *by, struct str name,
                   const struct quota *quota, tenant_done_fn *done, void *user);
/* Sets the kinds of `given` (bits). */
void tenant_update(struct tenants *t, struct str name, const struct quota *quota, unsigned given,
                   tenant_done_fn *done, void *user);
/* `in_use` is asked when its turn comes: whether it owns more than is counted here. */
void tenant_delete(struct tenants *t, struct str name, bool (*in_use)(void *user, const char *name),
                   tenant_done_fn *done, void *user);

struct key_request {
    struct str name, tenant, sandbox; /* tenant "" = all, sandbox "" = none */
    struct str user;                  /* that it acts for; "" = none */
    enum principal_role role;
    int64_t expires_us;
};
/* `secret` is the key itself, of this call only; NULL after a deletion. */
typedef void key_done_fn(void *user, const struct api_key *key, const char *secret,
                         const struct api_fail *fail);
void key_create(struct tenants *t, const struct principal *by, const struct key_request *request,
                key_done_fn *done, void *user);
void key_rotate(struct tenants *t, struct str id, uint32_t grace_s, key_done_fn *done, void *user);
void key_delete(struct tenants *t, struct str id, key_done_fn *done, void *user);
