/* containerd.h - what is asked of containerd: containers of a pod, pausing them, the difference
 * between a container's files and its image, and bytes of its store.
 *
 * BLOCKS. Strings live in the caller's arena. */
#pragma once

#include "base/arena.h"
#include "committer/documents.h"
#include "committer/grpc.h"

struct containerd;

struct containerd_conf {
    const char *socket, *ns;
    const volatile sig_atomic_t *stop; /* ends what can be given up */
};

int containerd_open(const struct containerd_conf *conf, struct containerd **ret, struct err *e);
void containerd_close(struct containerd *c); /* also ends the lease; NULL is fine */

/* What is made from now on is kept until the lease ends: containerd removes what nothing needs. */
int containerd_lease(struct containerd *c, struct err *e);

struct containerd_container {
    struct str id, image, snapshotter, snapshot;
};

/* The container of a pod by the labels that the kubelet gives. `uid` "" = any. -ENOENT, and
 * -EEXIST when there are several that run. */
int containerd_find(struct containerd *c, struct arena *a, struct str pod, struct str ns,
                    struct str uid, struct str container, struct containerd_container *ret,
                    struct err *e);

/* Processes stop where they are. 0 also when they did already. */
int containerd_pause(struct containerd *c, const struct containerd_container *box, struct err *e);
/* 0 also when nothing is paused. Not given up for a signal. */
int containerd_resume(struct containerd *c, const struct containerd_container *box, struct err *e);

/* What the container's files have beyond its image, as a layer in containerd's store. */
int containerd_diff(struct containerd *c, struct arena *a, const struct containerd_container *box,
                    uint32_t timeout_ms, struct commit_layer *ret, struct err *e);

/* What an image's name leads to. */
int containerd_image(struct containerd *c, struct arena *a, struct str name,
                     struct image_descriptor *ret, struct err *e);

/* A part of a blob: at most what `out` still takes, and all of it when it fits. -ENOENT. */
int containerd_read(struct containerd *c, const struct image_digest *digest, uint64_t offset,
                    uint64_t bytes, struct buf *out, struct err *e);
int containerd_has(struct containerd *c, const struct image_digest *digest, struct err *e);
