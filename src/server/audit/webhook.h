/* webhook.h - posts bodies to a URL, in order, each with a signature.
 *
 *   X-OpenSandbox-Timestamp: 1750000000
 *   X-OpenSandbox-Signature: sha256=<HMAC-SHA-256 of "<timestamp>.<body>", by the secret>
 *
 * A body is tried WEBHOOK_TRIES times, with growing pauses, as long as there is no answer or one of
 * 5xx or 429. At most WEBHOOK_QUEUE_MAX bodies wait; further ones are dropped, and that is logged.
 * Loop thread only. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "net/pool.h"

struct webhook;

enum {
    WEBHOOK_QUEUE_MAX = 1024,
    WEBHOOK_QUEUE_BYTES = 8 << 20,
    WEBHOOK_TRIES = 6,
    WEBHOOK_TIMEOUT_MS = 10 * 1000,
};

struct webhook_conf {
    struct loop *loop;
    struct pool *pool;
    const char *url;    /* http or https */
    const char *secret; /* "" = no signature */
    const char *name;   /* in logs: "audit" */
};

/* -EINVAL when the URL is none. The configuration must outlive it. */
int webhook_new(const struct webhook_conf *conf, struct webhook **ret, struct err *e);
/* What waits is lost. After the workers have ended; NULL is fine. */
void webhook_free(struct webhook *w);
void webhook_post(struct webhook *w, struct str type, struct str body);
