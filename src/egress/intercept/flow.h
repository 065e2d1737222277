/* flow.h - one request on its way through the interceptor. Internal. */
#pragma once

#include "egress/intercept/intercept_internal.h"

enum {
    FLOW_ENVS_MAX = 16,           /* bindings of the environment that one request may use */
    FLOW_COLLECT_MAX = 1 << 20,   /* a body up to this size keeps a length when text is put in */
    FLOW_EXPANDED_MAX = 32 << 20, /* and may grow to this */
};

struct flow {
    struct icpt_conn *conn;
    struct intercept_box *box;
    struct http_req *req;
    struct intercept_ask *ask; /* unanswered; NULL = none */
    struct intercept_request facts;
    struct vault_set *set;               /* with a reference; NULL: no vault, or over */
    const struct vault_binding *binding; /* NULL = none matches */
    const struct vault_binding *envs[FLOW_ENVS_MAX];
    size_t env_count;
    struct str target; /* to request from the server */
    bool guarded;      /* placeholders of the environment must not leave in its body */
    bool leaks;        /* one was seen */
    bool lost;         /* ... whose value was lost */
    bool injects;      /* a secret goes out: the response is redacted */
    bool redacts_body; /* known with the head of the response */
    bool collects;     /* its body is being collected, to be sent with its new length */
    struct buf collected;
    struct rewrite_stream guard, redact;
    struct rewrite_stream put[FLOW_ENVS_MAX + 1]; /* into its body, one after the other */
    size_t put_count;
};

/* inject.c */

/* Looks for placeholders that belong to other hosts, in the method, the target and
 * headers. True: there are. */
bool inject_finds_leak(struct flow *f);
/* Puts secrets into target and headers, and prepares the body. -ENOMEM. */
int inject_head(struct flow *f);
/* The filters of bodies; user is the flow. */
int inject_request_piece(void *user, struct str in, bool last, struct buf *out);
int inject_response_piece(void *user, struct str in, bool last, struct buf *out);
/* Redacts the rows of a response. */
void inject_redact_rows(struct flow *f, struct http_headers *rows);
