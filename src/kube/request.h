/* request.h - what is asked of the API server, and its answer; shared by client.h and blocking.h.
 *
 *   struct kube_request rq = {.verb = KUBE_PATCH, .kind = &kube_pods, .ns = ns, .name = name,
 *                             .subresource = STR("status"), .body = buf_str(&patch)};
 *
 * 429 is tried again after its Retry-After, a GET or LIST also after 5xx and lost connections, and
 * 401 once with new credentials, all within the deadline. A conflict is the caller's: ESTALE. */
#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "kube/error.h"
#include "kube/object.h"
#include "net/http.h"

enum kube_verb {
    KUBE_GET,
    KUBE_LIST,
    KUBE_CREATE,
    KUBE_UPDATE, /* PUT: with metadata.resourceVersion in the body, ESTALE when it is old */
    KUBE_PATCH,
    KUBE_DELETE, /* the body may be DeleteOptions; see kube_delete_options */
};

enum kube_patch {
    KUBE_PATCH_MERGE, /* RFC 7396; metadata.resourceVersion in it makes it conditional */
    KUBE_PATCH_JSON,  /* RFC 6902; a failed "test" is EINVAL */
    KUBE_PATCH_STRATEGIC,
    KUBE_PATCH_APPLY, /* server-side apply: the query needs fieldManager, and force=true to take */
};

enum {
    KUBE_ANSWER_BYTES_MAX = 64 << 20,
    KUBE_TIMEOUT_MS = 30 * 1000,
};

struct kube_request {
    enum kube_verb verb;
    const struct kube_kind *kind; /* NULL: `path` says it all */
    struct str ns;                /* "" = all namespaces, or a cluster-wide kind */
    struct str name;              /* "" for LIST and CREATE */
    struct str subresource;       /* "status", "log"; "" = none */
    struct str path;              /* without kind: "/version", "/readyz" */
    struct str query;             /* encoded, without '?': see kube_query_add; "" = none */
    struct str body;
    enum kube_patch patch;
    uint32_t timeout_ms; /* for all tries together; 0 = KUBE_TIMEOUT_MS */
    size_t answer_max;   /* 0 = KUBE_ANSWER_BYTES_MAX */
    bool once;           /* never try again */
    /* For a long answer, a log: gets the body in pieces instead; -errno ends the call. */
    int (*on_piece)(void *user, struct str piece, struct err *e);
    void *user;             /* of on_piece */
    atomic_bool *cancelled; /* blocking calls look at it a few times a second; NULL = never */
};

struct kube_answer {
    int status;
    struct kube_object *object; /* the JSON of a success: also a list, or a Status. NULL when it
                                 * is none, or went to on_piece */
    struct str text;            /* the body of a success that is no JSON object */
    struct kube_error error;    /* error.err.code is 0 for a success */
};

/* Appends "key=value" to a query, encoded, after '&' unless it is the first. */
int kube_query_add(struct buf *query, const char *key, struct str value);
/* Writes DeleteOptions. propagation: "Background", "Foreground", "Orphan", NULL = the default;
 * grace_s: -1 = the default; uid and version: preconditions, "" = none. */
int kube_delete_options(struct buf *out, const char *propagation, int64_t grace_s, struct str uid,
                        struct str version);
/* The path and query of a request: -EINVAL for a name that no path can have. */
int kube_request_target(const struct kube_request *rq, struct buf *out, struct err *e);
