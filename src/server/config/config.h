/* config.h - the server's configuration: file, environment and command line as one struct.
 *
 * The fields are those of config_table.inc: config->server.port is key port of section [server].
 * All memory belongs to the struct, which is read-only once loaded and may be shared by threads.
 * Loading reads files and the environment and may block: it is for start-up. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include <stdbool.h>
#include <sys/types.h>

/* Values of the WORD keys on which the server acts, in the order of the table's words. */
enum config_vault { CONFIG_VAULT_LOST, CONFIG_VAULT_SEALED };
enum config_http { CONFIG_HTTP_PINNED, CONFIG_HTTP_RESOLVED };
enum config_store { CONFIG_STORE_SQLITE, CONFIG_STORE_POSTGRES };
enum config_runtime { CONFIG_RUNTIME_EMBEDDED, CONFIG_RUNTIME_DOCKER, CONFIG_RUNTIME_KUBERNETES };
enum config_proxy { CONFIG_PROXY_TOKEN, CONFIG_PROXY_OPEN };
enum config_auth { CONFIG_AUTH_KEY, CONFIG_AUTH_USER };
enum config_log { CONFIG_LOG_TEXT, CONFIG_LOG_JSON };
enum config_pull { CONFIG_PULL_IF_NOT_PRESENT, CONFIG_PULL_ALWAYS, CONFIG_PULL_NEVER };
enum config_start { CONFIG_START_AUTO, CONFIG_START_ALWAYS, CONFIG_START_NEVER };
enum config_network { CONFIG_NETWORK_BRIDGE, CONFIG_NETWORK_NONE };
enum config_ingress { CONFIG_INGRESS_DIRECT, CONFIG_INGRESS_GATEWAY };
enum config_route {
    CONFIG_ROUTE_UNSET,
    CONFIG_ROUTE_WILDCARD,
    CONFIG_ROUTE_HEADER,
    CONFIG_ROUTE_URI
};
enum config_secure {
    CONFIG_SECURE_NONE,
    CONFIG_SECURE_GVISOR,
    CONFIG_SECURE_KATA,
    CONFIG_SECURE_FIRECRACKER
};

enum {
    CONFIG_SECONDS_MAX = 10 * 366 * 86400,
    CONFIG_FILE_BYTES_MAX = 256 * 1024,
    CONFIG_REPORT_BYTES_MAX = 64 * 1024,
    CONFIG_MILLICORES_MAX = 1024 * 1000,
    CONFIG_DNS_MAX = 3,
    CONFIG_MIRRORS_MAX = 8,
    CONFIG_REGISTRIES_MAX = 256,
    CONFIG_KEYS_MAX = 16, /* API keys */
    CONFIG_ID_DEFAULT = 61700,
};
#define CONFIG_BYTES_MAX    (INT64_C(1) << 50)
#define CONFIG_USER_DEFAULT "opensandbox"

struct config_list {
    const char *const *at;
    size_t count;
};

struct config_pair {
    const char *name, *value;
};
struct config_pairs { /* in the order of the file */
    struct config_pair *at;
    size_t count;
};

struct config_key { /* of [ingress.secure_access] */
    char id;        /* 0-9a-z */
    struct str secret;
};
struct config_keys {
    struct config_key *at;
    size_t count;
};

enum config_image_kind { CONFIG_IMAGE_HOST, CONFIG_IMAGE_DIR };
struct config_image {
    const char *pattern;
    enum config_image_kind kind;
    const char *dir; /* of CONFIG_IMAGE_DIR: absolute */
};

/* A runtime that requests may name, from embedded.runtimes. */
#define CONFIG_RUNTIME_NATIVE "native" /* none but the kernel's own walls */
struct config_oci_runtime {
    const char *name;
    const char *command; /* path and arguments of the program; "" of native */
};

/* How to reach a registry: all that [images] says about it. */
struct config_registry {
    const char *name;
    struct config_list mirrors; /* URLs, in the order to ask them */
    bool plain_http, skip_verify;
};

/* Where a value came from: at most one of the two. */
struct config_origin {
    uint32_t line;    /* in the file; 0 = not from the file */
    const char *name; /* of the option or environment variable; NULL = from neither */
};

enum config_row_id {
#define CONF_SECTION(section, path, help)
#define CONF(section, key, kind, fallback, limits, help) CONFIG_ROW_##section##_##key,
#define CONF_END(section)
#include "server/config/config_table.inc"
    CONFIG_ROW_COUNT,
};

#define CONF_TYPE_TEXT  const char * /* never NULL */
#define CONF_TYPE_WORD  int          /* an enum above */
#define CONF_TYPE_INT   int64_t
#define CONF_TYPE_REAL  double
#define CONF_TYPE_BOOL  bool
#define CONF_TYPE_BYTES uint64_t
#define CONF_TYPE_CPU   uint32_t /* millicores */
#define CONF_TYPE_LIST  struct config_list
#define CONF_TYPE_PAIRS struct config_pairs
#define CONF_TYPE_KEYS  struct config_keys

struct config {
#define CONF_SECTION(section, path, help)                struct {
#define CONF(section, key, kind, fallback, limits, help) CONF_TYPE_##kind key;
#define CONF_END(section)                                                                          \
    }                                                                                              \
    section;
#include "server/config/config_table.inc"

    /* Derived from the values above. */
    const char *path;            /* of the file; NULL = there was none */
    const char *dir;             /* directory of store.path: the server's data directory */
    bool insecure;               /* OPENSANDBOX_INSECURE_SERVER=YES: no API key is needed */
    enum log_level log_level;    /* from log.level */
    struct config_image *images; /* from embedded.images */
    size_t image_count;
    struct config_oci_runtime *runtimes; /* from embedded.runtimes and secure_runtime.type */
    size_t runtime_count;
    const char *runtime_of_all;         /* of requests that name none; "" = native */
    struct config_registry *registries; /* from images.mirrors, .plain_http, .skip_verify */
    size_t registry_count;
    uint32_t dns[CONFIG_DNS_MAX]; /* from embedded.dns; network order */
    size_t dns_count;

    struct config_origin origins[CONFIG_ROW_COUNT];
    struct arena arena;
};

/* What loading found, one line each: "FILE:LINE:COLUMN: error: KEY: what is wrong, what would be
 * right". Warnings do not keep the server from starting. */
struct config_report {
    struct buf lines;
    unsigned errors, warnings;
};
void config_report_init(struct config_report *report);
void config_report_done(struct config_report *report);

/* Values from the command line; NULL = not given. */
struct config_options {
    const char *path, *host, *port, *state;
};

/* Finds the file (options->path, SANDBOX_CONFIG_PATH, ~/.sandbox.toml, the system's, none), reads
 * it, lets environment and options override it, and checks the result. On failure the report has
 * every error that was found, and at least one. */
int config_load(const struct config_options *options, struct config **ret_config,
                struct config_report *report) MUST_USE;
/* The same from text, without the environment. `filename` is for messages. */
int config_parse(struct str text, const char *filename, struct config **ret_config,
                 struct config_report *report) MUST_USE;
void config_free(struct config *config); /* NULL is fine */

/* The word of runtime.type. */
struct str config_runtime_name(const struct config *config);

/* Checks what depends on this host: that directories and programs exist. has_runtime: whether this
 * build has the runtime. The server checks it at start-up, too. */
int config_check_host(const struct config *config, bool has_runtime,
                      struct config_report *report) MUST_USE;

/* Whether the URL is of https, or of http on this machine. */
bool config_url_is_safe(struct str url);

/* The entry that an image name matches, or NULL. */
const struct config_image *config_image_find(const struct config *config, struct str image);

/* The runtime of that name, or NULL. */
const struct config_oci_runtime *config_runtime_find(const struct config *config, struct str name);

/* Looks up the account of server.user. */
int config_account(const struct config *config, uid_t *ret_uid, gid_t *ret_gid, struct err *e);

/* Prints all keys as TOML, with the origin of each non-default. `reveal` shows secrets. */
int config_print(const struct config *config, bool reveal, struct buf *out);
/* Prints a file with every key, its default and its help, all commented out. */
int config_print_skeleton(struct buf *out);
/* Prints docs/config.md. */
int config_print_reference(struct buf *out);
