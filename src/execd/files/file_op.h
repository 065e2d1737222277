/* file_op.h - a request about files on its way: work in slices, memory of its own, and one end.
 *
 *     struct chmod_op { struct file_op op; ... };
 *     struct chmod_op *c = file_op_new(req, sizeof(*c), chmod_step, NULL);
 *
 * The op lives as long as its request. When the reply has no room its step returns false, and
 * on_drain starts it again. */
#pragma once

#include "base/json.h"
#include "execd/tree/slice.h"
#include "net/http_server.h"

/* A body as large as its row lets it be, as JSON: a copy of 16 MiB, and 100,000 values. */
enum { FILE_OP_ARENA_MAX = 24 << 20 };

struct file_op {
    struct slice slice;
    struct http_req *req;
    struct arena arena; /* of what was asked for */
    bool (*step)(struct file_op *op);
    void (*release)(struct file_op *op);
};

/* A zeroed struct of `size` bytes that begins with a struct file_op. `release` (may be NULL) frees
 * what it came to hold; it is called once, when the request is over. NULL when there is no memory
 * and that was replied. */
void *file_op_new(struct http_req *req, size_t size, bool (*step)(struct file_op *op),
                  void (*release)(struct file_op *op)) MUST_USE;
void file_op_start(struct file_op *op); /* or goes on */

/* A user's path ready for use, in the op's arena: variables filled in, and with `clean` absolute
 * and clean. NULL with the reason in *e. */
const char *file_op_path(struct file_op *op, struct str given, bool clean, struct err *e) MUST_USE;

/* All values of the query parameter "path", decoded, in their order, behind *ret_paths; NULL and 0
 * when there are none. -errno when the query does not decode, and that was replied. */
int file_op_query_paths(struct file_op *op, struct str **ret_paths, size_t *ret_count) MUST_USE;

/* The request's body as JSON of this type (JSON_OBJECT, JSON_ARRAY), or null, which is as an empty
 * one. NULL when it is neither, and that was replied. */
const struct json *file_op_body(struct file_op *op, enum json_type type);

/* The member called so, whatever its case; the last one when there are several. NULL when it is
 * absent or null. */
const struct json *file_member(const struct json *object, struct str name);
