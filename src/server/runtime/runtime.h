/* runtime.h - what makes sandboxes. The API never asks which runtime it talks to.
 *
 * Calls block and come from workers, several at a time, where nothing else is said; those that
 * change a sandbox never two at a time for the same one. A call that fails leaves nothing behind,
 * but for create(). */
#pragma once

#include "api/lifecycle.h"
#include "net/sock.h"

struct runtime;

/* What a runtime knows of one of its sandboxes. */
enum runtime_state {
    RUNTIME_RUNNING,
    RUNTIME_PAUSED,
    RUNTIME_EXITED, /* exit_code or signal say how */
    RUNTIME_FAILED, /* its entrypoint never ran */
};

struct runtime_status {
    enum runtime_state state;
    int exit_code, exit_signal; /* of RUNTIME_EXITED */
    bool out_of_memory;         /* its workload met the memory limit */
    bool execd_out_of_memory;   /* execd met its own limit, and all of the sandbox ended with it */
    int64_t ended_us;           /* 0 = unknown */
    struct err err;             /* of RUNTIME_FAILED: why */
};

struct runtime_usage {
    uint64_t memory_bytes, memory_peak_bytes, cpu_us, pids, oom_kills;
    int pid;                /* of its first process, as the host counts */
    struct in_addr address; /* 0 = none */
};

struct runtime_levels { /* of what is made ahead */
    uint32_t ready, ready_wanted, live;
    struct err blocked; /* why no sandbox can start now; code 0 = they can */
};

struct runtime_log_query {
    int64_t since_us; /* lines from then on; 0 = from the beginning */
    uint32_t lines;   /* at most, from the end: of more, also of those gone, *ret_cut tells */
};

/* Of a sandbox that was just made; the descriptors are the caller's. */
struct runtime_birth {
    int watch;   /* becomes readable when the sandbox ends */
    int started; /* has a byte to read once the entrypoint runs, and its end when it never will;
                    -EBADF: nothing to wait for */
    int report;  /* the runtime's own, for start_error(); -EBADF = none */
};
#define RUNTIME_BIRTH_NONE                                                                         \
    {                                                                                              \
        -EBADF, -EBADF, -EBADF                                                                     \
    }

typedef void runtime_visit_fn(void *user, struct str id, enum runtime_state state);

struct runtime_ops {
    /* Whether there is the pool or snapshot that a request names, and whether the rest of it, but
     * for image and volumes, can be had. On the loop, so they must not block; fill f when not. */
    int (*check_source)(struct runtime *r, const struct api_create *spec, struct api_fail *f);
    int (*check_abilities)(struct runtime *r, const struct api_create *spec, struct api_fail *f);
    /* Whether this request, which passed both, can be granted. Fills f when not; nothing was made
     * then. */
    int (*check)(struct runtime *r, const struct api_create *spec, struct api_fail *f);
    /* Does not wait for the entrypoint. What is left when it fails is for remove(). */
    int (*create)(struct runtime *r, struct str id, const struct api_create *spec,
                  struct runtime_birth *ret, struct err *e);
    /* After the end of birth->started: why the entrypoint could not be started, as -errno; 0 when
     * it was started and has ended since. */
    int (*start_error)(struct runtime *r, struct str id, const struct runtime_birth *birth,
                       struct err *e);
    /* What users should know of the image, for the status of its sandboxes: a clause without a
     * period. Empty when the image is what its name says. */
    void (*image_note)(struct runtime *r, struct str image, struct buf *out);
    /* How it is. *ret_watch becomes readable when the sandbox ends; untouched when it has ended.
     * -ENOENT when there is none. */
    int (*adopt)(struct runtime *r, struct str id, int *ret_watch, struct runtime_status *ret,
                 struct err *e);
    int (*pause)(struct runtime *r, struct str id, struct err *e);
    int (*resume)(struct runtime *r, struct str id, struct err *e);
    /* Kills what runs and removes every trace. 1 when there was one, 0 when there was none. */
    int (*remove)(struct runtime *r, struct str id, struct err *e);
    int (*usage)(struct runtime *r, struct str id, struct runtime_usage *ret, struct err *e);
    /* The last of what its entrypoint printed, each line behind its time. */
    int (*logs)(struct runtime *r, struct str id, const struct runtime_log_query *query,
                struct buf *out, bool *ret_cut, struct err *e);
    int (*list)(struct runtime *r, runtime_visit_fn *visit, void *user, struct err *e);
    int (*levels)(struct runtime *r, struct runtime_levels *ret, struct err *e);
    /* Where its execd answers; cheap, from the loop. */
    void (*address)(struct runtime *r, struct str id, struct sock_addr *ret);
    void (*free)(struct runtime *r);
};

struct runtime {
    const struct runtime_ops *ops;
    const char *name; /* "embedded" */
};
