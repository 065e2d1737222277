/* images.h - the images of this server: their store, pulls from registries, and their users.
 *
 * An image is known by its names, and by its id, the digest of its configuration. What a sandbox
 * needs of one is a base: layers and configuration, open and in memory as long as somebody uses
 * it; garbage collection leaves it alone. */
#pragma once

#include "image/pull.h"
#include "image/store.h"
#include "sandbox/plan.h"
#include "server/config/config.h"

struct images;

struct images_conf {
    const struct config *config; /* outlives it */
    struct loop *loop;
    struct pool *pool;
    struct image_store_hands hands;
};

/* The proxy variables of the environment. */
struct image_proxy_conf images_proxy(void);

/* Opens the store, `images` of the data directory. The proxy variables of the environment count.
 * BLOCKS. */
int images_new(const struct images_conf *conf, struct images **ret, struct err *e);
/* Loop thread, before the pool is stopped: ends all pulls. NULL is fine. */
void images_stop(struct images *im);
/* Loop thread, after that, when the loop has settled. NULL is fine. */
void images_free(struct images *im);
struct image_store *images_store(struct images *im);

/* --- bases; any thread, may block --- */

struct images_base {
    struct image_digest id;
    struct image_config config;
    int layers[PLAN_LAYERS_MAX]; /* O_PATH, the topmost first, each once */
    size_t layer_count;
    uint32_t uid, gid; /* of config.user */
    struct str home;   /* of that user; "" = not known */

    /* private */
    struct images *images;
    struct image_store_pins *pins;
    struct arena arena;
    size_t refs, users;
};

/* The image of that name for that platform. -ENOENT when it is not here. */
int images_find(struct images *im, const struct image_reference *name,
                const struct image_platform *platform, struct images_base **ret, struct err *e);
bool images_has(struct images *im, const struct image_reference *name,
                const struct image_platform *platform);
int images_open(struct images *im, const struct image_digest *id, struct images_base **ret,
                struct err *e);
void images_base_unref(struct images_base *base); /* NULL is fine */

/* Counts one user more, or one less, of an image, which stays while it has any. */
int images_hold(struct images *im, const struct image_digest *id, struct err *e);
void images_release(struct images *im, const struct image_digest *id);
size_t images_users(struct images *im, const struct image_digest *id);

/* --- pulls; loop thread --- */

/* What the configuration says: "" of an unset platform is this machine's. */
void images_platform(const struct images *im, struct image_platform *ret);
/* As image_pull_start. */
int images_pull(struct images *im, const struct image_pull_spec *spec,
                const struct image_pull_ops *ops, void *user, struct image_pull **ret,
                struct err *e);
/* The store has grown: makes that durable, and removes what is too much, in the background. */
void images_grown(struct images *im);

/* --- images_user.c --- */

/* The ids that "name", "uid", "name:group", ... mean in these layers, by their /etc/passwd and
 * /etc/group; no link is followed. "" is root. */
int images_user_find(const int *layers, size_t layer_count, struct str user, struct arena *a,
                     struct images_base *ret, struct err *e);
