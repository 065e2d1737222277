/* runtime.h - the interface of a backend that makes sandboxes. The rest of the server does not know
 * which one it uses, and asks `can` for what it is able to do.
 *
 * Unless said otherwise, calls block and come from several workers at a time. Two calls that change
 * the same sandbox never run at once. A call that fails leaves nothing behind, except create().
 *
 * A runtime belongs to one installation, named by its owner id: it shows and touches only the
 * sandboxes and snapshots that were made with that id. */
#pragma once

#include "api/lifecycle.h"
#include "api/snapshot.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/sock.h"
#include <pthread.h>

struct config;
struct images;
struct pool;
struct runtime;

/* What a runtime can do: bits of runtime.can. A request for anything else is refused by
 * runtime_check_*() and by the handlers, with the contract's answer, before the runtime hears of
 * it. */
enum runtime_can {
    RUNTIME_CAN_PAUSE = 1 << 0,
    RUNTIME_CAN_SNAPSHOT = 1 << 1, /* snapshot(), and create() from one */
    RUNTIME_CAN_POOLS = 1 << 2,
    RUNTIME_CAN_NETWORK_POLICY = 1 << 3, /* the filter, and its control at port 18080 */
    RUNTIME_CAN_CREDENTIAL_PROXY = 1 << 4,
    RUNTIME_CAN_HOOKS = 1 << 5,
    RUNTIME_CAN_GPUS = 1 << 6,
    RUNTIME_CAN_VOLUME_HOST = 1 << 7, /* directories of the host */
    RUNTIME_CAN_VOLUME_CLAIM = 1 << 8,
    RUNTIME_CAN_VOLUME_OBJECTS = 1 << 9, /* object storage */
    RUNTIME_CAN_KEEP = 1 << 10,   /* halt(), create() of what is there, and persistent files */
    RUNTIME_CAN_CHOOSE = 1 << 11, /* extensions.runtime */
    RUNTIME_CAN_MEMORY = 1 << 12, /* runtime_snapshot.memory, of some sandboxes */
    /* Its sandboxes are known beyond this server: others make, change and end them, too. What it
     * lists and the store has no row of is taken over by describe(), and what it has no longer is
     * forgotten. */
    RUNTIME_CAN_SHARE = 1 << 13,
    RUNTIME_CAN_EXPIRE = 1 << 14,    /* ends sandboxes at their expiry by itself; renew() */
    RUNTIME_CAN_OWN_POOLS = 1 << 15, /* in place of the server's: pools(), extensions.poolRef */
    RUNTIME_CAN_DIRECT = 1 << 16,    /* clients may reach the address of endpoint() themselves */
    RUNTIME_CAN_LEND = 1 << 17,      /* create() with the secrets of another: secrets_from */
};

/* What a runtime reports about a sandbox. */
enum runtime_state {
    RUNTIME_RUNNING,
    RUNTIME_PAUSED,
    RUNTIME_EXITED,    /* see exit_code and exit_signal */
    RUNTIME_FAILED,    /* its entrypoint never ran */
    RUNTIME_PENDING,   /* is being made */
    RUNTIME_ALLOCATED, /* has an address, and may run */
    RUNTIME_PAUSING,
    RUNTIME_RESUMING,
};

struct runtime_status {
    enum runtime_state state;
    int exit_code, exit_signal; /* of RUNTIME_EXITED */
    bool out_of_memory;         /* the workload reached the memory limit */
    bool execd_out_of_memory;   /* execd reached its own limit, and the whole sandbox ended */
    int64_t ended_us;           /* 0 = unknown */
    struct err err;             /* of RUNTIME_FAILED: the reason */
    const char *reason;         /* the API's word for it, static; NULL = the usual of the state */
    char note[160];             /* what there is to say of another state; "" = the usual */
    bool news;                  /* RUNTIME_CAN_SHARE: the next two are set */
    int64_t expires_us;         /* 0 = never */
    char *metadata;             /* JSON as of struct api_sandbox; the caller frees it */
};

struct runtime_usage {
    uint64_t memory_bytes, memory_peak_bytes, cpu_us, pids, oom_kills;
    int pid;                /* of its first process, in the host's PID namespace; 0 = elsewhere */
    struct in_addr address; /* 0 = none */
};

#define RUNTIME_EGRESS_DOWN                                                                        \
    "opensandbox-egress does not answer: sandboxes with a network policy get no answers to DNS, "  \
    "and none can be created"
/* The process that filters the network of sandboxes, and its counters since it started. */
struct runtime_egress {
    bool has; /* there is one */
    bool up;  /* it answers; else the counters are 0 */
    uint64_t sandboxes, queries, failed, denied, changes, rule_errors, vault_uses, vaults_lost;
};

struct runtime_levels { /* counts of sandboxes that are made ahead, and of live ones */
    uint32_t ready, ready_wanted, live;
    struct err blocked; /* why no sandbox can start now; code 0 = none blocked */
    struct runtime_egress egress;
};

struct runtime_log_query {
    int64_t since_us; /* only lines since then; 0 = from the beginning */
    uint32_t lines;   /* at most, from the end; *ret_cut: there were more, even if lost by now */
};

/* How the gateway reaches a sandbox's execd. */
enum { RUNTIME_ENDPOINT_HEADERS_MAX = 4 };
struct runtime_endpoint {
    struct sock_addr addr;
    /* Added to each request, in place of the client's of the same name; execd's own token, say. The
     * texts are valid during the current loop turn. */
    struct http_header headers[RUNTIME_ENDPOINT_HEADERS_MAX];
    size_t header_count;
    bool at_root; /* of egress_endpoint(): it is served at /, with the headers above */
};

/* --- work that may take longer than a worker should be held --- */

/* The caller's side of such work. It begins in a call of runtime_ops on a worker, which returns
 *
 *   1        done: all results are filled
 *   0        under way: the runtime ends it later, by runtime_task_end() from any thread
 *   -errno   failed; the error is in `e`
 *
 * The task, and all that it is part of, stays in place until it ended. While it is under way the
 * runtime may report progress, and must end it soon after cancel(), with any result. */
enum { RUNTIME_MESSAGE_MAX = 256 };
struct runtime_task {
    struct loop *loop;
    /* Both run on the loop. The message is a sentence without a period: "pulling layer 2 of 5". */
    void (*on_progress)(struct runtime_task *task, const char *message);
    /* Called once, and last, if the call returned 0. r as above, but never 0. It may be called
     * before the worker has seen the call return. */
    void (*on_end)(struct runtime_task *task, int r, const struct err *e);
    void *of_runtime; /* for the runtime's own use; NULL at the start */

    /* private to runtime.c */
    struct loop_task post;
    pthread_mutex_t lock;
    char message[RUNTIME_MESSAGE_MAX]; /* the newest; those that the loop missed are lost */
    struct err err;
    int result;
    bool posted, ended;
};

void runtime_task_init(struct runtime_task *task, struct loop *loop);
void runtime_task_done(struct runtime_task *task);
/* For runtimes, from any thread; not after runtime_task_end(). */
void runtime_task_say(struct runtime_task *task, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* r is 1, or -errno with the reason in `e`. The runtime must not touch the task any more. */
void runtime_task_end(struct runtime_task *task, int r, const struct err *e);

/* Describes a sandbox that was just made. The caller owns the descriptors. */
struct runtime_birth {
    int watch;   /* becomes readable when the sandbox ends; -EBADF: ask list() from time to time */
    int started; /* gives a byte once the entrypoint runs, and end of file when it never will;
                    -EBADF: nothing to wait for */
    int report;  /* private to the runtime, for start_error(); -EBADF = none */
};
#define RUNTIME_BIRTH_NONE                                                                         \
    {                                                                                              \
        -EBADF, -EBADF, -EBADF                                                                     \
    }

/* What create() makes. All but the first need halt() before. */
enum runtime_again {
    RUNTIME_NEW,
    RUNTIME_START,    /* the sandbox of that id once more: its files as halt() left them */
    RUNTIME_ROLLBACK, /* the same with the files of a snapshot in place of its own */
};

struct runtime_create {
    struct runtime_task task;
    enum runtime_again again;
    struct str id;
    const struct api_create *spec; /* snapshot_id set: from that snapshot; else from its image */
    struct str token, owner;       /* of the sandbox's data plane; who asks, "" = not recorded */
    int64_t expires_us;            /* 0 = never */
    void *plan;                    /* made by check() for create(), with one free(); NULL = none */
    struct runtime_birth birth;    /* the result */
    bool image_failed;             /* of a failure: it is for want of the image */
    bool objects_failed;           /* the same for object storage */
    int fail_status;               /* the same: what to answer; 0 = the usual */
    const char *fail_code;         /* static */
};

struct runtime_snapshot {
    struct runtime_task task;
    struct str id;          /* of the sandbox, which runs or is paused, and goes on after it */
    struct str snapshot_id; /* chosen by the caller, never used before */
    struct str name;        /* for other servers to show; "" = none */
    bool hidden;            /* not to be shown by others */
    bool memory;         /* RUNTIME_CAN_MEMORY: also of its processes, which create() continues */
    uint64_t size_bytes; /* the result: on disk */
    uint64_t frozen_us;  /* the result: how long the sandbox did not run */
};

/* A snapshot, whichever server made it. */
struct runtime_shared_snapshot {
    struct str id, sandbox_id, name, message; /* message: why it failed */
    enum snapshot_state state;                /* Creating, Ready or Failed */
    int64_t created_us;
};

/* A sandbox that another server made. Texts are in the arena of the call. */
struct runtime_description {
    struct str image, snapshot_id, os, arch; /* "" = none */
    struct str entrypoint, metadata;         /* JSON as of struct api_sandbox */
    struct str token, owner;                 /* as of struct runtime_create */
    int64_t created_us, expires_us;
    uint32_t renew_extend_s;
    bool secure; /* secureAccess */
};

/* A pool of RUNTIME_CAN_OWN_POOLS. */
struct runtime_pool {
    struct str name;
    struct api_capacity capacity;
    bool has_status;
    int64_t total, allocated, available;
    struct str revision;
    int64_t created_us;
};
enum runtime_pool_verb {
    RUNTIME_POOL_LIST,
    RUNTIME_POOL_GET,
    RUNTIME_POOL_CREATE,
    RUNTIME_POOL_RESIZE,
    RUNTIME_POOL_DELETE,
};
typedef void runtime_pool_visit_fn(void *user, const struct runtime_pool *p);

/* A volume that requests name. The ids are valid during the call that shows it. */
struct runtime_volume {
    struct str name;
    int64_t created_us;
    uint64_t size_bytes, used_bytes; /* size_bytes: 0 = no limit */
    bool used_is_known;              /* false: there are too many files to count them at once */
    struct str *used_by;             /* ids of sandboxes, running or not */
    size_t used_by_count;
};
typedef void runtime_volume_visit_fn(void *user, const struct runtime_volume *v);

typedef void runtime_visit_fn(void *user, struct str id, enum runtime_state state);
typedef void runtime_shared_visit_fn(void *user, const struct runtime_shared_snapshot *s);
typedef void runtime_snapshot_visit_fn(void *user, struct str snapshot_id, uint64_t size_bytes);

/* --- a runtime --- */

struct runtime_ops {
    /* Whether the request's pool or snapshot exists; whether the rest, except image and volumes,
     * can be provided. They run on the loop and must not block. They fill f when they refuse. Call
     * them through runtime_check_source() and runtime_check_abilities(). NULL: nothing to add. */
    int (*check_source)(struct runtime *r, const struct api_create *spec, struct api_fail *f);
    int (*check_abilities)(struct runtime *r, const struct api_create *spec, struct api_fail *f);
    /* Whether this request, which passed both checks above, can be granted. If not, fills f and has
     * made nothing. Else it may leave a plan for create(), which follows. Call it through
     * runtime_check(). */
    int (*check)(struct runtime *r, struct runtime_create *c, struct api_fail *f);
    /* See struct runtime_task. Gets the image if need be. Does not wait for the entrypoint. After a
     * failure, remove() clears what is left. */
    int (*create)(struct runtime *r, struct runtime_create *c, struct err *e);
    /* Asks work that is under way to end early. Any thread, does not block. NULL: the runtime never
     * answers 0. */
    void (*cancel)(struct runtime *r, struct runtime_task *task);
    /* Call after birth->started reached end of file. Returns why the entrypoint could not be
     * started, as -errno; 0 when it was started and has ended since. */
    int (*start_error)(struct runtime *r, struct str id, const struct runtime_birth *birth,
                       struct err *e);
    /* Appends what users should know about the image, for the status of its sandboxes: a clause
     * without a period. Appends nothing when the image is what its name says. */
    void (*image_note)(struct runtime *r, struct str image, struct buf *out);
    /* Reports the state of a sandbox. *ret_watch becomes readable when the sandbox ends; it is not
     * set when it has ended already. -ENOENT when this installation has no such sandbox. */
    int (*adopt)(struct runtime *r, struct str id, int *ret_watch, struct runtime_status *ret,
                 struct err *e);
    /* RUNTIME_CAN_PAUSE. 0 = done; 1 = under way: adopt() tells how it goes on. */
    int (*pause)(struct runtime *r, struct str id, struct err *e);
    int (*resume)(struct runtime *r, struct str id, struct err *e); /* the same */
    /* RUNTIME_CAN_SHARE: changes of what is known beyond this server; before the store has them.
     * relabel: value.p == NULL removes a key. All: -ENOENT when the sandbox is gone. */
    int (*renew)(struct runtime *r, struct str id, int64_t expires_us, struct err *e);
    int (*relabel)(struct runtime *r, struct str id, const struct api_patch *patch, struct err *e);
    int (*describe)(struct runtime *r, struct arena *a, struct str id,
                    struct runtime_description *ret, struct err *e);
    /* RUNTIME_CAN_KEEP: kills its processes. What create() needs to make it again stays: volumes,
     * and the files of a persistent one. 1 when it was there, 0 when not. */
    int (*halt)(struct runtime *r, struct str id, struct err *e);
    /* Kills its processes and removes all of it. 1 when the sandbox existed, 0 when it did not. */
    int (*remove)(struct runtime *r, struct str id, struct err *e);
    int (*usage)(struct runtime *r, struct str id, struct runtime_usage *ret, struct err *e);
    /* The last lines that its entrypoint printed, each after its time stamp. */
    int (*logs)(struct runtime *r, struct str id, const struct runtime_log_query *query,
                struct buf *out, bool *ret_cut, struct err *e);
    /* Appends what else the runtime knows of a sandbox, for events and inspect; NULL = nothing. */
    int (*report)(struct runtime *r, struct str id, enum api_diag_kind kind, struct buf *out,
                  struct err *e);
    /* RUNTIME_CAN_OWN_POOLS. `pool` has what the verb needs: the name, and of create and resize the
     * rest. Shows the pools of a success. */
    int (*pools)(struct runtime *r, enum runtime_pool_verb verb, const struct api_pool *pool,
                 runtime_pool_visit_fn *visit, void *user, struct api_fail *f);
    /* The sandboxes of this installation. */
    int (*list)(struct runtime *r, runtime_visit_fn *visit, void *user, struct err *e);
    int (*levels)(struct runtime *r, struct runtime_levels *ret, struct err *e);
    /* What a part of the runtime cannot do now, for /health. Does not block; called on the loop.
     * Code 0 = nothing is known. NULL: nothing ever is. */
    void (*trouble)(struct runtime *r, struct err *ret);
    /* Cheap, does not block; called on the loop. -ENOENT when there is none (yet). */
    int (*endpoint)(struct runtime *r, struct str id, struct runtime_endpoint *ret);
    /* RUNTIME_CAN_NETWORK_POLICY; NULL without. The first as endpoint(), for the control of the
     * sandbox's network, which serves it below /sandboxes/{id}/api; the second appends what it
     * refused the sandbox, a line each; worker, BLOCKS. */
    int (*egress_endpoint)(struct runtime *r, struct str id, struct runtime_endpoint *ret);
    int (*egress_report)(struct runtime *r, struct str id, struct buf *out, struct err *e);

    /* RUNTIME_CAN_SNAPSHOT; NULL without. snapshot() as struct runtime_task says; after a failure
     * snapshot_remove() clears what is left. snapshot_remove: 1 when it existed, 0 when not, -EBUSY
     * while a sandbox needs it. */
    int (*snapshot)(struct runtime *r, struct runtime_snapshot *s, struct err *e);
    int (*snapshot_remove)(struct runtime *r, struct str snapshot_id, struct err *e);
    int (*snapshot_each)(struct runtime *r, runtime_snapshot_visit_fn *visit, void *user,
                         struct err *e);

    /* RUNTIME_CAN_SHARE with RUNTIME_CAN_SNAPSHOT; NULL without. The snapshots of all servers but
     * hidden ones, or the one of that id. */
    int (*snapshot_shared)(struct runtime *r, struct str id, runtime_shared_visit_fn *visit,
                           void *user, struct err *e);

    /* RUNTIME_CAN_VOLUME_CLAIM; NULL without. volume_list shows those of a page, ordered by name,
     * and tells how many there are. volume_create: -EEXIST; -ENOTSUP when no limit of size_bytes
     * (0 = none) can be kept here; -EINVAL when there can be none of that size. volume_remove:
     * -EBUSY while sandboxes mount it, which the error names; its files go later. All: -ENOENT when
     * there is none of that name. */
    int (*volume_list)(struct runtime *r, uint64_t skip, uint64_t count,
                       runtime_volume_visit_fn *visit, void *user, uint64_t *ret_total,
                       struct err *e);
    int (*volume_get)(struct runtime *r, struct str name, runtime_volume_visit_fn *visit,
                      void *user, struct err *e);
    int (*volume_create)(struct runtime *r, struct str name, uint64_t size_bytes, struct err *e);
    int (*volume_remove)(struct runtime *r, struct str name, struct err *e);

    /* Loop thread: takes over what it can of a new configuration, and warns of the rest. May open
     * files. NULL: nothing follows. */
    void (*reload)(struct runtime *r, const struct config *config);
    /* On the loop's thread, before the pool of workers is stopped: ends what goes on by itself.
     * NULL: there is nothing. */
    void (*stop)(struct runtime *r);
    /* On the loop's thread, when no call is under way. Ends the tasks that are. */
    void (*free)(struct runtime *r);
};

struct runtime {
    const struct runtime_ops *ops;
    const char *name;
    unsigned can;          /* RUNTIME_CAN_ bits */
    struct images *images; /* what /images shows; NULL: it keeps none itself */
    /* Codes of errors and reasons of states that clients of this runtime know by other names; ends
     * with a NULL. */
    const struct runtime_code {
        const char *usual, *here;
    } * codes;
    /* A create that takes longer is answered with Pending; 0 = the usual, which is short. */
    uint32_t create_wait_ms;
    /* RUNTIME_CAN_KEEP: one that halt() ended is shown by list() and adopt(), as RUNTIME_EXITED:
     * its files are there as long as it is. False: it is not shown, and its files are elsewhere. */
    bool keeps_inside;
};

static inline bool runtime_can(const struct runtime *r, unsigned bits)
{
    return (r->can & bits) == bits;
}

/* The name of an error code with this runtime. */
const char *runtime_code(const struct runtime *r, const char *code);

/* The checks of a request: what `can` says, then the runtime's own. */
int runtime_check_source(struct runtime *r, const struct api_create *spec, struct api_fail *f);
int runtime_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f);
int runtime_check(struct runtime *r, struct runtime_create *c, struct api_fail *f);

/* --- kinds of runtimes: one row each in src/server/runtimes.c --- */

struct runtime_decision {
    struct str sandbox, kind, reason, target;
    uint64_t left_out;
};

struct runtime_conf {
    const struct config *config;    /* outlives the runtime */
    const char *owner;              /* of this installation; outlives the runtime */
    const unsigned char *vault_key; /* AEAD_KEY_BYTES, for vaults of egress; outlives the runtime */
    struct loop *loop;
    struct pool *pool;
    void *prepared; /* of prepare_as_root(); belongs to the runtime once start() returned 0 */
    void (*on_news)(void *user); /* on the loop: list() has changed, and no watch tells of it */
    void (*on_lost)(void *user); /* on the loop: the runtime is lost for good, and logged why */
    /* On the loop: what egress control decided about a sandbox, such as "egress.deny". `left_out`
     * were not told of before. NULL: nobody wants to know. */
    void (*on_decision)(void *user, const struct runtime_decision *decision);
    void *user;
};

struct runtime_kind {
    const char *name; /* as runtime.type has it */
    /* For --check: whether what the runtime needs is there; the error says what to do. BLOCKS.
     * NULL: nothing to add to config_check_host(). */
    int (*check_host)(const struct config *config, struct err *e);
    /* While the server may still be root, and has one thread. BLOCKS. NULL: nothing to do. */
    int (*prepare_as_root)(const struct config *config, void **ret_prepared, struct err *e);
    /* The group of a socket that the runtime needs: the server stays in it when it gives up root.
     * -errno when there is none. NULL: the same. */
    int (*group_as_root)(const struct config *config, gid_t *ret);
    void (*discard)(void *prepared); /* what no start() took over; NULL is fine */
    int (*start)(const struct runtime_conf *conf, struct runtime **ret, struct err *e); /* BLOCKS */
};

extern const struct runtime_kind *const runtime_kinds[];
extern const size_t runtime_kind_count;

const struct runtime_kind *runtime_kind_find(struct str name); /* NULL = this build has none */
