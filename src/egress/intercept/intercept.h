/* intercept.h - a transparent proxy for HTTP and HTTPS of sandboxes, which puts credentials into
 * requests on their way.
 *
 * The program accepts connections that the kernel redirected, and hands each over with the address
 * that the workload dialled. The first bytes tell what it is. TLS is ended here, with a certificate
 * of the sandbox's own authority for the name that the client asks for, and begun anew towards the
 * server, whose certificate must be valid for the same name. Requests must name that name as their
 * Host. Bodies pass as they come, in any size. HTTP/1.1 and WebSocket; ALPN offers http/1.1 only.
 *
 * One intercept serves all sandboxes; a box is what belongs to one of them. Loop thread only. */
#pragma once

#include "egress/vault/vault.h"
#include "net/sock.h"

struct intercept;
struct intercept_ask;
struct intercept_box;

struct intercept_request {
    struct str scheme; /* "https" or "http" */
    struct str host;   /* lower case, without port */
    uint16_t port;
    struct str method;
    struct str path; /* normalised, without the query */
    bool devious;    /* the path cannot be normalised: it is as it came */
};

/* What happened, for logs, diagnostics and metrics. Never holds a value of the vault. */
struct intercept_event {
    const char *kind; /* "vault.use" or "egress.deny" */
    struct str host, method, path;
    struct str binding; /* of vault.use; STR_NONE */
    uint64_t revision;
    const char *reason; /* of egress.deny */
};

struct intercept_conf {
    struct loop *loop;
    void *user; /* of all callbacks */

    /* May the sandbox talk to this name (empty: none is known) at this address over TCP? 0, or
     * -EACCES with the reason. Asked for every connection and every request: connections of the
     * interceptor leave from outside of the sandbox's filter. Must not be NULL. */
    int (*may_connect)(void *user, void *sandbox, struct str name, const struct sock_addr *to,
                       struct err *e);
    /* Rules for methods and paths: 0, or -EACCES with the reason. May be NULL. */
    int (*may_request)(void *user, void *sandbox, const struct intercept_request *r, struct err *e);
    /* TLS with this name (empty: none, or not TLS and not HTTP) passes as it is. NULL: never; what
     * is neither TLS nor HTTP is then refused. */
    bool (*passes)(void *user, void *sandbox, struct str name);
    /* A request over plain HTTP would get a credential: does `to` belong to `name`? Answer by
     * intercept_answer(), now or later. May be NULL: no. */
    void (*is_address_of)(void *user, void *sandbox, struct str name, const struct sock_addr *to,
                          struct intercept_ask *ask);
    void (*event)(void *user, void *sandbox, const struct intercept_event *event); /* may be NULL */
    /* A new socket towards a server, before it connects: to mark it. May be NULL. */
    int (*on_socket)(void *user, int fd);

    const char *trust_file; /* PEM: authorities to trust for servers beside the system's; NULL */
    const char *trust_dir;  /* the same as a hashed directory, in place of the system's; NULL */
    bool insecure;          /* believe any certificate: no credential is put in then */
    uint32_t head_ms;       /* for a server to begin its answer; 0 = 10 minutes */
};

int intercept_new(const struct intercept_conf *conf, struct intercept **ret, struct err *e);
/* Cuts all connections. Every box must be detached before. Outside of loop callbacks only. */
void intercept_free(struct intercept *i);

struct intercept_box_conf {
    void *sandbox;       /* argument of the callbacks */
    struct str id;       /* of the sandbox: in the name of its authority */
    struct vault *vault; /* outlives the box; NULL = none */
    struct str ca_keys;  /* of intercept_ca_keys() before a restart; STR_NONE: make an authority */
};

int intercept_attach(struct intercept *i, const struct intercept_box_conf *conf,
                     struct intercept_box **ret, struct err *e);
/* Cuts its connections; no callback with its sandbox comes afterwards. NULL is fine. */
void intercept_detach(struct intercept_box *b);
/* Closes its connections: the policy became tighter. */
void intercept_cut(struct intercept_box *b);

struct str intercept_ca_certificate(const struct intercept_box *b); /* PEM, for the sandbox */
struct str intercept_ca_keys(const struct intercept_box *b);        /* PEM with the key: a secret */

enum { INTERCEPT_CONNS_MAX = 1024 }; /* of one box */

/* Takes over the connected, non-blocking socket, also on failure. `original`: what the workload
 * dialled. -EBUSY at the limit. */
int intercept_accept(struct intercept_box *b, int fd, const struct sock_addr *original);

/* Answers an ask, exactly once. */
void intercept_answer(struct intercept_ask *ask, bool yes);

struct intercept_stats {
    uint64_t connections, requests, injected, denied; /* since the box was attached */
    size_t open;
};
void intercept_stats(const struct intercept_box *b, struct intercept_stats *ret);
