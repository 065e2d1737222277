/* gateway.h - forwards /sandboxes/{id}/proxy/{port}/... to the sandbox's execd over its socket, and
 * so requests to the host {port}-{id}.DOMAIN, which host_route_apply() made such paths of before.
 *
 * Port 44772 is execd itself; execd forwards any other port to that port inside the sandbox.
 * Streams both ways without limits on size or time. Loop thread only. */
#pragma once

#include "net/http_server.h"
#include "net/http_wait.h"
#include "net/sock.h"
#include "server/tenants/principal.h"

enum { GATEWAY_EXECD_PORT = 44772, GATEWAY_EGRESS_PORT = 18080, GATEWAY_TARGET_HEADERS_MAX = 4 };

#define GATEWAY_TOKEN_HEADER   "OpenSandbox-Secure-Access" /* the sandbox's token */
#define GATEWAY_EXECD_HEADER   "X-EXECD-ACCESS-TOKEN"      /* the same token, or execd's own */
#define GATEWAY_EGRESS_HEADER  "OPENSANDBOX-EGRESS-AUTH"   /* the same token, for the egress port */
#define GATEWAY_ROUTE_HEADER   "OpenSandbox-Ingress-To"    /* a signed route */
/* Of answers: the gateway itself refused, for want of a right credential (unauthorized), as it
 * knows no such sandbox (not-found) or it does not run (not-running). A gateway in front looks
 * again; an answer of the sandbox never has it. */
#define GATEWAY_REFUSAL_HEADER "OpenSandbox-Gateway-Refusal"

/* Browsers cannot set headers when they open a WebSocket, but offer subprotocols. The element
 * GATEWAY_WS_TOKEN_PREFIX and the sandbox's token is a credential; it is not forwarded, and neither
 * is GATEWAY_WS_PROTOCOL, which must stand beside it, because a browser wants one of its offers
 * accepted: that one is, unless the program inside accepts another. */
#define GATEWAY_WS_HEADER       "Sec-WebSocket-Protocol"
#define GATEWAY_WS_PROTOCOL     "opensandbox.v1"
#define GATEWAY_WS_TOKEN_PREFIX "opensandbox.token."

struct gateway;

/* What the gateway must know of a sandbox. Strings are valid during the current loop turn. */
struct gateway_target {
    struct sock_addr addr; /* address of its execd */
    /* Added to each request, in place of the client's of the same name. */
    struct http_header headers[GATEWAY_TARGET_HEADERS_MAX];
    size_t header_count;
    const char *tenant, *id; /* whose it is */
    struct str token;        /* grants access to its data plane */
    bool has_egress;         /* its egress control is at GATEWAY_EGRESS_PORT, ... */
    bool is_outside;         /* ... also while it does not run: `refusal` does not count there */
    struct sock_addr egress; /* ... which is served here, below /sandboxes/{id}/api */
    bool egress_at_root;     /* ... or at /, with egress_token in GATEWAY_EGRESS_HEADER */
    struct str egress_token; /* valid during the loop turn */
    bool secure;             /* requires a credential even when the gateway is open */
    const char *refusal;     /* NULL, or why forwarding is refused: "the sandbox is paused" */
    const char *cause;       /* NULL, or the cause of that: how the entrypoint ended */
    bool stopped;            /* that is why, and a request may have it started: gateway_conf.wake */
};

struct gateway_conf {
    struct loop *loop;
    /* No credential is required, because the configuration says so or there is no API key. Does not
     * apply to sandboxes that are `secure`. */
    bool open;
    /* Who has `key`, an API key of the server; NULL when it is none. Takes constant time. */
    const struct principal *(*find_api_key)(void *user, struct str key);
    /* Who signed in at the console and sent the request from there; NULL = nobody. May be NULL. */
    const struct principal *(*find_session)(void *user, const struct http_req *req);
    /* Whether `text` contains an API key, or the secret of a session. Timing must not show which
     * key, or how much of one. */
    bool (*holds_api_key)(void *user, struct str text);
    /* Whether `token`, from GATEWAY_ROUTE_HEADER, is a signed route to this port. May be NULL. */
    bool (*is_signed)(void *user, struct str sandbox_id, uint16_t port, struct str token);
    /* The port that a ticket of /preview/{ticket} opens; false when it opens none. The id is valid
     * during the current loop turn. May be NULL: no ticket opens anything. */
    bool (*find_preview)(void *user, struct str ticket, struct str *ret_sandbox_id,
                         uint16_t *ret_port);
    /* False when there is no such sandbox. */
    bool (*find)(void *user, struct str sandbox_id, struct gateway_target *ret);
    /* The name of an error code with this server's runtime. May be NULL. */
    const char *(*code_of)(void *user, const char *code);
    /* Called for each forwarded request, for auto-renewal. May be NULL. */
    void (*on_access)(void *user, struct str sandbox_id);
    /* Starts a stopped sandbox for a request, see http_wait.h; wake_ms: how long requests wait for
     * that, 0 = they are refused. */
    void (*wake)(void *user, struct str sandbox_id, http_wait_done_fn *done, void *done_user);
    uint32_t wake_ms;
    /* Of hosts {port}-{id}.DOMAIN, see host_route.h; copied. NULL or "" = none are served. */
    const char *domain;
    void *user;
};

int gateway_new(const struct gateway_conf *conf, struct gateway **ret_gateway, struct err *e);
/* Changes gateway_conf.open. */
void gateway_set_open(struct gateway *g, bool open);
/* Changes gateway_conf.wake_ms. */
void gateway_set_wake_ms(struct gateway *g, uint32_t wake_ms);
/* gateway_conf.domain, for host_route_apply(). */
struct str gateway_domain(const struct gateway *g);
/* X-Forwarded-For as received, with the client's address appended, in the request's arena; STR_NONE
 * if both are empty. */
struct str gateway_forwarded_for(struct http_req *req);
/* The sandbox has ended: what is under way into it ends, too. A kernel of its own may have taken
 * its side of the connections along without a word. */
void gateway_end(struct gateway *g, struct str sandbox_id);
/* Closes all forwarded connections. Free the server of the requests first. NULL is fine. */
void gateway_free(struct gateway *g);

/* The handler of both proxy routes (every method, ROUTE_STREAM_BODY), with params "sandboxId",
 * "port" and, for a longer path, "*"; and of both preview routes, with "ticket" in place of the
 * first two. Always answers. The guard has set the request's id before;
 * the gateway sets its principal. */
void gateway_serve(struct gateway *g, struct http_req *req);

struct gateway_stats {
    uint64_t forwarded; /* sent to a sandbox */
    uint64_t refused;   /* not sent: no credential, no such sandbox, not running */
    uint64_t failed;    /* forwarded, but without an answer (502, 504) */
    size_t tunnels;     /* open WebSockets and other upgraded connections */
};
void gateway_stats(const struct gateway *g, struct gateway_stats *ret);
