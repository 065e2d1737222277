/* intercept_internal.h - shared by the files of the interceptor. */
#pragma once

#include "base/list.h"
#include "egress/intercept/hello.h"
#include "egress/intercept/intercept.h"
#include "net/http_proxy.h"
#include "net/tls.h"
#include "net/tls_mint.h"

struct intercept {
    struct intercept_conf conf;
    struct http_server *server; /* serves the clients' side of what is not tunnelled */
    struct http_client *client;
    struct tls_client *tls;
    struct list boxes;
    uint64_t next_group;
};

struct intercept_box {
    struct intercept *intercept;
    struct list link; /* in intercept->boxes */
    void *sandbox;    /* NULL once detached */
    struct vault *vault;
    struct tls_mint *mint;
    uint64_t group; /* its connections to servers are not shared with other boxes */
    struct list conns;
    struct http_tunnels tunnels; /* WebSockets */
    struct loop_timer sweep;     /* after detach: frees the box once nothing is left */
    struct intercept_stats stats;
    bool detached;
};

/* A connection of the workload, from its acceptance until it is gone. */
struct icpt_conn {
    struct intercept_box *box;
    struct list link; /* in box->conns */
    int fd;           /* while we look at its first bytes, or connect a tunnel */
    int upstream;     /* of a tunnel that is being connected */
    struct loop_io io;
    struct loop_timer deadline;
    struct relay *relay;
    struct sock_addr original;
    char name[HELLO_NAME_MAX + 1]; /* SNI, or the address as text; "" for plain HTTP */
    bool tls, named;               /* named: by SNI */
    bool served;                   /* the HTTP server has it */
};

/* flow.c: the route of everything that the HTTP server reads. */
void icpt_serve(struct http_req *req);

/* intercept.c */
void icpt_event(struct intercept_box *b, const struct intercept_event *event);
void icpt_deny(struct intercept_box *b, struct str host, struct str method, struct str path,
               const char *reason);
