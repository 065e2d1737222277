/* egress.h - shared by the files of opensandbox-egress: which destinations the
 * sandboxes of a host may reach.
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
#include "net/aead.h"
#include "net/http_server.h"
#include "net/pool.h"

struct sse_hub;
struct webhook;

enum {
    EGRESS_GUARDED_MAX = 20 * 1000,
    EGRESS_LEARNED_MAX = 1024, /* names with addresses, remembered per sandbox */
    EGRESS_EVENTS_MAX = 128,   /* of one sandbox */
    EVENT_DETAIL_MAX = 128,
    EGRESS_REQUESTS_MAX = 64,  /* that change the policy of one sandbox and wait */
    EGRESS_TARGETS_MAX = 1024, /* of each list of the operator */
    EGRESS_DURATION_BOUNDS = 13,
};
#define EGRESS_STATE_FILE "egress.json" /* in the directory of a sandbox */

struct egress_conf {
    const char *broker; /* its socket; NULL: */
    int broker_fd;      /* an inherited connection that may ask for policies only; -EBADF */
    const char *dir;    /* the server's data directory */
    const char *socket; /* where to serve HTTP */
    struct sock_addr upstreams[DNS_UPSTREAMS_MAX];
    size_t upstream_count;
    struct str deny[EGRESS_TARGETS_MAX], allow[EGRESS_TARGETS_MAX], doh[EGRESS_TARGETS_MAX];
    size_t deny_count, allow_count, doh_count;
    uint32_t rules_max; /* 0 = no limit */
    uint32_t dns_timeout_ms;
    bool block_quic, block_doh;
    const char *webhook;   /* URL for denied names; NULL = none */
    const char *trust;     /* file of authorities beside the system's; NULL */
    const char *trust_dir; /* hashed directory in place of the system's; NULL */
    bool vault_cleartext;  /* writes of vaults need neither TLS nor loopback */
    bool resolved_http;    /* no credential over plain HTTP for names that no resolver knows */
    bool seals_vaults;     /* vaults outlive the process, sealed by: */
    unsigned char vault_key[AEAD_KEY_BYTES];
    bool insecure;       /* servers of intercepted connections need no valid certificate */
    bool dns_only;       /* packets are not filtered: what the API calls mode "dns" */
    bool private_names;  /* allowed names may lead to private addresses */
    uint16_t tls_port;   /* where redirected connections arrive; 0 = NETNS_TLS_PORT */
    const char *ca_file; /* key and certificate, in the directory of a sandbox; NULL = ours */
    int until_eof;       /* end with this pipe; -EBADF = none */
    int record;          /* a pipe that decisions are told to; -EBADF = none */
};

struct egress;
struct guarded;

struct egress_stats {
    uint64_t queries, denied, answered, cached, failed, changes, learned, broker_errors;
    uint64_t updates;    /* of nftables: policies applied, and answers learned */
    uint64_t rules;      /* entries of the policy last applied */
    uint64_t vault_uses; /* requests that got a credential */
    uint64_t vaults_lost;
    /* of allowed questions, until their answer */
    uint64_t duration_buckets[EGRESS_DURATION_BOUNDS + 1], duration_count;
    double duration_sum, duration_min, duration_max; /* s */
};

/* How policies get into the kernel and onto the disk. All run on the worker and may block. */
struct enforcer {
    /* Replaces the rules of a sandbox in one step; fills *ret where the sandbox has addresses of
     * its own. -ENOENT when it does not run. */
    int (*set)(struct guarded *b, const struct netns_policy *rules, struct broker_sandbox *ret,
               struct err *e);
    int (*learn)(struct guarded *b, const struct netns_entry *entries, size_t count, struct err *e);
    int (*save)(struct guarded *b, const struct policy *policy, struct err *e);
    int (*traffic)(struct guarded *b, struct netns_traffic *ret, struct err *e);
    /* What policies dropped since the last call, of all sandboxes. Returns how many. */
    int (*denied)(struct egress *g, struct netns_denied ret[NETNS_DENIED_MAX], struct err *e);
    /* A directory for files of the sandbox. */
    int (*open_dir)(struct guarded *b, struct err *e);
    /* A new socket towards a server of an intercepted connection; may be NULL. */
    int (*on_socket)(void *egress, int fd);
};

struct egress {
    struct egress_conf conf;
    const struct enforcer *enforcer;
    struct guarded *only;    /* of a sidecar: all traffic is of this one; else NULL */
    struct str sandbox_id;   /* of a sidecar, for reports; may be empty */
    struct webhook *webhook; /* of denied names; NULL = none */
    struct loop *loop;
    struct pool *pool;
    struct http_server *http;
    struct policy *always;
    struct policy *doh;      /* addresses denied at port 443 */
    struct policy *log_skip; /* names whose answers a sidecar does not log; NULL = none */
    struct policy *exempt;   /* resolvers that may be asked directly, at port 53; NULL = none */
    struct map guarded;      /* by id */
    struct map by_addr;      /* by the 4 or 16 bytes of an address */
    struct dns_forward *forward;
    struct dns_cache *cache;
    struct resolver *resolver;
    struct catcher *catcher;     /* of connections to ports 80 and 443; NULL before it serves */
    struct broker_client client; /* of the worker */
    struct egress_stats stats;
    struct loop_timer sweep;
    struct denials *denials;  /* NULL before denied_start */
    int sandboxes;            /* <data>/sandboxes */
    int door;                 /* bound for HTTP; -EBADF once it serves */
    struct loop_io broker_io; /* of an inherited connection: tells its end */
    bool broker_lost;         /* the process ends: the server starts another, with a new one */
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
    const char
        *kind; /* "egress.deny", "egress.allow", "policy.change", "vault.use", "vault.lost" */
    const char *reason;
    char detail[EVENT_DETAIL_MAX];
};

/* A connection that was dropped, and told of. */
struct dropped {
    struct netns_denied what;
    uint64_t at_ns; /* 0 = none */
};
enum { EGRESS_DROPPED_MAX = 16 }; /* remembered of one sandbox */

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
    bool vault_lost;           /* its values did not outlive an earlier process */
    struct intercept_box *box; /* its connections to ports 80 and 443 */
    struct event *events;      /* a ring; allocated with the first */
    size_t event_count;
    struct sse_hub *watchers; /* of events; NULL = none yet */
    uint64_t allowed_at_ns;   /* the second that allowed_now counts in */
    uint64_t allowed_now;
    uint64_t recorded_at_ns; /* the second that recorded_now counts in */
    uint64_t recorded_now;
    uint64_t unrecorded;          /* decisions since the last line to the pipe */
    struct netns_traffic traffic; /* as last read */
    struct dropped *dropped;      /* EGRESS_DROPPED_MAX; NULL = none yet */
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
/* The one of a sidecar, in force; takes the policy. */
struct guarded *guarded_make_only(struct egress *g, struct str id, struct policy *policy,
                                  bool intercept);
extern const struct enforcer guarded_enforcer; /* by the broker, and the server's directories */
/* Whether a name must not lead to this address unless a rule allows the address. */
bool guarded_addr_is_inside(const struct guarded *b, int family, const void *addr);
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
void catcher_policy_changed(struct guarded *b);          /* connections are judged anew */
struct vault_host catcher_vault_host(struct guarded *b); /* of its vault, by its policy */
void catcher_serve_vault(struct http_req *req, struct guarded *b, struct str path, struct str body);

/* --- vault_files.c: vaults that outlive the process --- */

#define EGRESS_VAULT_FILE "egress-vault" /* in the directory of a sandbox */

/* Gives a sandbox its vault: what was stored of it, or an empty one. Does nothing twice. */
int vault_files_open(struct guarded *b, struct err *e);
/* vault_host.store: user is the sandbox. */
int vault_files_store(void *user, const struct vault_set *next, struct err *e);

/* --- guarded.c, for catcher.c --- */

/* Of an address that led to it by DNS, for this sandbox. */
bool guarded_has_learned(const struct guarded *b, struct str name, const struct sock_addr *at,
                         bool *ret_known);

/* --- events.c --- */

extern const double egress_duration_bounds[EGRESS_DURATION_BOUNDS]; /* s */
void guarded_event(struct guarded *b, const char *kind, const char *reason, struct str detail);
/* A name was answered: becomes an event now and then, and a line of a sidecar's log. */
void guarded_allowed(struct guarded *b, struct str name, struct str addresses, const char *error);
void api_events(struct http_req *req);
void api_event_lines(struct http_req *req);
void api_event_stream(struct http_req *req);
void api_metrics(struct http_req *req); /* of the sandbox {id}, or of the process */
/* Reads the traffic of a sandbox, then calls `then`, if the client is still there. */
void api_with_traffic(struct http_req *req, struct guarded *b, void (*then)(struct http_req *req));

/* --- denied.c: connections that policies dropped, as events --- */

void denied_start(struct egress *g);
void denied_stop(struct egress *g); /* after the pool has stopped */

/* --- api.c: HTTP --- */

/* The sandbox that a request names; NULL when there is none, and the request is answered. */
struct guarded *api_guarded(struct http_req *req);
void api_reply_text(struct http_req *req, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
void api_policy(struct http_req *req); /* /policy; of the sandbox {id}, or of the only one */
void api_vault(struct http_req *req);  /* /credential-vault and below */
void api_on_unrouted(struct http_req *req, unsigned allowed);

/* Takes the name of the socket; no client is served. */
int api_bind(struct egress *g, struct err *e);
int api_start(struct egress *g, struct err *e);
void api_forget(struct guarded *b); /* answers the requests that wait */
