/* guard.h - what every request passes before it is routed: request id, CORS, API key.
 *
 * Order as in the contract (1.2): the id first, so that refusals carry it; preflights are answered
 * before keys are asked for. */
#pragma once

#include "net/http_server.h"

enum {
    GUARD_KEYS_MAX = 16,
    GUARD_ID_BYTES_MAX = 128, /* of a client's; a longer one is replaced */
    GUARD_CORS_ROWS = 2,
};

struct guard {
    struct str keys[GUARD_KEYS_MAX]; /* borrowed; none = open access was asked for */
    size_t key_count;
};

#define GUARD_KEY_HEADER "OPEN-SANDBOX-API-KEY"
#define GUARD_ID_HEADER  "X-Request-ID"

/* For on_request: false when it has replied. Paths that need no key: /, /health, /ready, /version
 * (below /v1, too), /docs, /redoc, /openapi.json; and the proxy paths, whose credential the gateway
 * checks. Sets req->id, and the headers X-Request-ID and of CORS on the reply. */
bool guard_admit(const struct guard *g, struct http_req *req);
/* Whether the path is one of those above that need no key and are no proxy paths. Anyone may ask
 * for them, and /health and /ready must be answered under any load. */
bool guard_is_open_path(struct str path);
/* For on_refuse: gives what is no request an id, too. */
void guard_refuse(struct http_req *req);

/* What a page of another origin needs to read the answer: GUARD_CORS_ROWS rows, or none when the
 * request names no origin. Any origin may read, but never with the browser's own credentials. */
size_t guard_cors_rows(const struct http_req *req, struct http_header rows[GUARD_CORS_ROWS]);

/* In constant time for any key of a given length. */
bool guard_is_key(const struct guard *g, struct str key);
/* Whether a key stands in the text, as str_holds_secret() has it. */
bool guard_holds_key(const struct guard *g, struct str text);
