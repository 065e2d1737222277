/* options.h - what a commit Job says: arguments, environment, and what follows of them. Pure. */
#pragma once

#include "base/err.h"
#include "image/reference.h"

enum { COMMIT_CONTAINERS_MAX = 64 };

struct commit_target {
    struct str container;
    struct image_reference image; /* unset of an `unpause` */
};

struct commit_options {
    bool unpause; /* only let containers run again */
    struct str pod, ns, uid;
    struct commit_target targets[COMMIT_CONTAINERS_MAX];
    size_t target_count;
    const char *socket, *containerd_ns;
    struct str insecure; /* SNAPSHOT_REGISTRY_INSECURE */
};

/* `env` is getenv. Texts are borrowed. -EINVAL with what is wrong. */
int commit_options_read(struct commit_options *o, int argc, char **argv,
                        char *(*env)(const char *name), struct err *e);
/* Whether a registry may have any certificate, and none: as told, or else when its name or address
 * is one of a private network. */
bool commit_is_insecure(const struct commit_options *o, const char *registry);
