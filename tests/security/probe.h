/* probe.h - an attack as a table row: what it tries, and why it must not work.
 *
 * A probe runs inside a sandbox, in a child process of its own with a time limit. It finds out
 * whether a door is open without walking through: a file that opens for writing is the verdict,
 * nothing is written; a call gets arguments that fail behind its permission check. */
#pragma once

#include "base/defs.h"
#include <stdbool.h>

enum verdict {
    BLOCKED,   /* refused */
    CONTAINED, /* allowed, and without effect outside the sandbox */
    OPEN,      /* got through */
    NA,        /* cannot be tried here; the detail says why */
};

struct result {
    enum verdict verdict;
    char detail[200];
};

/* What the world outside looks like; unset (NULL, 0) makes probes that need it N/A. */
struct context {
    const char *neighbour_ip; /* listens on TCP and UDP neighbour_port */
    const char *neighbour_ip6;
    const char *host_ip; /* the host's address as sandboxes would see it */
    const char *host_ip6;
    const char *metadata_ip;    /* an address of the cloud's metadata service */
    const char *secret_path;    /* a file of the host that must not be readable */
    const char *neighbour_path; /* a file of another sandbox, by its path on the host */
    unsigned host_port, neighbour_port;
    int neighbour_pid;                          /* as the host numbers it */
    unsigned memory_mib, disk_mib, pids, files; /* "this much must not be had" */
    unsigned cpu_millicores;                    /* the limit that was asked for, if any */
    int inherited_fds;                          /* descriptors above 2 at start */
    bool cwd_unreachable;                       /* at start */
};

struct probe {
    const char *name;
    struct result (*run)(const struct context *c, const struct probe *p);
    const char *path; /* for those that share a function */
    long call[6];     /* number and arguments, likewise */
    const char *why;  /* what an attacker would gain */
};

/* A row; what is particular to it follows as .path = or .call = {}. */
#define PROBE(name_, run_, why_, ...)                                                              \
    {                                                                                              \
        .name = name_, .run = run_, .why = why_, ##__VA_ARGS__                                     \
    }

struct probe_group {
    const char *name;
    const struct probe *probes;
    size_t count;
};
extern const struct probe_group group_runtime, group_files, group_calls, group_neighbours,
    group_network, group_exhaustion;

struct result verdict(enum verdict v, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "what: the system's text for errno", BLOCKED. */
struct result blocked(const char *what);
/* OPEN when r >= 0; BLOCKED for EPERM, EACCES, ENOSYS and others that deny; OPEN when the error
 * shows that the kernel got past its permission check. */
struct result judge_call(const char *what, long r);

/* Where a container runs the workload as PID 1, taking PID 1 over gains nothing. */
bool init_is_us(void);

/* Runs fn in a further child: its exit status, or -signal. For what changes the process. */
int in_child(int (*fn)(const struct context *c), const struct context *c);

/* The neighbour's half: names both sides know. */
#define NEIGHBOUR_ABSTRACT "opensandbox-battery"
#define NEIGHBOUR_QUEUE    "/opensandbox-battery"
#define NEIGHBOUR_SHM_FILE "/dev/shm/opensandbox-battery"
enum { NEIGHBOUR_IPC_KEY = 0x0b5ba77e };
_Noreturn void neighbour_serve(unsigned port);           /* until killed; says "ready" */
_Noreturn void neighbour_hold_inotify(unsigned seconds); /* says how many */
