#include "sandbox/spawn.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/mount_api.h"
#include "base/time.h"
#include "sandbox/host.h"
#include "sandbox/mounts.h"
#include "sandbox/oci.h"
#include "sandbox/volumes.h"

enum {
    EXECD_LISTENER_FD = 3, /* execd uses these numbers: src/execd */
    EXECD_EXIT_FD,
    EXECD_LOG_FD,
    EXECD_FDS = 3,
    EXECD_WORK_FDS = EXECD_LISTENER_FD + EXECD_FDS,        /* and following */
    FD_PARK = EXECD_WORK_FDS + CGROUP_HIERARCHIES_MAX + 8, /* above them, during the moves */
    EXECD_OPTIONS_MAX = 20,
    NOFILE_DEFAULT = 65536,
    HOST_ROOT_FDS = 4,            /* lower directories of / and /usr, and the mounts they are on */
    FDS_KEPT = 5 + HOST_ROOT_FDS, /* by a parked child, in addition to those of its cgroups */
};

/* State of the child: the slot from the start, the rest when the plan arrives. */
struct spawn {
    const struct spawn_slot *slot;
    struct spawn_args args;
    struct mounts mounts;
    bool root_fits; /* the root mounted ahead is the one that the plan needs */
    int channel, execd;
    const char *argv[EXECD_OPTIONS_MAX + PLAN_ARGS_MAX + 1];
    const char *env[PLAN_ENV_MAX + 1];
    char uid[16], gid[16], work_fds[16], stat_fds[16], cpu_millis[16], memory_mib[16];
};

/* The plan as sent to the child. Descriptors with it: lowers, the mounts they are on, then those of
 * /usr and the disk if any, then volumes, then execd's, then the bundle and the memory if any. */
struct spawn_message {
    uint32_t lower_count, base_count;
    bool has_usr, has_address, has_disk, has_bundle, has_memory;
    uint32_t oci; /* index of the runtime, if has_bundle */
    struct in_addr address;
    struct plan plan;
};

static_assert(MOUNTS_LOWERS_MAX + MOUNTS_BASES_MAX + PLAN_BINDS_MAX + EXECD_FDS + 4 <= FD_SEND_MAX,
              "all descriptors fit into a message");

/* With a disk limit the layer is elsewhere, or must be limited before anything is made in it. */
static bool plan_takes_ready_root(const struct plan *p)
{
    return p->root == PLAN_ROOT_HOST && p->layer_count == 0 && !p->lasting &&
           p->limits.disk_bytes == 0;
}

/* --- steps done ahead --- */

static int fd_compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Closes descriptors of the broker and its other slots: they would slow down exec, and keep removed
 * objects alive. */
static int step_close(struct spawn *s, struct err *e)
{
    const struct cgroup *c = s->slot->cgroup;
    int keep[FDS_KEPT + 2 * CGROUP_HIERARCHIES_MAX + CGROUP_USAGE_COUNT + 2] = {
        s->channel, s->slot->userns, s->slot->netns, s->slot->host->execd, STDERR_FILENO};
    size_t count = FDS_KEPT - HOST_ROOT_FDS;

    if (s->mounts.lower_count > 0) {
        keep[count++] = s->mounts.lowers[0];
        keep[count++] = s->mounts.usr_lower;
        keep[count++] = s->mounts.bases[0];
        keep[count++] = s->mounts.bases[1];
    }
    for (size_t i = 0; i < c->init_count; i++)
        keep[count++] = c->init_procs[i];
    for (size_t i = 0; i < c->work_count; i++)
        keep[count++] = c->work_procs[i];
    for (size_t i = 0; i < c->usage_count; i++)
        keep[count++] = c->usage_fds[i];
    if (c->work_fd >= 0) {
        keep[count++] = c->work_fd;
        keep[count++] = c->ns_fd;
    }
    qsort(keep, count, sizeof(keep[0]), fd_compare);
    for (size_t i = 0; i < count; i++) {
        unsigned from = (unsigned)keep[i] + 1, to = i + 1 < count ? (unsigned)keep[i + 1] : ~0U;

        if (from < to && syscall(SYS_close_range, from, to - (i + 1 < count), 0) < 0)
            return err_sys(e, errno, "from %u", from);
    }
    return 0;
}

static int step_cgroups(struct spawn *s, struct err *e)
{
    const struct cgroup *c = s->slot->cgroup;

    /* If there is a v2 hierarchy it is the first, and clone3 has put us there already. */
    for (size_t i = c->init_fd >= 0; i < c->init_count; i++)
        if (write(c->init_procs[i], "0", 1) < 0)
            return err_sys(e, errno, "hierarchy %zu", i);
    if (c->ns_fd >= 0)
        return setns(c->ns_fd, CLONE_NEWCGROUP) < 0 ? err_sys(e, errno, "enter namespace") : 0;
    return unshare(CLONE_NEWCGROUP) < 0 ? err_sys(e, errno, "namespace") : 0;
}

static int step_network(struct spawn *s, struct err *e)
{
    return setns(s->slot->netns, CLONE_NEWNET) < 0 ? err_sys(e, errno, "enter") : 0;
}

static int step_open(struct spawn *s, struct err *e)
{
    return mounts_open(&s->mounts, e);
}

static int step_root_ahead(struct spawn *s, struct err *e)
{
    int r;

    if (s->mounts.lower_count == 0)
        return 0;
    r = mounts_root(&s->mounts, e);
    if (r == 0)
        mounts_warm(&s->mounts);
    mounts_done(&s->mounts);
    return r;
}

static int step_system(struct spawn *s, struct err *e)
{
    return mounts_system(&s->mounts, e);
}

static int step_mask(struct spawn *s, struct err *e)
{
    return mounts_mask(&s->mounts, e);
}

/* --- steps with the plan --- */

/* Writes to a file that exists from the start. */
static int write_etc_file(int etc, const char *name, const char *text, size_t n, struct err *e)
{
    auto_fd fd = openat(etc, name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || write(fd, text, n) != (ssize_t)n)
        return err_sys(e, errno, "write /etc/%s", name);
    return 0;
}

/* Writes hosts, hostname and resolv.conf, which exist in the writable layer from the start. */
static int step_etc(struct spawn *s, struct err *e)
{
    const struct plan *p = s->args.plan;
    const char *hostname = p->hostname[0] ? p->hostname : p->id;
    auto_fd etc = openat(s->mounts.root, "etc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char text[512], address[INET_ADDRSTRLEN];
    int n, r;

    if (etc < 0)
        return err_sys(e, errno, "open");
    n = snprintf(text, sizeof(text), "%s\n", hostname);
    r = write_etc_file(etc, "hostname", text, (size_t)n, e);
    if (r < 0)
        return r;
    n = snprintf(text, sizeof(text), "127.0.0.1 localhost\n::1 localhost ip6-localhost\n%s %s\n",
                 s->args.has_address
                     ? inet_ntop(AF_INET, &s->args.address, address, sizeof(address))
                     : "127.0.1.1",
                 hostname);
    r = write_etc_file(etc, "hosts", text, (size_t)n, e);
    n = 0;
    for (size_t i = 0; i < PLAN_DNS_MAX; i++)
        if (p->dns[i])
            n += snprintf(text + n, sizeof(text) - (size_t)n, "nameserver %s\n",
                          inet_ntop(AF_INET, &p->dns[i], address, sizeof(address)));
    return r < 0 || n == 0 ? r : write_etc_file(etc, "resolv.conf", text, (size_t)n, e);
}

static int step_disk(struct spawn *s, struct err *e)
{
    return mounts_disk(&s->mounts, e);
}

static int step_root(struct spawn *s, struct err *e)
{
    int r = s->mounts.root < 0 || s->root_fits ? 0 : mounts_drop_root(&s->mounts, e);

    return r < 0 || s->root_fits ? r : mounts_root(&s->mounts, e);
}

static int step_unstage(struct spawn *s, struct err *e)
{
    return mounts_unstage(&s->mounts, e);
}

static int step_volumes(struct spawn *s, struct err *e)
{
    return volumes_mount(&s->mounts, e);
}

static int step_pivot(struct spawn *s, struct err *e)
{
    return mounts_pivot(&s->mounts, e);
}

static int step_hostname(struct spawn *s, struct err *e)
{
    const struct plan *p = s->args.plan;
    const char *name = p->hostname[0] ? p->hostname : p->id;

    if (sethostname(name, strlen(name)) < 0)
        return err_sys(e, errno, "set '%s'", name);
    return setsid() < 0 ? err_sys(e, errno, "new session") : 0;
}

/* The kernel's limit (fs.nr_open) or our own may be lower. */
static int limit_open_files(uint32_t wanted)
{
    struct rlimit limit = {wanted, wanted}, have;

    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    if (errno != EPERM || getrlimit(RLIMIT_NOFILE, &have) < 0)
        return -errno;
    limit.rlim_cur = limit.rlim_max = have.rlim_max < wanted ? have.rlim_max : wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

static int step_rlimits(struct spawn *s, struct err *e)
{
    uint32_t files = s->args.plan->limits.open_files;
    struct rlimit core = {0, 0};
    int r = limit_open_files(files ? files : NOFILE_DEFAULT);

    (void)umask(022);
    if (r < 0)
        return err_sys(e, -r, "open files");
    return setrlimit(RLIMIT_CORE, &core) < 0 ? err_sys(e, errno, "core files") : 0;
}

static int step_user(struct spawn *s, struct err *e)
{
    if (setns(s->slot->userns, CLONE_NEWUSER) < 0)
        return err_sys(e, errno, "enter");
    /* Direct system calls: those of libc would look for other threads. */
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0)
        return err_sys(e, errno, "become root inside");
    return 0;
}

static int step_caps(struct spawn *s UNUSED, struct err *e)
{
    int r = caps_limit(caps_init);

    if (r < 0)
        return err_sys(e, -r, "limit");
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? err_sys(e, errno, "no_new_privs") : 0;
}

/* Moves the descriptors to the numbers that execd expects, in two passes, so that none is
 * overwritten. */
static int step_descriptors(struct spawn *s, struct err *e)
{
    const struct spawn_args *a = &s->args;
    const struct cgroup *c = s->slot->cgroup;
    int from[EXECD_WORK_FDS + CGROUP_HIERARCHIES_MAX + CGROUP_USAGE_COUNT + 1];
    size_t count = 0;
    int null;

    from[count++] = a->listener;
    from[count++] = a->exit_file;
    from[count++] = a->log_file;
    for (size_t i = 0; i < c->work_count; i++)
        from[count++] = c->work_procs[i];
    for (size_t i = 0; i < c->usage_count; i++)
        from[count++] = c->usage_fds[i];
    if (c->work_fd >= 0)
        from[count++] = c->work_fd;
    for (size_t i = 0; i < count; i++) {
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_PARK);
        if (from[i] < 0)
            return err_sys(e, errno, "park");
    }
    s->execd = fcntl(s->slot->host->execd, F_DUPFD_CLOEXEC, FD_PARK);
    if (s->execd < 0)
        return err_sys(e, errno, "park execd");
    /* The sandbox gets its /dev/null, not the standard files of the broker. */
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return err_sys(e, errno, "open /dev/null");
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (dup2(null, i) < 0)
            return err_sys(e, errno, "place standard files");
    for (size_t i = 0; i < count; i++)
        if (dup2(from[i], EXECD_LISTENER_FD + (int)i) < 0)
            return err_sys(e, errno, "place");
    if (syscall(SYS_close_range, EXECD_LISTENER_FD + count, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return err_sys(e, errno, "close the others");
    return 0;
}

static struct oci_child oci_child_of(const struct spawn *s)
{
    const struct spawn_args *a = &s->args;

    return (struct oci_child){
        .runtime = a->oci,
        .plan = a->plan,
        .cgroup = s->slot->cgroup,
        .listener = a->listener,
        .exit_file = a->exit_file,
        .log_file = a->log_file,
        .bundle = a->bundle,
        .memory = a->memory,
    };
}

static int step_world(struct spawn *s, struct err *e)
{
    struct oci_child child = oci_child_of(s);

    return oci_world_make(&s->mounts, &child, e);
}

static int step_guard(struct spawn *s, struct err *e)
{
    struct oci_child child = oci_child_of(s);

    return oci_guard_run(&child, e);
}

static int step_seccomp(struct spawn *s, struct err *e)
{
    int r = seccomp_install(&s->slot->host->seccomp);

    return r < 0 ? err_sys(e, -r, "install") : 0;
}

static int step_exec(struct spawn *s, struct err *e)
{
    (void)syscall(SYS_execveat, s->execd, "", s->argv, s->env, AT_EMPTY_PATH);
    return err_sys(e, errno, "execd");
}

struct spawn_step {
    const char *name;
    int (*run)(struct spawn *s, struct err *e);
};

static const struct spawn_step steps_ahead[] = {
    {"close files",     step_close     },
    {"enter cgroups",   step_cgroups   },
    {"enter network",   step_network   },
    {"open state",      step_open      },
    {"mount system",    step_system    },
    {"mask paths",      step_mask      },
    {"mount host root", step_root_ahead},
};

static const struct spawn_step steps_with_plan[] = {
    {"mount disk",              step_disk       },
    {"mount root",              step_root       }, /* as real root from here ... */
    {"write /etc",              step_etc        },
    {"move system mounts",      step_unstage    },
    {"mount volumes",           step_volumes    },
    {"pivot root",              step_pivot      }, /* no host path after this */
    {"set hostname",            step_hostname   },
    {"set limits",              step_rlimits    },
    {"enter user namespace",    step_user       }, /* ... to here: root only inside from now on */
    {"drop capabilities",       step_caps       },
    {"place descriptors",       step_descriptors},
    {"load system call filter", step_seccomp    },
    {"exec",                    step_exec       },
};

/* Of a sandbox behind an OCI runtime: that makes the rest of it. */
static const struct spawn_step steps_with_oci[] = {
    {"mount disk",    step_disk    },
    {"mount root",    step_root    },
    {"write /etc",    step_etc     },
    {"mount volumes", step_volumes },
    {"mount world",   step_world   },
    {"pivot root",    step_pivot   },
    {"set hostname",  step_hostname},
    {"set limits",    step_rlimits },
    {"start runtime", step_guard   }, /* stays there */
};

/* --- the child --- */

static void child_run(struct spawn *s, const struct spawn_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct err e = {0};
        int r = fault_hit(FAULT_SYSCALL) ? err_set(&e, ENOSYS, "injected") : steps[i].run(s, &e);

        if (r < 0) {
            (void)err_wrap(&e, r, "%s", steps[i].name);
            r = fd_send(s->channel, &e, sizeof(e), NULL, 0); /* no broker, no report */
            _exit(r < 0 ? 126 : 127);
        }
    }
}

static void child_build_argv(struct spawn *s)
{
    const struct plan *p = s->args.plan;
    const char *cwd, *entry[PLAN_ARGS_MAX + 1];
    size_t n = 0;

    plan_strings(p, entry, s->env, &cwd);
    (void)snprintf(s->uid, sizeof(s->uid), "%u", p->uid);
    (void)snprintf(s->gid, sizeof(s->gid), "%u", p->gid);
    (void)snprintf(s->work_fds, sizeof(s->work_fds), "%zu", s->slot->cgroup->work_count);
    (void)snprintf(s->stat_fds, sizeof(s->stat_fds), "%zu", s->slot->cgroup->usage_count);
    (void)snprintf(s->cpu_millis, sizeof(s->cpu_millis), "%u", p->limits.cpu_millicores);
    (void)snprintf(s->memory_mib, sizeof(s->memory_mib), "%u",
                   (unsigned)min_size(p->limits.memory_bytes >> 20, UINT32_MAX));
    const char *work_dir_fds = s->slot->cgroup->work_fd >= 0 ? "1" : "0";
    const char *options[] = {
        "execd",          "--init",      "--uid",        s->uid,
        "--gid",          s->gid,        "--cwd",        cwd,
        "--work-fds",     s->work_fds,   "--stat-fds",   s->stat_fds,
        "--work-dir-fds", work_dir_fds,  "--cpu-millis", s->cpu_millis,
        "--memory-mib",   s->memory_mib, "--",
    };

    static_assert(ARRAY_LEN(options) <= EXECD_OPTIONS_MAX, "room for all");

    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        s->argv[n++] = options[i];
    for (size_t i = 0; i <= p->arg_count; i++)
        s->argv[n++] = entry[i]; /* with its NULL */
}

/* Waits for the plan. Exits if the broker ends without sending one. */
static void child_await(struct spawn *s, struct spawn_message *room)
{
    int fds[FD_SEND_MAX];
    size_t n = 0, count = 0, at = 0;

    if (fd_recv(s->channel, room, sizeof(*room), &n, fds, &count) < 0 ||
        n < offsetof(struct spawn_message, plan.text) ||
        n != offsetof(struct spawn_message, plan) + plan_bytes(&room->plan))
        _exit(125);
    s->mounts.plan = &room->plan;
    s->mounts.lasts = room->plan.lasting;
    s->root_fits = s->mounts.root >= 0 && plan_takes_ready_root(&room->plan);
    if (room->lower_count > MOUNTS_LOWERS_MAX || room->base_count > MOUNTS_BASES_MAX ||
        count != room->lower_count + room->base_count + room->has_usr + room->has_disk +
                     room->plan.bind_count + EXECD_FDS + room->has_bundle + room->has_memory ||
        (room->has_bundle && room->oci >= s->slot->host->oci_count))
        _exit(125);
    while (s->mounts.lower_count < room->lower_count)
        s->mounts.lowers[s->mounts.lower_count++] = fds[at++];
    while (s->mounts.base_count < room->base_count)
        s->mounts.bases[s->mounts.base_count++] = fds[at++];
    if (room->has_usr)
        s->mounts.usr_lower = fds[at++];
    if (room->has_disk)
        s->mounts.disk = fds[at++];
    while (s->mounts.bind_count < room->plan.bind_count)
        s->mounts.binds[s->mounts.bind_count++] = fds[at++];
    s->args = (struct spawn_args){
        .plan = &room->plan,
        .listener = fds[at],
        .exit_file = fds[at + 1],
        .log_file = fds[at + 2],
        .has_address = room->has_address,
        .address = room->address,
        .oci = room->has_bundle ? &s->slot->host->oci[room->oci] : NULL,
        .bundle = room->has_bundle ? fds[at + EXECD_FDS] : -EBADF,
        .memory = room->has_memory ? fds[at + EXECD_FDS + 1] : -EBADF,
    };
}

static NORETURN void child_main(const struct spawn_slot *slot, const struct mounts *ahead,
                                int channel)
{
    static struct spawn s;
    static struct spawn_message message;
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* the broker blocks some signals */
    s.slot = slot;
    s.mounts = *ahead;
    s.mounts.slot = slot;
    s.channel = channel;
    child_run(&s, steps_ahead, ARRAY_LEN(steps_ahead));
    child_await(&s, &message);
    child_build_argv(&s);
    if (s.args.oci)
        child_run(&s, steps_with_oci, ARRAY_LEN(steps_with_oci));
    else
        child_run(&s, steps_with_plan, ARRAY_LEN(steps_with_plan));
    _exit(127);
}

/* --- the parent --- */

int spawn_park(const struct spawn_slot *slot, bool host_root, struct parked *ret, struct err *e)
{
    const struct cgroup *c = slot->cgroup;
    struct mounts ahead = MOUNTS_NONE;
    struct proc child = PROC_NONE;
    struct clone_args args = {
        .flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_PIDFD |
                 CLONE_CLEAR_SIGHAND,
        .pidfd = (uint64_t)(uintptr_t)&child.pidfd,
        .exit_signal = SIGCHLD,
    };
    int pair[2], r;
    long pid;

    if (c->init_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)c->init_fd;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, errno, "make a channel");
    fd_set_send_room(pair[0], sizeof(struct spawn_message));
    r = host_root ? mounts_prepare(&ahead, slot, NULL, NULL, e) : 0;
    if (r < 0) {
        fd_close(pair[0]);
        fd_close(pair[1]);
        return err_wrap(e, r, "mount host root");
    }
    pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        (void)close(pair[0]);
        child_main(slot, &ahead, pair[1]);
    }
    mounts_done(&ahead);
    fd_close(pair[1]);
    if (pid < 0) {
        fd_close(pair[0]);
        return err_sys(e, errno, "clone");
    }
    child.pid = (pid_t)pid;
    *ret = (struct parked){child, pair[0], host_root};
    return 0;
}

void parked_kill(struct parked *p)
{
    struct proc_exit ignored;

    if (p->proc.pidfd < 0)
        return;
    fd_close(take_fd(&p->channel));
    if (proc_signal(p->proc.pidfd, SIGKILL) == 0)
        /* It may be blocked by a file system that hangs; then it exits when that ends. */
        (void)!proc_wait(p->proc.pidfd, deadline_in_ms(SPAWN_KILL_MS_MAX), &ignored);
    proc_close(&p->proc);
    p->proc = PROC_NONE;
}

static int spawn_send(struct parked *p, const struct host *host, const struct spawn_args *args,
                      const struct mounts *m, int memory)
{
    static struct spawn_message message; /* too large for the stack; single-threaded */
    int fds[FD_SEND_MAX];
    size_t count = 0;

    message.lower_count = (uint32_t)m->lower_count;
    message.base_count = (uint32_t)m->base_count;
    message.has_usr = m->usr_lower >= 0;
    message.has_address = args->has_address;
    message.has_disk = args->disk >= 0;
    message.has_bundle = args->oci != NULL;
    message.has_memory = memory >= 0;
    message.oci = args->oci ? (uint32_t)(args->oci - host->oci) : 0;
    message.address = args->address;
    memcpy(&message.plan, args->plan, plan_bytes(args->plan));
    for (size_t i = 0; i < m->lower_count; i++)
        fds[count++] = m->lowers[i];
    for (size_t i = 0; i < m->base_count; i++)
        fds[count++] = m->bases[i];
    if (m->usr_lower >= 0)
        fds[count++] = m->usr_lower;
    if (args->disk >= 0)
        fds[count++] = args->disk;
    for (size_t i = 0; i < m->bind_count; i++)
        fds[count++] = m->binds[i];
    fds[count++] = args->listener;
    fds[count++] = args->exit_file;
    fds[count++] = args->log_file;
    if (args->oci)
        fds[count++] = args->bundle;
    if (memory >= 0)
        fds[count++] = memory;
    return fd_send(p->channel, &message,
                   offsetof(struct spawn_message, plan) + plan_bytes(args->plan), fds, count);
}

/* Receives one message. ECONNRESET comes first when a child failed ahead, the plan unread. */
static int spawn_hear(int channel, struct err *ret_report, size_t *ret_n)
{
    int fds[FD_SEND_MAX];
    size_t count = 0;
    int r = fd_recv(channel, ret_report, sizeof(*ret_report), ret_n, fds, &count);

    return r == -ECONNRESET ? fd_recv(channel, ret_report, sizeof(*ret_report), ret_n, fds, &count)
                            : r;
}

/* execd runs, or ran and has reported its end: some entrypoints end before we check. */
static bool spawn_became_execd(const struct parked *p, const struct spawn_args *args)
{
    struct stat st;

    return proc_signal(p->proc.pidfd, 0) == 0 ||
           (fstat(args->exit_file, &st) == 0 && st.st_size > 0);
}

/* The channel closes when execd runs; before that it may carry an error. */
static int spawn_await(struct parked *p, const struct spawn_args *args, struct err *e)
{
    struct pollfd poll_channel = {.fd = p->channel, .events = POLLIN};
    struct err report;
    size_t n = 0;
    int r;

    do
        r = poll(&poll_channel, 1, SPAWN_STEPS_MS_MAX);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return err_set(e, ETIMEDOUT, "no step may take longer than %d s",
                       SPAWN_STEPS_MS_MAX / 1000);
    r = spawn_hear(p->channel, &report, &n);
    if (r < 0)
        return err_sys(e, -r, "receive the child's report");
    if (n == 0 && spawn_became_execd(p, args))
        return 0;
    if (n != sizeof(report) || report.code <= 0)
        return err_set(e, ECHILD, "the child ended without a report");
    report.msg[sizeof(report.msg) - 1] = '\0';
    if (e)
        *e = report;
    return -report.code;
}

/* Clones what the child mounts, while we can see it. Errors begin with the step that needs it. */
static int spawn_prepare(struct mounts *m, const struct spawn_slot *slot, bool has_host_root,
                         const struct spawn_args *args, struct err *e)
{
    bool fits = has_host_root && plan_takes_ready_root(args->plan);
    int r = 0;

    *m = MOUNTS_NONE;
    if (!fits)
        r = mounts_prepare(m, slot, args->plan, args->layers, e);

    if (r < 0)
        return err_wrap(e, r, "mount root");
    r = volumes_prepare(m, slot, args->plan, args->binds, e);
    if (r == 0)
        return 0;
    mounts_done(m);
    return err_wrap(e, r, "mount volumes");
}

/* A mount of saved memory for the child; -EBADF when there is none. */
static int spawn_clone_memory(const struct spawn_args *args, struct err *e)
{
    auto_fd here = args->memory < 0 ? -EBADF : mounts_reopen(args->memory, O_DIRECTORY, e);
    int r;

    if (args->memory < 0 || here < 0)
        return here;
    r = mnt_clone(here, "", AT_EMPTY_PATH);
    return r < 0 ? err_sys(e, -r, "mount saved memory") : r;
}

static int spawn_tell(const struct spawn_slot *slot, struct parked *p,
                      const struct spawn_args *args, const struct mounts *m, struct err *e)
{
    auto_fd memory = spawn_clone_memory(args, e);
    int r;

    if (memory < 0 && args->memory >= 0)
        return memory;
    r = spawn_send(p, slot->host, args, m, memory);
    /* A child that failed ahead has closed its end: its report is read. */
    return r == 0 || r == -EPIPE ? 0 : err_sys(e, -r, "send the plan");
}

int spawn_go(const struct spawn_slot *slot, struct parked *p, const struct spawn_args *args,
             struct proc *ret, struct err *e)
{
    struct mounts m;
    int r = spawn_prepare(&m, slot, p->has_root, args, e);

    if (r == 0) {
        r = spawn_tell(slot, p, args, &m, e);
        mounts_done(&m);
    }
    if (r == 0)
        r = spawn_await(p, args, e);
    if (r < 0) {
        parked_kill(p);
        return r;
    }
    fd_close(take_fd(&p->channel));
    *ret = p->proc;
    p->proc = PROC_NONE;
    return 0;
}
