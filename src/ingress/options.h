/* options.h - the command line of opensandbox-ingress. */
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "ingress/route.h"

enum unprotected {
    UNPROTECTED_ALLOW,
    UNPROTECTED_NO_CONTROL, /* not the ports of execd and of the egress control */
    UNPROTECTED_DENY,
};

struct options {
    /* As the original has them. */
    uint64_t port;
    const char *mode_text;
    enum route_mode mode;
    const char *provider;
    enum log_level log_level;
    const char *ns;       /* of the original, which ignores it */
    const char *watch_ns; /* "" = all */
    const char *keys;
    bool renew;
    const char *redis_dsn;
    const char *queue_key;
    uint64_t queue_max;
    int64_t min_interval_s;
    /* Ours. */
    const char *address;
    uint64_t workers; /* 0 = one for each CPU, up to 16 */
    const char *keys_file;
    uint64_t signed_max_s;
    enum unprotected unprotected;
    bool hide_unknown;
    const char *tls_cert, *tls_key, *tls_client_ca;
    const char *metrics_address;
    const char *trusted_proxies;
    uint64_t connections_max;
    uint64_t source_connections, source_rate, source_burst, source_failures;
    const char *servers_file;
    uint64_t lookup_ttl_s;
    uint64_t wake_s;
    uint64_t connect_wait_ms;
    uint64_t drain_s, drain_delay_s;
    uint64_t start_s;
    const char *kubeconfig;
};

extern const char options_help[];

enum options_wish { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };

/* -EINVAL with a message for an unknown flag, and for a value that is none. Strings are borrowed
 * from argv. */
int options_parse(int argc, char **argv, struct options *ret, enum options_wish *ret_wish,
                  struct err *e);
