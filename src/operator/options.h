/* options.h - the command line of opensandbox-operator. */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct options {
    const char *kubeconfig, *metrics_bind, *metrics_cert_dir, *metrics_cert, *metrics_key;
    const char *probe_bind, *log_file, *pod_namespace;
    const char *committer_image, *containerd_socket, *registry, *push_secret, *pull_secret;
    bool metrics_secure, leader_elect, registry_insecure, file_log, json_log, weak_keys;
    double qps;
    uint32_t burst, sandbox_workers, pool_workers;
    int64_t expectation_timeout_s, commit_timeout_s;
    uint64_t log_max_mib, log_backups, log_max_days;
    int log_level; /* enum log_level */
    bool help, version;
};

void options_default(struct options *o);
/* --name value, --name=value, -name; a boolean may stand alone. -EINVAL names the flag and what it
 * accepts. Strings are borrowed from argv. */
int options_parse(struct options *o, int argc, char **argv, struct err *e);
void options_help(void); /* to standard output */
/* "10m", "1h30m", "45s", "500ms": Go durations, in whole seconds, rounded up. */
int options_duration(struct str s, int64_t *ret_s, struct err *e);
