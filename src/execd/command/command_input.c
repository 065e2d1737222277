#include "execd/command/command_input.h"

#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "execd/command/command_internal.h"

static struct loop *input_loop(struct input *in)
{
    return container_of(in, struct run, input)->command->all->loop;
}

static void input_ignore(struct input *in)
{
    if (in->watched)
        loop_io_stop(input_loop(in), &in->io);
    in->watched = false;
}

static void input_drop_text(struct input *in)
{
    if (!in->text)
        return;
    container_of(in, struct run, input)->command->all->held_bytes -= in->n;
    free(in->text);
    in->text = NULL;
}

/* Closes the input without calling its writer, which is returned. */
static struct command_writer *input_shut(struct input *in)
{
    struct command_writer *w = in->writer;

    input_ignore(in);
    fd_close(take_fd(&in->fd));
    input_drop_text(in);
    in->writer = NULL;
    if (w)
        w->command = NULL;
    return w;
}

static void input_close(struct input *in)
{
    struct command_writer *w = input_shut(in);

    if (w)
        w->on_gone(w);
}

void run_input_close(struct run *run)
{
    input_close(&run->input);
}

static void input_on_ready(struct loop_io *io, uint32_t events);

static int input_watch(struct input *in, struct err *e)
{
    int r = in->watched
                ? 0
                : loop_io_start(input_loop(in), &in->io, in->fd, EPOLLOUT, input_on_ready, e);

    in->watched = r >= 0;
    return r;
}

/* Returns the bytes written; -EPIPE when no process can read them. */
static ssize_t input_put(struct input *in, struct str data)
{
    ssize_t n = data.n > 0 ? write(in->fd, data.p, data.n) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n < 0 ? -EPIPE : n;
}

/* Writes the input given at the start. False when some is left, or the input was closed. */
static bool input_put_text(struct input *in)
{
    ssize_t n;

    if (!in->text)
        return true;
    n = input_put(in, str_make(in->text + in->at, in->n - in->at));
    if (n < 0) {
        input_close(in);
        return false;
    }
    in->at += (size_t)n;
    if (in->at < in->n)
        return false;
    input_drop_text(in);
    if (!in->stays_open)
        input_close(in);
    return in->stays_open;
}

static void input_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct input *in = container_of(io, struct input, io);

    if (!input_put_text(in))
        return;
    input_ignore(in); /* until a write finds the pipe full */
    if (in->writer)
        in->writer->on_room(in->writer);
}

/* --- the start --- */

static int input_take_text(struct input *in, struct str text, struct err *e)
{
    struct commands *all = container_of(in, struct run, input)->command->all;
    int r = commands_hold(all, text.n, e);

    if (r < 0 || text.n == 0)
        return r;
    in->text = mem_try_realloc(NULL, text.n);
    if (!in->text) {
        all->held_bytes -= text.n;
        return err_set(e, ENOMEM, "no memory for its standard input");
    }
    memcpy(in->text, text.p, text.n);
    in->n = text.n;
    return 0;
}

int run_input_open(struct run *run, const struct command_spec *spec, int *ret_end, struct err *e)
{
    struct input *in = &run->input;
    auto_fd theirs = -EBADF;
    int r;

    if (!spec->has_input)
        return 0;
    r = fd_pipe(FD_PIPE_WRITE, &in->fd, &theirs, e);
    if (r < 0)
        return r;
    in->stays_open = spec->input_open;
    r = input_take_text(in, spec->input, e);
    if (r < 0)
        return r;
    *ret_end = take_fd(&theirs);
    if (!in->text && !in->stays_open)
        input_close(in);
    else if (in->text)
        r = input_watch(in, e);
    return r;
}

/* --- later writers --- */

int command_input_claim(struct command *c, struct command_writer *w, struct err *e)
{
    struct input *in = c->run ? &c->run->input : NULL;

    if (!in || c->run->reaped)
        return err_set(e, ENOTCONN, "command %s is not running", c->id);
    if (in->fd < 0 || !in->stays_open)
        return err_set(e, ENOTCONN, "the standard input of command %s is not open", c->id);
    if (in->writer)
        return err_set(e, EBUSY, "another request writes to command %s", c->id);
    in->writer = w;
    w->command = c;
    return 0;
}

ssize_t command_input_write(struct command_writer *w, struct str data)
{
    struct input *in = &w->command->run->input;
    ssize_t n = in->text ? 0 : input_put(in, data);
    struct err e = {0};

    if (n >= 0 && ((size_t)n == data.n || input_watch(in, &e) >= 0))
        return n;
    if (e.code)
        (void)log_err(&e, "input of a command is lost");
    (void)input_shut(in);
    return -EPIPE;
}

void command_input_release(struct command_writer *w, bool eof)
{
    struct input *in;

    if (!w->command)
        return;
    in = &w->command->run->input;
    in->writer = NULL;
    w->command = NULL;
    if (!eof)
        return;
    in->stays_open = false;
    if (!in->text)
        (void)input_shut(in);
}
