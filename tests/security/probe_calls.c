/* probe_calls.c - system calls and capabilities. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <unistd.h>

static struct result try_call(const struct context *c, const struct probe *p)
{
    return judge_call(
        p->name, syscall(p->call[0], p->call[1], p->call[2], p->call[3], p->call[4], p->call[5]));
}

static struct result try_socket(const struct context *c, const struct probe *p)
{
    return judge_call("socket", socket((int)p->call[0], (int)p->call[1], (int)p->call[2]));
}

static struct result try_setns(const struct context *c, const struct probe *p)
{
    int fd = open(p->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return blocked("open");
    return judge_call("setns", setns(fd, 0));
}

static struct result try_perf(const struct context *c, const struct probe *p)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK};

    return judge_call("perf_event_open", syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static struct result try_io_uring(const struct context *c, const struct probe *p)
{
    char params[120] = {0};

    return judge_call("io_uring_setup", syscall(SYS_io_uring_setup, 1, params));
}

static struct result try_trace_init(const struct context *c, const struct probe *p)
{
    if (getpid() == 1 || init_is_us())
        return verdict(NA, "init is the workload itself");
    if (ptrace(PTRACE_SEIZE, 1, 0, 0) < 0)
        return blocked("ptrace");
    (void)ptrace(PTRACE_DETACH, 1, 0, 0);
    return verdict(OPEN, "init can be traced");
}

static struct result try_read_init(const struct context *c, const struct probe *p)
{
    char byte;
    struct iovec local = {&byte, 1}, remote = {(void *)0x400000, 1};

    if (init_is_us())
        return verdict(NA, "init is the workload itself");
    return judge_call("process_vm_readv", process_vm_readv(1, &local, 1, &remote, 1, 0));
}

static struct result try_take_fd_of_init(const struct context *c, const struct probe *p)
{
    long pidfd = syscall(SYS_pidfd_open, 1, 0);

    if (init_is_us())
        return verdict(NA, "init is the workload itself");
    if (pidfd < 0)
        return blocked("pidfd_open");
    return judge_call("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}

/* The kernel spares the init of a namespace; were it to die, we would die here, too. */
static struct result try_kill_init(const struct context *c, const struct probe *p)
{
    if (init_is_us())
        return verdict(NA, "init is the workload itself");
    if (kill(1, SIGKILL) < 0)
        return blocked("kill");
    (void)usleep(100 * 1000);
    return kill(1, 0) == 0 ? verdict(CONTAINED, "allowed, and init lives on")
                           : verdict(OPEN, "init is gone");
}

static struct result try_tty_ioctl(const struct context *c, const struct probe *p)
{
    char path[32], byte = 3;
    unsigned number;
    int unlock = 0, tty, fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || ioctl(fd, TIOCGPTN, &number) < 0 || ioctl(fd, TIOCSPTLCK, &unlock) < 0)
        return verdict(NA, "no terminal: %s", strerror(errno));
    (void)snprintf(path, sizeof(path), "/dev/pts/%u", number);
    (void)setsid();
    tty = open(path, O_RDWR | O_CLOEXEC); /* becomes our controlling terminal */
    if (tty < 0)
        return verdict(NA, "no terminal: %s", strerror(errno));
    if (ioctl(tty, (unsigned long)p->call[0], &byte) == 0)
        return verdict(OPEN, "works");
    return errno == ENOTTY ? verdict(BLOCKED, "not on such a terminal") : blocked("ioctl");
}

/* The same frequency again: a permission check without a change. */
static struct result try_clock(const struct context *c, const struct probe *p)
{
    struct timex t = {0};

    if (adjtimex(&t) < 0)
        return blocked("adjtimex");
    t.modes = ADJ_FREQUENCY;
    return judge_call("adjtimex", adjtimex(&t));
}

static struct result try_nice(const struct context *c, const struct probe *p)
{
    return judge_call("setpriority", setpriority(PRIO_PROCESS, 0, -20));
}

static struct result try_realtime(const struct context *c, const struct probe *p)
{
    struct sched_param param = {.sched_priority = 1};

    return judge_call("sched_setscheduler", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param));
}

static struct result try_raise_limit(const struct context *c, const struct probe *p)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return blocked("getrlimit");
    if (limit.rlim_max >= 1048576 * 16)
        return verdict(OPEN, "there is no limit");
    limit.rlim_max++;
    return judge_call("raise the hard limit", setrlimit(RLIMIT_NOFILE, &limit));
}

static struct result try_bounding_set(const struct context *c, const struct probe *p)
{
    static const struct {
        int cap;
        const char *name;
    } rows[] = {
        {CAP_SYS_ADMIN,  "SYS_ADMIN" },
        {CAP_SYS_MODULE, "SYS_MODULE"},
        {CAP_SYS_RAWIO,  "SYS_RAWIO" },
        {CAP_SYS_PTRACE, "SYS_PTRACE"},
        {CAP_NET_ADMIN,  "NET_ADMIN" },
        {CAP_NET_RAW,    "NET_RAW"   },
        {CAP_MKNOD,      "MKNOD"     },
        {CAP_BPF,        "BPF"       },
        {CAP_SYS_CHROOT, "SYS_CHROOT"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (prctl(PR_CAPBSET_READ, rows[i].cap, 0, 0, 0) == 1)
            return verdict(OPEN, "CAP_%s can be had", rows[i].name);
    return verdict(BLOCKED, "none of those that matter");
}

static struct result try_regain(const struct context *c, const struct probe *p)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct all[2] = {
        {~0U,   ~0U,   0},
        {0x1ff, 0x1ff, 0}
    };

    return judge_call("capset", syscall(SYS_capset, &header, all));
}

static struct result try_new_privs(const struct context *c, const struct probe *p)
{
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return verdict(BLOCKED, "no_new_privs is set");
    return verdict(OPEN, "no_new_privs is not set");
}

static struct result try_32_bit(const struct context *c, const struct probe *p)
{
#ifdef __x86_64__
    long r;

    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(20L /* getpid */)
                     : "memory", "r8", "r9", "r10", "r11");
    if ((int)r > 0)
        return verdict(OPEN, "32-bit calls are answered");
    return verdict(BLOCKED, "32-bit calls: %s", strerror(-(int)r));
#else
    return verdict(NA, "not on this architecture");
#endif
}

static struct result try_userns(const struct context *c, const struct probe *p)
{
    long pid = syscall(SYS_clone, (long)(CLONE_NEWUSER | SIGCHLD), 0, 0, 0, 0);

    if (pid == 0)
        _exit(0);
    return judge_call("clone(CLONE_NEWUSER)", pid);
}

static struct result try_userns_clone3(const struct context *c, const struct probe *p)
{
    uint64_t args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    long pid = syscall(SYS_clone3, args, sizeof(args));

    if (pid == 0)
        _exit(0);
    return judge_call("clone3(CLONE_NEWUSER)", pid);
}

#define P (long)
static const struct probe probes[] = {
    PROBE("userns-unshare", try_call, "root of a namespace reaches much more of the kernel",
          .call = {SYS_unshare, CLONE_NEWUSER}),
    PROBE("userns-clone", try_userns, "the same by clone"),
    PROBE("userns-clone3", try_userns_clone3, "the same where no filter can read the flags"),
    PROBE("mntns", try_call, "mounts of our own", .call = {SYS_unshare, CLONE_NEWNS}),
    PROBE("netns", try_call, "interfaces, rules and raw sockets of our own",
          .call = {SYS_unshare, CLONE_NEWNET}),
    PROBE("pidns", try_call, "hides processes from init", .call = {SYS_unshare, CLONE_NEWPID}),
    PROBE("cgroupns", try_call, "hides groups from limits' reports",
          .call = {SYS_unshare, CLONE_NEWCGROUP}),
    PROBE("timens", try_call, "clocks of our own", .call = {SYS_unshare, 0x80}),
    PROBE("setns-mnt", try_setns, "joins namespaces of init", .path = "/proc/1/ns/mnt"),
    PROBE("setns-net", try_setns, "the same for the network", .path = "/proc/1/ns/net"),
    PROBE("bpf", try_call, "programs inside the kernel", .call = {SYS_bpf, 9999, 0, 0}),
    PROBE("perf", try_perf, "watches the kernel and others"),
    PROBE("keyctl", try_call, "keyrings are not namespaced by container",
          .call = {SYS_keyctl, 0, -3, 0}),
    PROBE("add-key", try_call, "fills the host's quota of keys",
          .call = {SYS_add_key, P "user", P "probe", P "x", 1, -3}),
    PROBE("request-key", try_call, "calls a program of the host",
          .call = {SYS_request_key, P "user", P "probe", 0, 0}),
    PROBE("userfaultfd", try_call, "stops the kernel at a chosen moment: races become certain",
          .call = {SYS_userfaultfd, 0}),
    PROBE("io-uring", try_io_uring, "a second way into the kernel that no filter sees"),
    PROBE("kexec", try_call, "another kernel", .call = {SYS_kexec_load, 0, 0, 0, 0xffff}),
    PROBE("kexec-file", try_call, "the same by descriptor",
          .call = {SYS_kexec_file_load, -1, -1, 0, 0, 0xffff}),
    PROBE("init-module", try_call, "code in the kernel", .call = {SYS_init_module, 0, 0, P ""}),
    PROBE("finit-module", try_call, "the same by descriptor",
          .call = {SYS_finit_module, -1, P "", 0}),
    PROBE("delete-module", try_call, "removes parts of the kernel",
          .call = {SYS_delete_module, P "no_such_module", O_NONBLOCK}),
    PROBE("reboot", try_call, "wrong magic numbers: the error shows whether the caller may reboot",
          .call = {SYS_reboot, 0, 0, 0}),
    PROBE("swapon", try_call, "swap to a place of our choice",
          .call = {SYS_swapon, P "/no/such/file", 0}),
    PROBE("acct", try_call, "the host's accounting to a file of ours",
          .call = {SYS_acct, P "/no/such/file"}),
    PROBE("quotactl", try_call, "lifts disk limits",
          .call = {SYS_quotactl, 0x800002 << 8, P "/no/such/device", 0, 0}),
    PROBE("syslog", try_call, "the host's kernel log", .call = {SYS_syslog, 10, 0, 0}),
    PROBE("clock", try_clock, "the host's clock"),
    PROBE("hostname", try_call, "names are the operator's",
          .call = {SYS_sethostname, P "probe", 5}),

#ifdef __x86_64__
    PROBE("iopl", try_call, "hardware ports", .call = {SYS_iopl, 3}),
#endif

    PROBE("fanotify", try_call, "watches and delays files of others",
          .call = {SYS_fanotify_init, 0, 0}),
    PROBE("vhangup", try_call, "ends terminals", .call = {SYS_vhangup}),
    PROBE("personality", try_call, "switches protections of memory off",
          .call = {SYS_personality, READ_IMPLIES_EXEC}),
    PROBE("abi-32-bit", try_32_bit, "rarely used code, and numbers a filter may misread"),
    PROBE("abi-x32", try_call, "the same", .call = {0x40000000 | 39, 0}),
    PROBE("ptrace-pid1", try_trace_init, "takes init over"),
    PROBE("vm-read-pid1", try_read_init, "reads init's secrets"),
    PROBE("pidfd-getfd-pid1", try_take_fd_of_init, "takes init's descriptors"),
    PROBE("kill-pid1", try_kill_init, "ends the sandbox under its owner's feet"),
    PROBE("tiocsti", try_tty_ioctl, "types into the terminal that is attached", .call = {TIOCSTI}),
    PROBE("tioclinux", try_tty_ioctl, "pastes into a console", .call = {TIOCLINUX}),
    PROBE("socket-raw", try_socket, "forged packets", .call = {AF_INET, SOCK_RAW, 1}),
    PROBE("socket-raw6", try_socket, "the same for IPv6", .call = {AF_INET6, SOCK_RAW, 58}),
    PROBE("socket-packet", try_socket, "frames: ARP spoofing, listening",
          .call = {AF_PACKET, SOCK_RAW, 0x0300}),
    PROBE("socket-alg", try_socket, "the kernel's crypto, often a way in",
          .call = {AF_ALG, SOCK_SEQPACKET, 0}),
    PROBE("socket-vsock", try_socket, "talks to the hypervisor, around all rules",
          .call = {AF_VSOCK, SOCK_STREAM, 0}),
    PROBE("socket-xdp", try_socket, "packets around the stack", .call = {AF_XDP, SOCK_RAW, 0}),
    PROBE("socket-netfilter", try_socket, "rules; the source of many kernel bugs",
          .call = {AF_NETLINK, SOCK_RAW, 12}),
    PROBE("socket-audit", try_socket, "the host's audit log", .call = {AF_NETLINK, SOCK_RAW, 9}),
    PROBE("socket-sctp", try_socket, "loads a module, is rarely reviewed",
          .call = {AF_INET, SOCK_STREAM, 132}),
    PROBE("priority", try_nice, "takes CPU from others"),
    PROBE("realtime", try_realtime, "takes all CPU from others"),
    PROBE("raise-limit", try_raise_limit, "a limit that can be lifted is none"),
    PROBE("bounding-set", try_bounding_set, "what is in it can be regained by a file"),
    PROBE("capset", try_regain, "dropped must stay dropped"),
    PROBE("no-new-privs", try_new_privs, "a program may not gain what its caller lacks"),
};
const struct probe_group group_calls = {"calls", probes, ARRAY_LEN(probes)};
