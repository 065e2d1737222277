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
    EXECD_INIT,      /* PID 1 of a sandbox, with descriptors as the broker lays them out */
    EXECD_LISTEN,    /* an ordinary process, for development and tests */
    EXECD_SERVE,     /* a daemon on a port, beside whatever else runs; the default */
    EXECD_BOOTSTRAP, /* the same, and starts the entrypoint of a foreign image */
    EXECD_ENTRY,     /* installs certificates, then becomes that entrypoint */
};

enum {
    EXECD_GRACE_MS = 10 * 1000,
    EXECD_GRACE_MS_MAX = 3600 * 1000,
    EXECD_PORT = 44772,
    EXECD_LOG_LEVEL = 6,
    EXECD_DRAIN_MS = 1000,
    EXECD_WORK_FDS_MAX = 16, /* one per controller hierarchy is far fewer */
};

#define EXECD_KEEP_ID UINT32_MAX /* of uid and gid: as ours */

/* Texts are borrowed from argv. NULL = not given. */
enum { EXECD_STAT_FDS = 4 }; /* enum metrics_file, and the oom_kill counts of the workload */

struct execd_options {
    enum execd_mode mode;
    uint32_t uid, gid;
    uint32_t work_fds;               /* how many */
    uint32_t stat_fds;               /* EXECD_STAT_FDS, or 0 */
    uint32_t work_dir_fds;           /* 1 or 0 */
    uint32_t certificates_fd;        /* of EXECD_ENTRY, to tell what it installed; 0 = nobody */
    uint32_t cpu_millis, memory_mib; /* limits of the workload; 0 = none */
    uint32_t grace_ms;               /* between SIGTERM and SIGKILL */
    uint32_t drain_ms;               /* for streams to end in */
    uint32_t port;
    uint32_t log_level;       /* 0 to 7, as syslog has it */
    uint32_t jupyter_poll_ms; /* taken and not needed: kernels are spoken to directly */
    const char *jupyter_host, *jupyter_token;
    uint64_t isolation_upper_bytes, isolation_diff_bytes;
    const char *isolation_upper_root, *isolation_writable;
    const char *cwd, *listen, *log_file, *exit_file, *access_token, *files_root;
    /* NULL-terminated, or NULL; never empty for EXECD_INIT, EXECD_LISTEN and EXECD_ENTRY. */
    const char *const *entry_argv;
};

/* Options begin with one dash or two, values follow or stand behind "=". What was not given comes
 * from the environment, where there is a variable for it. The error is a sentence for the person
 * who called us. */
int execd_options_parse(const char *const *argv, struct execd_options *ret, struct err *e) MUST_USE;

extern const char execd_help[];
