/* egress.h - shared by the files of opensandbox-egress: who the sandboxes of a host may talk to.
 *
 * One process for all sandboxes, outside of all of them. It answers their DNS, judges names by
 * their policies, and has the broker program the kernel; it holds no privilege. One loop, and one
 * worker that talks to the broker, so that its requests keep their order.
 *
 * A sandbox that this process knows is `guarded`. What must outlive the process is in the directory
 * that the server has for the sandbox: <data>/sandboxes/<id>/egress.json. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "broker/client.h"
#include "egress/dns/cache.h"
#include "egress/dns/forward.h"
#include "egress/intercept/intercept.h"
#include "egress/policy/policy.h"
#include "net/http_server.h"
#include "net/pool.h"

enum {
    EGRESS_GUARDED_MAX = 20 * 1000,
    EGRESS_LEARNED_MAX = 1024, /* names with addresses, remembered per sandbox */
    EGRESS_EVENTS_MAX = 128,   /* of one sandbox */
    EVENT_DETAIL_MAX = 128,
    EGRESS_REQUESTS_MAX = 64,  /* that change the policy of one sandbox and wait */
    EGRESS_TARGETS_MAX = 1024, /* of each list of the operator */
};
#define EGRESS_STATE_FILE "egress.json" /* in the directory of a sandbox */

struct egress_conf {
    const char *broker; /* its socket */
    const char *dir;    /* the server's data directory */
    const char *socket; /* where to serve HTTP */
    struct sock_addr upstreams[DNS_UPSTREAMS_MAX];
    size_t upstream_count;
    struct str deny[EGRESS_TARGETS_MAX], allow[EGRESS_TARGETS_MAX], doh[EGRESS_TARGETS_MAX];
    size_t deny_count, allow_count, doh_count;
    uint32_t rules_max; /* 0 = no limit */
    uint32_t dns_timeout_ms;
    bool block_quic, block_doh;
    const char *trust; /* file of authorities beside the system's; NULL */
    int until_eof;     /* end with this pipe; -EBADF = none */
};

struct egress_stats {
    uint64_t queries, denied, answered, cached, failed, changes, learned, broker_errors;
};

struct egress {
    struct egress_conf conf;
    struct loop *loop;
    struct pool *pool;
    struct http_server *http;
    struct policy *always;
    struct policy *doh; /* addresses denied at port 443 */
    struct map guarded; /* by id */
    struct map by_addr; /* by the 4 or 16 bytes of an address */
    struct dns_forward *forward;
    struct dns_cache *cache;
    struct resolver *resolver;
    struct catcher *catcher;     /* of connections to ports 80 and 443; NULL before it serves */
    struct broker_client client; /* of the worker */
    struct egress_stats stats;
    struct loop_timer sweep;
    int sandboxes; /* <data>/sandboxes */
    bool broker_lost;
};

/* A name that led to an address, remembered so that a change of the policy keeps it. */
struct learned {
    struct list link; /* oldest first */
    uint8_t family, addr[16];
    uint64_t ends_ns; /* in the kernel */
    char name[];
};

struct event {
    int64_t at_us;
    const char *kind; /* "egress.deny", "policy.change" */
    const char *reason;
    char detail[EVENT_DETAIL_MAX];
};

struct guarded {
    struct egress *egress;
    char id[PLAN_ID_MAX];
    struct policy *policy;
    bool given;     /* the policy came from a request; else it is allow-all, and not in force */
    bool intercept; /* TLS is intercepted */
    bool attached;  /* in force: the addresses are known */
    bool gone;      /* removed while a job was under way */
    struct in_addr v4;
    struct in6_addr v6;
    struct list learned;
    size_t learned_count;
    struct list changes; /* of the policy, in order; the first is under way */
    size_t change_count;
    struct list requests; /* that change the policy, in order; the first is under way */
    size_t request_count;
    struct list waiting;           /* questions that wait for the end of a change */
    size_t jobs;                   /* under way */
    size_t questions;              /* DNS, under way */
    uint64_t tokens, tokens_at_ns; /* for questions that carry data */
    uint64_t queries, denied;
    struct vault *vault;       /* NULL before catcher_attach, as the next */
    struct intercept_box *box; /* its connections to ports 80 and 443 */
    struct event *events;      /* a ring; allocated with the first */
    size_t event_count;
};

/* --- guarded.c: the table --- */

/* NULL when there is none. */
struct guarded *guarded_find(struct egress *g, struct str id);
/* By the source of a packet; NULL for strangers. */
struct guarded *guarded_by_addr(struct egress *g, const struct sock_addr *from);
/* Reads the state of a sandbox, or makes an entry with allow-all if it has none. -ENOENT when the
 * server has no such sandbox. */
int guarded_open(struct egress *g, struct str id, struct guarded **ret, struct err *e);
void guarded_remove(struct guarded *b);
void guarded_unref_job(struct guarded *b); /* a job ended; may free it */
/* Opens all sandboxes with a state, and puts their policies in force. */
int guarded_load(struct egress *g, struct err *e);
void guarded_free_all(struct egress *g);
/* Sets its addresses, after the broker told them. */
void guarded_place(struct guarded *b, const struct broker_sandbox *at);
/* BLOCKS, worker. */
int guarded_save(struct egress *g, const char *id, const struct policy *policy, bool intercept,
                 struct err *e);
void guarded_event(struct guarded *b, const char *kind, const char *reason, struct str detail);
/* Remembers an address of a name. True when the kernel must be told, too. */
bool guarded_learn(struct guarded *b, struct str name, int family, const void *addr,
                   uint32_t seconds);

/* --- change.c: policies in force --- */

/* Puts `policy` (taken) in force, stores it, and calls done. */
typedef void change_done_fn(void *user, int result, const struct err *e);
void change_start(struct guarded *b, struct policy *policy, bool store, change_done_fn *done,
                  void *user);
/* What the kernel is told for a name's addresses under the rule that allows it. Returns how many
 * entries. */
size_t change_entries(const struct policy_rule *rule, int family, const void *addr,
                      uint32_t seconds, struct netns_entry *ret, size_t max);
/* Calls fn on the worker and done on the loop. */
typedef int broker_fn(struct egress *g, struct broker_client *client, void *user, struct err *e);
int broker_call(struct egress *g, broker_fn *fn, void *user, struct err *e); /* BLOCKS, worker */

/* --- resolver.c: DNS --- */

int resolver_start(struct egress *g, const struct broker_info *info, struct err *e);
void resolver_free(struct resolver *r); /* accepts NULL */
/* A socket for sandboxes at an address of the gateway; listens if it is of SOCK_STREAM. The bridge
 * may not be there yet: its address is bound all the same. */
int resolver_socket(const struct sock_addr *at, int type, struct err *e);
/* Goes on with questions that waited for a change, or for the sandbox to be known. */
void resolver_go_on(struct guarded *b);
void resolver_forget(struct guarded *b); /* drops its questions */

/* --- catcher.c: interception and the credential vault --- */

#define EGRESS_CA_FILE "egress-ca.pem" /* in the directory of a sandbox: key and certificate */

int catcher_start(struct egress *g, const struct broker_info *info, struct err *e);
void catcher_free(struct catcher *c); /* accepts NULL; every sandbox is forgotten before */
/* Makes what a sandbox with interception needs; does nothing for others, or twice. */
int catcher_attach(struct guarded *b, struct err *e);
void catcher_forget(struct guarded *b); /* cuts its connections, wipes its vault */
/* Before a change of the policy: -EINVAL when it would uncover a host of the vault. */
int catcher_check(struct guarded *b, const struct policy *policy, struct err *e);
void catcher_policy_changed(struct guarded *b); /* connections are judged anew */
void catcher_serve_vault(struct http_req *req, struct guarded *b, struct str path);
/* Of an address that led to it by DNS, for this sandbox. */
bool guarded_has_learned(const struct guarded *b, struct str name, const struct sock_addr *at,
                         bool *ret_known);

/* --- api.c: HTTP --- */

int api_start(struct egress *g, struct err *e);
void api_forget(struct guarded *b); /* answers the requests that wait */
