/* runtime.h - the interface of a backend that makes sandboxes. The API code does not know which one
 * it uses.
 *
 * Unless said otherwise, calls block and come from several workers at a time. Two calls that change
 * the same sandbox never run at once. A call that fails leaves nothing behind, except create(). */
#pragma once

#include "api/lifecycle.h"
#include "net/sock.h"

struct runtime;

/* What a runtime reports about a sandbox. */
enum runtime_state {
    RUNTIME_RUNNING,
    RUNTIME_PAUSED,
    RUNTIME_EXITED, /* see exit_code and exit_signal */
    RUNTIME_FAILED, /* its entrypoint never ran */
};

struct runtime_status {
    enum runtime_state state;
    int exit_code, exit_signal; /* of RUNTIME_EXITED */
    bool out_of_memory;         /* the workload reached the memory limit */
    bool execd_out_of_memory;   /* execd reached its own limit, and the whole sandbox ended */
    int64_t ended_us;           /* 0 = unknown */
    struct err err;             /* of RUNTIME_FAILED: the reason */
};

struct runtime_usage {
    uint64_t memory_bytes, memory_peak_bytes, cpu_us, pids, oom_kills;
    int pid;                /* of its first process, in the host's PID namespace */
    struct in_addr address; /* 0 = none */
};

struct runtime_levels { /* counts of sandboxes that are made ahead, and of live ones */
    uint32_t ready, ready_wanted, live;
    struct err blocked; /* why no sandbox can start now; code 0 = none blocked */
};

struct runtime_log_query {
    int64_t since_us; /* only lines since then; 0 = from the beginning */
    uint32_t lines;   /* at most, from the end; *ret_cut: there were more, even if lost by now */
};

/* Describes a sandbox that was just made. The caller owns the descriptors. */
struct runtime_birth {
    int watch;   /* becomes readable when the sandbox ends */
    int started; /* gives a byte once the entrypoint runs, and end of file when it never will;
                    -EBADF: nothing to wait for */
    int report;  /* private to the runtime, for start_error(); -EBADF = none */
};
#define RUNTIME_BIRTH_NONE                                                                         \
    {                                                                                              \
        -EBADF, -EBADF, -EBADF                                                                     \
    }

typedef void runtime_visit_fn(void *user, struct str id, enum runtime_state state);

struct runtime_ops {
    /* Whether the request's pool or snapshot exists; whether the rest, except image and volumes,
     * can be provided. They run on the loop and must not block. They fill f when they refuse. */
    int (*check_source)(struct runtime *r, const struct api_create *spec, struct api_fail *f);
    int (*check_abilities)(struct runtime *r, const struct api_create *spec, struct api_fail *f);
    /* Whether this request, which passed both checks above, can be granted. If not, fills f and has
     * made nothing. */
    int (*check)(struct runtime *r, const struct api_create *spec, struct api_fail *f);
    /* Does not wait for the entrypoint. After a failure, remove() clears what is left. */
    int (*create)(struct runtime *r, struct str id, const struct api_create *spec,
                  struct runtime_birth *ret, struct err *e);
    /* Call after birth->started reached end of file. Returns why the entrypoint could not be
     * started, as -errno; 0 when it was started and has ended since. */
    int (*start_error)(struct runtime *r, struct str id, const struct runtime_birth *birth,
                       struct err *e);
    /* Appends what users should know about the image, for the status of its sandboxes: a clause
     * without a period. Appends nothing when the image is what its name says. */
    void (*image_note)(struct runtime *r, struct str image, struct buf *out);
    /* Reports the state of a sandbox. *ret_watch becomes readable when the sandbox ends; it is not
     * set when it has ended already. -ENOENT when there is no such sandbox. */
    int (*adopt)(struct runtime *r, struct str id, int *ret_watch, struct runtime_status *ret,
                 struct err *e);
    int (*pause)(struct runtime *r, struct str id, struct err *e);
    int (*resume)(struct runtime *r, struct str id, struct err *e);
    /* Kills its processes and removes all of it. 1 when the sandbox existed, 0 when it did not. */
    int (*remove)(struct runtime *r, struct str id, struct err *e);
    int (*usage)(struct runtime *r, struct str id, struct runtime_usage *ret, struct err *e);
    /* The last lines that its entrypoint printed, each after its time stamp. */
    int (*logs)(struct runtime *r, struct str id, const struct runtime_log_query *query,
                struct buf *out, bool *ret_cut, struct err *e);
    int (*list)(struct runtime *r, runtime_visit_fn *visit, void *user, struct err *e);
    int (*levels)(struct runtime *r, struct runtime_levels *ret, struct err *e);
    /* Address of its execd. Cheap, does not block; called on the loop. */
    void (*address)(struct runtime *r, struct str id, struct sock_addr *ret);
    void (*free)(struct runtime *r);
};

struct runtime {
    const struct runtime_ops *ops;
    const char *name; /* "embedded" */
};
