/* pull.h - brings an image from its registry into a store: every byte verified, nothing half made.
 *
 * Pulls of one image by the same user are joined, layers that two images share come once, and what
 * was downloaded when a pull ended early is not downloaded again. Loop thread only; files, hashes
 * and documents are for workers. */
#pragma once

#include "image/blobs.h"
#include "image/credentials.h"
#include "image/registry.h"

struct image_puller;
struct image_pull;

enum image_pull_policy {
    IMAGE_PULL_IF_NOT_PRESENT,
    IMAGE_PULL_ALWAYS, /* asks the registry; layers that are here are not downloaded again */
    IMAGE_PULL_NEVER,
};

struct image_puller_conf {
    struct loop *loop;
    struct pool *pool;
    struct image_registry *registry;
    struct image_blobs blobs;
    const char *credentials_file; /* read at each pull; NULL or absent = none */
    /* 0 means the default given in the comment. */
    uint32_t parallel;        /* 4 layers of a pull at a time */
    uint32_t pulls_max;       /* 64 at a time; more are refused with EBUSY */
    uint32_t total_ms;        /* 1 h for a pull */
    uint64_t image_bytes_max; /* 128 GiB of layers, as they are sent */
};

int image_puller_new(const struct image_puller_conf *conf, struct image_puller **ret,
                     struct err *e);
/* Ends all pulls: on_done comes with ECANCELED once their workers are done. */
void image_puller_stop(struct image_puller *p);
bool image_puller_is_idle(const struct image_puller *p);
/* After image_puller_stop, when it is idle: at the latest when the pool was stopped and the loop
 * settled. NULL is fine. */
void image_puller_free(struct image_puller *p);

struct image_pull_spec {
    struct image_reference reference;
    struct image_platform platform; /* os "" = this machine's */
    struct image_auth auth;         /* all empty = by the credentials file */
    enum image_pull_policy policy;
};

struct image_pulled {
    struct image_digest manifest, config;
    uint64_t bytes; /* downloaded */
    bool was_present;
};

struct image_pull_ops {
    /* At every change, and some times a second while bytes come. total 0 = not known yet. May be
     * NULL. */
    void (*on_progress)(struct image_pull *p, const char *text, uint64_t done, uint64_t total);
    /* Exactly once, never from within image_pull_start; the pull is freed afterwards. error: 0, or
     * a kind of problem.h with a message that names the image. */
    void (*on_done)(struct image_pull *p, int error, const struct err *e,
                    const struct image_pulled *image);
};

/* Strings are copied. */
int image_pull_start(struct image_puller *puller, const struct image_pull_spec *spec,
                     const struct image_pull_ops *ops, void *user, struct image_pull **ret,
                     struct err *e);
/* No more callbacks; frees it. The work ends when no other caller waits for it. */
void image_pull_cancel(struct image_pull *p);
void *image_pull_user(const struct image_pull *p);
