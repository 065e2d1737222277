/* rewrite.h - replaces many strings at once in a stream of bytes, whatever pieces it comes in.
 *
 * Made once from its rules (struct rewrite, immutable), used by any number of streams, each with a
 * struct rewrite_stream of its own. At a position the longest rule wins; what was put in is not
 * searched again. A stream keeps back only bytes that may be the beginning of a rule. Pure but for
 * memory: no socket, no clock. */
#pragma once

#include "base/buf.h"
#include "egress/vault/secret.h"

struct rewrite;

struct rewrite_rule {
    struct str find; /* not empty; borrowed: outlives the rewrite */
    struct str put;
    size_t tag; /* for rewrite_found */
};

enum { REWRITE_RULES_MAX = 4096 };

/* In the arena, which it lives as long as. NULL: no memory, too many rules, or an empty one. */
struct rewrite *rewrite_new(struct secret_arena *a, const struct rewrite_rule *rules, size_t count);

struct rewrite_stream {
    const struct rewrite *rewrite; /* NULL: nothing is replaced */
    struct buf kept;               /* bytes that may begin a rule; overwritten when freed */
    uint64_t hits;
    /* Called for each hit, before it is replaced. -errno ends the work. May be NULL. */
    int (*on_hit)(void *user, const struct rewrite_rule *rule);
    void *user;
};

void rewrite_begin(struct rewrite_stream *s, const struct rewrite *r);
void rewrite_end(struct rewrite_stream *s); /* frees; may be called twice */
/* Appends what `in` becomes; `last`: nothing follows. Fails as buf_add does. */
int rewrite_next(struct rewrite_stream *s, struct str in, bool last, struct buf *out) MUST_USE;

/* All of it at once. */
int rewrite_all(const struct rewrite *r, struct str in, struct buf *out) MUST_USE;
/* The first rule that occurs in `in`, or NULL. */
const struct rewrite_rule *rewrite_find(const struct rewrite *r, struct str in);
