/* wire.h - the protocol between callers and brokers: fixed-size structs over SOCK_SEQPACKET.
 *
 * One request, one reply, in order. A request is its head and exactly the payload of its operation
 * (a plan only up to the end of its text), with descriptors (SCM_RIGHTS). There is no text to
 * parse. Both sides are built together and refuse other versions: change it with this file. */
#pragma once

#include "base/err.h"
#include "sandbox/cgroup.h"
#include "sandbox/netns_policy.h"
#include "sandbox/objects.h"
#include "sandbox/plan.h"
#include "sandbox/unpack.h"
#include <limits.h>
#include <netinet/in.h>
#include <stdalign.h>

enum {
    BROKER_WIRE_VERSION = 12,
    BROKER_LIST_MAX = 32,            /* sandboxes in one reply */
    BROKER_FREEZE_MS_MAX = 5 * 1000, /* for a sandbox to freeze or thaw */
    BROKER_MEASURE_MS_MAX = 5 * 1000,
};

enum broker_op {
    BROKER_CONFIG = 1, /* broker_config; once per connection, before anything else */
    BROKER_SPAWN,    /* plan; descriptors: layers, volumes, a lasting layer and saved memory if the
                          plan has them, execd's listener. Reply: sandbox;
                          broker_files */
    BROKER_OPEN,     /* broker_id: opens a sandbox. Reply: sandbox; broker_files */
    BROKER_SIGNAL,   /* broker_signal: sent to its PID 1 */
    BROKER_PAUSE,    /* broker_id */
    BROKER_RESUME,   /* broker_id */
    BROKER_STAT,     /* broker_id. Reply: sandbox and stat */
    BROKER_LIST,     /* broker_list. Reply: list */
    BROKER_REMOVE,   /* broker_id: kills its processes and removes all of it */
    BROKER_SNAPSHOT, /* broker_snapshot; descriptors: an empty directory for the copy, and with
                          `memory` another. Reply: a socket, on which a struct broker_copied
                          arrives */
    BROKER_FILL,     /* broker_config: makes slots ahead before it replies */
    BROKER_SWEEP,    /* broker_sweep. Reply: number of removed leftovers */
    BROKER_INFO,     /* Reply: info */
    BROKER_ERASE,    /* broker_path, one name; descriptor: its directory */
    BROKER_REACH,    /* broker_path; descriptor: the directory it is relative to. Reply: the file,
                          opened with O_PATH; in a volume of limited size, a mount of it */
    BROKER_UNPACK,   /* unpack_limits; descriptors: the layer's archive, an empty directory. Reply:
                      a socket, on which a struct unpack_report arrives */
    BROKER_MERGE,    /* broker_merge; descriptors: shifted layers, topmost first, and an empty
                      directory. Reply: as for BROKER_SNAPSHOT */
    BROKER_MEASURE,  /* descriptor: a directory. Reply: as for BROKER_SNAPSHOT, with the entries and
                       bytes below it */
    BROKER_POLICY, /* a policy up to its last entry: puts it in force for a sandbox. Reply: sandbox */
    BROKER_LEARN,   /* broker_learn: addresses that a policy allows for a while */
    BROKER_OBJECTS, /* objects_spec. Reply: a socket, on which a struct objects_message arrives; it is
                       the volume's descriptor of a plan */
    BROKER_TRAFFIC, /* broker_id: of a sandbox with a policy. Reply: traffic */
    BROKER_DENIED,  /* Reply: denied, `result` of them, since the last request */
    BROKER_OP_COUNT,
};

enum broker_role {
    BROKER_ROLE_ALL,
    BROKER_ROLE_EGRESS, /* BROKER_POLICY, _LEARN, _TRAFFIC, _DENIED, _INFO */
};

struct broker_config {
    uint32_t version; /* BROKER_WIRE_VERSION */
    uint32_t role;    /* enum broker_role: what this connection may ask for */
    /* Slots to keep ready, per network mode: by all workers together; with BROKER_FILL, slots that
     * the answering worker makes now. */
    uint32_t ready_none, ready_bridge;
};

struct broker_id {
    char id[PLAN_ID_MAX];
    /* Of BROKER_REMOVE: answer once the processes are killed, though they may not have ended. */
    uint32_t soon;
};

struct broker_snapshot {
    char id[PLAN_ID_MAX];
    uint32_t memory; /* 1: and its memory, of a sandbox on a runtime that can save it */
};

struct broker_signal {
    char id[PLAN_ID_MAX];
    int32_t signal;
};

struct broker_list {
    uint32_t from_slot; /* the first slot to list */
};

struct broker_sweep {
    uint32_t dead_too; /* also sandboxes without PID 1, even if their report was not read */
};

struct broker_path {
    uint32_t make;       /* BROKER_REACH: create missing directories */
    uint64_t disk_bytes; /* BROKER_REACH: make a single directory, a volume of this size */
    char path[PATH_MAX]; /* relative */
};

struct broker_learn {
    char id[PLAN_ID_MAX];
    uint32_t count;
    struct netns_entry entries[NETNS_LEARN_MAX];
};

struct broker_merge {
    uint32_t link; /* hard links instead of copies: the layers must never be written again */
};

/* Payloads begin at the same offset as a plan. */
struct broker_request { /* all but BROKER_SPAWN */
    uint32_t op;        /* enum broker_op */
    alignas(struct plan) union {
        struct broker_config config;
        struct broker_id id;
        struct broker_signal signal;
        struct broker_snapshot snapshot;
        struct broker_list list;
        struct broker_sweep sweep;
        struct broker_path path;
        struct unpack_limits unpack;
        struct broker_merge merge;
        struct broker_learn learn;
        struct objects_spec objects;
    };
};

struct broker_policy {
    uint32_t op; /* BROKER_POLICY */
    alignas(struct plan) char id[PLAN_ID_MAX];
    struct netns_policy policy;
};

struct broker_spawn {
    uint32_t op; /* BROKER_SPAWN */
    struct plan plan;
};

union broker_message { /* any request */
    uint32_t op;
    struct broker_request request;
    struct broker_spawn spawn;
    struct broker_policy policy;
};

enum broker_state {
    BROKER_RUNNING = 1,
    BROKER_PAUSED,
    BROKER_DEAD, /* its PID 1 has ended; its report can be read */
};

struct broker_sandbox {
    char id[PLAN_ID_MAX];
    uint32_t slot;
    uint32_t state; /* enum broker_state */
    uint32_t net, root;
    int32_t pid; /* of PID 1, in the host's PID namespace */
    struct in_addr address;
    struct in6_addr address6;
    struct in_addr gateway; /* of the bridge */
    struct in6_addr gateway6;
    uint64_t start_ticks, created_us;
};

/* Counts per network mode. */
struct broker_levels {
    uint32_t none, bridge;
};

struct broker_info {
    uint32_t tied;               /* the broker ends with the process that started it */
    uint32_t live, dead;         /* sandboxes with and without a running PID 1 */
    struct broker_levels ready;  /* slots made ahead, of all workers */
    struct broker_levels here;   /* the part of `ready` held by the worker that answers */
    struct broker_levels wanted; /* what all workers were asked to keep ready */
    struct in_addr gateway;      /* addresses of the bridge, also while there is none yet */
    struct in6_addr gateway6;    /* all 0 without IPv6 */
    struct err blocked;          /* why no sandbox can start now; code 0 = none blocked */
};

/* Descriptors of a sandbox, sent in this order. */
enum broker_files {
    BROKER_FILE_PIDFD, /* of PID 1; for a dead sandbox the report again */
    BROKER_FILE_EXIT,  /* see src/api/report.h */
    BROKER_FILE_LOG,
    BROKER_FILE_COUNT,
};

/* The end of a snapshot, merge or measure. */
struct broker_copied {
    int32_t result; /* 0, or -errno with the reason in err */
    struct err err;
    uint64_t frozen_us;      /* how long a snapshot kept the sandbox from running */
    uint64_t entries, bytes; /* in the new layer, without bytes of hard links; or as measured */
};

/* When a worker took a request up, and when it had the reply: CLOCK_MONOTONIC, which is the same in
 * all processes of the machine. For the caller's traces; the broker itself tells nobody. */
struct broker_timing {
    uint64_t begin_ns, end_ns;
};

struct broker_reply {
    int32_t result; /* >= 0, or -errno with the reason in err */
    uint32_t next;  /* BROKER_LIST: from_slot of the next request; 0 = end */
    struct err err;
    union {
        struct broker_sandbox sandbox;
        struct broker_sandbox list[BROKER_LIST_MAX]; /* `result` entries */
        struct broker_info info;
        struct netns_traffic traffic;
        struct netns_denied denied[NETNS_DENIED_MAX];
    };
    struct cgroup_stat stat;
    struct broker_timing timing;
};

/* Size that a message must have, head included, given that `bytes` of it have arrived. 0 for an
 * unknown operation, or when the size is not known yet. */
size_t broker_message_bytes(const union broker_message *message, size_t bytes);
/* The same for a request to be sent. */
size_t broker_request_bytes(const struct broker_request *request);
static inline size_t broker_policy_bytes(const struct netns_policy *policy)
{
    return offsetof(struct broker_policy, policy) + netns_policy_bytes(policy);
}
static inline size_t broker_spawn_bytes(const struct plan *plan)
{
    return offsetof(struct broker_spawn, plan) + plan_bytes(plan);
}
