#include "execd/options.h"

#include <errno.h>

#include "base/str.h"
#include "execd/metrics.h"

const char execd_help[] =
    "usage: execd --init [OPTION...] -- PROGRAM [ARGUMENT...]\n"
    "       execd --listen ADDRESS [OPTION...] -- PROGRAM [ARGUMENT...]\n"
    "       execd --print-routes | --version | --help\n"
    "The daemon inside a sandbox: starts its entrypoint, reaps its processes, answers its API.\n"
    "\n"
    "  --init            be PID 1: descriptor 3 is the listening socket, 4 the exit report,\n"
    "                    5 the entrypoint's log, 6 and on the cgroup.procs files of the workload\n"
    "                    and behind them three files that tell what it uses\n"
    "  --listen ADDRESS  be an ordinary process and listen here: 127.0.0.1:PORT or unix:PATH\n"
    "  --uid N           user of the entrypoint (ours)\n"
    "  --gid N           its group; supplementary groups are dropped with either (ours)\n"
    "  --cwd DIR         its working directory (ours)\n"
    "  --work-fds N      how many cgroup.procs files there are, with --init (0)\n"
    "  --stat-fds N      3 when memory usage, memory.stat and cpu usage follow, with --init (0)\n"
    "  --cpu-millis N    limit of the workload in thousandths of a core (none)\n"
    "  --memory-mib N    limit of its memory in MiB (none)\n"
    "  --access-token T  what clients send as X-EXECD-ACCESS-TOKEN ($EXECD_ACCESS_TOKEN)\n"
    "  --grace-ms N      milliseconds from SIGTERM to SIGKILL (10000)\n"
    "  --exit-file FILE  the exit report, with --listen (none)\n"
    "  --log-file FILE   the entrypoint's log, with --listen (none)\n"
    "  --print-routes    print what the API answers to, a method and a path per line, and exit\n"
    "  --version         print the version and exit\n"
    "  --help            print this text and exit\n";

enum option_kind { OPTION_MODE, OPTION_MODE_TEXT, OPTION_TEXT, OPTION_U32 };

struct option_row {
    const char *name;
    enum option_kind kind;
    size_t offset;        /* of the value in struct execd_options */
    uint32_t max;         /* of OPTION_U32 */
    enum execd_mode mode; /* of OPTION_MODE and OPTION_MODE_TEXT */
};

#define AT(field) offsetof(struct execd_options, field)

static const struct option_row option_rows[] = {
    {"--access-token", OPTION_TEXT,      AT(access_token), 0,                  EXECD_NONE   },
    {"--cpu-millis",   OPTION_U32,       AT(cpu_millis),   UINT32_MAX,         EXECD_NONE   },
    {"--cwd",          OPTION_TEXT,      AT(cwd),          0,                  EXECD_NONE   },
    {"--exit-file",    OPTION_TEXT,      AT(exit_file),    0,                  EXECD_NONE   },
    {"--gid",          OPTION_U32,       AT(gid),          UINT32_MAX - 1,     EXECD_NONE   },
    {"--grace-ms",     OPTION_U32,       AT(grace_ms),     EXECD_GRACE_MS_MAX, EXECD_NONE   },
    {"--help",         OPTION_MODE,      0,                0,                  EXECD_HELP   },
    {"--init",         OPTION_MODE,      0,                0,                  EXECD_INIT   },
    {"--listen",       OPTION_MODE_TEXT, AT(listen),       0,                  EXECD_LISTEN },
    {"--log-file",     OPTION_TEXT,      AT(log_file),     0,                  EXECD_NONE   },
    {"--memory-mib",   OPTION_U32,       AT(memory_mib),   UINT32_MAX,         EXECD_NONE   },
    {"--print-routes", OPTION_MODE,      0,                0,                  EXECD_ROUTES },
    {"--stat-fds",     OPTION_U32,       AT(stat_fds),     METRICS_FILES,      EXECD_NONE   },
    {"--uid",          OPTION_U32,       AT(uid),          UINT32_MAX - 1,     EXECD_NONE   },
    {"--version",      OPTION_MODE,      0,                0,                  EXECD_VERSION},
    {"--work-fds",     OPTION_U32,       AT(work_fds),     EXECD_WORK_FDS_MAX, EXECD_NONE   },
};

static const struct option_row *option_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(option_rows); i++)
        if (strcmp(name, option_rows[i].name) == 0)
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

static int option_take_value(const struct option_row *row, const char *value,
                             struct execd_options *o, struct err *e)
{
    void *field = (char *)o + row->offset;
    uint64_t number;

    if (!value)
        return err_set(e, EINVAL, "%s needs a value", row->name);
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

/* Takes the option at *argv and moves it past that. */
static int option_take(const char *const **argv, struct execd_options *o, struct err *e)
{
    const struct option_row *row = option_find(**argv);
    int r = 0;

    if (!row)
        return err_set(e, EINVAL, "unknown option '%s'", **argv);
    ++*argv;
    if (row->kind == OPTION_MODE || row->kind == OPTION_MODE_TEXT)
        r = option_choose_mode(row, o, e);
    if (r < 0 || row->kind == OPTION_MODE)
        return r;
    r = option_take_value(row, **argv, o, e);
    if (r >= 0)
        ++*argv;
    return r;
}

/* An option that means nothing in the chosen mode is a mistake worth hearing of. */
static int options_check(const struct execd_options *o, struct err *e)
{
    bool runs = o->mode == EXECD_INIT || o->mode == EXECD_LISTEN;

    if (o->mode == EXECD_NONE)
        return err_set(e, EINVAL,
                       "one of --init, --listen, --print-routes, --version and --help is needed");
    if (o->mode != EXECD_LISTEN && (o->exit_file || o->log_file))
        return err_set(e, EINVAL, "--exit-file and --log-file go with --listen");
    if (o->mode != EXECD_INIT && o->work_fds > 0)
        return err_set(e, EINVAL, "--work-fds goes with --init");
    if (o->stat_fds > 0 && (o->mode != EXECD_INIT || o->stat_fds != METRICS_FILES))
        return err_set(e, EINVAL, "--stat-fds is %d, and goes with --init", METRICS_FILES);
    if (runs && !(o->entry_argv && o->entry_argv[0]))
        return err_set(e, EINVAL, "no program behind '--'");
    if (!runs && o->entry_argv)
        return err_set(e, EINVAL, "a program goes with --init or --listen");
    return 0;
}

int execd_options_parse(const char *const *argv, struct execd_options *ret, struct err *e)
{
    struct execd_options o = {
        .uid = EXECD_KEEP_ID, .gid = EXECD_KEEP_ID, .grace_ms = EXECD_GRACE_MS};
    int r = 0;

    if (*argv)
        argv++;
    while (r >= 0 && *argv && strcmp(*argv, "--") != 0)
        r = option_take(&argv, &o, e);
    if (r < 0)
        return r;
    if (*argv)
        o.entry_argv = argv + 1;
    r = options_check(&o, e);
    if (r < 0)
        return r;
    *ret = o;
    return 0;
}
