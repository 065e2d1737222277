/* answer.h - the answers of the lifecycle API: servers write them, clients read them, by the same
 * tables.
 *
 * Writers append compact JSON to `out`. Nothing is null: a field that is "" or 0 is left out. Times
 * are UTC with `Z`. All return 0 or -errno (-EMSGSIZE past the limit of `out`, -ENOMEM); on failure
 * `out` is unchanged.
 *
 * Readers take a parsed document; strings borrow from it or from the arena. Unknown fields are
 * ignored and absent ones are "" or 0. -EBADMSG with the path of the field when it does not fit. */
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
    struct str secrets; /* secretEnv, by api_secrets_show */
    int64_t created_us, expires_us;
};
/* The answer of create has another field order, and neither image nor snapshot id. */
int api_created_write(struct buf *out, const struct api_sandbox *s);
int api_sandbox_write(struct buf *out, const struct api_sandbox *s);
/* Either form. A state that we do not know becomes SANDBOX_STATE_COUNT. */
int api_sandbox_read(struct arena *a, const struct json *v, struct api_sandbox *ret, struct err *e);

/* A page: begin, add each sandbox, end with the total number of items. */
struct api_page {
    struct json_writer w;
    uint32_t page, page_size;
};
void api_page_begin(struct api_page *p, struct buf *out, uint32_t page, uint32_t page_size);
void api_page_add(struct api_page *p, const struct api_sandbox *s);
int api_page_end(struct api_page *p, uint64_t total_items);

struct api_pagination {
    uint32_t page, page_size;
    uint64_t total_items, total_pages;
    bool has_next;
};
/* Of sandboxes and snapshots alike: *ret_items is the array. */
int api_page_read(struct arena *a, const struct json *v, const struct json **ret_items,
                  struct api_pagination *ret, struct err *e);

enum { API_ENDPOINT_HEADERS_MAX = 32 };
struct api_endpoint {
    struct str endpoint; /* host[:port][/path], without a scheme */
    struct json_pair *headers;
    size_t headers_count;
};
int api_endpoint_write(struct buf *out, struct str endpoint, const struct json_pair *headers,
                       size_t header_count);
int api_endpoint_read(struct arena *a, const struct json *v, struct api_endpoint *ret,
                      struct err *e);
int api_expires_write(struct buf *out, int64_t expires_us);
int api_expires_read(struct arena *a, const struct json *v, int64_t *ret_us, struct err *e);

/* Diagnostics of one scope, inline. Invalid UTF-8 in the content is replaced; the length is given
 * in bytes as sent. */
int api_diag_write(struct buf *out, struct str sandbox_id, enum api_diag_kind kind,
                   struct str scope, struct str content_type, struct str content, bool truncated);

/* {"a":"1"} and ["a","b"]. */
int api_pairs_write(struct buf *out, const struct json_pair *pairs, size_t count);
int api_strs_write(struct buf *out, const struct str *strs, size_t count);
