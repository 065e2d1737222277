/* command_pipe.c - reads a command's output from its pipes into its logs and to its follower. */
#include <assert.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "execd/command/command_internal.h"

static_assert((int)COMMAND_READ_BYTES <= (int)LOOP_SCRATCH_BYTES, "read into the loop's scratch");

void command_pipe_free(struct command_pipe *p)
{
    if (p->command)
        p->command->pipes[p->which] = NULL;
    child_pipe_close(&p->pipe);
    if (p->left_over) {
        list_remove(&p->link);
        p->all->leftover_count--;
    }
    free(p);
}

/* Output is logged before the follower gets it, so that the client can request it again. */
static void command_take_output(struct command *c, enum command_stream which, struct str data)
{
    struct run *run = c->run;
    int r = command_log_add(&c->logs[which], data);

    if (r < 0 && !c->all->log_failed)
        log_event(LOG_WARN, "output of a command cannot be logged", LOG_I64("errno", -r));
    c->all->log_failed |= r < 0;
    if (!c->background && run && run->ops && !run->ops->on_output(run->user, which, data))
        run->paused = true;
}

bool command_pipe_read(struct command_pipe *p)
{
    struct run *run = p->command ? p->command->run : NULL;
    size_t most = COMMAND_READ_BYTES;
    char *room = loop_scratch(p->all->loop);
    ssize_t n;

    if (run && run->reaped)
        most = min_size(most, p->pipe.due);
    n = child_pipe_read(&p->pipe, room, most);
    if (n < 0)
        command_pipe_free(p);
    if (n <= 0)
        return false;
    if (p->command)
        command_take_output(p->command, p->which, str_make(room, (size_t)n));
    return true;
}

static void pipe_on_ready(struct child_pipe *pipe)
{
    struct command_pipe *p = container_of(pipe, struct command_pipe, pipe);
    struct command *c = p->command;
    struct run *run = c ? c->run : NULL;

    (void)command_pipe_read(p);
    if (run && run->paused)
        for (size_t i = 0; i < COMMAND_STREAMS; i++)
            if (c->pipes[i])
                child_pipe_ignore(&c->pipes[i]->pipe);
}

void command_pipe_watch_or_free(struct command_pipe *p)
{
    struct err e = {0};

    if (child_pipe_watch(&p->pipe, &e) >= 0)
        return;
    (void)log_err(&e, "output of a command is lost");
    command_pipe_free(p);
}

int command_pipe_open(struct command *c, enum command_stream which, int *ret_end, struct err *e)
{
    struct command_pipe *p = mem_new(struct command_pipe);
    auto_fd theirs = -EBADF;
    int r;

    *p = (struct command_pipe){.all = c->all, .which = which};
    child_pipe_init(&p->pipe, c->all->loop, pipe_on_ready);
    r = child_pipe_open(&p->pipe, &theirs, e);
    if (r >= 0)
        r = child_pipe_watch(&p->pipe, e);
    if (r < 0) {
        command_pipe_free(p);
        return r;
    }
    p->command = c;
    c->pipes[which] = p;
    *ret_end = take_fd(&theirs);
    return 0;
}

void command_pipe_leave_over(struct command_pipe *p)
{
    struct commands *all = p->all;

    p->left_over = true;
    list_push(&all->leftovers, &p->link);
    if (++all->leftover_count > LEFTOVERS_MAX)
        command_pipe_free(container_of(all->leftovers.next, struct command_pipe, link));
    command_pipe_watch_or_free(p);
}
