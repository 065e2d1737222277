/* options.c - reads the command line of opensandbox-operator. */
#include "operator/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

enum option_kind {
    OPTION_TEXT,
    OPTION_FLAG,
    OPTION_SECONDS,
    OPTION_U32,
    OPTION_U64,
    OPTION_CUSTOM
};

struct option_row {
    const char *name;
    enum option_kind kind;
    size_t at;
    const char *about;
    int (*set)(struct options *o, struct str value, struct err *e);
};

void options_default(struct options *o)
{
    *o = (struct options){
        .kubeconfig = "",
        .metrics_bind = "0",
        .metrics_cert_dir = "",
        .metrics_cert = "tls.crt",
        .metrics_key = "tls.key",
        .probe_bind = ":8081",
        .log_file = "/var/log/sandbox-controller/controller.log",
        .pod_namespace = getenv("POD_NAMESPACE"),
        .committer_image = "image-committer:dev",
        .containerd_socket = "/var/run/containerd/containerd.sock",
        .registry = "",
        .push_secret = "",
        .pull_secret = "",
        .metrics_secure = true,
        .qps = 0,
        .sandbox_workers = 32,
        .pool_workers = 16,
        .expectation_timeout_s = 300,
        .commit_timeout_s = 600,
        .log_max_mib = 100,
        .log_backups = 10,
        .log_max_days = 30,
        .log_level = LOG_INFO,
    };
}

int options_duration(struct str s, int64_t *ret_s, struct err *e)
{
    static const struct {
        char unit;
        int64_t ms;
    } units[] = {
        {'h', 3600 * 1000},
        {'m', 60 * 1000  },
        {'s', 1000       },
    };
    struct str rest = s;
    int64_t ms = 0, n;
    bool any = false;

    while (rest.n) {
        size_t digits = 0, unit = 1, i = 0;

        while (digits < rest.n && ascii_is_digit(rest.p[digits]))
            digits++;
        if (str_to_i64_range(str_make(rest.p, digits), 0, INT32_MAX, &n) < 0 || digits == rest.n)
            break;
        if (str_starts(str_skip(rest, digits), STR("ms"))) {
            ms += n;
            unit = 2;
        } else {
            while (i < ARRAY_LEN(units) && units[i].unit != rest.p[digits])
                i++;
            if (i == ARRAY_LEN(units))
                break;
            ms += n * units[i].ms;
        }
        rest = str_skip(rest, digits + unit);
        any = true;
    }
    if (rest.n || !any)
        return err_set(e, EINVAL, "'%.*s' is no duration such as 10m, 1h30m or 45s", STR_ARG(s));
    *ret_s = (ms + 999) / 1000;
    return 0;
}

/* "batchsandbox=32;pool=16" */
static int set_concurrency(struct options *o, struct str value, struct err *e)
{
    struct str rest = value, one, name;
    uint64_t n;

    while (str_cut(&rest, ';', &one)) {
        if (!one.n)
            continue;
        if (!str_cut(&one, '=', &name) || str_to_u64_range(one, 1, 10000, &n) < 0)
            return err_set(e, EINVAL, "expected NAME=NUMBER;..., with numbers above 0");
        name = str_trim(name);
        if (str_eq(name, STR("batchsandbox")))
            o->sandbox_workers = (uint32_t)n;
        else if (str_eq(name, STR("pool")))
            o->pool_workers = (uint32_t)n;
        else
            return err_set(e, EINVAL, "'%.*s' is neither batchsandbox nor pool", STR_ARG(name));
    }
    return 0;
}

static int set_qps(struct options *o, struct str value, struct err *e)
{
    uint64_t n;

    if (str_to_u64_range(value, 0, 1000000, &n) < 0)
        return err_set(e, EINVAL, "expected a number of requests per second; 0 = no limit");
    o->qps = (double)n;
    return 0;
}

static int set_level(struct options *o, struct str value, struct err *e)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {
        {"error", LOG_ERROR},
        {"warn",  LOG_WARN },
        {"info",  LOG_INFO },
        {"debug", LOG_DEBUG},
    };
    uint64_t n;

    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        if (str_eq(value, str_of(levels[i].name))) {
            o->log_level = levels[i].level;
            return 0;
        }
    if (str_to_u64_range(value, 1, 10, &n) < 0)
        return err_set(e, EINVAL, "expected error, warn, info, debug or a number");
    o->log_level = LOG_DEBUG;
    return 0;
}

static int set_encoder(struct options *o, struct str value, struct err *e)
{
    if (!str_eq(value, STR("json")) && !str_eq(value, STR("console")))
        return err_set(e, EINVAL, "expected json or console");
    o->json_log = str_eq(value, STR("json"));
    return 0;
}

/* Flags of the original that have no meaning here: accepted, so that its manifests work. */
static int set_ignored(struct options *o, struct str value, struct err *e)
{
    return 0;
}

#define AT(member) offsetof(struct options, member)
#define ROW(...)                                                                                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
static const struct option_row rows[] = {
    ROW("kubeconfig", OPTION_TEXT, AT(kubeconfig),
        "where the API server is; else in-cluster, $KUBECONFIG"),
    ROW("leader-elect", OPTION_FLAG, AT(leader_elect), "only the holder of a Lease decides"),
    ROW("health-probe-bind-address", OPTION_TEXT, AT(probe_bind),
        "of /healthz and /readyz; 0 = off (:8081)"),
    ROW("metrics-bind-address", OPTION_TEXT, AT(metrics_bind), "of /metrics; 0 = off (0)"),
    ROW("metrics-secure", OPTION_FLAG, AT(metrics_secure),
        "by TLS, to accounts that may get /metrics (true)"),
    ROW("metrics-cert-path", OPTION_TEXT, AT(metrics_cert_dir),
        "directory of its certificate; without, it makes one itself"),
    ROW("metrics-cert-name", OPTION_TEXT, AT(metrics_cert), "(tls.crt)"),
    ROW("metrics-cert-key", OPTION_TEXT, AT(metrics_key), "(tls.key)"),
    ROW("kube-client-qps", OPTION_CUSTOM, 0, "writes per second at most; 0 = no limit (0)",
        set_qps),
    ROW("kube-client-burst", OPTION_U32, AT(burst), "writes at once before that limit counts"),
    ROW("concurrency", OPTION_CUSTOM, 0, "objects at a time (batchsandbox=32;pool=16)",
        set_concurrency),
    ROW("expectation-timeout", OPTION_SECONDS, AT(expectation_timeout_s),
        "accepted; nothing waits for expectations (5m)"),
    ROW("image-committer-image", OPTION_TEXT, AT(committer_image),
        "of Jobs that save containers (image-committer:dev)"),
    ROW("containerd-socket-path", OPTION_TEXT, AT(containerd_socket),
        "on nodes (/var/run/containerd/containerd.sock)"),
    ROW("commit-job-timeout", OPTION_SECONDS, AT(commit_timeout_s), "(10m)"),
    ROW("snapshot-registry", OPTION_TEXT, AT(registry), "where images of sandboxes are pushed to"),
    ROW("snapshot-registry-insecure", OPTION_FLAG, AT(registry_insecure),
        "push by plain HTTP or without proof of its name"),
    ROW("snapshot-push-secret", OPTION_TEXT, AT(push_secret),
        "Secret with credentials of the registry"),
    ROW("resume-pull-secret", OPTION_TEXT, AT(pull_secret),
        "Secret that pods of resumed sandboxes pull with"),
    ROW("enable-file-log", OPTION_FLAG, AT(file_log), "log to a file, too"),
    ROW("log-file-path", OPTION_TEXT, AT(log_file), "(/var/log/sandbox-controller/controller.log)"),
    ROW("log-max-size", OPTION_U64, AT(log_max_mib), "MiB of a log file (100)"),
    ROW("log-max-backups", OPTION_U64, AT(log_backups), "older log files that are kept (10)"),
    ROW("log-max-age", OPTION_U64, AT(log_max_days), "days that they are kept (30)"),
    ROW("zap-log-level", OPTION_CUSTOM, 0, "error, warn, info or debug (info)", set_level),
    ROW("zap-encoder", OPTION_CUSTOM, 0, "json or console (console)", set_encoder),
    ROW("allow-weak-tls-keylengths", OPTION_FLAG, AT(weak_keys),
        "accepted; OpenSSL's own minimum counts"),
    ROW("webhook-cert-path", OPTION_CUSTOM, 0, NULL, set_ignored),
    ROW("webhook-cert-name", OPTION_CUSTOM, 0, NULL, set_ignored),
    ROW("webhook-cert-key", OPTION_CUSTOM, 0, NULL, set_ignored),
    ROW("enable-http2", OPTION_CUSTOM, 0, NULL, set_ignored),
    ROW("log-compress", OPTION_CUSTOM, 0, NULL, set_ignored),
    ROW("zap-devel", OPTION_CUSTOM, 0, NULL, set_ignored),
    ROW("zap-stacktrace-level", OPTION_CUSTOM, 0, NULL, set_ignored),
    ROW("zap-time-encoding", OPTION_CUSTOM, 0, NULL, set_ignored),
    ROW("help", OPTION_FLAG, AT(help), NULL),
    ROW("h", OPTION_FLAG, AT(help), NULL),
    ROW("version", OPTION_FLAG, AT(version), NULL),
};

static bool is_boolean(const struct option_row *row)
{
    return row->kind == OPTION_FLAG ||
           (row->set == set_ignored && !str_starts(str_of(row->name), STR("webhook")) &&
            !str_starts(str_of(row->name), STR("zap-s")) &&
            !str_starts(str_of(row->name), STR("zap-t")));
}

static int set_flag(bool *to, struct str value, struct err *e)
{
    bool yes = str_eq(value, STR("true")) || str_eq(value, STR("1")) || str_eq(value, STR("t"));

    if (!yes && !str_eq(value, STR("false")) && !str_eq(value, STR("0")) &&
        !str_eq(value, STR("f")))
        return err_set(e, EINVAL, "expected true or false");
    *to = yes;
    return 0;
}

static int option_set(struct options *o, const struct option_row *row, const char *text,
                      struct err *e)
{
    void *to = (char *)o + row->at;
    struct str value = str_of(text);
    uint64_t n;

    switch (row->kind) {
    case OPTION_TEXT:
        *(const char **)to = text;
        return 0;
    case OPTION_FLAG:
        return set_flag(to, value, e);
    case OPTION_SECONDS:
        return options_duration(value, to, e);
    case OPTION_U32:
    case OPTION_U64:
        if (str_to_u64_range(value, 0, 1000000, &n) < 0)
            return err_set(e, EINVAL, "expected a number");
        if (row->kind == OPTION_U32)
            *(uint32_t *)to = (uint32_t)n;
        else
            *(uint64_t *)to = n;
        return 0;
    default:
        return row->set(o, value, e);
    }
}

static const struct option_row *row_of(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(name, str_of(rows[i].name)))
            return &rows[i];
    return NULL;
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
    for (int i = 1; i < argc; i++) {
        struct str word = str_make(argv[i], strlen(argv[i])), name;
        const struct option_row *row;
        const char *value;
        int r;

        if (!str_starts(word, STR("-")))
            return err_set(e, EINVAL, "'%s' is no flag; flags begin with --", argv[i]);
        word = str_skip(word, str_starts(word, STR("--")) ? 2 : 1);
        name = str_make(word.p, str_find(word, '='));
        row = row_of(name);
        if (!row)
            return err_set(e, EINVAL, "--%.*s is no flag of this program", STR_ARG(name));
        if (name.n < word.n)
            value = word.p + name.n + 1;
        else if (is_boolean(row))
            value = "true";
        else if (i + 1 < argc)
            value = argv[++i];
        else
            return err_set(e, EINVAL, "--%s needs a value", row->name);
        r = option_set(o, row, value, e);
        if (r < 0)
            return err_wrap(e, r, "--%s %s", row->name, value);
    }
    return 0;
}

void options_help(void)
{
    printf("usage: opensandbox-operator [FLAG...]\n\n"
           "Creates the pods of BatchSandboxes, keeps Pools of warm pods, pauses and resumes\n"
           "sandboxes, by the API of Kubernetes.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].about)
            printf("  --%-28s %s\n", rows[i].name, rows[i].about);
    printf("  --%-28s\n", "version, --help");
}
