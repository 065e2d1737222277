/* metadata.h - the labels (metadata) of sandboxes: validation and patches. */
#pragma once

#include "api/fail.h"
#include "base/json_bind.h"

/* Lower-case letters, digits and inner hyphens, 1 to `max` bytes: names of volumes and pools. */
bool api_is_name(struct str s, size_t max);

bool api_is_label_key(struct str key);     /* "name", or "dns.prefix/name" */
bool api_is_label_value(struct str value); /* "", or like a name; at most 63 bytes */

enum { API_METADATA_MAX = 512, API_PATCH_MAX = 2 * API_METADATA_MAX };

/* Checks the labels of a new sandbox: 400 SANDBOX::INVALID_METADATA_LABEL. */
int api_labels_check(const struct json_pair *pairs, size_t count, struct api_fail *f);

/* A merge patch (RFC 7396) of one level; value.p == NULL deletes. */
struct api_patch {
    struct json_pair *pairs;
    size_t count;
};
/* Checks only the shape, so that 404 comes before any error about labels, as in the contract. */
int api_patch_parse(struct arena *a, struct str type, struct str body, struct api_patch *ret,
                    struct api_fail *f);
/* Applies the patch to `base` (a JSON object of strings, "" = none); the result is compact JSON
 * with sorted keys. Refuses invalid labels and more than API_METADATA_MAX pairs. Keys to delete
 * need not be valid labels, but must not be reserved. */
int api_patch_apply(struct arena *a, struct str base, const struct api_patch *patch,
                    struct str *ret_json, struct api_fail *f);
