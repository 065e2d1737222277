/* oci.h - sandboxes behind an OCI runtime: gVisor's runsc, and others that differ by a row.
 *
 * The child of spawn.h makes the same root from the same plan, and then a small world around it:
 *
 *   /rootfs           the sandbox's root, with its volumes
 *   /bundle           config.json, made by the broker
 *   /program          the OCI runtime, and /execd, the first program inside
 *   /proc /dev /tmp /run
 *
 * It pivots there, starts the runtime in the workload's control groups, and stays as the guard:
 * PID 1 of the namespaces that all of the runtime is in, so nothing outlives the guard. An OCI
 * runtime hands on its own standard files. So execd's are: 0 a channel to the guard, 1 its report,
 * 2 its log. A listening socket cannot cross into another kernel, but a connection can: the guard
 * accepts, and passes each connection over the channel. */
#pragma once

#include "base/buf.h"
#include "sandbox/mounts.h"

enum {
    OCI_RUNTIMES_MAX = 8,
    OCI_COMMAND_MAX = 1024, /* path of the program and further arguments */
    OCI_ARGS_MAX = 48,
    OCI_BUNDLE_BYTES_MAX = 4 << 20, /* a plan's text, escaped */
    OCI_START_MS_MAX = 25 * 1000,   /* for execd to run; less than SPAWN_STEPS_MS_MAX */
};

/* Messages of the channel: the first byte. */
enum oci_note {
    OCI_HELLO = 'H',   /* guard: first of all, also to a restored execd. execd: it runs */
    OCI_CONNECT = 'C', /* guard: with a connection */
    OCI_SIGNAL = 'S',  /* guard: and a signal number; as if execd got it */
    OCI_QUIET = 'Q',   /* guard: close all connections. execd: all are closed */
};

/* What kinds of runtimes can do, beside running a sandbox. */
enum oci_can {
    OCI_CAN_MEMORY = 1 << 0, /* snapshots with memory */
};

struct oci_kind {
    const char *name;    /* as in secure_runtime.type, extensions.runtime and plan.runtime */
    const char *program; /* its usual name */
    unsigned can;
    const char *args[12]; /* global options; "%net" is replaced by the plan's */
};

/* The row of a name; names without one have a row without options. */
const struct oci_kind *oci_kind_find(struct str name);

/* A runtime that the operator allows. */
struct oci_runtime {
    char name[PLAN_RUNTIME_MAX];
    const struct oci_kind *kind;
    char command[OCI_COMMAND_MAX]; /* the words of argv, each with its NUL */
    const char *args[OCI_ARGS_MAX];
    size_t arg_count; /* args[0] is the path of the program */
};

/* Parses NAME=PATH or "NAME=PATH ARGUMENT ...". Checks that it can be executed. */
int oci_runtime_parse(const char *text, struct oci_runtime *ret, struct err *e);

/* What config.json is made of, beside the plan. */
struct oci_bundle {
    const struct plan *plan;
    uint32_t uid_first;
};
#define OCI_EXECD_PLACE "/opt/opensandbox/execd" /* inside */
int oci_bundle_write(const struct oci_bundle *b, struct buf *out, struct err *e);

/* --- in the child: system calls only --- */

struct oci_child {
    const struct oci_runtime *runtime;
    const struct plan *plan;
    const struct cgroup *cgroup;
    int listener, exit_file, log_file;
    int bundle; /* file with config.json */
    int memory; /* a mount with saved memory; -EBADF: a new sandbox */
};

/* Makes the world, and the root a part of it. Then m->root is the world. */
int oci_world_make(struct mounts *m, const struct oci_child *c, struct err *e);
/* Starts the runtime and guards it to its end: returns only when execd does not come to run. */
int oci_guard_run(const struct oci_child *c, struct err *e);
