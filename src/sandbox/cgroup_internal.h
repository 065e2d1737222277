/* cgroup_internal.h - shared by the cgroup files: the host's hierarchies, and a table per version
 * of which file does what.
 *
 * Other code uses knobs only. A knob is bound, once, to the first hierarchy in which its file was
 * found to work. */
#pragma once

#include "base/buf.h"
#include "sandbox/cgroup.h"

enum cgroup_controller {
    CONTROLLER_CORE, /* no controller: a file that every group of that version has */
    CONTROLLER_MEMORY,
    CONTROLLER_CPU,
    CONTROLLER_CPUACCT, /* v1 only */
    CONTROLLER_PIDS,
    CONTROLLER_IO,
    CONTROLLER_FREEZER, /* v1 only */
    CONTROLLER_COUNT,
};

enum cgroup_knob {
    KNOB_MEMORY_MAX,
    KNOB_SWAP_MAX,
    KNOB_OOM_GROUP,
    KNOB_PIDS_MAX,
    KNOB_CPU_MAX,
    KNOB_CPU_WEIGHT, /* 100 is the default */
    KNOB_IO_WEIGHT,  /* 100 is the default */
    KNOB_IO_WEIGHT_BFQ,
    KNOB_FREEZE,
    KNOB_KILL,
    KNOB_RECLAIM,
    KNOB_READABLE, /* knobs from here on are read */
    KNOB_MEMORY_NOW = KNOB_READABLE,
    KNOB_MEMORY_PEAK,
    KNOB_KERNEL_NOW,
    KNOB_CPU_USED, /* microseconds */
    KNOB_PIDS_NOW,
    KNOB_OOM_KILLS,
    KNOB_FROZEN,
    KNOB_COUNT,
};

/* One file of a group. A value v is written as v * times / per within [min, max]. */
struct cgroup_file {
    enum cgroup_controller controller;
    const char *name;    /* NULL: not in this version */
    const char *probe;   /* harmless text that a write must accept; NULL: existing is enough */
    const char *none;    /* text for value 0: no limit */
    const char *on;      /* text for value 1, also when read; NULL: "1" */
    const char *key;     /* when read: the number after this word; NULL: the file is a number */
    uint32_t times, per; /* 0, 0 is 1, 1 */
    uint64_t min, max;   /* 0: no bound */
};

struct cgroup_hierarchy;

struct cgroup_version {
    const char *name;
    const char *members;             /* file to which a process writes "0" to enter */
    const struct cgroup_file *files; /* KNOB_COUNT entries */
    /* Prepares a group so that its children get its controllers; NULL: nothing to do */
    int (*enable_below)(const struct cgroup_hierarchy *y, const char *group, struct err *e);
};

extern const struct cgroup_version cgroup_v1, cgroup_v2;

struct cgroup_hierarchy {
    const struct cgroup_version *version;
    unsigned controllers; /* 1 << enum cgroup_controller, or-ed */
    int root_fd;          /* our directory in it */
    char *path;           /* path of root_fd, for messages and removal */
    bool limits_work;     /* it has a group "work", as it limits the workload */
};

struct cgroup_bound {
    const struct cgroup_hierarchy *y; /* NULL: in no hierarchy */
    const struct cgroup_file *file;
};

struct cgroup_host {
    struct cgroup_hierarchy hierarchies[CGROUP_HIERARCHIES_MAX]; /* v2 first */
    size_t count;
    struct cgroup_bound knobs[KNOB_COUNT];
    unsigned abilities;
    char description[192];
};

/* cgroup_host.c */

/* For tests: hides versions other than these (1 << 1, 1 << 2), and the abilities in `lacks`. */
int cgroup_host_open_as(const char *name, unsigned versions, unsigned lacks,
                        struct cgroup_host **ret_host, struct err *e);

/* A mounted hierarchy, from /proc. */
struct cgroup_mount {
    const struct cgroup_version *version;
    unsigned controllers;
    char *point;   /* mount point */
    char *own;     /* our own group, relative to the mount: "" or "/..." */
    unsigned rank; /* of several mounts of a hierarchy the highest is used */
};

enum {
    CGROUP_MOUNT_USUAL = 1 << 0, /* it is below /sys/fs/cgroup */
    CGROUP_MOUNT_WRITABLE = 1 << 1,
    CGROUP_MOUNT_COVERS = 1 << 2, /* our own group is visible in it */
};

enum { CGROUP_MOUNTS_MAX = 16 };

/* One mount per hierarchy. */
struct cgroup_mounts {
    struct cgroup_mount at[CGROUP_MOUNTS_MAX];
    size_t count;
};

/* cgroup_mounts.c: chooses mounts from the texts of /proc/self/mountinfo and /proc/self/cgroup. */
void cgroup_mounts_parse(struct str mountinfo, struct str groups, struct cgroup_mounts *ret);
void cgroup_mounts_done(struct cgroup_mounts *all);

/* cgroup_v2.c: finds a place for `name` that can have controllers, and fills *ret. */
int cgroup_v2_place(const struct cgroup_mount *m, const char *name, struct cgroup_hierarchy *ret,
                    struct err *e);
/* cgroup_v1.c */
int cgroup_v1_place(const struct cgroup_mount *m, const char *name, struct cgroup_hierarchy *ret,
                    struct err *e);
/* Creates (existing is fine) and opens the directory ret->path. */
int cgroup_place_at(struct cgroup_hierarchy *ret, struct err *e);

/* cgroup_file.c: `group` is a path relative to y's root: "17", "17/work". */
enum { CGROUP_PATH_MAX = 96, CGROUP_NAME_MAX = 24 };

int cgroup_file_open(const struct cgroup_hierarchy *y, const char *group, const char *file,
                     int flags, struct err *e);
int cgroup_file_write(const struct cgroup_hierarchy *y, const char *group, const char *file,
                      struct str text, struct err *e);
/* Reads into `text`, NUL-terminated and truncated to its size. Returns the length. */
int cgroup_file_read(const struct cgroup_hierarchy *y, const char *group, const char *file,
                     char *text, size_t size, struct err *e);
/* `fd` is the file if it is open already, or negative. */
int cgroup_knob_write(const struct cgroup_bound *b, const char *group, int fd, uint64_t value,
                      struct err *e);
int cgroup_knob_read(const struct cgroup_bound *b, const char *group, uint64_t *ret, struct err *e);
bool cgroup_knob_works(const struct cgroup_bound *b, const char *group);

/* cgroup_tree.c: the three groups of a sandbox, in every hierarchy. */
/* ret_ns: a cgroup namespace with that root, in the first hierarchy; NULL: not wanted. */
int cgroup_tree_make(const struct cgroup_host *h, const char *name, int *ret_ns, struct err *e);
int cgroup_tree_remove(const struct cgroup_host *h, const char *name, struct err *e);
/* Sleeps between two checks, longer each time: 50 us to 5 ms. Test the deadline before the last
 * check, not after: a process that was not scheduled in time must not fail by that. */
enum { CGROUP_PAUSE_NS = 50 * 1000 };
void cgroup_pause(long *ns);
/* Counts the processes (the highest count of any hierarchy), and signals each unless `signal`
 * is 0. */
int cgroup_tree_signal(const struct cgroup_host *h, const char *name, int signal, size_t *ret_count,
                       struct err *e);
/* 1 when no hierarchy has a process in it, else 0. Stops at the first process. */
int cgroup_tree_is_empty(const struct cgroup_host *h, const char *name, struct err *e);
