/* answer.h - writes the answers of the lifecycle API as compact JSON, appended to `out`.
 *
 * Nothing is null: a field that is "" or 0 is left out. Times are UTC with `Z`. All return 0 or
 * -errno (-EMSGSIZE past the limit of `out`, -ENOMEM); on failure `out` is unchanged. */
#pragma once

#include "api/query.h"
#include "api/state.h"
#include "base/buf.h"
#include "base/json_bind.h"
#include "base/json_write.h"

struct api_status {
    enum sandbox_state state;
    struct str reason, message;
    int64_t since_us;
};

/* entrypoint and metadata are JSON texts made by api_strs_write and api_pairs_write. */
struct api_sandbox {
    struct str id, image, snapshot_id, os, arch;
    struct api_status status;
    struct str metadata, entrypoint;
    int64_t created_us, expires_us;
};
/* The answer of create has another field order, and neither image nor snapshot id. */
int api_created_write(struct buf *out, const struct api_sandbox *s);
int api_sandbox_write(struct buf *out, const struct api_sandbox *s);

/* A page: begin, add each sandbox, end with the total number of items. */
struct api_page {
    struct json_writer w;
    uint32_t page, page_size;
};
void api_page_begin(struct api_page *p, struct buf *out, uint32_t page, uint32_t page_size);
void api_page_add(struct api_page *p, const struct api_sandbox *s);
int api_page_end(struct api_page *p, uint64_t total_items);

int api_endpoint_write(struct buf *out, struct str endpoint, const struct json_pair *headers,
                       size_t header_count);
int api_expires_write(struct buf *out, int64_t expires_us);

/* Diagnostics of one scope, inline. Invalid UTF-8 in the content is replaced; the length is given
 * in bytes as sent. */
int api_diag_write(struct buf *out, struct str sandbox_id, enum api_diag_kind kind,
                   struct str scope, struct str content_type, struct str content, bool truncated);

/* {"a":"1"} and ["a","b"]. */
int api_pairs_write(struct buf *out, const struct json_pair *pairs, size_t count);
int api_strs_write(struct buf *out, const struct str *strs, size_t count);
