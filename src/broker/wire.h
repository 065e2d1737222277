/* wire.h - what callers and brokers say to each other: fixed-size structs over SOCK_SEQPACKET.
 *
 * One request, one reply, in order. A request is its head and exactly the payload of its operation,
 * a plan only up to the end of its text; descriptors travel beside it. There is no text to parse.
 * Both sides are built together, and refuse another's version: it changes with any of this. */
#pragma once

#include "base/err.h"
#include "sandbox/cgroup.h"
#include "sandbox/plan.h"
#include <limits.h>
#include <netinet/in.h>
#include <stdalign.h>

enum {
    BROKER_WIRE_VERSION = 3,
    BROKER_LIST_MAX = 32,            /* sandboxes in one reply */
    BROKER_FREEZE_MS_MAX = 5 * 1000, /* for a sandbox to freeze or thaw */
};

enum broker_op {
    BROKER_CONFIG = 1, /* broker_config; once per connection, before anything else */
    BROKER_SPAWN,      /* plan; descriptors: layers, volumes, execd's listener. Reply: sandbox;
                        * broker_files */
    BROKER_OPEN,       /* broker_id: adopt a sandbox. Reply: sandbox; broker_files */
    BROKER_SIGNAL,     /* broker_signal: to its PID 1 */
    BROKER_PAUSE,      /* broker_id */
    BROKER_RESUME,     /* broker_id */
    BROKER_STAT,       /* broker_id. Reply: sandbox and stat */
    BROKER_LIST,       /* broker_list. Reply: list */
    BROKER_REMOVE,     /* broker_id: kills what is left and removes every trace */
    BROKER_SNAPSHOT,   /* broker_id; descriptor: an empty directory to fill */
    BROKER_FILL,       /* broker_config: makes slots ahead, now */
    BROKER_SWEEP,      /* broker_sweep. Reply: count of what was removed */
    BROKER_INFO,       /* Reply: info */
    BROKER_ERASE,      /* broker_path, one name; descriptor: the directory that it is in */
    BROKER_REACH,      /* broker_path; descriptor: the directory that it is below. Reply: the file,
                        * opened by O_PATH */
    BROKER_OP_COUNT,
};

struct broker_config {
    uint32_t version; /* BROKER_WIRE_VERSION */
    /* Slots to keep ready, of each network mode: by all workers together. Of BROKER_FILL: by the
     * worker that answers, now. */
    uint32_t ready_none, ready_bridge;
};

struct broker_id {
    char id[PLAN_ID_MAX];
};

struct broker_signal {
    char id[PLAN_ID_MAX];
    int32_t signal;
};

struct broker_list {
    uint32_t from_slot; /* the first to be listed */
};

struct broker_sweep {
    uint32_t dead_too; /* also sandboxes whose PID 1 is gone, whose report nobody fetched */
};

struct broker_path {
    uint32_t make;       /* BROKER_REACH: make the directories that are missing */
    char path[PATH_MAX]; /* relative */
};

/* Payloads begin where a plan does. */
struct broker_request { /* all but BROKER_SPAWN */
    uint32_t op;        /* enum broker_op */
    alignas(struct plan) union {
        struct broker_config config;
        struct broker_id id;
        struct broker_signal signal;
        struct broker_list list;
        struct broker_sweep sweep;
        struct broker_path path;
    };
};

struct broker_spawn {
    uint32_t op; /* BROKER_SPAWN */
    struct plan plan;
};

union broker_message { /* what a broker gets */
    uint32_t op;
    struct broker_request request;
    struct broker_spawn spawn;
};

enum broker_state {
    BROKER_RUNNING = 1,
    BROKER_PAUSED,
    BROKER_DEAD, /* its PID 1 is gone; the report is still there */
};

struct broker_sandbox {
    char id[PLAN_ID_MAX];
    uint32_t slot;
    uint32_t state; /* enum broker_state */
    uint32_t net, root;
    int32_t pid; /* of PID 1, as the host counts */
    struct in_addr address;
    uint64_t start_ticks, created_us;
};

/* Of each network mode. */
struct broker_levels {
    uint32_t none, bridge;
};

struct broker_info {
    uint32_t tied;               /* to the one who started it: it ends when that does */
    uint32_t live, dead;         /* sandboxes, with and without their PID 1 */
    struct broker_levels ready;  /* slots made ahead, by all workers */
    struct broker_levels here;   /* of these, by the worker that answers */
    struct broker_levels wanted; /* what it was asked that all workers keep ready */
    struct err blocked;          /* why no sandbox can start now; code 0 = they can */
};

/* Descriptors of a sandbox, in this order. */
enum broker_files {
    BROKER_FILE_PIDFD, /* of PID 1; of a dead sandbox the report once more */
    BROKER_FILE_EXIT,  /* see src/api/report.h */
    BROKER_FILE_LOG,
    BROKER_FILE_COUNT,
};

struct broker_reply {
    int32_t result; /* >= 0, or -errno: then err tells the story */
    uint32_t next;  /* BROKER_LIST: where to go on; 0 = that was all */
    struct err err;
    union {
        struct broker_sandbox sandbox;
        struct broker_sandbox list[BROKER_LIST_MAX]; /* `result` of them */
        struct broker_info info;
    };
    struct cgroup_stat stat;
};

/* Bytes that a message should have, head included, when `bytes` of it are there: 0 for an unknown
 * one, and one whose end cannot be known yet. */
size_t broker_message_bytes(const union broker_message *message, size_t bytes);
/* The same for what is to be sent. */
size_t broker_request_bytes(const struct broker_request *request);
static inline size_t broker_spawn_bytes(const struct plan *plan)
{
    return offsetof(struct broker_spawn, plan) + plan_bytes(plan);
}
