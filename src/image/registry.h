/* registry.h - a client of registries (HTTP API v2): manifests and blobs, with credentials,
 * mirrors, redirects, resumption and retries.
 *
 * Loop thread only. A fetch lives until on_end or image_fetch_cancel. Errors are kinds of problem.h
 * and say which host answered what. */
#pragma once

#include "image/credentials.h"
#include "image/proxy.h"
#include "image/reference.h"
#include "net/loop.h"
#include "net/pool.h"

struct image_registry;
struct image_fetch;

enum { IMAGE_MIRRORS_MAX = 8, IMAGE_REGISTRY_RULES_MAX = 256 };

/* How to reach one registry. Without a rule: https, and http on this machine itself (localhost,
 * 127.x.x.x, ::1), where nobody is in between. */
struct image_registry_rule {
    const char *registry;       /* "docker.io", "localhost:5000" */
    const char *const *mirrors; /* "https://host[:port][/path]", tried before it, in order */
    size_t mirror_count;
    const char *ca_file; /* PEM: trusted authorities; NULL = as image_registry_conf says */
    bool plain_http;     /* no TLS */
    bool skip_verify;    /* believe any certificate */
};

struct image_registry_conf {
    struct loop *loop;
    struct pool *pool;
    struct image_proxy_conf proxy;
    const struct image_registry_rule *rules; /* copied, with their texts */
    size_t rule_count;
    const char *ca_file; /* NULL = the system's authorities */
    /* 0 means the default given in the comment. */
    uint32_t lookup_ms, connect_ms, head_ms, stall_ms; /* as in web.h */
    uint32_t tries;                                    /* 5 of a request that may yet succeed */
    uint32_t backoff_ms;                               /* 500, doubled after each try */
    uint32_t retry_after_max_ms; /* 60 s: a registry that asks for more is given up */
};

/* Reads the files of authorities. -EINVAL for rules that make no sense. */
int image_registry_new(const struct image_registry_conf *conf, struct image_registry **ret,
                       struct err *e);
void image_registry_free(struct image_registry *r); /* NULL is fine; fetches must have ended */
/* Whether the registry has mirrors. */
bool image_registry_has_mirrors(const struct image_registry *r, const char *registry);

struct image_fetch_ops {
    /* Bytes come from this offset on: the one asked for, or 0, and then what was received before is
     * void. May come again after a broken transfer. Negative: ends the fetch with that error. */
    int (*on_start)(struct image_fetch *f, uint64_t from);
    /* Returns bytes taken; fewer stops the registry until image_fetch_resume. Negative: as above.
     */
    ssize_t (*on_body)(struct image_fetch *f, struct str piece);
    /* Exactly once; the fetch is freed afterwards. e is NULL when error is 0. */
    void (*on_end)(struct image_fetch *f, int error, const struct err *e);
};

struct image_fetch_spec {
    const struct image_reference *reference; /* registry and repository */
    /* A manifest by tag or digest, or a blob by digest. */
    const char *version;
    bool is_blob;
    uint64_t bytes;                /* of a blob: its size, which an answer must have */
    uint64_t offset;               /* of a blob: bytes received earlier; less than `bytes` */
    const struct image_auth *auth; /* for the registry itself; NULL = by `credentials` */
    struct str credentials;        /* text of a credentials file, outlives the fetch; STR_NONE */
    bool skip_mirrors;
    const struct image_fetch_ops *ops;
    void *user;
};

/* Strings but `credentials` are copied. on_end never comes from within. */
int image_fetch_start(struct image_registry *r, const struct image_fetch_spec *spec,
                      struct image_fetch **ret, struct err *e);
void image_fetch_resume(struct image_fetch *f);
void image_fetch_cancel(struct image_fetch *f); /* no more callbacks; frees it */

void *image_fetch_user(const struct image_fetch *f);
/* Of the last answer, from on_start on; "" when not given. */
const char *image_fetch_media_type(const struct image_fetch *f);
const char *image_fetch_content_digest(const struct image_fetch *f); /* Docker-Content-Digest */
const char *image_fetch_host(const struct image_fetch *f);           /* which host it came from */
