/* probe_exhaustion.c - taking more than a share, up to a bound that shows there is no limit.
 *
 * CONTAINED: a limit stopped us. OPEN: we had as much as the settings say must not be had. All of
 * it is given back. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Children in our process group that sleep until it is killed. */
static struct result try_fork(const struct context *c, const struct probe *p)
{
    unsigned n = 0;
    int error = 0;

    for (; n < c->pids; n++) {
        pid_t pid = fork();

        if (pid == 0) {
            (void)pause();
            _exit(0);
        }
        if (pid < 0) {
            error = errno;
            break;
        }
    }
    (void)signal(SIGTERM, SIG_IGN);
    (void)kill(0, SIGTERM);
    while (wait(NULL) > 0)
        ;
    if (error)
        return verdict(CONTAINED, "stopped at %u processes: %s", n, strerror(error));
    return verdict(OPEN, "%u processes, and no end", n);
}

static int eat_memory(const struct context *c)
{
    for (unsigned i = 0; i < c->memory_mib; i++) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
            return 1;
        memset(p, 0x5a, MIB);
    }
    return 0;
}

static int eat_memfd(const struct context *c)
{
    static char block[MIB];
    int fd = memfd_create("probe", MFD_CLOEXEC);

    memset(block, 0x5a, sizeof(block));
    for (unsigned i = 0; i < c->memory_mib; i++)
        if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
            return 1;
    return 0;
}

static struct result try_memory(const struct context *c, const struct probe *p)
{
    int r = in_child(p->call[0] ? eat_memfd : eat_memory, c);

    if (r == -SIGKILL)
        return verdict(CONTAINED, "killed before %u MiB", c->memory_mib);
    if (r == 0)
        return verdict(OPEN, "%u MiB, and no end", c->memory_mib);
    return verdict(CONTAINED, "refused before %u MiB", c->memory_mib);
}

/* Fills a file in a directory; tmpfs must be small, the root within its quota. */
static struct result try_fill(const struct context *c, const struct probe *p)
{
    static char block[MIB];
    char path[256];
    unsigned n = 0, limit = p->call[0] ? (unsigned)p->call[0] : c->disk_mib;
    int fd, error = 0;

    (void)snprintf(path, sizeof(path), "%s/probe-fill", p->path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return blocked("create a file");
    (void)unlink(path);
    memset(block, 0x5a, sizeof(block));
    for (; n < limit && !error; n++) {
        ssize_t w = write(fd, block, sizeof(block));

        if (w != (ssize_t)sizeof(block))
            error = w < 0 ? errno : ENOSPC;
    }
    (void)close(fd);
    if (error)
        return verdict(CONTAINED, "stopped at %u MiB: %s", n - 1, strerror(error));
    return verdict(OPEN, "%u MiB, and no end", n);
}

enum { INODES_MAX = 200000, INODES_SECONDS = 100 };

static struct result try_inodes(const struct context *c, const struct probe *p)
{
    double end = now() + INODES_SECONDS;
    unsigned n = 0;
    char name[64];
    int dir, error = 0;

    (void)snprintf(name, sizeof(name), "%s/probe-inodes", p->path);
    if (mkdir(name, 0700) < 0)
        return blocked("mkdir");
    dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (; n < INODES_MAX && now() < end; n++) {
        char file[16];

        (void)snprintf(file, sizeof(file), "%u", n);
        if (mknodat(dir, file, S_IFREG | 0600, 0) < 0) {
            error = errno;
            break;
        }
    }
    for (unsigned i = 0; i < n; i++) {
        char file[16];

        (void)snprintf(file, sizeof(file), "%u", i);
        (void)unlinkat(dir, file, 0);
    }
    (void)rmdir(name);
    if (error)
        return verdict(CONTAINED, "stopped at %u files: %s", n, strerror(error));
    return verdict(OPEN, "%u files, and no end", n);
}

static struct result try_files(const struct context *c, const struct probe *p)
{
    struct rlimit limit;
    unsigned n = 0;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    while (n < c->files && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        n++;
    if (n < c->files)
        return verdict(CONTAINED, "stopped at %u files: %s", n, strerror(errno));
    return verdict(OPEN, "%u files, and no end", n);
}

enum { TERMINALS_MAX = 1100 }; /* kernel.pty.max is 4096 for all of the host */

static struct result try_terminals(const struct context *c, const struct probe *p)
{
    struct rlimit limit;
    unsigned n = 0;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    while (n < TERMINALS_MAX && open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
        n++;
    if (n < TERMINALS_MAX)
        return verdict(CONTAINED, "stopped at %u terminals: %s", n, strerror(errno));
    return verdict(OPEN, "%u terminals, and no end", n);
}

/* fs.aio-max-nr is 65536 for all of the host. */
static struct result try_aio(const struct context *c, const struct probe *p)
{
    unsigned long context = 0;
    unsigned n = 0;

    while (n < 16 && syscall(SYS_io_setup, 2048, &context) == 0) {
        context = 0;
        n++;
    }
    if (n == 0)
        return blocked("io_setup");
    if (n < 16)
        return verdict(OPEN, "%u events of the host's pool are ours: %s", n * 2048,
                       strerror(errno));
    return verdict(OPEN, "%u events of the host's pool are ours", n * 2048);
}

enum { CPU_SECONDS = 2, CPU_TRIES = 5 };

/* Seconds that all CPUs of the host together have been idle. */
static double idle_time(void)
{
    unsigned long long user, nice, system, idle, iowait;
    FILE *f = fopen("/proc/stat", "re");
    int n =
        f ? fscanf(f, "cpu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait) : 0;

    if (f)
        (void)fclose(f);
    return n == 5 ? (double)(idle + iowait) / (double)sysconf(_SC_CLK_TCK) : 0;
}

/* Of all children that have ended. */
static double cpu_time(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double burn_cpu(int processes)
{
    double begin = now(), before = cpu_time();

    for (int i = 0; i < processes; i++) {
        if (fork() == 0) {
            while (now() < begin + CPU_SECONDS)
                ;
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        ;
    return cpu_time() - before;
}

/* Less than all of it is a limit only where the rest stayed idle, and not with somebody else; or
 * where it is just what was asked for. */
static struct result measure_cpu(const struct context *c)
{
    double used, idle, seconds, cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double begin = now(), idle_before = idle_time();

    used = burn_cpu(2 * (int)cpus);
    idle = idle_time() - idle_before;
    seconds = now() - begin;
    used /= seconds;
    idle /= seconds;
    if (c->cpu_millicores && used < c->cpu_millicores * 1.2 / 1000)
        return verdict(CONTAINED, "%.2f of %.0f CPUs, with a limit of %.2f", used, cpus,
                       c->cpu_millicores / 1000.0);
    if (used > cpus * 0.8)
        return verdict(OPEN, "%.2f of %.0f CPUs", used, cpus);
    if (idle > cpus * 0.1)
        return verdict(CONTAINED, "%.2f of %.0f CPUs, while %.2f idled", used, cpus, idle);
    return verdict(OPEN, "%.2f of %.0f CPUs, all that others left", used, cpus);
}

/* A virtual machine may take what its host gave to others for time that was used: no limit is one
 * that never shows. */
static struct result try_cpu(const struct context *c, const struct probe *p)
{
    struct result r = measure_cpu(c);

    for (int i = 1; i < CPU_TRIES && r.verdict == OPEN; i++)
        r = measure_cpu(c);
    return r;
}

static const struct probe probes[] = {
    PROBE("fork-bomb", try_fork, "processes of all, used up by one"),
    PROBE("memory-bomb", try_memory, "memory of all"),
    PROBE("memfd-bomb", try_memory, "the same through files in memory", .call = {1}),
    PROBE("cpu-hog", try_cpu, "CPU time of all"),
    PROBE("disk-fill-root", try_fill, "the host's disk", .path = "/"),
    PROBE("disk-fill-tmp", try_fill, "the host's disk or memory", .path = "/tmp"),
    PROBE("disk-fill-shm", try_fill, "the host's memory", .path = "/dev/shm", .call = {512}),
    PROBE("disk-fill-dev", try_fill, "the host's memory", .path = "/dev", .call = {512}),
    PROBE("inode-fill", try_inodes, "the host's inodes, with files of no size", .path = "/"),
    PROBE("inode-fill-shm", try_inodes, "kernel memory, with files of no size", .path = "/dev/shm"),
    PROBE("fd-exhaustion", try_files, "open files of all"),
    PROBE("pty-exhaustion", try_terminals, "terminals of all"),
    PROBE("aio-exhaustion", try_aio, "asynchronous I/O of all"),
};
const struct probe_group group_exhaustion = {"exhaustion", probes, ARRAY_LEN(probes)};
