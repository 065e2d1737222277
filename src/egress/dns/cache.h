/* cache.h - answers to DNS queries for as long as their records say. Loop thread only.
 *
 * The key is the whole query but its id, so that flags and options (DNSSEC, client subnet) never
 * mix. Bounded in entries and bytes; the oldest entries go first. */
#pragma once

#include "base/str.h"

struct dns_cache;

struct dns_cache *dns_cache_new(size_t entries_max);
void dns_cache_free(struct dns_cache *c); /* accepts NULL */

/* The cached answer, with the id and TTLs of when it was stored; STR_NONE when there is none. Valid
 * until the next call. *ret_age_s: how long it has been there. */
struct str dns_cache_get(struct dns_cache *c, struct str query, uint64_t now_ns,
                         uint32_t *ret_age_s);
/* Keeps a checked answer for ttl_s. */
void dns_cache_put(struct dns_cache *c, struct str query, struct str answer, uint64_t now_ns,
                   uint32_t ttl_s);
