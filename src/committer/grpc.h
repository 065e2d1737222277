/* grpc.h - calls by gRPC (HTTP/2, by nghttp2) over a unix socket: one at a time.
 *
 * BLOCKS, until the call's deadline at the latest, or until *stop is set by a signal's handler. */
#pragma once

#include <signal.h>

#include "base/buf.h"
#include "base/err.h"

enum { GRPC_MESSAGE_BYTES_MAX = 16 << 20, GRPC_HEADERS_MAX = 4 };

struct grpc;

struct grpc_conf {
    const char *path;                  /* of the socket; outlives the connection */
    const volatile sig_atomic_t *stop; /* NULL: nothing but the deadline ends a call */
};

int grpc_open(const struct grpc_conf *conf, struct grpc **ret, struct err *e);
void grpc_close(struct grpc *g); /* NULL is fine */

/* Metadata of all calls that follow; a value of NULL removes it. Texts outlive the connection. */
void grpc_set_header(struct grpc *g, const char *name, const char *value);

struct grpc_call {
    const char *path;   /* "/package.Service/Method" */
    struct str request; /* one message */
    uint32_t timeout_ms;
    bool ignores_stop; /* for what must be done at the end all the same */
    /* Each message of the answer. Negative ends the call with that error. */
    int (*on_message)(void *user, struct str message);
    void *user;
};

/* -ENOENT, -EEXIST, -EPERM, -ENOTSUP, -ETIMEDOUT, ... by the status that the server gives, with its
 * message; -EINTR when it was stopped, -EPROTO for an answer that is none. After anything but such
 * a status the next call makes a connection anew. */
int grpc_do(struct grpc *g, const struct grpc_call *call, struct err *e);
