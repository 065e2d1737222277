/* file_op.h - a file request in progress: it works in slices, has its own memory, and ends once.
 *
 *     struct chmod_op { struct file_op op; ... };
 *     struct chmod_op *c = file_op_new(req, sizeof(*c), chmod_step, NULL);
 *
 * The op lives as long as its request. When the reply has no room, its step returns false, and
 * on_drain restarts it. */
#pragma once

#include "base/json.h"
#include "execd/tree/slice.h"
#include "net/http_server.h"

/* For the largest JSON body: a copy of 16 MiB, and 100,000 values. */
enum { FILE_OP_ARENA_MAX = 24 << 20 };

struct file_op {
    struct slice slice;
    struct http_req *req;
    struct arena arena; /* for the parsed request */
    bool (*step)(struct file_op *op);
    void (*release)(struct file_op *op);
};

/* Returns a zeroed struct of `size` bytes that begins with a struct file_op. `release` (may be
 * NULL) frees its resources; it is called once, at the end of the request. NULL after replying that
 * there is no memory. */
void *file_op_new(struct http_req *req, size_t size, bool (*step)(struct file_op *op),
                  void (*release)(struct file_op *op)) MUST_USE;
void file_op_start(struct file_op *op); /* or continues */

/* A user's path in the op's arena, with variables expanded, and with `clean` also absolute and
 * clean. NULL with the reason in *e. */
const char *file_op_path(struct file_op *op, struct str given, bool clean, struct err *e) MUST_USE;

/* All decoded values of the query parameter "path", in order; NULL and 0 when there are none.
 * -errno after replying that the query cannot be decoded. */
int file_op_query_paths(struct file_op *op, struct str **ret_paths, size_t *ret_count) MUST_USE;

/* The request's body as JSON of this type (JSON_OBJECT, JSON_ARRAY), or null, which counts as
 * empty. NULL after replying that it is neither, or that a path in it is not permitted
 * (file_view_allows). */
const struct json *file_op_body(struct file_op *op, enum json_type type);

/* The member of this name, in any case; the last one if there are several. NULL when it is absent
 * or null. */
const struct json *file_member(const struct json *object, struct str name);
