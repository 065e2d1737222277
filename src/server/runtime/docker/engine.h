/* engine.h - requests to a Docker Engine, over a unix socket, TCP or TLS.
 *
 * A call blocks its thread and drives a loop of its own, so calls run side by side on several
 * threads. Connections are kept for the next call. Each call has a deadline, and each answer a
 * limit. Errors of the engine become these codes, with the engine's message:
 *
 *   EBUSY       no connection: the engine has not seen the request
 *   ETIMEDOUT   the connection was lost or the deadline passed: it may have acted
 *   ENOENT      404         ESTALE   409, a conflict         EINVAL   400
 *   EACCES      401, 403    EIO      any other failure       ECANCELED   by engine_cancel */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "net/http_client.h"
#include <stdatomic.h>

struct engine;
struct tls_client;

enum {
    ENGINE_HOST_MAX = 256,
    ENGINE_TARGET_MAX = 16 << 10,
    ENGINE_ANSWER_MAX = 16 << 20,
};

struct engine_conf {
    const char *host;     /* "unix:///var/run/docker.sock", "tcp://host:port" */
    const char *cert_dir; /* with ca.pem, cert.pem, key.pem: TLS; "" = plain */
    uint32_t timeout_ms;  /* of a call that sets none */
};

/* Where an engine is. */
struct engine_place {
    struct sock_addr addr;      /* the first of the host's */
    char host[ENGINE_HOST_MAX]; /* name or address of a TCP engine; "" = a unix socket */
    uint16_t port;
};
/* Resolves names: BLOCKS. */
int engine_place_parse(const char *host, struct engine_place *ret, struct err *e);

/* Connects to nothing yet. The strings of conf stay valid. BLOCKS while it resolves a name. */
int engine_new(const struct engine_conf *conf, struct engine **ret, struct err *e);
void engine_free(struct engine *en); /* when no call is under way; NULL is fine */
const struct engine_place *engine_place(const struct engine *en);
const char *engine_host(const struct engine *en);
/* Agrees on a version of the API, from what the engine offers. Call it first. BLOCKS. */
int engine_negotiate(struct engine *en, struct err *e);
/* minor of 1.minor; 0 before engine_negotiate. */
unsigned engine_api_minor(const struct engine *en);
/* Whether it is Podman's service of the same API, which ignores parts of it. */
bool engine_is_podman(const struct engine *en);

struct engine_request {
    enum http_method method;
    const char *target; /* without the version: "/containers/json?all=1" */
    struct str body;
    const char *type;       /* of the body; NULL = application/json */
    struct str auth;        /* X-Registry-Auth; "" = none */
    uint32_t timeout_ms;    /* for all of it; 0 = engine_conf.timeout_ms */
    size_t answer_max;      /* 0 = ENGINE_ANSWER_MAX */
    atomic_bool *cancelled; /* looked at a few times a second; NULL = never */
    /* For a long answer: gets it in pieces, and answer->body stays empty; a failure ends the call
     * with that error. Of refusals (4xx, 5xx) the body is kept as ever. NULL = kept. */
    int (*on_piece)(void *user, struct str piece, struct err *e);
    void *user;
};

struct engine_answer {
    int status;
    struct buf body;
    char path_stat[512]; /* X-Docker-Container-Path-Stat, as it came; "" = none */
};
#define ENGINE_ANSWER_NONE                                                                         \
    {                                                                                              \
        .body = { buf_empty, 0, 0, 0, false }                                                      \
    }
void engine_answer_done(struct engine_answer *a);
#define auto_answer __attribute__((cleanup(engine_answer_done))) struct engine_answer

/* 0 when the engine answered 1xx to 3xx: see ret->status. BLOCKS. */
int engine_call(struct engine *en, const struct engine_request *rq, struct engine_answer *ret,
                struct err *e);
/* The same for an answer that is JSON, parsed into the arena. */
int engine_call_json(struct engine *en, const struct engine_request *rq, struct arena *a,
                     struct json **ret, struct err *e);

/* For a call on another loop, the stream of events: fills address, host and security of a spec, and
 * the target with the version before it. -EMSGSIZE when that is too long. `security` is of the
 * caller, made by engine_tls_new; NULL when the engine is plain. */
int engine_fill_spec(const struct engine *en, const char *target, struct stream_security *security,
                     char out[ENGINE_TARGET_MAX], struct http_call_spec *ret);
/* NULL in *ret when the engine is plain. */
int engine_tls_new(const struct engine *en, struct tls_client **ret, struct err *e);
