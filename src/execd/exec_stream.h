/* exec_stream.h - the reply to a request that executes something: events, from `init` to the one
 * that ends it, at the pace of the client. Loop thread only.
 *
 * Output is given line by line (lines.h); a line that does not go on is shown as far as it is after
 * EXEC_IDLE_MS, one that does but does not end after EXEC_AGE_MS. A client that is silent gets a
 * ping every EXEC_PING_MS. */
#pragma once

#include "net/http_server.h"

enum {
    EXEC_PING_MS = 3000,
    EXEC_IDLE_MS = 80,
    EXEC_AGE_MS = 500,
};

enum exec_output { EXEC_STDOUT, EXEC_STDERR, EXEC_OUTPUTS };

struct event_run;
struct exec_stream;

/* Neither comes after exec_stream_complete or exec_stream_fail, nor from within a call. */
struct exec_stream_ops {
    void (*on_room)(void *user);  /* after exec_stream_output said no: it takes more again */
    void (*on_close)(void *user); /* the client is gone, and so is the stream */
};

/* Answers with `init`, whose text is `id`, and a ping. */
struct exec_stream *exec_stream_begin(struct http_req *req, const char *id,
                                      const struct exec_stream_ops *ops, void *user);

/* False when the client lags: on_room will come. What was given is kept all the same. */
bool exec_stream_output(struct exec_stream *s, enum exec_output from, struct str data);

/* The last event will be that of this run (events.h; borrowed): call it just before. */
void exec_stream_tell_run(struct exec_stream *s, const struct event_run *run);
/* The last event; the stream is gone afterwards. The time is counted from exec_stream_begin. */
void exec_stream_complete(struct exec_stream *s);
void exec_stream_fail(struct exec_stream *s, const char *value,
                      const char *traceback); /* CommandExecError */
