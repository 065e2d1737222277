/* body_feed.h - a streamed body of which little makes much work, such as files by the hundred: it
 * is taken about a millisecond per turn of the loop, and the client waits meanwhile. */
#pragma once

#include "net/http_server.h"

struct body_feed { /* zeroed to begin with */
    struct loop_timer timer;
    struct http_req *req;
    uint64_t turn_ns, end_ns; /* of the time this turn has for it */
};

/* For on_body, which returns the same: hands small parts of the piece on until the time is over.
 * What is left comes again in the next turn. */
ssize_t body_feed(struct body_feed *f, struct http_req *req, struct str piece,
                  void (*take)(struct http_req *req, struct str part));
void body_feed_stop(struct body_feed *f); /* before its request is gone; never used is fine */
