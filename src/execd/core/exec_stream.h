/* exec_stream.h - the reply to a request that executes something: a stream of events from `init` to
 * the final one, at the pace of the client. Loop thread only.
 *
 * Output is sent line by line (lines.h). An unfinished line is sent in part
 * - EXEC_IDLE_MS after its last output,
 * - EXEC_AGE_MS after its first output if more keeps coming,
 * - EXEC_BLOCK_MS after its last output if that filled the writer's buffer.
 * While nothing is sent, the client gets a ping every EXEC_PING_MS. */
#pragma once

#include "net/http_server.h"

enum {
    EXEC_PING_MS = 3000,
    EXEC_IDLE_MS = 80,
    EXEC_AGE_MS = 500,
    EXEC_BLOCK_MS = 1000,
};

enum exec_output { EXEC_STDOUT, EXEC_STDERR, EXEC_OUTPUTS };

struct buf;
struct event_run;
struct exec_stream;

/* No callback comes after exec_stream_end or from within a call. */
struct exec_stream_ops {
    void (*on_room)(void *user);  /* after a call returned false: there is room again */
    void (*on_close)(void *user); /* the client has gone; the stream is freed */
    /* The client closed its side: on_close follows soon, unless it still reads. May be NULL. */
    void (*on_hangup)(void *user);
    /* Whether more output is readable, so that a line must not be cut here; NULL = never. */
    bool (*has_more)(void *user, enum exec_output from);
};

/* Replies with the event `init`, whose text is `id`, and a ping. */
struct exec_stream *exec_stream_begin(struct http_req *req, const char *id,
                                      const struct exec_stream_ops *ops, void *user);

/* False when the client lags: on_room follows. The data is kept nevertheless. */
bool exec_stream_output(struct exec_stream *s, enum exec_output from, struct str data);

/* For other events (events.h): write the event into the buffer of exec_stream_room and pass the
 * writer's result as r to exec_stream_push, which returns the same as exec_stream_output. */
struct buf *exec_stream_room(struct exec_stream *s, struct buf *b);
bool exec_stream_push(struct exec_stream *s, struct buf *b, int r);

/* How the execution ended; all zero is success. The time counts from exec_stream_begin. */
struct exec_end {
    const char *error; /* of a CommandExecError; NULL or empty = none */
    bool started;      /* the error's value is the exit code; else it is `error` */
    int exit_code;
    const struct event_run *run; /* additional keys (events.h); NULL = none */
};
/* Sends the last event and frees the stream. NULL: the last event was already pushed. */
void exec_stream_end(struct exec_stream *s, const struct exec_end *end);
