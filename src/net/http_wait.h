/* http_wait.h - requests that wait for something that is started for them: a stopped sandbox, or an
 * answer to where a sandbox is. Loop thread only.
 *
 * The first request for a key starts it, others join. Each waits for wait_ms at most; one that
 * gives up, or whose client leaves, does not end what was started. */
#pragma once

#include "base/list.h"
#include "net/http_server.h"

enum { HTTP_WAIT_KEY_MAX = 256 };

/* Called once, on the loop. why: NULL = it is there, else why not; valid during the call. */
typedef void http_wait_done_fn(void *done_user, const char *why);

struct http_waits {
    struct loop *loop;
    uint32_t wait_ms; /* 0 = no request waits */
    /* Starts what the key names, and calls done, later or from here. */
    void (*start)(void *user, struct str key, http_wait_done_fn *done, void *done_user);
    /* Answers a request that waited; why as above. Takes req->ops and req->user. */
    void (*serve)(void *owner, struct http_req *req, const char *why);
    /* Answers a request that waited for wait_ms. */
    void (*late)(void *owner, struct http_req *req);
    void *user, *owner;
    struct list all; /* of struct http_wait */
    size_t waiting;  /* requests */
};

/* Whether a start is under way for it, or can be begun (`startable`) with one more waiting
 * request. */
bool http_waits_can(const struct http_waits *w, struct str key, bool startable);
/* Has the request wait: http_waits_can was true. It may be answered in this call. */
void http_waits_add(struct http_waits *w, struct str key, struct http_req *req);
/* After the requests were freed: what is still being started is forgotten. */
void http_waits_done(struct http_waits *w);
