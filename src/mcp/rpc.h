/* rpc.h - JSON-RPC 2.0 as MCP uses it: one message in, answers and notifications out.
 *
 * Messages come from programs that we do not know; a message owns all that it points to. */
#pragma once

#include "base/json.h"
#include "base/json_write.h"

enum {
    RPC_MESSAGE_BYTES_MAX = 16 << 20,
    RPC_DEPTH_MAX = 64,
};

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_RESOURCE_NOT_FOUND = -32002,
    RPC_BUSY = -32000,
    RPC_HEADER_MISMATCH = -32020,
    RPC_UNSUPPORTED_VERSION = -32022,
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

struct rpc_message {
    struct arena arena;
    enum rpc_kind kind;
    const struct json *id; /* of a request: a string or a number */
    struct str method;
    const struct json *params; /* an object, or NULL */
};

/* Reads one message. Sets *ret also on failure: then only its id counts, NULL when it has none that
 * could be read, and *ret_code says which error to answer with. Free it in any case. */
int rpc_read(struct str text, struct rpc_message **ret, enum rpc_code *ret_code, struct err *e);
void rpc_free(struct rpc_message *m);
bool rpc_same_id(const struct json *a, const struct json *b);

/* Begin a message up to its result or params, which the caller writes as one value; then end it. An
 * id or token of NULL is written as null. */
void rpc_begin_result(struct json_writer *w, struct buf *out, const struct json *id);
void rpc_begin_notification(struct json_writer *w, struct buf *out, struct str method);
int rpc_end(struct json_writer *w) MUST_USE;
/* A whole error; `data` is JSON or empty. */
int rpc_error(struct buf *out, const struct json *id, enum rpc_code code, const char *message,
              struct str data) MUST_USE;
