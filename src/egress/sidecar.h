/* sidecar.h - opensandbox-egress as a sidecar: one sandbox, whose network namespace it shares.
 *
 * It has CAP_NET_ADMIN there and writes the rules itself, by netlink (netns_own.h), asks no broker
 * and no server. Everything else is the same engine: one `guarded`, all traffic is its own. The
 * rules stay when the process ends, so that nothing opens on a crash. */
#pragma once

#include "egress/metrics.h"
#include "egress/sidecar_env.h"
#include "egress/webhook.h"

struct sidecar {
    struct egress egress;
    struct sidecar_conf conf;
    struct netns_own own;
    struct arena arena;
    struct loop_signals signals;
    struct loop_timer poll;
    struct always_file {
        const char *path;
        int64_t mtime_ns, bytes; /* -1: there is none */
    } always[2];
    struct metrics_export *metrics;
    struct otlp_attribute attrs[SIDECAR_ATTRS_MAX];
    bool ready; /* the health gate */
    bool draining;
    int result; /* of the process */
};

/* Runs until a signal; the exit status of the process. */
int sidecar_main(void);

/* --- sidecar_files.c: policy file, lists of the operator, authority --- */

int sidecar_policy_load(struct sidecar *s, struct policy **ret, struct err *e);
int sidecar_policy_save(const char *path, const struct policy *policy, struct err *e); /* BLOCKS */
int sidecar_always_load(struct sidecar *s, struct policy **ret, struct err *e);
bool sidecar_always_changed(struct sidecar *s); /* since it was last asked */
int sidecar_skip_load(struct sidecar *s, struct err *e);
int sidecar_ca_dir(struct err *e); /* opens it; makes it if it is missing */
int sidecar_ca_export(struct str certificate, struct err *e);

/* --- sidecar_api.c --- */

int sidecar_api_start(struct sidecar *s, struct err *e);
