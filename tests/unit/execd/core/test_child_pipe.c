#include "execd/core/child_pipe.h"

#include <unistd.h>

#include "base/fd.h"
#include "rig.h"

struct reader {
    struct child_pipe pipe;
    char text[64];
    size_t n;
    int calls;
};

static void on_ready(struct child_pipe *p)
{
    struct reader *r = container_of(p, struct reader, pipe);
    ssize_t n = child_pipe_read(p, r->text + r->n, sizeof(r->text) - r->n);

    r->calls++;
    r->n += n > 0 ? (size_t)n : 0;
}

TEST(child_pipe, reads_while_it_is_watched_and_closes_at_the_end)
{
    struct reader r = {0};
    struct rig g = {0};
    auto_fd end = -EBADF;

    rig_open(&g);
    child_pipe_init(&r.pipe, g.loop, on_ready);
    child_pipe_close(&r.pipe); /* not open */
    CHECK_EQ(child_pipe_watch(&r.pipe, NULL), 0);
    CHECK_EQ(child_pipe_open(&r.pipe, &end, NULL), 0);
    CHECK_EQ(child_pipe_watch(&r.pipe, NULL), 0);
    CHECK_EQ(child_pipe_watch(&r.pipe, NULL), 0); /* twice is once */
    CHECK_EQ(write(end, "one", 3), 3);
    RIG_UNTIL(&g, r.n == 3);
    child_pipe_ignore(&r.pipe);
    CHECK_EQ(write(end, "two", 3), 3);
    fd_close(take_fd(&end)); /* would wake the loop again and again */
    r.calls = 0;
    rig_run_ms(&g, 20);
    CHECK_EQ(r.calls, 0);
    CHECK_EQ(child_pipe_watch(&r.pipe, NULL), 0);
    RIG_UNTIL(&g, r.pipe.fd < 0);
    CHECK(str_eq(str_make(r.text, r.n), STR("onetwo")));
    CHECK_EQ(child_pipe_read(&r.pipe, r.text, 1), -EPIPE);
    rig_close(&g);
}

TEST(child_pipe, counts_what_it_holds)
{
    struct reader r = {0};
    struct rig g = {0};
    auto_fd end = -EBADF;

    rig_open(&g);
    child_pipe_init(&r.pipe, g.loop, on_ready);
    CHECK_EQ(child_pipe_holds(&r.pipe), 0);
    CHECK_EQ(child_pipe_open(&r.pipe, &end, NULL), 0);
    CHECK_EQ(child_pipe_read(&r.pipe, r.text, 1), 0); /* nothing yet */
    CHECK_EQ(write(end, "12345", 5), 5);
    child_pipe_count(&r.pipe);
    CHECK_EQ(write(end, "later", 5), 5);
    CHECK_EQ(r.pipe.due, 5);
    CHECK_EQ(child_pipe_holds(&r.pipe), 10);
    CHECK_EQ(child_pipe_read(&r.pipe, r.text, 2), 2);
    CHECK_EQ(r.pipe.due, 3);
    CHECK_EQ(child_pipe_read(&r.pipe, r.text, sizeof(r.text)), 8);
    CHECK_EQ(r.pipe.due, 0);
    child_pipe_close(&r.pipe);
    rig_close(&g);
}
