/* body_feed.h - limits the work for a streamed body that is costly to process, such as hundreds of
 * small files, to about a millisecond per loop turn. The client waits meanwhile. */
#pragma once

#include "net/http_server.h"

struct body_feed { /* initially all zero */
    struct loop_timer timer;
    struct http_req *req;
    uint64_t turn_ns, end_ns; /* the current turn, and when its time is over */
};

/* For on_body, with the same return value: passes small parts of the piece to `take` until the time
 * is over. The rest of the piece comes again in the next turn. */
ssize_t body_feed(struct body_feed *f, struct http_req *req, struct str piece,
                  void (*take)(struct http_req *req, struct str part));
void body_feed_stop(struct body_feed *f); /* call before the request ends; fine if never used */
