/* commit.h - saves containers of a pod as images in a registry.
 *
 * BLOCKS. Whatever happens, containers that were paused run again when it returns. */
#pragma once

#include "committer/containerd.h"
#include "committer/options.h"
#include "image/push.h"

struct commit {
    const struct commit_options *options;
    struct containerd *containerd;
    struct image_push_conf push;
    struct image_digest digests[COMMIT_CONTAINERS_MAX]; /* of the manifests that were pushed */
};

int commit_run(struct commit *c, struct err *e);
/* Lets the containers run. Tries all of them, and returns the first error. */
int commit_unpause(struct commit *c, struct err *e);
