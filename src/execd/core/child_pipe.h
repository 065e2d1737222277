/* child_pipe.h - the reading end of a pipe from a child: watched by the loop or not, read at the
 * owner's pace.
 *
 * A process that outlives the child may write to the pipe for ever. When the child has ended, its
 * owner counts what the pipe holds, and reads just that much. Loop thread only. */
#pragma once

#include "net/loop.h"

struct child_pipe {
    int fd;     /* -EBADF: not open, or closed at its end */
    size_t due; /* of what child_pipe_count() found, bytes that are still to be read */

    /* The remaining fields are private. */
    struct loop *loop;
    struct loop_io io; /* stopped while it is not watched, else EPOLLHUP would wake the loop */
    bool watched;
    void (*on_ready)(struct child_pipe *p);
};

void child_pipe_init(struct child_pipe *p, struct loop *loop,
                     void (*on_ready)(struct child_pipe *p));
/* Makes the pipe, not watched yet. *ret_end is the child's end; the caller closes it. */
int child_pipe_open(struct child_pipe *p, int *ret_end, struct err *e) MUST_USE;
void child_pipe_close(struct child_pipe *p); /* no-op if it is not open */

/* on_ready comes while it is readable or has ended. No-op if it is watched or not open. */
int child_pipe_watch(struct child_pipe *p, struct err *e) MUST_USE;
void child_pipe_ignore(struct child_pipe *p);

size_t child_pipe_holds(const struct child_pipe *p); /* bytes that can be read now */
void child_pipe_count(struct child_pipe *p);         /* sets `due` to that */

/* Reads once, at most `most` bytes, which is not 0. Returns their number, 0 when there are none
 * now, -EPIPE when there will be none: the pipe is closed then. */
ssize_t child_pipe_read(struct child_pipe *p, char *room, size_t most);
