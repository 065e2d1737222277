#include "execd/init/options.h"

#include <errno.h>
#include <stdlib.h>

#include "base/str.h"
#include "execd/core/duration.h"
#include "execd/isolated/isolated.h"
#include "execd/metrics/metrics.h"

const char execd_help[] =
    "usage: execd [OPTION...]\n"
    "       execd --bootstrap [OPTION...] [--] [PROGRAM [ARGUMENT...]]\n"
    "       execd --init [OPTION...] -- PROGRAM [ARGUMENT...]\n"
    "       execd --listen ADDRESS [OPTION...] -- PROGRAM [ARGUMENT...]\n"
    "       execd --print-routes | --version | --help\n"
    "The daemon inside a sandbox: starts its entrypoint, reaps its processes, answers its API.\n"
    "Without --init, --listen or --bootstrap it serves on a port until SIGTERM.\n"
    "\n"
    "  --bootstrap       start the entrypoint of a foreign image, too: $BOOTSTRAP_CMD, or PROGRAM\n"
    "  --init            be PID 1: descriptor 3 is the listening socket, 4 the exit report,\n"
    "                    5 the entrypoint's log, 6 and on the cgroup.procs files of the workload\n"
    "                    and after them files with its memory and cpu usage\n"
    "  --listen ADDRESS  be an ordinary process and listen here: 127.0.0.1:PORT or unix:PATH\n"
    "  --uid N           user of the entrypoint and, if not said otherwise, of commands (execd's)\n"
    "  --gid N           its group; either option drops supplementary groups (that of execd)\n"
    "  --cwd DIR         its working directory (that of execd)\n"
    "  --work-fds N      how many cgroup.procs files there are, with --init (0)\n"
    "  --stat-fds N      4 when memory usage, memory.stat, cpu usage and oom_kill counts of the\n"
    "                    workload follow, with --init (0)\n"
    "  --work-dir-fds N  1 when the directory follows that the first cgroup.procs is in, to start\n"
    "                    processes there by clone3, with --init (0)\n"
    "  --channel N       1 when standard input is a channel that passes accepted connections, "
    "standard\n"
    "                    output the exit report and standard error the log, with --init (0)\n"
    "  --cpu-millis N    limit of the workload in thousandths of a core (none)\n"
    "  --memory-mib N    limit of its memory in MiB (none)\n"
    "  --access-token T  what clients send as X-EXECD-ACCESS-TOKEN ($EXECD_ACCESS_TOKEN)\n"
    "  --files-root DIR  directory that the file routes are confined to (none)\n"
    "  --grace-ms N      milliseconds from SIGTERM to SIGKILL (10000)\n"
    "  --exit-file FILE  the exit report, with --listen (none)\n"
    "  --log-file FILE   the entrypoint's log, with --listen (none)\n"
    "  --isolation-upper-root DIR, --isolation-upper-max-bytes N, --isolation-diff-max-bytes N,\n"
    "  --isolation-allowed-writable DIR,...\n"
    "                    isolated sessions: directory of layers that outlive them\n"
    "                    (/var/lib/execd/isolation), the largest size of one (8 GiB) and of its "
    "archive\n"
    "                    (4 GiB); directories that extra_writable may name (none, or\n"
    "                    $EXECD_ISOLATION_ALLOWED_WRITABLE)\n"
    "  --port N          port to listen on, on all addresses, without --init and --listen (44772)\n"
    "  --log-level N     how much is logged: 3 errors, 4 warnings, 6 events, 7 requests (6)\n"
    "  --graceful-shutdown-timeout T\n"
    "                    time for streams to end, such as 1.5s ($EXECD_API_GRACE_SHUTDOWN, 1s)\n"
    "  --jupyter-host URL, --jupyter-token T, --jupyter-idle-poll-interval T\n"
    "                    accepted for compatibility ($JUPYTER_HOST, $JUPYTER_TOKEN)\n"
    "  --print-routes    print what the API answers to, a method and a path per line, and exit\n"
    "  --version         print the version and exit\n"
    "  --help            print this text and exit\n";

enum { NS_PER_MS = 1000000 };

enum option_kind { OPTION_MODE, OPTION_MODE_TEXT, OPTION_TEXT, OPTION_U32, OPTION_U64, OPTION_MS };

struct option_row {
    const char *name;
    enum option_kind kind;
    size_t offset;        /* of the value in struct execd_options */
    uint32_t max;         /* of OPTION_U32 and OPTION_MS */
    enum execd_mode mode; /* of OPTION_MODE and OPTION_MODE_TEXT */
};

#define AT(field) offsetof(struct execd_options, field)

static const struct option_row option_rows[] = {
    {"--access-token",               OPTION_TEXT,      AT(access_token),          0,                  EXECD_NONE     },
    {"--bootstrap",                  OPTION_MODE,      0,                         0,                  EXECD_BOOTSTRAP},
    {"--bootstrap-entry",            OPTION_MODE,      0,                         0,                  EXECD_ENTRY    },
    {"--certificates-fd",            OPTION_U32,       AT(certificates_fd),       INT32_MAX,          EXECD_NONE     },
    {"--channel",                    OPTION_U32,       AT(channel),               1,                  EXECD_NONE     },
    {"--cpu-millis",                 OPTION_U32,       AT(cpu_millis),            UINT32_MAX,         EXECD_NONE     },
    {"--cwd",                        OPTION_TEXT,      AT(cwd),                   0,                  EXECD_NONE     },
    {"--exit-file",                  OPTION_TEXT,      AT(exit_file),             0,                  EXECD_NONE     },
    {"--files-root",                 OPTION_TEXT,      AT(files_root),            0,                  EXECD_NONE     },
    {"--gid",                        OPTION_U32,       AT(gid),                   UINT32_MAX - 1,     EXECD_NONE     },
    {"--graceful-shutdown-timeout",  OPTION_MS,        AT(drain_ms),              EXECD_GRACE_MS_MAX, EXECD_NONE     },
    {"--grace-ms",                   OPTION_U32,       AT(grace_ms),              EXECD_GRACE_MS_MAX, EXECD_NONE     },
    {"--h",                          OPTION_MODE,      0,                         0,                  EXECD_HELP     },
    {"--help",                       OPTION_MODE,      0,                         0,                  EXECD_HELP     },
    {"--init",                       OPTION_MODE,      0,                         0,                  EXECD_INIT     },
    {"--isolation-allowed-writable", OPTION_TEXT,      AT(isolation_writable),    0,                  EXECD_NONE     },
    {"--isolation-diff-max-bytes",   OPTION_U64,       AT(isolation_diff_bytes),  0,                  EXECD_NONE     },
    {"--isolation-upper-max-bytes",  OPTION_U64,       AT(isolation_upper_bytes), 0,                  EXECD_NONE     },
    {"--isolation-upper-root",       OPTION_TEXT,      AT(isolation_upper_root),  0,                  EXECD_NONE     },
    {"--jupyter-host",               OPTION_TEXT,      AT(jupyter_host),          0,                  EXECD_NONE     },
    {"--jupyter-idle-poll-interval", OPTION_MS,        AT(jupyter_poll_ms),       EXECD_GRACE_MS_MAX,
     EXECD_NONE                                                                                                      },
    {"--jupyter-token",              OPTION_TEXT,      AT(jupyter_token),         0,                  EXECD_NONE     },
    {"--listen",                     OPTION_MODE_TEXT, AT(listen),                0,                  EXECD_LISTEN   },
    {"--log-file",                   OPTION_TEXT,      AT(log_file),              0,                  EXECD_NONE     },
    {"--log-level",                  OPTION_U32,       AT(log_level),             255,                EXECD_NONE     },
    {"--memory-mib",                 OPTION_U32,       AT(memory_mib),            UINT32_MAX,         EXECD_NONE     },
    {"--port",                       OPTION_U32,       AT(port),                  UINT16_MAX,         EXECD_NONE     },
    {"--print-routes",               OPTION_MODE,      0,                         0,                  EXECD_ROUTES   },
    {"--stat-fds",                   OPTION_U32,       AT(stat_fds),              EXECD_STAT_FDS,     EXECD_NONE     },
    {"--uid",                        OPTION_U32,       AT(uid),                   UINT32_MAX - 1,     EXECD_NONE     },
    {"--version",                    OPTION_MODE,      0,                         0,                  EXECD_VERSION  },
    {"--work-dir-fds",               OPTION_U32,       AT(work_dir_fds),          1,                  EXECD_NONE     },
    {"--work-fds",                   OPTION_U32,       AT(work_fds),              EXECD_WORK_FDS_MAX, EXECD_NONE     },
};

/* Finds the option: one or two dashes, a name, optionally "=value". */
static const struct option_row *option_find(const char *arg, const char **ret_value)
{
    struct str name = str_of(arg + (arg[1] == '-'));
    size_t n = str_find(name, '=');

    *ret_value = n < name.n ? name.p + n + 1 : NULL;
    name.n = n;
    for (size_t i = 0; i < ARRAY_LEN(option_rows); i++)
        if (str_eq(name, str_of(option_rows[i].name + 1)))
            return &option_rows[i];
    return NULL;
}

static int option_choose_mode(const struct option_row *row, struct execd_options *o, struct err *e)
{
    if (o->mode != EXECD_NONE)
        return err_set(e, EINVAL, "%s: the mode was chosen already", row->name);
    o->mode = row->mode;
    return 0;
}

static int option_take_ms(const char *name, const char *value, uint32_t max, uint32_t *ret_ms,
                          struct err *e)
{
    int64_t ns;

    if (duration_parse(str_of(value), &ns) < 0 || ns / NS_PER_MS > max)
        return err_set(e, EINVAL, "%s '%s': expected a time such as 1.5s", name, value);
    *ret_ms = ns > 0 ? (uint32_t)(ns / NS_PER_MS) : 0;
    return 0;
}

static int option_take_value(const struct option_row *row, const char *value,
                             struct execd_options *o, struct err *e)
{
    void *field = (char *)o + row->offset;
    uint64_t number;

    if (!value)
        return err_set(e, EINVAL, "%s needs a value", row->name);
    if (row->kind == OPTION_U64) {
        if (str_to_u64_range(str_of(value), 1, INT64_MAX, field) < 0)
            return err_set(e, EINVAL, "%s '%s': expected a number of bytes", row->name, value);
        return 0;
    }
    if (row->kind == OPTION_MS)
        return option_take_ms(row->name, value, row->max, field, e);
    if (row->kind != OPTION_U32) {
        *(const char **)field = value;
        return 0;
    }
    if (str_to_u64_range(str_of(value), 0, row->max, &number) < 0)
        return err_set(e, EINVAL, "%s '%s': expected a number up to %u", row->name, value,
                       row->max);
    *(uint32_t *)field = (uint32_t)number;
    return 0;
}

/* Takes the option at *argv and advances *argv past it. */
static int option_take(const char *const **argv, struct execd_options *o, struct err *e)
{
    const char *value;
    const struct option_row *row = option_find(**argv, &value);
    int r = 0;

    if (!row)
        return err_set(e, EINVAL, "unknown option '%s'", **argv);
    ++*argv;
    if (row->kind == OPTION_MODE || row->kind == OPTION_MODE_TEXT)
        r = option_choose_mode(row, o, e);
    if (r < 0 || row->kind == OPTION_MODE)
        return r;
    if (value)
        return option_take_value(row, value, o, e);
    r = option_take_value(row, **argv, o, e);
    if (r >= 0)
        ++*argv;
    return r;
}

/* --- environment --- */

/* Runs before the command line is read, so the command line takes precedence. */
static int options_from_env(struct execd_options *o, struct err *e)
{
    const char *drain = getenv("EXECD_API_GRACE_SHUTDOWN");

    o->jupyter_host = getenv("JUPYTER_HOST");
    o->jupyter_token = getenv("JUPYTER_TOKEN");
    if (!drain || !drain[0])
        return 0;
    return option_take_ms("EXECD_API_GRACE_SHUTDOWN", drain, EXECD_GRACE_MS_MAX, &o->drain_ms, e);
}

static int check_jupyter(const struct execd_options *o, struct err *e)
{
    struct str host = str_of(o->jupyter_host);

    if (host.n == 0 || str_starts(host, STR("http://")) || str_starts(host, STR("https://")))
        return 0;
    return err_set(e, EINVAL, "--jupyter-host '%s': expected http:// or https://", host.p);
}

/* --- the whole command line --- */

/* An option without effect in the chosen mode is an error. */
static int options_check(const struct execd_options *o, struct err *e)
{
    bool runs = o->mode == EXECD_INIT || o->mode == EXECD_LISTEN || o->mode == EXECD_ENTRY;
    bool may_run = runs || o->mode == EXECD_BOOTSTRAP || o->mode == EXECD_SERVE;

    if (o->mode != EXECD_LISTEN && (o->exit_file || o->log_file))
        return err_set(e, EINVAL, "--exit-file and --log-file go with --listen");
    if (o->mode != EXECD_INIT && o->work_fds > 0)
        return err_set(e, EINVAL, "--work-fds goes with --init");
    if (o->stat_fds > 0 && (o->mode != EXECD_INIT || o->stat_fds != EXECD_STAT_FDS))
        return err_set(e, EINVAL, "--stat-fds is %d, and goes with --init", EXECD_STAT_FDS);
    if (o->channel > 0 && (o->mode != EXECD_INIT || o->work_fds > 0))
        return err_set(e, EINVAL, "--channel goes with --init, without --work-fds");
    if (o->work_dir_fds > 0 && o->work_fds == 0)
        return err_set(e, EINVAL, "--work-dir-fds goes with --work-fds");
    if (runs && !(o->entry_argv && o->entry_argv[0]))
        return err_set(e, EINVAL, "no program behind '--'");
    if (!may_run && o->entry_argv)
        return err_set(e, EINVAL, "a program goes with --init, --listen or --bootstrap");
    return check_jupyter(o, e);
}

/* The first argument that is not an option ends the options. A daemon (EXECD_SERVE) ignores the
 * rest: an image may be started with some other command. */
int execd_options_parse(const char *const *argv, struct execd_options *ret, struct err *e)
{
    struct execd_options o = {
        .uid = EXECD_KEEP_ID,
        .gid = EXECD_KEEP_ID,
        .grace_ms = EXECD_GRACE_MS,
        .drain_ms = EXECD_DRAIN_MS,
        .port = EXECD_PORT,
        .log_level = EXECD_LOG_LEVEL,
        .isolation_upper_root = ISOLATED_UPPER_ROOT,
        .isolation_upper_bytes = ISOLATED_UPPER_BYTES_MAX,
        .isolation_diff_bytes = ISOLATED_DIFF_BYTES_MAX,
    };
    int r = options_from_env(&o, e);

    if (*argv)
        argv++;
    while (r >= 0 && *argv && **argv == '-' && (*argv)[1] && strcmp(*argv, "--") != 0)
        r = option_take(&argv, &o, e);
    if (r < 0)
        return r;
    if (o.mode == EXECD_NONE)
        o.mode = EXECD_SERVE;
    if (*argv)
        o.entry_argv = strcmp(*argv, "--") == 0 ? argv + 1 : argv;
    r = options_check(&o, e);
    if (r < 0)
        return r;
    *ret = o;
    return 0;
}
