/* idempotency.h - which create a client's Idempotency-Key has led to.
 *
 * The sandbox's row has the key and the hash of the body (spec_json.h), so that both are stored
 * with the sandbox or not at all; a start reads them again. At most IDEMPOTENCY_MAX keys are known,
 * each for a day: after that it may create again. Loop thread only. */
#pragma once

#include "base/id.h"
#include "base/sha.h"
#include "base/str.h"
#include "server/tenants/principal.h"

struct idempotency;

enum {
    IDEMPOTENCY_MAX = 10 * 1000,
    IDEMPOTENCY_KEY_MAX = 255, /* bytes of a client's key */
    IDEMPOTENCY_HASH_MAX = 2 * SHA256_BYTES + 1,
    /* key and body: "<hash>:<hash>" */
    IDEMPOTENCY_MARK_MAX = 2 * IDEMPOTENCY_HASH_MAX,
};

struct idempotency *idempotency_new(void);
void idempotency_free(struct idempotency *t); /* NULL is fine */

/* The mark of a request; keys of different principals are different. */
void idempotency_mark(const struct principal *by, struct str key, struct str body,
                      char ret[IDEMPOTENCY_MARK_MAX]);

/* 0: it is new, and under way from now on: _made or _failed must follow. 1: it has led to the
 * sandbox. -EALREADY: it is under way; -EINVAL: it came with another body; -ENOSPC: all that are
 * known are under way. */
int idempotency_begin(struct idempotency *t, struct str mark, char ret_sandbox[ID_UUID_MAX]);
/* Whether this server knows the key of the mark. */
bool idempotency_has(const struct idempotency *t, struct str mark);
void idempotency_made(struct idempotency *t, struct str mark, const char *sandbox);
void idempotency_failed(struct idempotency *t, struct str mark);
/* At start-up: a sandbox has this mark. */
void idempotency_load(struct idempotency *t, struct str mark, const char *sandbox,
                      int64_t created_us);
