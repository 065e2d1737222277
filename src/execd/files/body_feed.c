#include "execd/files/body_feed.h"

#include "base/time.h"

enum { PART_BYTES = 16 << 10, TURN_NS = 1000 * 1000 };

static void feed_on_timer(struct loop_timer *t)
{
    http_req_resume(container_of(t, struct body_feed, timer)->req);
}

/* All pieces of a turn share its time. */
static bool feed_is_over(struct body_feed *f, const struct loop *loop)
{
    uint64_t now = time_mono_ns();

    if (f->turn_ns != loop_now_ns(loop)) {
        f->turn_ns = loop_now_ns(loop);
        f->end_ns = now + TURN_NS;
    }
    return now >= f->end_ns;
}

ssize_t body_feed(struct body_feed *f, struct http_req *req, struct str piece,
                  void (*take)(struct http_req *req, struct str part))
{
    struct loop *loop = http_req_loop(req);
    struct str rest = piece;

    f->req = req;
    while (rest.n > 0 && !feed_is_over(f, loop)) {
        size_t n = min_size(rest.n, PART_BYTES);

        take(req, str_make(rest.p, n));
        rest = str_skip(rest, n);
    }
    if (rest.n > 0)
        loop_timer_set(loop, &f->timer, loop_now_ns(loop), feed_on_timer);
    return (ssize_t)(piece.n - rest.n);
}

void body_feed_stop(struct body_feed *f)
{
    if (f->req)
        loop_timer_stop(http_req_loop(f->req), &f->timer);
}
