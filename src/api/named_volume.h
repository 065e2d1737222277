/* named_volume.h - named volumes as /volumes shows and makes them. Written and read as answer.h
 * says, except that sizeBytes and usedBytes are always there, if only as null. */
#pragma once

#include "api/answer.h"
#include "api/fail.h"

enum { API_CLAIM_BYTES_MAX = 253 };

struct api_named_volume {
    struct str name;
    int64_t created_us;
    bool has_limit, used_is_known;
    uint64_t size_bytes; /* the most that it can hold; without has_limit it has no limit */
    uint64_t used_bytes; /* on disk; unknown when there are too many files to count at once */
    struct str *used_by; /* ids of the sandboxes that mount it */
    size_t used_by_count;
};
int api_named_volume_write(struct buf *out, const struct api_named_volume *v);
void api_page_add_named_volume(struct api_page *p, const struct api_named_volume *v);
int api_named_volume_read(struct arena *a, const struct json *v, struct api_named_volume *ret,
                          struct err *e);

struct api_named_volume_create {
    struct str name;
    uint64_t size_bytes; /* 0 = no limit */
};
int api_named_volume_create_parse(struct arena *a, struct str type, struct str body,
                                  struct api_named_volume_create *ret, struct api_fail *f);
/* A size like 10Gi, 1.5Gi or 1048576: api_bytes_parse, and a decimal fraction before the unit.
 * -EINVAL for other text or zero, -ERANGE for what does not fit. */
int api_quantity_parse(struct str text, uint64_t *ret_bytes);
