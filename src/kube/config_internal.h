/* config_internal.h - what the files of the configuration share, and what the client asks of it. */
#pragma once

#include <pthread.h>

#include "base/time.h"
#include "base/url.h"
#include "kube/config.h"
#include "net/tls.h"

enum { KUBE_ADDRESSES_MAX = 8 };

/* user.exec of a kubeconfig. Texts are of the arena. */
struct kube_plugin {
    const char *command; /* NULL = none */
    const char **argv;   /* NULL at its end */
    const char **env;    /* "NAME=value" of its own, NULL at its end */
    const char *api_version;
    const char *hint; /* how to install it; "" = unknown */
};

struct kube_config {
    struct arena arena; /* of all texts */
    const char *server, *host, *prefix, *ns;
    const char *tls_name; /* which the server must prove to have */
    uint16_t port;
    bool secure, skip_verify, host_is_ipv6;
    const char *files[3];           /* authorities, certificate, key; NULL = none */
    int memory[3];                  /* of those that came inline; -EBADF */
    const char *token_file, *basic; /* basic: the whole header; NULL = none */
    struct kube_plugin plugin;

    pthread_mutex_t lock; /* protects the rest */
    char *token;          /* NULL = none yet */
    uint64_t token_until; /* monotonic ns: read it again then; DEADLINE_NEVER */
    struct sock_addr addresses[KUBE_ADDRESSES_MAX];
    size_t address_count;
};

/* kubeconfig.c: fills a configuration that is all zero but for its arena. */
int kubeconfig_read(struct kube_config *c, struct str text, const char *dir, const char *context,
                    struct err *e);
/* Puts inline data into a file in memory, and its name into files[i]. */
int kube_config_put_file(struct kube_config *c, int i, struct str data, struct err *e);

/* plugin.c: runs the plugin. The caller wipes and frees *ret_token; *ret_until is as token_until.
 * BLOCKS at most 30 s. */
int kube_plugin_run(struct kube_config *c, char **ret_token, uint64_t *ret_until, struct err *e);

/* The value of the Authorization header, appended; nothing when there is none. 1 when it must be
 * fetched first, by kube_config_refresh on a thread that may block. */
int kube_config_authorization(struct kube_config *c, struct buf *out, struct err *e);
/* The server refused the token: it is read again before the next use. */
void kube_config_distrust(struct kube_config *c);
/* Fetches a token that is due, and resolves the server's name. BLOCKS. */
int kube_config_refresh(struct kube_config *c, bool resolve, struct err *e);
/* Whether kube_config_refresh could find another address. */
bool kube_config_can_resolve(const struct kube_config *c);
/* The address to try as the n-th. */
void kube_config_address(struct kube_config *c, uint32_t n, struct sock_addr *ret);
/* NULL for http. */
int kube_config_tls_new(const struct kube_config *c, struct tls_client **ret, struct err *e);
