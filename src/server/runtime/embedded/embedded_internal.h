/* embedded_internal.h - shared by the files of the embedded runtime. */
#pragma once

#include "broker/client.h"
#include "server/images/images.h"
#include "server/runtime/embedded/embedded.h"
#include "server/runtime/embedded/embedded_layers.h"
#include "server/runtime/embedded/host.h"
#include "server/runtime/embedded/image_hands.h"
#include <pthread.h>

enum { EMBEDDED_CONNECTIONS_MAX = 64 };

/* Prefixes of empty files in a sandbox's directory, before a claim. A claim has up to 253 bytes,
 * and both must fit into NAME_MAX. */
#define EMBEDDED_USES_PREFIX  "u-" /* the sandbox mounts the claim */
#define EMBEDDED_ERASE_PREFIX "e-" /* the claim was made for the sandbox, and is erased with it */

struct embedded {
    struct runtime base;
    struct embedded_conf conf;
    struct embedded_egress *egress;    /* NULL = none; see egress.h */
    struct in_addr gateway;            /* of the bridge: where sandboxes with a policy ask DNS */
    struct embedded_host *host;        /* NULL until the start is complete */
    int sandboxes, volumes;            /* directories */
    int claims_dir;                    /* what is known of each volume */
    struct embedded_measure *measures; /* sizes of volumes, under `lock` */
    struct embedded_layers layers;
    struct image_hands hands; /* of base.images */
    pthread_mutex_t claims;   /* held while a claim is looked up, made or renamed for erasure */
    pthread_mutex_t lock;     /* protects the fields below */
    struct broker_client idle[EMBEDDED_CONNECTIONS_MAX];
    size_t idle_count;
};

/* What task->of_runtime points to while work is under way that can be cancelled. */
struct embedded_work {
    void (*cancel)(struct embedded_work *w); /* with em->layers.work_lock held */
};

/* --- embedded.c --- */

/* Calls fn with a connection to the broker; once more over a new one when that was lost. */
typedef int embedded_call_fn(void *user, struct broker_client *client, struct err *e);
int embedded_call(struct embedded *em, embedded_call_fn *fn, void *user, struct err *e);
/* Opens a directory of ours, and makes it if need be. */
int embedded_open_dir(const char *parent, const char *name, struct err *e);
/* Opens sandboxes/<id>. */
int embedded_open_sandbox(const struct embedded *em, struct str id, struct err *e);
/* Opens dir/path as broker_reach does. */
int embedded_reach(struct embedded *em, int dir, const char *path, bool make, struct err *e);

/* Makes the sandbox of create->plan. `image` as for embedded_plan_make. As create(). */
int embedded_create_as_planned(struct embedded *em, struct runtime_create *create,
                               const struct images_base *image, struct err *e);

/* --- embedded_plan.c --- */

/* As in runtime.h. */
int embedded_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f);
void embedded_image_note(struct runtime *r, struct str image, struct buf *out);
/* What a request comes to. Owns no descriptor. */
struct embedded_plan {
    struct plan plan;
    uint64_t files_bytes;             /* limit of what a persistent sandbox writes; 0 = none */
    const struct embedded_root *root; /* NULL: made of an image of the store */
    struct embedded_source source;    /* the root as a base, and the layers above it */
    struct image_reference reference; /* of an image of the store ... */
    struct image_digest image_id;     /* ... or this one, of a snapshot */
};
/* Fills f when the request cannot be granted. `image` is an image of the store; NULL for a check
 * while it is not there yet. */
int embedded_plan_make(struct embedded *em, const struct runtime_create *c,
                       const struct images_base *image, struct embedded_plan *ret,
                       struct api_fail *f);

/* --- embedded_snapshots.c: as in runtime.h --- */

int embedded_snapshot(struct runtime *r, struct runtime_snapshot *s, struct err *e);
int embedded_snapshot_remove(struct runtime *r, struct str snapshot_id, struct err *e);
int embedded_snapshot_each(struct runtime *r, runtime_snapshot_visit_fn *visit, void *user,
                           struct err *e);
/* The memory of a snapshot: a directory, for a plan with `memory`. -ENOENT when it has none. */
int embedded_snapshot_memory(struct embedded *em, struct str snapshot_id);
/* The source of a snapshot. -ENOENT when there is none. */
int embedded_snapshot_source(struct embedded *em, struct str snapshot_id,
                             struct embedded_source *ret, struct err *e);

/* --- embedded_volumes.c --- */

/* Whether these volumes may be mounted. Makes nothing. */
int embedded_volumes_check(struct embedded *em, const struct api_create *spec, struct api_fail *f);
/* Makes the missing host paths of a request that passed the check. */
int embedded_volumes_make(struct embedded *em, const struct api_create *spec, struct api_fail *f);
/* Opens each volume, making it where allowed. Records in `sandbox`, the sandbox's directory, which
 * volumes to remove along with it. The caller owns the descriptors; on failure all are closed, and
 * create->objects_failed tells whether it is for want of object storage. */
int embedded_volumes_open(struct embedded *em, struct runtime_create *create, int sandbox,
                          int fds[PLAN_BINDS_MAX], struct err *e);
/* Removes the volumes recorded in `sandbox`, a sandbox's directory, unless another sandbox mounts
 * them. Their names are free on return; the broker erases the files in the background. */
int embedded_volumes_erase(struct embedded *em, int sandbox, struct broker_client *client,
                           struct err *e);

/* --- embedded_objects.c: volumes of object storage --- */

/* Whether volumes[i] may be mounted. */
int embedded_objects_check(struct embedded *em, size_t i, const struct api_create *spec,
                           struct api_fail *f);
/* Has the broker start the program for it. Returns the socket for the plan once the program has
 * seen the bucket, else the error says what is wrong. BLOCKS up to OBJECTS_READY_MS_MAX. */
int embedded_objects_open(struct embedded *em, const struct api_volume *v, struct err *e);

/* --- embedded_claims.c: volumes by name; the runtime_ops as in runtime.h --- */

/* Opens the directory of what is known of them. */
int embedded_claims_open(struct embedded *em, struct err *e);
void embedded_claims_done(struct embedded *em);
bool embedded_claim_exists(const struct embedded *em, const char *claim);
/* Makes a volume of at most size_bytes (0 = no limit). Call with em->claims held. -EEXIST. */
int embedded_claim_make(struct embedded *em, const char *claim, uint64_t size_bytes, struct err *e);
/* Call with em->claims held. Its name is free on return, the broker erases the files later. */
int embedded_claim_erase(struct embedded *em, const char *claim, struct broker_client *client,
                         struct err *e);
/* Whether any sandbox mounts it; in doubt, yes. */
bool embedded_claim_is_used(const struct embedded *em, const char *claim);

int embedded_volume_list(struct runtime *r, uint64_t skip, uint64_t count,
                         runtime_volume_visit_fn *visit, void *user, uint64_t *ret_total,
                         struct err *e);
int embedded_volume_get(struct runtime *r, struct str name, runtime_volume_visit_fn *visit,
                        void *user, struct err *e);
int embedded_volume_create(struct runtime *r, struct str name, uint64_t size_bytes, struct err *e);
int embedded_volume_remove(struct runtime *r, struct str name, struct err *e);
