/* config_check.c - checks across keys: derived values, invalid combinations, and requirements on
 * this host. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/url.h"
#include "net/tls.h"
#include "sandbox/disk.h"
#include "sandbox/plan.h"
#include "server/config/config_internal.h"

/* --- derived values --- */

static void resolve_paths(struct config *c, struct config_report *report)
{
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        const struct config_row *row = &config_rows[i];
        const char **path = config_field(c, row);

        if (row->kind != CONFIG_TEXT || row->form != FORM_PATH || !(*path)[0])
            continue;
        *path = config_path_resolve(&c->arena, *path);
        if (!*path) {
            config_error(report, NULL, "%s: this path is too long", row->key);
            *path = "";
        }
    }
}

static void fill_in(const char **field, const char *value)
{
    if (!(*field)[0] && value)
        *field = value;
}

static void derive_paths(struct config *c)
{
    struct arena *a = &c->arena;
    const char *slash;

    fill_in(&c->embedded.broker, arena_printf(a, "%s/broker.sock", c->server.state));
    fill_in(&c->store.path, arena_printf(a, "%s/server/opensandbox.db", c->server.state));
    fill_in(&c->embedded.broker_program,
            config_program_find(a, "opensandbox-broker", OPENSANDBOX_BROKER));
    fill_in(&c->embedded.unpack_program,
            config_program_find(a, "opensandbox-unpack", OPENSANDBOX_UNPACK));
    fill_in(&c->egress.program, config_program_find(a, "opensandbox-egress", OPENSANDBOX_EGRESS));
    fill_in(&c->runtime.execd_program, config_program_find(a, "execd", OPENSANDBOX_EXECD));
    slash = strrchr(c->store.path, '/');
    c->dir = slash > c->store.path
                 ? arena_strdup(a, str_make(c->store.path, (size_t)(slash - c->store.path)))
                 : "/";
}

/* The place of a value in the file; empty when it is not from the file. */
static struct config_place place_of(const struct config *c, const struct toml *root,
                                    const char *key)
{
    const struct toml *v = toml_get_path(root, str_of(key));

    return (struct config_place){c->path, v ? toml_pos(v) : (struct toml_pos){0}};
}

static void derive_dns(struct config *c, const struct toml *root, struct config_report *report)
{
    struct config_place at = place_of(c, root, "embedded.dns");

    if (c->embedded.dns.count > CONFIG_DNS_MAX) {
        config_error(report, &at, "embedded.dns: found %zu addresses; expected %d at most",
                     c->embedded.dns.count, CONFIG_DNS_MAX);
        return;
    }
    for (; c->dns_count < c->embedded.dns.count; c->dns_count++)
        (void)inet_pton(AF_INET, c->embedded.dns.at[c->dns_count], &c->dns[c->dns_count]);
}
static_assert((int)CONFIG_DNS_MAX == (int)PLAN_DNS_MAX, "a plan has room for them");

static void derive_images(struct config *c, const struct toml *root, struct config_report *report)
{
    const struct config_pairs *pairs = &c->embedded.images;
    const struct toml *table = toml_get_path(root, STR("embedded.images"));

    c->images = arena_new_array(&c->arena, struct config_image, pairs->count + 1);
    for (size_t i = 0; c->images && i < pairs->count; i++) {
        const struct config_pair *pair = &pairs->at[i];
        bool host = strcmp(pair->value, "host") == 0;
        bool dir = str_starts(str_of(pair->value), STR("dir:/"));
        const struct toml *v = toml_get(table, str_of(pair->name));
        struct config_place at = {c->path, v ? toml_pos(v) : (struct toml_pos){0}};

        if (!host && !dir) {
            config_error(report, &at,
                         "embedded.images.\"%.80s\": found \"%.80s\"; expected \"host\" or "
                         "\"dir:/absolute/path\"",
                         pair->name, pair->value);
            continue;
        }
        c->images[c->image_count++] =
            (struct config_image){pair->name, host ? CONFIG_IMAGE_HOST : CONFIG_IMAGE_DIR,
                                  host ? NULL : pair->value + strlen("dir:")};
    }
}

/* --- combinations --- */

static bool has(const struct toml *root, const char *section)
{
    return toml_get_path(root, str_of(section)) != NULL;
}

#define RULE(name) static bool name(const struct config *c, const struct toml *root UNUSED)

RULE(docker_with_kubernetes)
{
    return c->runtime.type == CONFIG_RUNTIME_DOCKER && has(root, "kubernetes");
}

RULE(docker_with_agent_sandbox)
{
    return c->runtime.type == CONFIG_RUNTIME_DOCKER && has(root, "agent_sandbox");
}

RULE(docker_with_gateway)
{
    return c->runtime.type == CONFIG_RUNTIME_DOCKER && c->ingress.mode == CONFIG_INGRESS_GATEWAY;
}

RULE(docker_with_firecracker)
{
    return c->runtime.type == CONFIG_RUNTIME_DOCKER &&
           c->secure_runtime.type == CONFIG_SECURE_FIRECRACKER;
}

RULE(agent_sandbox_without_provider)
{
    return c->runtime.type == CONFIG_RUNTIME_KUBERNETES && has(root, "agent_sandbox") &&
           strcmp(c->kubernetes.workload_provider, "agent-sandbox") != 0;
}

RULE(names_without_secure_runtime)
{
    return c->secure_runtime.type == CONFIG_SECURE_NONE &&
           (c->secure_runtime.docker_runtime[0] || c->secure_runtime.k8s_runtime_class[0]);
}

RULE(firecracker_without_class)
{
    return c->runtime.type == CONFIG_RUNTIME_KUBERNETES &&
           c->secure_runtime.type == CONFIG_SECURE_FIRECRACKER &&
           !c->secure_runtime.k8s_runtime_class[0];
}

RULE(secure_runtime_without_names)
{
    return c->runtime.type != CONFIG_RUNTIME_EMBEDDED &&
           (c->secure_runtime.type == CONFIG_SECURE_GVISOR ||
            c->secure_runtime.type == CONFIG_SECURE_KATA) &&
           !c->secure_runtime.docker_runtime[0] && !c->secure_runtime.k8s_runtime_class[0];
}

RULE(gateway_without_mode)
{
    return c->ingress.mode != CONFIG_INGRESS_GATEWAY && has(root, "ingress.gateway");
}

RULE(gateway_without_address)
{
    return c->ingress.mode == CONFIG_INGRESS_GATEWAY && !c->ingress_gateway.address[0];
}

RULE(gateway_without_route)
{
    return c->ingress.mode == CONFIG_INGRESS_GATEWAY && c->ingress_route.mode == CONFIG_ROUTE_UNSET;
}

RULE(wildcard_without_star)
{
    const char *address = c->ingress_gateway.address;

    return c->ingress_route.mode == CONFIG_ROUTE_WILDCARD && address[0] &&
           (strncmp(address, "*.", 2) != 0 || !address[2] || strchr(address + 1, '*'));
}

RULE(star_without_wildcard)
{
    return (c->ingress_route.mode == CONFIG_ROUTE_HEADER ||
            c->ingress_route.mode == CONFIG_ROUTE_URI) &&
           strchr(c->ingress_gateway.address, '*');
}

/* host, host:port, IPv4, IPv4:port. */
static bool is_host_port(struct str text)
{
    size_t colon = str_find(text, ':');
    uint16_t port;

    if (colon < text.n && (str_to_u16(str_skip(text, colon + 1), &port) < 0 || port == 0))
        return false;
    for (size_t i = 0; i < colon; i++)
        if (!ascii_is_alpha(text.p[i]) && !ascii_is_digit(text.p[i]) && text.p[i] != '-' &&
            text.p[i] != '.')
            return false;
    return colon > 0;
}

RULE(header_without_host)
{
    return c->ingress_route.mode == CONFIG_ROUTE_HEADER && c->ingress_gateway.address[0] &&
           !is_host_port(str_of(c->ingress_gateway.address));
}

RULE(secure_access_without_keys)
{
    return has(root, "ingress.secure_access") && c->ingress_secure.keys.count == 0;
}

RULE(secure_access_without_active_key)
{
    for (size_t i = 0; i < c->ingress_secure.keys.count; i++)
        if (c->ingress_secure.keys.at[i].id == c->ingress_secure.active_key[0])
            return false;
    return has(root, "ingress.secure_access") && c->ingress_secure.keys.count > 0;
}

RULE(redis_without_dsn)
{
    return c->renew_redis.enabled && !c->renew_redis.dsn[0];
}

RULE(postgres_without_dsn)
{
    return c->store.type == CONFIG_STORE_POSTGRES && !c->store.dsn[0];
}

RULE(dsn_without_postgres)
{
    return c->store.type != CONFIG_STORE_POSTGRES && c->store.dsn[0];
}

RULE(cluster_without_postgres)
{
    return c->cluster.advertise[0] && c->store.type != CONFIG_STORE_POSTGRES;
}

RULE(cluster_of_kubernetes)
{
    return c->cluster.advertise[0] && c->runtime.type == CONFIG_RUNTIME_KUBERNETES;
}

RULE(cluster_without_url)
{
    struct url url;

    return c->cluster.advertise[0] &&
           (url_split(str_of(c->cluster.advertise), &url, NULL) < 0 || url.path.n > 1 ||
            url.query.p || (url.scheme != URL_HTTP && url.scheme != URL_HTTPS) ||
            strlen(c->cluster.advertise) > 255);
}

RULE(short_cluster_secret)
{
    size_t n = strlen(c->cluster.secret);

    return n && (n < 32 || n > 255);
}

RULE(too_many_api_keys)
{
    return c->server.api_keys.count + (c->server.api_key[0] != '\0') > CONFIG_KEYS_MAX;
}

#define HIDDEN_KEY "this stands for a key in --print-config; expected the key itself"

RULE(hidden_api_key)
{
    return strcmp(c->server.api_key, CONFIG_HIDDEN) == 0;
}

RULE(hidden_api_keys)
{
    for (size_t i = 0; i < c->server.api_keys.count; i++)
        if (strcmp(c->server.api_keys.at[i], CONFIG_HIDDEN) == 0)
            return true;
    return false;
}

RULE(certificate_without_key)
{
    return c->server.tls_cert[0] && !c->server.tls_key[0];
}

RULE(key_without_certificate)
{
    return c->server.tls_key[0] && !c->server.tls_cert[0];
}

RULE(client_ca_without_certificate)
{
    return c->server.tls_client_ca[0] && !c->server.tls_cert[0];
}

RULE(long_socket_path)
{
    return strlen(c->embedded.broker) >= sizeof(((struct sockaddr_un *)0)->sun_path);
}

RULE(long_data_path)
{
    static const char longest[] = "/sandboxes/00000000-0000-0000-0000-000000000000/sock";

    return strlen(c->dir) + sizeof(longest) > sizeof(((struct sockaddr_un *)0)->sun_path);
}

RULE(tiny_disk)
{
    return c->runtime.default_disk > 0 && c->runtime.default_disk < DISK_BYTES_MIN;
}

static const struct {
    bool (*broken)(const struct config *c, const struct toml *root);
    const char *key; /* key that the message names and points at */
    const char *message;
} rules[] = {
    {docker_with_kubernetes,           "kubernetes",                 "goes with runtime.type = \"kubernetes\" only"          },
    {docker_with_agent_sandbox,        "agent_sandbox",              "goes with runtime.type = \"kubernetes\" only"          },
    {docker_with_gateway,              "ingress.mode",               "the docker runtime has no gateway; expected \"direct\""},
    {docker_with_firecracker,          "secure_runtime.type",        "firecracker goes with kubernetes only"                 },
    {agent_sandbox_without_provider,   "agent_sandbox",
     "needs kubernetes.workload_provider = \"agent-sandbox\""                                                                },
    {names_without_secure_runtime,     "secure_runtime",
     "docker_runtime and k8s_runtime_class need a type"                                                                      },
    {firecracker_without_class,        "secure_runtime.type",        "firecracker needs k8s_runtime_class"                   },
    {secure_runtime_without_names,     "secure_runtime.type",
     "needs docker_runtime or k8s_runtime_class"                                                                             },
    {gateway_without_mode,             "ingress.gateway",            "needs ingress.mode = \"gateway\""                      },
    {gateway_without_address,          "ingress.mode",               "gateway needs ingress.gateway.address"                 },
    {gateway_without_route,            "ingress.mode",
     "gateway needs ingress.gateway.route.mode: \"wildcard\", \"header\" or \"uri\""                                         },
    {wildcard_without_star,            "ingress.gateway.address",
     "wildcard routes need an address such as *.example.com"                                                                 },
    {star_without_wildcard,            "ingress.gateway.address",    "* goes with wildcard routes only"                      },
    {header_without_host,              "ingress.gateway.address",
     "header routes need a host name or IPv4 address, with :port if need be"                                                 },
    {secure_access_without_keys,       "ingress.secure_access",      "needs at least one key in keys"                        },
    {secure_access_without_active_key, "ingress.secure_access",
     "active_key must be the key_id of one of the keys"                                                                      },
    {redis_without_dsn,                "renew_intent.redis.enabled", "needs renew_intent.redis.dsn"                          },
    {postgres_without_dsn,             "store.type",                 "postgres needs store.dsn"                              },
    {dsn_without_postgres,             "store.dsn",                  "goes with store.type = \"postgres\" only"              },
    {cluster_without_postgres,         "cluster.advertise",          "needs store.type = \"postgres\""                       },
    {cluster_of_kubernetes,            "cluster.advertise",
     "servers of the kubernetes runtime share the cluster's own state, and need none of this"                                },
    {cluster_without_url,              "cluster.advertise",          "expected a URL such as http://10.0.0.1:8080"           },
    {short_cluster_secret,             "cluster.secret",             "expected 32 to 255 bytes"                              },
    {too_many_api_keys,                "server.api_keys",            "there is room for 16 keys, api_key among them"         },
    {hidden_api_key,                   "server.api_key",             HIDDEN_KEY                                              },
    {hidden_api_keys,                  "server.api_keys",            HIDDEN_KEY                                              },
    {certificate_without_key,          "server.tls_cert",            "needs server.tls_key"                                  },
    {key_without_certificate,          "server.tls_key",             "needs server.tls_cert"                                 },
    {client_ca_without_certificate,    "server.tls_client_ca",
     "needs server.tls_cert and server.tls_key"                                                                              },
    {long_socket_path,                 "embedded.broker",
     "a socket's path has at most 107 bytes; name a shorter one"                                                             },
    {long_data_path,                   "store.path",
     "sockets of sandboxes lie beside it, and their paths have at most 107 bytes; name a directory "
     "whose path has at most 55"                                                                                             },
    {tiny_disk,                        "runtime.default_disk",       "less than 4Mi is too small; expected 0 or at least 4Mi"},
};

/* Warns of sections without effect: people who switch runtimes keep those of other ones, and some
 * are not supported yet. */
static void warn_of_idle_sections(const struct config *c, const struct toml *root,
                                  struct config_report *report)
{
    static const char *const sections[] = {"docker", "kubernetes", "agent_sandbox"};

    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        struct config_place at = place_of(c, root, sections[i]);

        if (c->runtime.type == CONFIG_RUNTIME_EMBEDDED && has(root, sections[i]))
            config_warn(report, &at, "section %s has no effect: the runtime is embedded",
                        sections[i]);
    }
    if (c->renew_redis.enabled && !c->renew_intent.enabled) {
        struct config_place at = place_of(c, root, "renew_intent.redis.enabled");

        config_warn(report, &at,
                    "renew_intent.redis.enabled has no effect: renew_intent.enabled is false");
    }
}

void config_settle(struct config *c, const struct toml *root, struct config_report *report)
{
    resolve_paths(c, report);
    derive_paths(c);
    derive_dns(c, root, report);
    derive_images(c, root, report);
    config_registries(c, root, report);
    config_runtimes(c, root, report);
    config_oidc_check(c, root, report);
    (void)!config_level_parse(str_of(c->log.level), &c->log_level);
    warn_of_idle_sections(c, root, report);
    if (!c->dir || !c->images || !c->registries || !c->runtimes || !c->runtime_of_all)
        config_error(report, NULL, "out of memory for this configuration");
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        struct config_place at = place_of(c, root, rules[i].key);

        if (rules[i].broken(c, root))
            config_error(report, &at, "%s: %s", rules[i].key, rules[i].message);
    }
}

/* --- this host --- */

/* Existing programs are enough to start a broker, unless one answers already. */
static void check_program(const struct config *c, const char *key, const char *path,
                          struct config_report *report)
{
    if (c->embedded.start_broker == CONFIG_START_NEVER || access(path, X_OK) == 0)
        return;
    if (c->embedded.start_broker == CONFIG_START_ALWAYS)
        config_error(report, NULL, "%s: there is no program '%s'", key, path);
    else if (geteuid() == 0)
        config_warn(report, NULL, "%s: there is no program '%s', so no broker can be started", key,
                    path);
}

/* The files of TLS, as the server will read them. */
static void check_tls(const struct config *c, struct config_report *report)
{
    struct tls_server_conf conf = {c->server.tls_cert, c->server.tls_key, c->server.tls_client_ca};
    struct tls_server *tls = NULL;
    struct err e = {0};

    if (c->server.tls_cert[0] && tls_server_new(&conf, &tls, &e) < 0)
        config_error(report, NULL, "server.tls_cert, server.tls_key: %s", e.msg);
    tls_server_free(tls);
}

struct str config_runtime_name(const struct config *c)
{
    return config_word(config_rows[CONFIG_ROW_runtime_type].words, c->runtime.type);
}

static void check_readable(const char *key, const char *path, struct config_report *report)
{
    if (path[0] && access(path, R_OK) < 0)
        config_error(report, NULL, "%s: cannot read '%s': %s", key, path, strerror(errno));
}

/* What the embedded runtime needs. */
static void check_embedded(const struct config *c, struct config_report *report)
{
    struct stat st;

    for (size_t i = 0; i < c->image_count; i++)
        if (c->images[i].kind == CONFIG_IMAGE_DIR &&
            (stat(c->images[i].dir, &st) < 0 || !S_ISDIR(st.st_mode)))
            config_error(report, NULL, "embedded.images.\"%.80s\": there is no directory '%s'",
                         c->images[i].pattern, c->images[i].dir);
    check_program(c, "embedded.broker_program", c->embedded.broker_program, report);
    check_readable("images.ca_file", c->oci.ca_file, report);
    check_readable("egress.ca_file", c->egress.ca_file, report);
    check_readable("images.credentials_file", c->oci.credentials_file, report);
    check_program(c, "runtime.execd_program", c->runtime.execd_program, report);
    if (c->embedded.start_broker != CONFIG_START_NEVER)
        config_runtimes_check_host(c, report);
}

int config_check_host(const struct config *c, bool has_runtime, struct config_report *report)
{
    unsigned before = report->errors;
    struct err e = {0};
    uid_t uid;
    gid_t gid;

    if (!has_runtime)
        config_error(report, NULL,
                     "runtime.type: this build has no %.*s runtime; expected \"embedded\" or "
                     "\"docker\"",
                     STR_ARG(config_runtime_name(c)));
    if (c->runtime.type == CONFIG_RUNTIME_EMBEDDED)
        check_embedded(c, report);
    if (config_account(c, &uid, &gid, &e) < 0)
        config_error(report, NULL, "server.user: %s", e.msg);
    check_tls(c, report);
    check_readable("auth.oidc.ca_file", c->auth_oidc.ca_file, report);
    check_readable("auth.oidc.client_secret_file", c->auth_oidc.client_secret_file, report);
    return report->errors > before ? -EINVAL : 0;
}
