/* metadata.h - the labels that users hang on sandboxes: what is one, and patches of them. */
#pragma once

#include "api/fail.h"
#include "base/json_bind.h"

/* Lower-case letters, digits and inner hyphens, 1 to `max` bytes: names of volumes and pools. */
bool api_is_name(struct str s, size_t max);

bool api_is_label_key(struct str key);     /* "name", or "dns.prefix/name" */
bool api_is_label_value(struct str value); /* "", or as a name: at most 63 bytes */

enum { API_METADATA_MAX = 512, API_PATCH_MAX = 2 * API_METADATA_MAX };

/* Pairs of a request for a new sandbox: 400 SANDBOX::INVALID_METADATA_LABEL. */
int api_labels_check(const struct json_pair *pairs, size_t count, struct api_fail *f);

/* A patch as RFC 7396 has it, of one level; value.p == NULL deletes. */
struct api_patch {
    struct json_pair *pairs;
    size_t count;
};
/* Checks the shape alone, so that 404 can come before any word on labels, as in the contract. */
int api_patch_parse(struct arena *a, struct str type, struct str body, struct api_patch *ret,
                    struct api_fail *f);
/* base (a JSON object of strings, "" = none) with the patch applied, as compact JSON, keys sorted.
 * Refuses what is not a label, and more than API_METADATA_MAX pairs; keys that are to go need not
 * be labels, but must not be reserved. */
int api_patch_apply(struct arena *a, struct str base, const struct api_patch *patch,
                    struct str *ret_json, struct api_fail *f);
