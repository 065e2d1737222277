/* pools_internal.h - shared by the files of pools.h. */
#pragma once

#include "server/core/execd_call.h"
#include "server/core/sandboxes_internal.h"
#include "server/pools/pool_template.h"
#include "server/pools/pools.h"

enum {
    POOLS_MAX = 1000,
    POOL_ARENA_MAX = 4 << 20,
    POOL_REVISION_MAX = 16 + 1,
};

struct pools {
    struct pools_conf conf;
    struct map by_name;
    struct http_client *client; /* to execds */
    struct list changes;        /* of struct pool_change; the first one is under way */
    struct list gone;           /* deleted pools that still make a sandbox */
    struct list errands;        /* of struct pool_errand */
    bool started, stopped;
};

struct warm_pool {
    struct pools *all;
    struct list link; /* in pools.gone */
    char name[API_POOL_NAME_MAX + 1];
    char tenant[PRINCIPAL_TENANT_MAX];
    struct api_capacity capacity;
    char revision[POOL_REVISION_MAX];
    int64_t created_us;
    char *create, *warm_up; /* the template: body of a create; command, "" = none */
    struct arena arena;     /* of spec */
    struct api_create spec; /* parsed from `create` */
    struct list members[POOL_MEMBER_KINDS];
    size_t counts[POOL_MEMBER_KINDS];
    size_t making;      /* creations under way */
    struct list claims; /* of struct claim: they wait, oldest first */
    size_t claim_count;
    struct loop_timer fill;
    uint64_t fill_not_before_ns;
    uint32_t backoff_ms; /* 0 = the last attempt succeeded */
    struct err why;      /* why the last one failed */
    bool filling;        /* below bufferMin, and not yet in the middle again */
    bool is_gone;
    bool is_clear; /* its record has the template in clear: an older server wrote it */
};

/* --- pools.c --- */

struct warm_pool *warm_pool_new(struct pools *p, struct str name);
/* Frees one that is not in the table and makes nothing. */
void warm_pool_free(struct warm_pool *w);
/* Takes over the template: parses `create`. */
int warm_pool_set_template(struct warm_pool *w, struct str create, struct str warm_up,
                           struct api_fail *f);
void warm_pool_view(const struct warm_pool *w, struct pool_view *ret);
void warm_pool_drain(struct warm_pool *w); /* it is deleted, and may be freed by this */
void pool_wake(struct warm_pool *w);       /* fills or shrinks it, as soon as it may */
void pool_member_set(struct sandbox *sb, enum pool_member kind);
void pool_member_remove(struct sandbox *sb); /* and the sandbox itself */

/* Has the sandbox's execd do something. done is called once, later or from here; sb is NULL when
 * the sandbox is gone. */
struct pool_errand {
    struct list link; /* in pools.errands */
    struct execd_call call;
    struct sandbox *sb;
    void (*done)(void *user, struct sandbox *sb, const struct err *e);
    void *user;
};
void pool_errand_start(struct pools *p, struct sandbox *sb, const struct execd_request *request,
                       void (*done)(void *user, struct sandbox *sb, const struct err *e),
                       void *user);

/* --- pools_claim.c --- */

void pool_claims_serve(struct warm_pool *w); /* gives what is ready to those that wait */
void pool_claims_fail(struct warm_pool *w, const struct api_fail *fail);
/* Whether clients have all of its sandboxes; f says so. */
bool pool_is_used_up(const struct warm_pool *w, struct api_fail *f);

/* --- pools_change.c --- */

/* Reads a record of the store, and adds the pool. */
int pool_record_load(struct pools *p, const struct store_record *record);
/* Writes the record of a pool again, sealed. BLOCKS. */
int pool_record_seal(struct warm_pool *w, struct err *e);
