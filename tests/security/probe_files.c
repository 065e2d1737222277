/* probe_files.c - files of /proc, /sys, /dev and cgroups that steer or show the host. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A runtime masks a file with /dev/null and a directory with an empty one. */
static bool is_null(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static struct result try_write(const struct context *c, const struct probe *p)
{
    int fd = open(p->path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return blocked("open for writing");
    return is_null(fd) ? verdict(BLOCKED, "masked") : verdict(OPEN, "opens for writing");
}

static struct result try_read(const struct context *c, const struct probe *p)
{
    struct stat st;
    char byte;
    int fd = open(p->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return blocked("open");
    if (is_null(fd))
        return verdict(BLOCKED, "masked");
    if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode))
        return verdict(OPEN, "a device that opens");
    switch (read(fd, &byte, 1)) {
    case 1:
        return verdict(OPEN, "readable");
    case 0:
        return verdict(BLOCKED, "empty");
    }
    return errno == EAGAIN ? verdict(OPEN, "opens, and would be read") : blocked("read");
}

static struct result try_list(const struct context *c, const struct probe *p)
{
    struct dirent *d;
    DIR *dir = opendir(p->path);

    if (!dir)
        return blocked("opendir");
    while ((d = readdir(dir)))
        if (d->d_name[0] != '.')
            return verdict(OPEN, "lists '%s'", d->d_name);
    return verdict(BLOCKED, "empty");
}

static struct result try_kallsyms(const struct context *c, const struct probe *p)
{
    unsigned long long address;
    char line[256];
    FILE *f = fopen("/proc/kallsyms", "re");

    if (!f)
        return blocked("open");
    while (fgets(line, sizeof(line), f)) {
        address = strtoull(line, NULL, 16);
        if (address)
            return verdict(OPEN, "shows the address %llx", address);
    }
    return verdict(BLOCKED, "no addresses in it");
}

static struct result try_lower_oom_score(const struct context *c, const struct probe *p)
{
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return blocked("open");
    if (write(fd, "-1000", 5) == 5)
        return verdict(OPEN, "the OOM killer will spare us");
    return blocked("write -1000");
}

static struct result try_init_file(const struct context *c, const struct probe *p)
{
    int fd = open(p->path, (int)p->call[0] | O_CLOEXEC);
    char byte;

    if (fd < 0)
        return blocked("open");
    if (p->call[0] == O_RDONLY && read(fd, &byte, 1) < 0)
        return blocked("read");
    if (init_is_us())
        return verdict(CONTAINED, "opens, and init is the workload itself");
    return verdict(OPEN, "opens");
}

/* Any cgroup file of any hierarchy that opens for writing. */
static struct result try_cgroup_file(const struct context *c, const struct probe *p)
{
    static const char *const roots[] = {
        "/sys/fs/cgroup",         "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/devices", "/sys/fs/cgroup/cpu",     "/sys/fs/cgroup/pids",
        "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/systemd",
    };
    char path[256];
    int seen = ENOENT;

    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", roots[i], p->path);
        if (open(path, O_WRONLY | O_CLOEXEC) >= 0)
            return verdict(OPEN, "%s opens for writing", path);
        if (errno != ENOENT)
            seen = errno;
    }
    errno = seen;
    return blocked("open for writing");
}

static struct result try_cgroup_mkdir(const struct context *c, const struct probe *p)
{
    static const char *const dirs[] = {"/sys/fs/cgroup/probe", "/sys/fs/cgroup/unified/probe",
                                       "/sys/fs/cgroup/memory/probe"};
    int seen = ENOENT;

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (mkdir(dirs[i], 0755) == 0) {
            char procs[128];
            bool real;

            (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", dirs[i]);
            real = access(procs, F_OK) == 0; /* and not a directory on a tmpfs */
            (void)rmdir(dirs[i]);
            if (real)
                return verdict(OPEN, "made a group below %s", dirs[i]);
            errno = ENOENT;
        }
        if (errno != ENOENT)
            seen = errno;
    }
    errno = seen;
    return blocked("mkdir");
}

/* Also finds what a table of names would miss. */
static struct result try_find_devices(const struct context *c, const struct probe *p)
{
    static const char *const fine[] = {"null",    "zero", "full", "random",
                                       "urandom", "tty",  "ptmx", "console"};
    struct dirent *d;
    struct stat st;
    DIR *dir = opendir("/dev");
    bool known;

    while (dir && (d = readdir(dir))) {
        if (fstatat(dirfd(dir), d->d_name, &st, 0) < 0)
            continue;
        if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
            continue;
        known = strncmp(d->d_name, "std", 3) == 0;
        for (size_t i = 0; i < ARRAY_LEN(fine); i++)
            known = known || strcmp(d->d_name, fine[i]) == 0;
        if (!known)
            return verdict(OPEN, "/dev/%s is a device", d->d_name);
    }
    return verdict(BLOCKED, "nothing but the usual harmless ones");
}

#define SYSCTL(x) "/proc/sys/" x
static const struct probe probes[] = {
    PROBE("core-pattern", try_write, "a crash would run our program as root of the host",
          .path = SYSCTL("kernel/core_pattern")),
    PROBE("modprobe-path", try_write, "a missing module would run our program",
          .path = SYSCTL("kernel/modprobe")),
    PROBE("hotplug-path", try_write, "a device event would run our program",
          .path = SYSCTL("kernel/hotplug")),
    PROBE("uevent-helper", try_write, "the same through sysfs",
          .path = "/sys/kernel/uevent_helper"),
    PROBE("sysrq-mask", try_write, "enables the keys that reboot a host",
          .path = SYSCTL("kernel/sysrq")),
    PROBE("sysrq-trigger", try_write, "reboots the host with one byte",
          .path = "/proc/sysrq-trigger"),
    PROBE("panic-on-oom", try_write, "turns running out of memory into a crash of the host",
          .path = SYSCTL("vm/panic_on_oom")),
    PROBE("panic", try_write, "decides over reboots", .path = SYSCTL("kernel/panic")),
    PROBE("overcommit", try_write, "changes memory rules for all",
          .path = SYSCTL("vm/overcommit_memory")),
    PROBE("drop-caches", try_write, "slows all of the host down at will",
          .path = SYSCTL("vm/drop_caches")),
    PROBE("aslr-switch", try_write, "weakens every process of the host",
          .path = SYSCTL("kernel/randomize_va_space")),
    PROBE("suid-dumpable", try_write, "lets privileged programs leave core files",
          .path = SYSCTL("fs/suid_dumpable")),
    PROBE("file-max", try_write, "starves all of the host of files", .path = SYSCTL("fs/file-max")),
    PROBE("pid-max", try_write, "starves all of the host of processes",
          .path = SYSCTL("kernel/pid_max")),
    PROBE("kptr-restrict", try_write, "shows kernel addresses",
          .path = SYSCTL("kernel/kptr_restrict")),
    PROBE("binfmt-misc", try_write, "our interpreter would run for the host's programs",
          .path = SYSCTL("fs/binfmt_misc/register")),
    PROBE("ip-forward", try_write, "routes for others, and around rules",
          .path = SYSCTL("net/ipv4/ip_forward")),
    PROBE("port-start", try_write, "network settings are not the workload's",
          .path = SYSCTL("net/ipv4/ip_unprivileged_port_start")),
    PROBE("kcore", try_read, "all memory of the host", .path = "/proc/kcore"),
    PROBE("kmsg-proc", try_read, "the host's kernel log", .path = "/proc/kmsg"),
    PROBE("kmsg-dev", try_read, "the same, and a way to forge it", .path = "/dev/kmsg"),
    PROBE("mem", try_read, "physical memory", .path = "/dev/mem"),
    PROBE("port", try_read, "hardware ports", .path = "/dev/port"),
    PROBE("fuse", try_read, "file systems answered by us", .path = "/dev/fuse"),
    PROBE("kvm", try_read, "a large interface of the kernel", .path = "/dev/kvm"),
    PROBE("tun", try_write, "makes network interfaces", .path = "/dev/net/tun"),
    PROBE("devices", try_find_devices, "a disk of the host is all files of the host"),
    PROBE("kallsyms", try_kallsyms, "kernel addresses make exploits reliable"),
    PROBE("keys", try_read, "names of keys, also of others", .path = "/proc/keys"),
    PROBE("timer-list", try_read, "shows what others do, and addresses",
          .path = "/proc/timer_list"),
    PROBE("sched-debug", try_read, "shows processes of the host",
          .path = "/sys/kernel/debug/sched/debug"),
    PROBE("acpi", try_list, "steers hardware", .path = "/proc/acpi"),
    PROBE("scsi", try_list, "removes disks", .path = "/proc/scsi"),
    PROBE("firmware", try_list, "firmware tables, EFI variables", .path = "/sys/firmware"),
    PROBE("debugfs", try_list, "debugging doors of every driver", .path = "/sys/kernel/debug"),
    PROBE("tracefs", try_list, "watches the whole host", .path = "/sys/kernel/tracing"),
    PROBE("bpffs", try_list, "programs and maps of others", .path = "/sys/fs/bpf"),
    PROBE("securityfs", try_list, "the host's security modules", .path = "/sys/kernel/security"),
    PROBE("power-state", try_write, "suspends the host", .path = "/sys/power/state"),
    PROBE("irq-affinity", try_write, "moves the host's interrupts",
          .path = "/proc/irq/default_smp_affinity"),
    PROBE("hugepages", try_write, "memory settings of the host",
          .path = "/sys/kernel/mm/transparent_hugepage/enabled"),
    PROBE("cgroup-release-agent", try_cgroup_file,
          "an emptied group would run our program as root of the host", .path = "release_agent"),
    PROBE("cgroup-devices-allow", try_cgroup_file, "any device becomes usable",
          .path = "devices.allow"),
    PROBE("cgroup-memory-v1", try_cgroup_file, "a limit that can be lifted is none",
          .path = "memory.limit_in_bytes"),
    PROBE("cgroup-memory-v2", try_cgroup_file, "the same on v2", .path = "memory.max"),
    PROBE("cgroup-pids", try_cgroup_file, "the same for processes", .path = "pids.max"),
    PROBE("cgroup-procs", try_cgroup_file, "walks into another group, out of the limits",
          .path = "cgroup.procs"),
    PROBE("cgroup-mkdir", try_cgroup_mkdir, "groups of our own, without limits to their number"),
    PROBE("oom-score-pid1", try_init_file, "makes the kernel kill init before us",
          .path = "/proc/1/oom_score_adj", .call = {O_WRONLY}),
    PROBE("oom-score-self", try_lower_oom_score, "makes the kernel kill others before us"),
    PROBE("mem-pid1", try_init_file, "takes init over", .path = "/proc/1/mem", .call = {O_RDWR}),
    PROBE("maps-pid1", try_init_file, "where things are in init's memory", .path = "/proc/1/maps",
          .call = {O_RDONLY}),
    PROBE("comm-pid1", try_init_file, "changes the name of init as the host sees it",
          .path = "/proc/1/comm", .call = {O_WRONLY}),
    PROBE("environ-pid1", try_init_file, "secrets given to init", .path = "/proc/1/environ",
          .call = {O_RDONLY}),
};
const struct probe_group group_files = {"files", probes, ARRAY_LEN(probes)};
