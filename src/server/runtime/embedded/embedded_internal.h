/* embedded_internal.h - shared by the files of the embedded runtime. */
#pragma once

#include "broker/client.h"
#include "server/runtime/embedded/embedded.h"
#include <pthread.h>

enum { EMBEDDED_CONNECTIONS_MAX = 64 };

struct embedded {
    struct runtime base;
    struct embedded_conf conf;
    int sandboxes, volumes; /* directories */
    pthread_mutex_t claims; /* held while a claim is looked up, made or renamed for erasure */
    pthread_mutex_t lock;   /* protects the fields below */
    struct broker_client idle[EMBEDDED_CONNECTIONS_MAX];
    size_t idle_count;
};

/* --- embedded.c --- */

/* Opens dir/path as broker_reach does. */
int embedded_reach(struct embedded *em, int dir, const char *path, bool make, struct err *e);

/* --- embedded_plan.c --- */

/* As in runtime.h. */
int embedded_check_source(struct runtime *r, const struct api_create *spec, struct api_fail *f);
int embedded_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f);
void embedded_image_note(struct runtime *r, struct str image, struct buf *out);
/* Turns the request into a plan, which owns no descriptor. Fills f when that is impossible. */
int embedded_plan(const struct embedded *em, struct str id, const struct api_create *spec,
                  struct plan *ret_plan, const struct embedded_root **ret_root, struct api_fail *f);

/* --- embedded_volumes.c --- */

/* Whether these volumes may be mounted. Makes nothing. */
int embedded_volumes_check(struct embedded *em, const struct api_create *spec, struct api_fail *f);
/* Makes the missing host paths of a request that passed the check. */
int embedded_volumes_make(struct embedded *em, const struct api_create *spec, struct api_fail *f);
/* Opens each volume, making it where allowed. Records in `sandbox`, the sandbox's directory, which
 * volumes to remove along with it. The caller owns the descriptors; on failure all are closed. */
int embedded_volumes_open(struct embedded *em, const struct api_create *spec, int sandbox,
                          int fds[PLAN_BINDS_MAX], struct err *e);
/* Removes the volumes recorded in `sandbox`, a sandbox's directory, unless another sandbox mounts
 * them. Their names are free on return; the broker erases the files in the background. */
int embedded_volumes_erase(struct embedded *em, int sandbox, struct broker_client *client,
                           struct err *e);
