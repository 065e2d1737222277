/* gateway.h - the way into sandboxes: /sandboxes/{id}/proxy/{port}/... over their sockets.
 *
 * Port 44772 is the sandbox's execd, any other is forwarded by execd to a port inside. Streams both
 * ways without caps on size or time. Loop thread only. */
#pragma once

#include "net/http_server.h"
#include "net/sock.h"

enum { GATEWAY_EXECD_PORT = 44772, GATEWAY_EGRESS_PORT = 18080 };

#define GATEWAY_TOKEN_HEADER "OpenSandbox-Secure-Access" /* the sandbox's token */
#define GATEWAY_EXECD_HEADER "X-EXECD-ACCESS-TOKEN"      /* the same, or execd's own */
#define GATEWAY_ROUTE_HEADER "OpenSandbox-Ingress-To"    /* a signed route */

struct gateway;

/* What the gateway must know of a sandbox; strings are borrowed for the turn. */
struct gateway_target {
    struct sock_addr addr; /* of its execd */
    struct str token;      /* opens its data plane */
    bool secure;           /* asks for a credential even when the gateway is open */
    const char *refusal;   /* NULL, or why nothing can be forwarded now: "the sandbox is paused" */
    const char *cause;     /* NULL, or what led to it: how the entrypoint ended */
};

struct gateway_conf {
    struct loop *loop;
    /* No credential is asked for, by config, or as there is no API key either; except for
     * sandboxes that are `secure`. */
    bool open;
    /* Whether `key` is an API key of the server; in constant time. */
    bool (*is_api_key)(void *user, struct str key);
    /* Whether one stands anywhere in `text`; time must not tell which, nor how much of one. */
    bool (*holds_api_key)(void *user, struct str text);
    /* Whether `token`, of GATEWAY_ROUTE_HEADER, is a signed route to there. May be NULL. */
    bool (*is_signed)(void *user, struct str sandbox_id, uint16_t port, struct str token);
    /* False when there is no such sandbox. */
    bool (*find)(void *user, struct str sandbox_id, struct gateway_target *ret);
    /* Something is forwarded there: auto-renewal. May be NULL. */
    void (*on_access)(void *user, struct str sandbox_id);
    void *user;
};

int gateway_new(const struct gateway_conf *conf, struct gateway **ret_gateway, struct err *e);
/* Switches between asking for credentials and not. */
void gateway_set_open(struct gateway *g, bool open);
/* Cuts what is open. After the server whose requests it forwards. NULL is fine. */
void gateway_free(struct gateway *g);

/* The handler of both proxy rows (every method, ROUTE_STREAM_BODY): params "sandboxId" and "port",
 * and a "*" where there is a rest. Answers in every case. The guard has named the request. */
void gateway_serve(struct gateway *g, struct http_req *req);

struct gateway_stats {
    uint64_t forwarded; /* handed to a sandbox */
    uint64_t refused;   /* never were: no credential, no such sandbox, not running */
    uint64_t failed;    /* of the forwarded: no answer came (502, 504) */
    size_t tunnels;     /* WebSockets and the like that are open now */
};
void gateway_stats(const struct gateway *g, struct gateway_stats *ret);
