/* plan.h - the description of a sandbox, as one flat struct of fixed size.
 *
 * The caller (unprivileged, has parsed an untrusted request) fills it in; the broker (privileged)
 * executes it. It has numbers and bytes, no text to parse; files outside the sandbox are passed as
 * descriptors beside it. plan_check checks everything that the broker relies on. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    PLAN_ID_MAX = 64, /* with the NUL; [a-z0-9] and inner '-' */
    PLAN_HOSTNAME_MAX = 64,
    PLAN_LAYERS_MAX = 135,  /* descriptors of lower directories, topmost first: those of an image,
                             * and of snapshots above it */
    PLAN_BINDS_MAX = 16,    /* descriptors of volumes: directories or files to mount inside */
    PLAN_TARGET_MAX = 1024, /* path of a volume inside, with the NUL */
    PLAN_DNS_MAX = 3,
    PLAN_ARGS_MAX = 1024,
    PLAN_ENV_MAX = 4096,
    /* argv, env, cwd, then paths of volumes: NUL-terminated strings, back to back */
    PLAN_TEXT_MAX = 192 * 1024,   /* fits into one message */
    PLAN_STRING_MAX = 128 * 1024, /* limit of each string, with the NUL: that of execve(2) */
    PLAN_UID_RANGE = 65536,       /* ids of a sandbox: 0..65535 inside */
    PLAN_MILLICORES_MAX = 1024 * 1000,
    PLAN_RUNTIME_MAX = 16, /* with the NUL; as PLAN_ID_MAX */
};
#define PLAN_BYTES_MAX (UINT64_C(1) << 50) /* a pebibyte: sums of these cannot overflow */

enum plan_layer_flags {
    PLAN_LAYER_SHIFTED = 1, /* ids begin at LAYER_UID_FIRST on disk, else at 0 */
    PLAN_LAYER_FLAGS = PLAN_LAYER_SHIFTED,
};

enum plan_root {
    PLAN_ROOT_HOST, /* the host's /usr with a root that we make, below 0 or more layers */
    PLAN_ROOT_DIR,  /* 1..PLAN_LAYERS_MAX unpacked directories */
};

enum plan_net {
    PLAN_NET_NONE,   /* loopback only */
    PLAN_NET_BRIDGE, /* a veth to the host's bridge, NAT out */
};

/* 0 means no limit set by us, unless said otherwise. */
struct plan_limits {
    uint64_t memory_bytes;
    uint64_t disk_bytes;     /* of the writable layer; at least DISK_BYTES_MIN */
    uint64_t tmp_bytes;      /* of /tmp; 0 = 64 MiB */
    uint64_t shm_bytes;      /* of /dev/shm; 0 = 64 MiB */
    uint32_t cpu_millicores; /* 1000 = one core */
    uint32_t pids;           /* 0 = 1024 */
    uint32_t io_weight;      /* 1..10000, 100 is the default */
    uint32_t open_files;     /* 0 = 65536 */
};

struct plan {
    char id[PLAN_ID_MAX];
    char hostname[PLAN_HOSTNAME_MAX]; /* "" = the id */
    char runtime[PLAN_RUNTIME_MAX];   /* name of an OCI runtime, see oci.h; "" = none */
    enum plan_root root;
    enum plan_net net;
    struct plan_limits limits;
    uint32_t uid, gid;          /* of the entrypoint, inside: below PLAN_UID_RANGE */
    uint32_t dns[PLAN_DNS_MAX]; /* IPv4, network order; 0 = unset */
    uint32_t layer_count; /* descriptors that follow: layers, volumes, a lasting layer if ... */
    uint32_t lasting;     /* ... this is 1, execd's listener. Files that the sandbox writes are
                             kept in that directory; without limits.disk_bytes */
    uint32_t memory;  /* 1: the next descriptor is a directory of saved memory; the sandbox goes on
                             where that was saved. With a runtime that can */
    uint32_t guarded; /* 1: its network is closed from the start, until a policy opens it */
    uint32_t bind_count;
    uint32_t binds_read_only; /* bit i: volume i is read-only inside */
    uint32_t binds_objects;   /* bit i: its descriptor is a socket, see objects.h */
    uint32_t binds_given;     /* bit i: an empty directory of root's, it is given to uid and gid */
    uint8_t layer_flags[PLAN_LAYERS_MAX + 1]; /* enum plan_layer_flags, in the layers' order */
    uint32_t arg_count, env_count;
    uint32_t text_bytes;
    char text[PLAN_TEXT_MAX];
};

/* Fills the text; call in this order. -E2BIG when it does not fit. -EINVAL for a NUL inside, an
 * environment name that is empty or has a =, a cwd that is not absolute, or a volume's path that
 * plan_target_is_valid refuses. On failure the plan is unchanged. */
void plan_init(struct plan *p);
int plan_add_arg(struct plan *p, struct str arg);
int plan_add_env(struct plan *p, struct str name, struct str value);
/* The same at any later time. */
int plan_insert_env(struct plan *p, struct str name, struct str value);
int plan_set_cwd(struct plan *p, struct str cwd); /* once */
/* Volumes are mounted in this order: a later one may be inside an earlier one. */
int plan_add_bind(struct plan *p, struct str target, bool read_only);
/* Gives the last volume to the plan's user if it is an empty directory that belongs to root. */
void plan_give_bind(struct plan *p);
/* As plan_add_bind() for a volume of object storage. */
int plan_add_objects(struct plan *p, struct str target, bool read_only);

/* Bytes to send or copy: up to the end of the text. */
static inline size_t plan_bytes(const struct plan *p)
{
    return offsetof(struct plan, text) + p->text_bytes;
}

/* Whether any of its layers is PLAN_LAYER_SHIFTED. */
bool plan_has_shifted_layer(const struct plan *p);

/* Checks everything that the broker relies on; the error names the field. */
int plan_check(const struct plan *p, struct err *e);

bool plan_id_is_valid(struct str id);
/* Whether it may be plan.runtime. */
bool plan_runtime_is_valid(struct str name);

/* Whether a volume may be there: an absolute path without empty, "." and ".." components; not /,
 * and not at or below /proc, /sys and /dev. (plan_check refuses /usr of PLAN_ROOT_HOST.) */
bool plan_target_is_valid(struct str target);

/* Points argv, env (both NULL-terminated, with room for PLAN_ARGS_MAX + 1 and PLAN_ENV_MAX + 1) and
 * cwd into the text of a checked plan. */
void plan_strings(const struct plan *p, const char **argv, const char **env, const char **cwd);
/* The same for the paths of volumes: room for PLAN_BINDS_MAX + 1. */
void plan_targets(const struct plan *p, const char **targets);
