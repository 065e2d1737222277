/* shell_output.c - reads a shell's output from the pipes and passes it to the owner. */
#include <assert.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "execd/shell/shell_internal.h"

static_assert((int)SHELL_READ_BYTES <= (int)LOOP_SCRATCH_BYTES, "read into the loop's scratch");

static enum shell_stream which_of(const struct shell_output *o)
{
    return (enum shell_stream)(o - o->shell->outputs);
}

/* Reads once. False when the pipe is empty. */
static bool output_read(struct shell_output *o)
{
    struct shell *s = o->shell;
    char *room = loop_scratch(s->conf.loop);
    size_t most = s->over ? min_size(SHELL_READ_BYTES, o->due) : SHELL_READ_BYTES;
    ssize_t n = read(o->ends[0], room, most);

    if (n <= 0)
        return false;
    o->due -= min_size(o->due, (size_t)n);
    if (s->sent && !s->conf.owner->on_output(s->conf.user, which_of(o), str_make(room, (size_t)n)))
        s->paused = true;
    return true;
}

static void output_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct shell_output *o = container_of(io, struct shell_output, io);

    (void)output_read(o);
    if (o->shell->paused)
        shell_outputs_ignore(o->shell);
}

int shell_outputs_open(struct shell *s, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < SHELL_STREAMS; i++)
        s->outputs[i] = (struct shell_output){
            .shell = s, .ends = {-EBADF, -EBADF}
        };
    for (size_t i = 0; i < SHELL_STREAMS && r >= 0; i++)
        r = fd_pipe(FD_PIPE_READ, &s->outputs[i].ends[0], &s->outputs[i].ends[1], e);
    return r;
}

void shell_outputs_close(struct shell *s)
{
    shell_outputs_ignore(s);
    for (size_t i = 0; i < SHELL_STREAMS; i++)
        for (size_t end = 0; end < 2; end++)
            fd_close(s->outputs[i].ends[end]);
}

void shell_outputs_watch(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++) {
        struct shell_output *o = &s->outputs[i];
        struct err e = {0};

        if (o->watched || s->paused)
            continue;
        o->watched =
            loop_io_start(s->conf.loop, &o->io, o->ends[0], EPOLLIN, output_on_ready, &e) >= 0;
        if (!o->watched)
            (void)log_err(&e, "output of a shell is lost");
    }
}

void shell_outputs_ignore(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++) {
        if (s->outputs[i].watched)
            loop_io_stop(s->conf.loop, &s->outputs[i].io);
        s->outputs[i].watched = false;
    }
}

static size_t output_bytes(const struct shell_output *o)
{
    int n = 0;

    return ioctl(o->ends[0], FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

void shell_outputs_drop(struct shell *s)
{
    char *room = loop_scratch(s->conf.loop);

    for (size_t i = 0; i < SHELL_STREAMS; i++)
        for (size_t left = output_bytes(&s->outputs[i]); left > 0;) {
            ssize_t n = read(s->outputs[i].ends[0], room, min_size(left, SHELL_READ_BYTES));

            if (n <= 0)
                break;
            left -= (size_t)n;
        }
}

void shell_outputs_measure(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++)
        s->outputs[i].due = output_bytes(&s->outputs[i]);
}

bool shell_outputs_deliver(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++)
        while (s->outputs[i].due > 0 && !s->paused)
            if (!output_read(&s->outputs[i]))
                s->outputs[i].due = 0;
    return !s->paused;
}
