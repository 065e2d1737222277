/* options.c - reads flags as Go's flag package does: one dash or two, "-name value" or
 * "-name=value", and bare names for what is true or false. */
#include "ingress/options.h"

#include <errno.h>
#include <stdlib.h>

const char options_help[] =
    "usage: opensandbox-ingress [OPTION...]\n"
    "\n"
    "A gateway: HTTP and WebSocket from one address to any port of any sandbox.\n"
    "\n"
    "  --port N                       to listen on (28888); 0 = one that is free\n"
    "  --address ADDRESS              to listen on (all)\n"
    "  --mode header|uri              where a request says its sandbox: header\n"
    "                                 OpenSandbox-Ingress-To or host, or path (header)\n"
    "  --provider-type NAME           what knows the sandboxes: batchsandbox, agent-sandbox, or\n"
    "                                 servers, a list of lifecycle servers (batchsandbox)\n"
    "  --kubeconfig FILE              of the cluster; else KUBECONFIG, else the pod's account\n"
    "  --namespace NAME               accepted and ignored, as by the original\n"
    "  --watch-namespace NAME         sandboxes of this namespace only (all)\n"
    "  --servers-file FILE            TOML with [[servers]]: url, name, api_key or api_key_file,\n"
    "                                 ca_file. For servers; with others, to resume sandboxes.\n"
    "  --lookup-ttl SECONDS           a sandbox found on a server is remembered for (10)\n"
    "  --wake-timeout SECONDS         a request for a paused sandbox has it resumed, and waits "
    "for\n"
    "                                 so long (0 = it is refused)\n"
    "  --connect-wait MS              a request without a body to a port that refuses connections\n"
    "                                 is tried again for so long (0)\n"
    "  --workers N                    threads (0 = one for each CPU, up to 16)\n"
    "  --log-level debug|info|warn|error  (info); outputs: OPENSANDBOX_LOG_OUTPUT\n"
    "\n"
    "Access:\n"
    "  --secure-access-keys a=BASE64,b=BASE64  keys that verify signed routes\n"
    "  --secure-access-keys-file FILE the same from a file, read again at SIGHUP\n"
    "  --signed-route-max-age SECONDS refuse routes that expire later than that (0 = none)\n"
    "  --unprotected allow|no-control|deny  sandboxes without a token: reach all ports, all but\n"
    "                                 44772 and 18080, none (allow)\n"
    "  --hide-unknown                 answer 401 where there is no such sandbox\n"
    "  --tls-cert FILE, --tls-key FILE  serve HTTPS; read again at SIGHUP\n"
    "  --tls-client-ca FILE           clients must show a certificate of these authorities\n"
    "\n"
    "Limits:\n"
    "  --max-connections N            of all clients (20000)\n"
    "  --source-connections N         of one address (0 = any number)\n"
    "  --source-rate N                requests of one address in a second (0 = any number)\n"
    "  --source-burst N               of these at once (0 = as many as in a second)\n"
    "  --source-failures N            wrong secrets of one address in a minute (600; 0 = any)\n"
    "  --trusted-proxies NETWORKS     believe X-Forwarded-* of these only, and count their "
    "clients\n"
    "                                 (10.0.0.0/8,fd00::/8,...; none given: of all, for logs)\n"
    "\n"
    "Renew intents:\n"
    "  --renew-intent-enabled         publish accesses to Redis (false)\n"
    "  --renew-intent-redis-dsn DSN   (redis://127.0.0.1:6379/0); rediss:// and unix:// too\n"
    "  --renew-intent-queue-key KEY   (opensandbox:renew:intent)\n"
    "  --renew-intent-queue-max-len N trim the list to this length (0 = never)\n"
    "  --renew-intent-min-interval S  seconds between two of a sandbox (60)\n"
    "\n"
    "Life:\n"
    "  --metrics-address ADDRESS:PORT serve /metrics, /healthz and /readyz there (none)\n"
    "  --start-timeout SECONDS        for the first list of sandboxes (60; 0 = no limit)\n"
    "  --drain-delay SECONDS          after SIGTERM, go on as before, but not ready (0)\n"
    "  --drain-timeout SECONDS        then, let requests finish for (30)\n"
    "\n"
    "  --version, --help\n";

enum kind { TEXT, FLAG, NUMBER, SIGNED, CUSTOM };

struct option_row {
    const char *name;
    enum kind kind;
    size_t at;
    uint64_t max; /* of a number */
    int (*set)(struct options *o, struct str value);
    const char *expected; /* of a custom one */
};

static int set_log_level(struct options *o, struct str value)
{
    static const struct {
        struct str name;
        enum log_level level;
    } levels[] = {
        {STR_INIT("debug"),   LOG_DEBUG},
        {STR_INIT("info"),    LOG_INFO },
        {STR_INIT("warn"),    LOG_WARN },
        {STR_INIT("warning"), LOG_WARN },
        {STR_INIT("error"),   LOG_ERROR},
        {STR_INIT("fatal"),   LOG_ERROR},
    };

    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        if (str_eq_nocase(value, levels[i].name)) {
            o->log_level = levels[i].level;
            return 0;
        }
    return -EINVAL;
}

/* A mode that does not exist is not a failure: every request is then refused. */
static int set_mode(struct options *o, struct str value)
{
    o->mode_text = value.p;
    if (str_eq(value, STR("header")) || str_eq(value, STR("wildcard")))
        o->mode = ROUTE_BY_HEADER;
    else
        o->mode = str_eq(value, STR("uri")) ? ROUTE_BY_PATH : ROUTE_BY_NOTHING;
    return 0;
}

static int set_unprotected(struct options *o, struct str value)
{
    static const struct str words[] = {STR_INIT("allow"), STR_INIT("no-control"), STR_INIT("deny")};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq(value, words[i])) {
            o->unprotected = (enum unprotected)i;
            return 0;
        }
    return -EINVAL;
}

enum { HOUR = 3600, YEAR = 366 * 24 * HOUR };

#define AT(member) offsetof(struct options, member)
static const struct option_row rows[] = {
    {"port",                       NUMBER, AT(port),               UINT16_MAX, NULL,            NULL                        },
    {"mode",                       CUSTOM, 0,                      0,          set_mode,        ""                          },
    {"provider-type",              TEXT,   AT(provider),           0,          NULL,            NULL                        },
    {"log-level",                  CUSTOM, 0,                      0,          set_log_level,   "debug, info, warn or error"},
    {"namespace",                  TEXT,   AT(ns),                 0,          NULL,            NULL                        },
    {"watch-namespace",            TEXT,   AT(watch_ns),           0,          NULL,            NULL                        },
    {"secure-access-keys",         TEXT,   AT(keys),               0,          NULL,            NULL                        },
    {"renew-intent-enabled",       FLAG,   AT(renew),              0,          NULL,            NULL                        },
    {"renew-intent-redis-dsn",     TEXT,   AT(redis_dsn),          0,          NULL,            NULL                        },
    {"renew-intent-queue-key",     TEXT,   AT(queue_key),          0,          NULL,            NULL                        },
    {"renew-intent-queue-max-len", NUMBER, AT(queue_max),          INT64_MAX,  NULL,            NULL                        },
    {"renew-intent-min-interval",  SIGNED, AT(min_interval_s),     YEAR,       NULL,            NULL                        },
    {"address",                    TEXT,   AT(address),            0,          NULL,            NULL                        },
    {"workers",                    NUMBER, AT(workers),            256,        NULL,            NULL                        },
    {"secure-access-keys-file",    TEXT,   AT(keys_file),          0,          NULL,            NULL                        },
    {"signed-route-max-age",       NUMBER, AT(signed_max_s),       INT64_MAX,  NULL,            NULL                        },
    {"unprotected",                CUSTOM, 0,                      0,          set_unprotected, "allow, no-control or deny" },
    {"hide-unknown",               FLAG,   AT(hide_unknown),       0,          NULL,            NULL                        },
    {"tls-cert",                   TEXT,   AT(tls_cert),           0,          NULL,            NULL                        },
    {"tls-key",                    TEXT,   AT(tls_key),            0,          NULL,            NULL                        },
    {"tls-client-ca",              TEXT,   AT(tls_client_ca),      0,          NULL,            NULL                        },
    {"metrics-address",            TEXT,   AT(metrics_address),    0,          NULL,            NULL                        },
    {"trusted-proxies",            TEXT,   AT(trusted_proxies),    0,          NULL,            NULL                        },
    {"max-connections",            NUMBER, AT(connections_max),    1 << 20,    NULL,            NULL                        },
    {"source-connections",         NUMBER, AT(source_connections), 1 << 20,    NULL,            NULL                        },
    {"source-rate",                NUMBER, AT(source_rate),        1 << 20,    NULL,            NULL                        },
    {"source-burst",               NUMBER, AT(source_burst),       1 << 20,    NULL,            NULL                        },
    {"source-failures",            NUMBER, AT(source_failures),    1 << 20,    NULL,            NULL                        },
    {"servers-file",               TEXT,   AT(servers_file),       0,          NULL,            NULL                        },
    {"lookup-ttl",                 NUMBER, AT(lookup_ttl_s),       HOUR,       NULL,            NULL                        },
    {"wake-timeout",               NUMBER, AT(wake_s),             HOUR,       NULL,            NULL                        },
    {"connect-wait",               NUMBER, AT(connect_wait_ms),    60 * 1000,  NULL,            NULL                        },
    {"drain-timeout",              NUMBER, AT(drain_s),            24 * HOUR,  NULL,            NULL                        },
    {"drain-delay",                NUMBER, AT(drain_delay_s),      HOUR,       NULL,            NULL                        },
    {"start-timeout",              NUMBER, AT(start_s),            24 * HOUR,  NULL,            NULL                        },
    {"kubeconfig",                 TEXT,   AT(kubeconfig),         0,          NULL,            NULL                        },
};

static const struct option_row *find_row(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(name, str_of(rows[i].name)))
            return &rows[i];
    return NULL;
}

static int set_flag(struct str value, bool *ret)
{
    static const struct str yes[] = {STR_INIT("true"), STR_INIT("1"),    STR_INIT("t"),
                                     STR_INIT("TRUE"), STR_INIT("True"), STR_INIT("T")};
    static const struct str no[] = {STR_INIT("false"), STR_INIT("0"),     STR_INIT("f"),
                                    STR_INIT("FALSE"), STR_INIT("False"), STR_INIT("F")};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        if (str_eq(value, yes[i]) || str_eq(value, no[i])) {
            *ret = str_eq(value, yes[i]);
            return 0;
        }
    return -EINVAL;
}

/* value is a C string, too: a part of argv. */
static int set_row(const struct option_row *row, struct options *o, struct str value, struct err *e)
{
    void *at = (char *)o + row->at;

    switch (row->kind) {
    case TEXT:
        *(const char **)at = value.p;
        return 0;
    case FLAG:
        if (set_flag(value, at) == 0)
            return 0;
        return err_set(e, EINVAL, "--%s: expected true or false", row->name);
    case NUMBER:
        if (str_to_u64_range(value, 0, row->max, at) == 0)
            return 0;
        return err_set(e, EINVAL, "--%s: expected a number from 0 to %llu", row->name,
                       (unsigned long long)row->max);
    case SIGNED:
        if (str_to_i64_range(value, -(int64_t)row->max, (int64_t)row->max, at) == 0)
            return 0;
        return err_set(e, EINVAL, "--%s: expected a number up to %llu", row->name,
                       (unsigned long long)row->max);
    case CUSTOM:
        if (row->set(o, value) == 0)
            return 0;
        return err_set(e, EINVAL, "--%s: expected %s", row->name, row->expected);
    }
    return -EINVAL;
}

static int take_one(int argc, char **argv, int *at, struct options *o, enum options_wish *wish,
                    struct err *e)
{
    struct str value = str_of(argv[*at]), name;
    const struct option_row *row;

    if (!str_starts(value, STR("-")) || value.n == 1)
        return err_set(e, EINVAL, "'%.60s': expected an option; --help lists them", argv[*at]);
    value = str_skip(value, str_starts(value, STR("--")) ? 2 : 1);
    (void)str_cut(&value, '=', &name);
    if (str_eq(name, STR("help")) || str_eq(name, STR("h"))) {
        *wish = OPTIONS_HELP;
        return 0;
    }
    if (str_eq(name, STR("version"))) {
        *wish = OPTIONS_VERSION;
        return 0;
    }
    row = find_row(name);
    if (!row)
        return err_set(e, EINVAL, "flag provided but not defined: --%.*s; --help lists them",
                       (int)min_size(name.n, 60), name.p);
    if (!value.p && row->kind == FLAG)
        value = STR("true");
    if (!value.p) {
        if (*at + 1 == argc)
            return err_set(e, EINVAL, "--%s needs a value", row->name);
        value = str_of(argv[++*at]);
    }
    return set_row(row, o, value, e);
}

static int check(const struct options *o, struct err *e)
{
    if (!o->tls_cert[0] != !o->tls_key[0])
        return err_set(e, EINVAL, "--tls-cert and --tls-key belong together");
    if (o->tls_client_ca[0] && !o->tls_cert[0])
        return err_set(e, EINVAL, "--tls-client-ca needs --tls-cert and --tls-key");
    if (o->keys[0] && o->keys_file[0])
        return err_set(e, EINVAL,
                       "--secure-access-keys and --secure-access-keys-file exclude each other");
    return 0;
}

int options_parse(int argc, char **argv, struct options *ret, enum options_wish *ret_wish,
                  struct err *e)
{
    int r = 0;

    *ret = (struct options){
        .port = 28888,
        .mode_text = "header",
        .provider = "batchsandbox",
        .log_level = LOG_INFO,
        .ns = "opensandbox",
        .watch_ns = "",
        .keys = "",
        .redis_dsn = "redis://127.0.0.1:6379/0",
        .queue_key = "opensandbox:renew:intent",
        .min_interval_s = 60,
        .address = "",
        .keys_file = "",
        .tls_cert = "",
        .tls_key = "",
        .tls_client_ca = "",
        .metrics_address = "",
        .trusted_proxies = "",
        .connections_max = 20000,
        .source_failures = 600,
        .servers_file = "",
        .lookup_ttl_s = 10,
        .drain_s = 30,
        .start_s = 60,
        .kubeconfig = "",
    };
    *ret_wish = OPTIONS_RUN;
    for (int i = 1; r == 0 && i < argc && *ret_wish == OPTIONS_RUN; i++)
        r = take_one(argc, argv, &i, ret, ret_wish, e);
    return r < 0 || *ret_wish != OPTIONS_RUN ? r : check(ret, e);
}
