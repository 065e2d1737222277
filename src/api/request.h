/* request.h - the smaller request bodies: renewal, snapshots, pools. */
#pragma once

#include "api/fail.h"
#include "base/arena.h"
#include "base/json_bind.h"

/* {"expiresAt": ...}: text as of time_parse_lenient, or a Unix time as a number. The caller checks
 * that it is in the future. */
int api_renew_parse(struct arena *a, struct str type, struct str body, int64_t *ret_expires_us,
                    struct api_fail *f);

/* {"name": ..., "memory": ...}, or no body, or null. */
struct api_snapshot_create {
    struct str name; /* "" when none was given */
    bool memory;     /* with the memory of its processes */
};
int api_snapshot_create_parse(struct arena *a, struct str type, struct str body,
                              struct api_snapshot_create *ret, struct api_fail *f);

/* POST .../fork: what differs from the source. All may be left out, and the body, too. */
enum { API_FORK_MAX = 100 };
struct api_fork {
    uint32_t count;
    int64_t timeout_s;     /* 0 = as of the source */
    struct json_pair *env; /* in place of the source's, or added; value.p == NULL removes */
    size_t env_count;
    bool has_metadata;
    struct json_pair *metadata; /* in place of all of the source's; not judged yet */
    size_t metadata_count;
    struct str *entrypoint;
    size_t entrypoint_count; /* 0 = as of the source */
    bool memory;             /* they go on where the source is, with its processes */
};
int api_fork_parse(struct arena *a, struct str type, struct str body, struct api_fork *ret,
                   struct api_fail *f);

/* POST .../rollback: {"snapshotId": ...}. */
int api_rollback_parse(struct arena *a, struct str type, struct str body, struct str *ret_snapshot,
                       struct api_fail *f);

/* How many sandboxes a pool has: waiting ones (buffer), and all of them with those in use. */
struct api_capacity {
    int64_t buffer_max, buffer_min, pool_max, pool_min;
};

enum { API_POOL_NAME_MAX = 253 }; /* bytes */
struct api_pool {
    struct str name;
    const struct json *template; /* an object */
    struct api_capacity capacity;
};

/* POST (create) and PUT /pools; the latter has a capacity only. */
int api_pool_parse(struct arena *a, struct str type, struct str body, bool create,
                   struct api_pool *ret, struct api_fail *f);

/* The same bodies from a client's side, appended to `out`: 0 or -errno as json_write_end. */
int api_renew_write(struct buf *out, int64_t expires_us);
int api_snapshot_create_write(struct buf *out, const struct api_snapshot_create *snapshot);
/* All of `fork`; a count of 0 is left out. The arena is for work. */
int api_fork_write(struct arena *a, struct buf *out, const struct api_fork *fork);
int api_rollback_write(struct buf *out, struct str snapshot);
/* The body of POST (create) or PUT. */
int api_pool_write(struct buf *out, const struct api_pool *pool, bool create);
/* A metadata patch; a pair whose value.p is NULL deletes. */
int api_patch_write(struct buf *out, const struct json_pair *pairs, size_t count);
