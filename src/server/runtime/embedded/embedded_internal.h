/* embedded_internal.h - what the embedded runtime's files share. */
#pragma once

#include "broker/client.h"
#include "server/runtime/embedded/embedded.h"
#include <pthread.h>

enum { EMBEDDED_CONNECTIONS_MAX = 64 };

struct embedded {
    struct runtime base;
    struct embedded_conf conf;
    int sandboxes, volumes; /* directories */
    pthread_mutex_t claims; /* held while one is looked for, made or renamed to be erased */
    pthread_mutex_t lock;   /* of what follows */
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
/* What the request is to become; the plan owns no descriptor. Fills f when it cannot. */
int embedded_plan(const struct embedded *em, struct str id, const struct api_create *spec,
                  struct plan *ret_plan, const struct embedded_root **ret_root, struct api_fail *f);

/* --- embedded_volumes.c --- */

/* Whether these volumes may be mounted; makes nothing. */
int embedded_volumes_check(struct embedded *em, const struct api_create *spec, struct api_fail *f);
/* Makes the host paths that are missing, for a request that was checked. */
int embedded_volumes_make(struct embedded *em, const struct api_create *spec, struct api_fail *f);
/* Opens each, making what may be made, and noting in `sandbox`, its directory, what is to go with
 * it. Descriptors are the caller's; on failure none is left. */
int embedded_volumes_open(struct embedded *em, const struct api_create *spec, int sandbox,
                          int fds[PLAN_BINDS_MAX], struct err *e);
/* Removes the volumes that were to go with the sandbox whose directory this is, and that no other
 * mounts. Their names are free on return; the broker erases the files in the background. */
int embedded_volumes_erase(struct embedded *em, int sandbox, struct broker_client *client,
                           struct err *e);
