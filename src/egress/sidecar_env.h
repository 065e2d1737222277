/* sidecar_env.h - the configuration of opensandbox-egress as a sidecar, from its environment.
 *
 * Reads text only: no file, no socket. docs/sidecar.md has the table of variables. */
#pragma once

#include "base/arena.h"
#include "base/log.h"
#include "egress/egress.h"
#include "sandbox/netns_own.h"

enum { SIDECAR_ATTRS_MAX = 32, SIDECAR_TEXT_MAX = 1024 };

struct sidecar_attr {
    struct str key, value;
};

struct sidecar_conf { /* strings point into the environment or the arena */
    bool filters;     /* mode dns+nft; else dns */
    struct str rules;
    const char *policy_file; /* NULL = none */
    struct str http_addr;
    struct str token; /* empty = requests need none */
    uint32_t rules_max;
    enum log_level log_level;
    struct str log_output;
    struct str webhook;
    struct str sandbox_id;
    struct sidecar_attr attrs[SIDECAR_ATTRS_MAX];
    size_t attr_count;
    struct netns_own_addr exempt[NETNS_OWN_EXEMPT_MAX];
    struct str exempt_texts[NETNS_OWN_EXEMPT_MAX];
    size_t exempt_count;
    struct sock_addr upstreams[DNS_UPSTREAMS_MAX];
    size_t upstream_count;
    uint32_t dns_timeout_ms;
    bool block_doh;
    struct str doh[EGRESS_TARGETS_MAX]; /* empty: all of port 443 */
    size_t doh_count;
    bool intercepts, insecure;
    uint16_t tls_port;
    const char *trust_dir;
    struct str otlp; /* URL; empty = none */
    bool otlp_is_base;
    uint32_t otlp_interval_ms;
    bool vault_by_loopback; /* writes of the vault must come over loopback */
    bool opens_at_stop;     /* a clean stop removes all rules */
    const char *warnings[8];
    size_t warning_count;
};

/* `resolv` is the text of /etc/resolv.conf, `hostinfo` that of /etc/hostinfo. -EINVAL for what the
 * process must not start with. */
int sidecar_conf_read(const char *const *env, struct str resolv, struct str hostinfo,
                      struct arena *a, struct sidecar_conf *ret, struct err *e);

/* The targets of a list like deny.always: one per line, '#' begins a comment line. Returns their
 * number; -E2BIG. */
int sidecar_lines(struct str text, struct str *ret, size_t max);
