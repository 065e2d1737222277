/* options.h - execd's command line as a struct. */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <sys/types.h>

enum execd_mode {
    EXECD_NONE,
    EXECD_HELP,
    EXECD_VERSION,
    EXECD_ROUTES,    /* print the table of routes */
    EXECD_INIT,      /* PID 1 of a sandbox; the broker passes the descriptors */
    EXECD_LISTEN,    /* an ordinary process, for development and tests */
    EXECD_SERVE,     /* a daemon on a port, next to other processes; the default */
    EXECD_BOOTSTRAP, /* like EXECD_SERVE, and starts the entrypoint of a foreign image */
    EXECD_ENTRY,     /* installs certificates, then executes that entrypoint */
};

enum {
    EXECD_GRACE_MS = 10 * 1000,
    EXECD_GRACE_MS_MAX = 3600 * 1000,
    EXECD_PORT = 44772,
    EXECD_LOG_LEVEL = 6,
    EXECD_DRAIN_MS = 1000,
    EXECD_WORK_FDS_MAX = 16, /* more than one per cgroup controller hierarchy */
};

#define EXECD_KEEP_ID UINT32_MAX /* keep our own uid or gid */

/* Strings are borrowed from argv. NULL = not given. */
enum { EXECD_STAT_FDS = 4 }; /* enum metrics_file and the workload's oom_kill counts */

struct execd_options {
    enum execd_mode mode;
    uint32_t uid, gid;
    uint32_t work_fds;               /* number of cgroup.procs descriptors */
    uint32_t stat_fds;               /* EXECD_STAT_FDS, or 0 */
    uint32_t work_dir_fds;           /* 1 or 0 */
    uint32_t channel;                /* 1 or 0: 0, 1 and 2 are a channel, the report and the log */
    uint32_t certificates_fd;        /* EXECD_ENTRY reports here what it installed; 0 = no report */
    uint32_t cpu_millis, memory_mib; /* limits of the workload; 0 = none */
    uint32_t grace_ms;               /* between SIGTERM and SIGKILL */
    uint32_t drain_ms;               /* for open streams to finish */
    uint32_t port;
    uint32_t log_level;       /* 0 to 7, as in syslog */
    uint32_t jupyter_poll_ms; /* accepted but unused: execd talks to kernels directly */
    const char *jupyter_host, *jupyter_token;
    uint64_t isolation_upper_bytes, isolation_diff_bytes;
    const char *isolation_upper_root, *isolation_writable;
    const char *cwd, *listen, *log_file, *exit_file, *access_token, *files_root;
    /* NULL-terminated, or NULL; never empty for EXECD_INIT, EXECD_LISTEN and EXECD_ENTRY. */
    const char *const *entry_argv;
};

/* Options begin with one or two dashes; a value is the next argument or follows "=". Options that
 * were not given are read from the environment, if there is a variable for them. The error is a
 * message for the user. */
int execd_options_parse(const char *const *argv, struct execd_options *ret, struct err *e) MUST_USE;

extern const char execd_help[];
