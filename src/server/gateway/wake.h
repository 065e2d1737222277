/* wake.h - requests that wait while a stopped sandbox is started for them. Loop thread only.
 *
 * The first request for a sandbox starts it, others join. Each waits for wait_ms at most; one that
 * gives up, or whose client leaves, does not end the start. */
#pragma once

#include "base/list.h"
#include "net/http_server.h"

enum { WAKE_ID_MAX = 64 };

/* Called once, on the loop. why: NULL = it runs, else why not; valid during the call. */
typedef void wake_done_fn(void *done_user, const char *why);

struct wakes {
    struct loop *loop;
    uint32_t wait_ms; /* 0 = no request waits */
    /* Starts a sandbox, and calls done, later or from here. */
    void (*start)(void *user, struct str sandbox_id, wake_done_fn *done, void *done_user);
    /* Answers a request whose sandbox was started; why as above. Takes req->ops and req->user. */
    void (*serve)(void *owner, struct http_req *req, const char *why);
    void *user, *owner;
    struct list all; /* of struct wake */
    size_t waiting;  /* requests */
};

/* Whether a start is under way for it, or can be begun with one more waiting request. */
bool wakes_can(const struct wakes *w, struct str sandbox_id, bool stopped);
/* Has the request wait: wakes_can was true. It may be answered in this call. */
void wakes_wait(struct wakes *w, struct str sandbox_id, struct http_req *req);
/* After the requests were freed: what is still being started is forgotten. */
void wakes_done(struct wakes *w);
