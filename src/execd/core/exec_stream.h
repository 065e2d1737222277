/* exec_stream.h - the reply to a request that executes something: events, from `init` to the one
 * that ends it, at the pace of the client. Loop thread only.
 *
 * Output is given line by line (lines.h); a line that does not go on is shown as far as it is after
 * EXEC_IDLE_MS, one that does but does not end after EXEC_AGE_MS, and one in whose middle a full
 * buffer of its writer ended after EXEC_BLOCK_MS. A silent client gets a ping every EXEC_PING_MS.
 */
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

/* None comes after exec_stream_end, nor from within a call. */
struct exec_stream_ops {
    void (*on_room)(void *user);  /* after a call said no: it takes more again */
    void (*on_close)(void *user); /* the client is gone, and so is the stream */
    /* The client closed its side: on_close follows soon, unless it still reads. May be NULL. */
    void (*on_hangup)(void *user);
    /* Whether more output waits, so that a line must not be cut here; NULL = never. */
    bool (*has_more)(void *user, enum exec_output from);
};

/* Answers with `init`, whose text is `id`, and a ping. */
struct exec_stream *exec_stream_begin(struct http_req *req, const char *id,
                                      const struct exec_stream_ops *ops, void *user);

/* False when the client lags: on_room will come. What was given is kept all the same. */
bool exec_stream_output(struct exec_stream *s, enum exec_output from, struct str data);

/* Another event (events.h): what writing it into the room for one said goes to exec_stream_push,
 * which says the same as exec_stream_output. */
struct buf *exec_stream_room(struct exec_stream *s, struct buf *b);
bool exec_stream_push(struct exec_stream *s, struct buf *b, int r);

/* How it ended; all zero is well. The time is counted from exec_stream_begin. */
struct exec_end {
    const char *error; /* of a CommandExecError; NULL or empty = none */
    bool started;      /* the exit code is its value; else the error is */
    int exit_code;
    const struct event_run *run; /* what else is told (events.h); NULL = nothing */
};
/* The last event, and the stream is gone. NULL: it was pushed. */
void exec_stream_end(struct exec_stream *s, const struct exec_end *end);
