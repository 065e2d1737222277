/* shell_output.c - reads a shell's output from the pipes and passes it to the owner. */
#include <assert.h>

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
    size_t most = s->over ? min_size(SHELL_READ_BYTES, o->pipe.due) : SHELL_READ_BYTES;
    ssize_t n = child_pipe_read(&o->pipe, room, most);

    if (n <= 0)
        return false;
    if (s->sent && !s->conf.owner->on_output(s->conf.user, which_of(o), str_make(room, (size_t)n)))
        s->paused = true;
    return true;
}

static void output_on_ready(struct child_pipe *pipe)
{
    struct shell_output *o = container_of(pipe, struct shell_output, pipe);

    (void)output_read(o);
    if (o->shell->paused)
        shell_outputs_ignore(o->shell);
}

int shell_outputs_open(struct shell *s, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < SHELL_STREAMS; i++) {
        s->outputs[i] = (struct shell_output){.shell = s, .end = -EBADF};
        child_pipe_init(&s->outputs[i].pipe, s->conf.loop, output_on_ready);
    }
    for (size_t i = 0; i < SHELL_STREAMS && r >= 0; i++)
        r = child_pipe_open(&s->outputs[i].pipe, &s->outputs[i].end, e);
    return r;
}

void shell_outputs_close(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++) {
        child_pipe_close(&s->outputs[i].pipe);
        fd_close(s->outputs[i].end);
    }
}

void shell_outputs_watch(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++) {
        struct err e = {0};

        if (!s->paused && child_pipe_watch(&s->outputs[i].pipe, &e) < 0)
            (void)log_err(&e, "output of a shell is lost");
    }
}

void shell_outputs_ignore(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++)
        child_pipe_ignore(&s->outputs[i].pipe);
}

void shell_outputs_drop(struct shell *s)
{
    char *room = loop_scratch(s->conf.loop);

    for (size_t i = 0; i < SHELL_STREAMS; i++)
        for (size_t left = child_pipe_holds(&s->outputs[i].pipe); left > 0;) {
            ssize_t n =
                child_pipe_read(&s->outputs[i].pipe, room, min_size(left, SHELL_READ_BYTES));

            if (n <= 0)
                break;
            left -= (size_t)n;
        }
}

void shell_outputs_measure(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++)
        child_pipe_count(&s->outputs[i].pipe);
}

bool shell_outputs_deliver(struct shell *s)
{
    for (size_t i = 0; i < SHELL_STREAMS; i++)
        while (s->outputs[i].pipe.due > 0 && !s->paused)
            if (!output_read(&s->outputs[i]))
                s->outputs[i].pipe.due = 0;
    return !s->paused;
}
