/* probe.c - runs probes and prints one JSON line for each: {name, group, verdict, detail, why}. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROBE_TIMEOUT_S = 120 };

static const char *const verdict_names[] = {"BLOCKED", "CONTAINED", "OPEN", "N/A"};
static const struct probe_group *const groups[] = {
    &group_runtime,    &group_files,   &group_calls,
    &group_neighbours, &group_network, &group_exhaustion,
};

struct result verdict(enum verdict v, const char *fmt, ...)
{
    struct result r = {.verdict = v};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(r.detail, sizeof(r.detail), fmt, ap);
    va_end(ap);
    return r;
}

struct result blocked(const char *what)
{
    return verdict(BLOCKED, "%s: %s", what, strerror(errno));
}

struct result judge_call(const char *what, long r)
{
    static const int denials[] = {
        EPERM, EACCES, ENOSYS, EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EOPNOTSUPP, EROFS,
    };

    if (r >= 0)
        return verdict(OPEN, "%s works", what);
    for (size_t i = 0; i < ARRAY_LEN(denials); i++)
        if (errno == denials[i])
            return blocked(what);
    return verdict(OPEN, "%s gets past the permission check: %s", what, strerror(errno));
}

bool init_is_us(void)
{
    struct stat init, self;

    return stat("/proc/1/exe", &init) == 0 && stat("/proc/self/exe", &self) == 0 &&
           init.st_dev == self.st_dev && init.st_ino == self.st_ino;
}

int in_child(int (*fn)(const struct context *c), const struct context *c)
{
    int status;
    pid_t pid = fork();

    if (pid < 0)
        return 255;
    if (pid == 0)
        _exit(fn(c));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 255;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void print_json_string(const char *s)
{
    putchar('"');
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            printf("\\u%04x", (unsigned)*s);
        else
            putchar(*s);
    putchar('"');
}

static void print_result(const struct probe_group *g, const struct probe *p, struct result r)
{
    printf("{\"name\": ");
    print_json_string(p->name);
    printf(", \"group\": \"%s\", \"verdict\": \"%s\", \"detail\": ", g->name,
           verdict_names[r.verdict]);
    print_json_string(r.detail);
    printf(", \"why\": ");
    print_json_string(p->why);
    printf("}\n");
    (void)fflush(stdout);
}

/* Waits for the child and what it started; all of it is one process group. */
static int await(pid_t pid)
{
    struct timespec pause = {0, 20 * 1000 * 1000};
    int status;

    for (int i = 0; i < PROBE_TIMEOUT_S * 50; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    return -1;
}

static struct result run_probe(const struct context *c, const struct probe *p)
{
    struct result r;
    int status, fds[2];
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return verdict(NA, "no pipe: %s", strerror(errno));
    pid = fork();
    if (pid == 0) {
        (void)setpgid(0, 0);
        r = p->run(c, p);
        _exit(write(fds[1], &r, sizeof(r)) == sizeof(r) ? 0 : 1);
    }
    (void)close(fds[1]);
    if (pid < 0) {
        (void)close(fds[0]);
        return verdict(NA, "no process: %s", strerror(errno));
    }
    status = await(pid);
    (void)kill(-pid, SIGKILL);
    if (read(fds[0], &r, sizeof(r)) != sizeof(r)) {
        if (status == -1)
            r = verdict(NA, "no end within %d s", PROBE_TIMEOUT_S);
        else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            r = verdict(CONTAINED, "killed");
        else
            r = verdict(NA, "ended without a verdict, status %#x", (unsigned)status);
    }
    (void)close(fds[0]);
    return r;
}

/* What we were born with, before we open anything. */
static void look_around(struct context *c)
{
    char cwd[4096];
    struct dirent *d;
    DIR *dir = opendir("/proc/self/fd");

    c->cwd_unreachable = !getcwd(cwd, sizeof(cwd)) || cwd[0] != '/';
    while (dir && (d = readdir(dir)))
        if (d->d_name[0] != '.' && strtol(d->d_name, NULL, 10) > 2 &&
            strtol(d->d_name, NULL, 10) != dirfd(dir))
            c->inherited_fds++;
    if (dir)
        (void)closedir(dir);
}

enum { OPT_TEXT, OPT_NUMBER };
static const struct setting {
    const char *name;
    int kind;
    size_t offset;
} settings[] = {
    {"neighbour-ip",   OPT_TEXT,   offsetof(struct context, neighbour_ip)  },
    {"neighbour-ip6",  OPT_TEXT,   offsetof(struct context, neighbour_ip6) },
    {"host-ip",        OPT_TEXT,   offsetof(struct context, host_ip)       },
    {"host-ip6",       OPT_TEXT,   offsetof(struct context, host_ip6)      },
    {"metadata-ip",    OPT_TEXT,   offsetof(struct context, metadata_ip)   },
    {"secret-path",    OPT_TEXT,   offsetof(struct context, secret_path)   },
    {"neighbour-path", OPT_TEXT,   offsetof(struct context, neighbour_path)},
    {"host-port",      OPT_NUMBER, offsetof(struct context, host_port)     },
    {"neighbour-port", OPT_NUMBER, offsetof(struct context, neighbour_port)},
    {"neighbour-pid",  OPT_NUMBER, offsetof(struct context, neighbour_pid) },
    {"memory-mib",     OPT_NUMBER, offsetof(struct context, memory_mib)    },
    {"disk-mib",       OPT_NUMBER, offsetof(struct context, disk_mib)      },
    {"pids",           OPT_NUMBER, offsetof(struct context, pids)          },
    {"files",          OPT_NUMBER, offsetof(struct context, files)         },
    {"cpu-millicores", OPT_NUMBER, offsetof(struct context, cpu_millicores)},
};

static void set_option(struct context *c, const struct setting *s, const char *value)
{
    char *field = (char *)c + s->offset;

    if (s->kind == OPT_TEXT) {
        memcpy(field, &value, sizeof(value));
    } else {
        unsigned number = (unsigned)strtoul(value, NULL, 10);

        memcpy(field, &number, sizeof(number));
    }
}

/* --NAME=VALUE of the table; true when `arg` was one. */
static bool take_setting(struct context *c, const char *arg)
{
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        size_t n = strlen(settings[i].name);

        if (strncmp(arg, "--", 2) == 0 && strncmp(arg + 2, settings[i].name, n) == 0 &&
            arg[2 + n] == '=') {
            set_option(c, &settings[i], arg + 3 + n);
            return true;
        }
    }
    return false;
}

/* Runs (or lists) all probes of a group or name; how many there were. */
static size_t run_matching(const struct context *c, const char *group, const char *name, bool list)
{
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        const struct probe_group *g = groups[i];

        if (group && strcmp(group, g->name) != 0)
            continue;
        for (size_t k = 0; k < g->count; k++) {
            const struct probe *p = &g->probes[k];

            if (name && strcmp(name, p->name) != 0)
                continue;
            n++;
            if (list)
                printf("%s\t%s\t%s\n", g->name, p->name, p->why);
            else
                print_result(g, p, run_probe(c, p));
        }
    }
    return n;
}

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: probe [--SETTING=VALUE...] [--list | --group=GROUP... | NAME...]\n"
                  "       probe --neighbour=PORT | --hold-inotify=SECONDS\nsettings:");
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        (void)fprintf(stderr, " %s", settings[i].name);
    (void)fprintf(stderr, "\n");
    return 2;
}

static bool after(const char *arg, const char *prefix, const char **ret_value)
{
    size_t n = strlen(prefix);

    if (strncmp(arg, prefix, n) != 0)
        return false;
    *ret_value = arg + n;
    return true;
}

/* Started again from a file marked setuid or with capabilities: did it help? */
static int report_privilege(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{0}};

    (void)syscall(SYS_capget, &header, sets);
    return geteuid() == 0 || sets[0].effective ? 42 : 0;
}

int main(int argc, char **argv)
{
    struct context c = {.memory_mib = 1024, .disk_mib = 1024, .pids = 4000, .files = 100000};
    const char *value;
    size_t named = 0;

    if (argc == 2 && strcmp(argv[1], "--privileged") == 0)
        return report_privilege();
    look_around(&c);
    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i < argc; i++) {
        size_t n = 1;

        if (take_setting(&c, argv[i]))
            continue;
        named++;
        if (strcmp(argv[i], "--list") == 0)
            n = run_matching(&c, NULL, NULL, true);
        else if (after(argv[i], "--group=", &value))
            n = run_matching(&c, value, NULL, false);
        else if (after(argv[i], "--neighbour=", &value))
            neighbour_serve((unsigned)strtoul(value, NULL, 10));
        else if (after(argv[i], "--hold-inotify=", &value))
            neighbour_hold_inotify((unsigned)strtoul(value, NULL, 10));
        else
            n = run_matching(&c, NULL, argv[i], false);
        if (n == 0)
            return usage();
    }
    if (named == 0)
        (void)run_matching(&c, NULL, NULL, false);
    return 0;
}
