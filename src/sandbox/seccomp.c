/* seccomp.c - the table of system calls, and its compilation to BPF.
 *
 * Adjacent numbers with the same verdict are one run, and a binary search over the runs leads to a
 * verdict or to the conditions of a call. This is a third of the size of a rule per number, and the
 * time to load a program, which every sandbox waits for, grows with its length. Compares with
 * constants only: the kernel can analyse these, and caches which numbers are always allowed.
 *
 * The kernel uses the low 32 bits of an ioctl, a family, a set of flags, and so do all conditions
 * here: with a 64-bit comparison, a forbidden value with a high bit set would pass.
 *
 * Refused calls need no row. Refused on purpose: bpf, perf_event_open, keyctl and related,
 * userfaultfd, kexec, modules, mount and umount, chroot and pivot_root, open_by_handle_at,
 * fanotify, quotactl, acct, swapon, reboot, clocks, iopl, modify_ldt, syslog, vhangup, move_pages.
 *
 * This is the filter of PID 1. It allows a few calls more than the workload has, to make sandboxes
 * inside; base/nesting.h lists them, and each child of PID 1 drops them before it runs other
 * code. */
#include "sandbox/seccomp.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/nesting.h"
#include "base/str.h"

#if defined(__x86_64__)
#define NATIVE_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_AUDIT_ARCH AUDIT_ARCH_AARCH64
#else
#define NATIVE_AUDIT_ARCH 0 /* seccomp_compile refuses it */
#endif

/* The newest call that this table decides on (file_setattr, Linux 6.17). */
enum { NEWEST_NUMBER = 469, PROGRAM_MAX = 256 };

struct group {
    const char *why, *calls; /* names between single spaces; an architecture may lack some */
};

static const struct group groups_allowed[] = {
    {"opening and closing; ioctl: see rules",
     "open openat openat2 creat close close_range dup dup2 dup3 fcntl flock pipe pipe2 "
     "memfd_create eventfd eventfd2 ioctl"                                                  },
    {"reading and writing",
     "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek sendfile "
     "splice tee vmsplice copy_file_range sync syncfs fsync fdatasync sync_file_range fadvise64 "
     "readahead ftruncate truncate fallocate"                                               },
    {"looking; handles without the call that opens them",
     "stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink "
     "readlinkat getcwd chdir fchdir getdents getdents64 name_to_handle_at"                 },
    {"changing the tree; devices: see rules",
     "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat "
     "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask utime utimes futimesat "
     "utimensat"                                                                            },
    {"extended attributes",
     "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr "
     "removexattr lremovexattr fremovexattr getxattrat setxattrat listxattrat removexattrat"},
    {"waiting for files",
     "select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
     "epoll_pwait2 inotify_init inotify_init1 inotify_add_watch inotify_rm_watch signalfd "
     "signalfd4 timerfd_create timerfd_settime timerfd_gettime"                             },
    {"own memory",
     "brk mmap munmap mremap mprotect madvise msync mincore mlock mlock2 munlock mlockall "
     "munlockall remap_file_pages pkey_alloc pkey_free pkey_mprotect membarrier mseal "
     "map_shadow_stack get_mempolicy set_mempolicy set_mempolicy_home_node mbind "
     "process_madvise process_mrelease"                                                     },
    {"processes; clone and unshare: see rules",
     "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid "
     "setpgid getpgrp getsid setsid set_tid_address pidfd_open pidfd_send_signal restart_syscall "
     "prctl arch_prctl rseq"                                                                },
    {"debuggers; the kernel asks for ptrace access each time, and PID 1 is out of reach",
     "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp"                           },
    {"signals",
     "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigqueueinfo rt_sigreturn "
     "rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack pause alarm getitimer "
     "setitimer"                                                                            },
    {"threads",
     "futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list "
     "sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr "
     "sched_getparam sched_setparam sched_getscheduler sched_setscheduler "
     "sched_get_priority_max sched_get_priority_min sched_rr_get_interval getcpu"           },
    {"reading clocks, and timers",
     "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep timer_create "
     "timer_settime timer_gettime timer_getoverrun timer_delete times"                      },
    {"user ids and resource limits",
     "getuid geteuid getresuid setuid setreuid setresuid getgid getegid getresgid setgid setregid "
     "setresgid getgroups setgroups setfsuid setfsgid capget capset getrlimit setrlimit prlimit64 "
     "getrusage getpriority setpriority ioprio_get ioprio_set sysinfo uname getrandom"      },
    {"sockets; socket and socketpair: see rules",
     "bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt "
     "sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg"                                    },
    {"IPC of the sandbox's own namespace",
     "msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget "
     "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr"               },
    {"sandboxes of the workload's own that only take away",
     "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"             },
};

static const struct group groups_absent[] = {
    {"a second way into the kernel that no filter sees",
     "io_uring_setup io_uring_enter io_uring_register"                   },
    {"fs.aio-max-nr is one pool for all of the host",
     "io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy"},
    {"not needed by common programs yet",
     "memfd_secret cachestat statmount listmount lsm_get_self_attr lsm_set_self_attr "
     "lsm_list_modules open_tree_attr file_getattr file_setattr"         },
};

/* Calls newer than the libseccomp of stable distributions. From 424 on, numbers are the same on all
 * architectures. */
static const struct {
    const char *name;
    int number;
} young_calls[] = {
    {"futex_waitv",             449},
    {"set_mempolicy_home_node", 450},
    {"cachestat",               451},
    {"fchmodat2",               452},
    {"map_shadow_stack",        453},
    {"futex_wake",              454},
    {"futex_wait",              455},
    {"futex_requeue",           456},
    {"statmount",               457},
    {"listmount",               458},
    {"lsm_get_self_attr",       459},
    {"lsm_set_self_attr",       460},
    {"lsm_list_modules",        461},
    {"mseal",                   462},
    {"setxattrat",              463},
    {"getxattrat",              464},
    {"listxattrat",             465},
    {"removexattrat",           466},
    {"open_tree_attr",          467},
    {"file_getattr",            468},
    {"file_setattr",            469},
};

#define CLONE_NEW_FLAGS                                                                            \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
#define CLONE_NEW_FLAGS_FORBIDDEN (CLONE_NEW_FLAGS & ~NESTING_CLONE_FLAGS)
#define CLONE_TIME_FLAG           0x80 /* CLONE_NEWTIME; in clone these bits are the exit signal */

enum verdict { REFUSED, ABSENT, UNSUPPORTED, ALLOWED, VERDICT_COUNT };

static const uint32_t answers[VERDICT_COUNT] = {
    [REFUSED] = SECCOMP_RET_ERRNO | EPERM,
    [ABSENT] = SECCOMP_RET_ERRNO | ENOSYS,
    [UNSUPPORTED] = SECCOMP_RET_ERRNO | EPROTONOSUPPORT,
    [ALLOWED] = SECCOMP_RET_ALLOW,
};

#define ALL 0xffffffffU

/* The verdict if an argument, masked, has this value. Rows of a call are adjacent. */
static const struct rule {
    const char *call;
    unsigned arg;
    uint32_t mask, value;
    enum verdict verdict;
} rules[] = {
    {"clone",       0, CLONE_NEW_FLAGS_FORBIDDEN,         0,                 ALLOWED}, /* nesting.h */
    {"unshare",     0, CLONE_NEW_FLAGS | CLONE_TIME_FLAG, 0,                 ALLOWED},

    {"ioctl",       1, ALL,                               TIOCSTI,           REFUSED}, /* inject */
    {"ioctl",       1, ALL,                               TIOCLINUX,         REFUSED}, /* pastes */
    {"ioctl",       1, ALL,                               TIOCSETD,          REFUSED}, /* modules */

    {"socket",      0, ALL,                               AF_UNIX,           ALLOWED}, /* others: below */
    {"socketpair",  0, ALL,                               AF_UNIX,           ALLOWED},

    {"personality", 0, ALL,                               0xffffffff,        ALLOWED}, /* query */
    {"personality", 0, ALL,                               PER_LINUX,         ALLOWED},
    {"personality", 0, ALL,                               ADDR_NO_RANDOMIZE, ALLOWED}, /* gdb */

    {"mknod",       1, S_IFMT,                            0,                 ALLOWED}, /* no devices */
    {"mknod",       1, S_IFMT,                            S_IFREG,           ALLOWED},
    {"mknod",       1, S_IFMT,                            S_IFIFO,           ALLOWED},
    {"mknod",       1, S_IFMT,                            S_IFSOCK,          ALLOWED},
    {"mknodat",     2, S_IFMT,                            0,                 ALLOWED},
    {"mknodat",     2, S_IFMT,                            S_IFREG,           ALLOWED},
    {"mknodat",     2, S_IFMT,                            S_IFIFO,           ALLOWED},
    {"mknodat",     2, S_IFMT,                            S_IFSOCK,          ALLOWED},
};

/* The other sockets. None that is raw, widens the attack surface or loads a module: packet, vsock,
 * alg, SCTP, DCCP, L2TP, SMC, MPTCP (Go falls back), further netlink families. These fail as in a
 * kernel without them: useradd and PAM work when the audit log does not exist, but not when it is
 * forbidden. */
static const struct socket_rule {
    unsigned family, type, protocol;
} sockets[] = {
    {AF_INET,    SOCK_STREAM, 0             },
    {AF_INET,    SOCK_STREAM, IPPROTO_TCP   },
    {AF_INET,    SOCK_DGRAM,  0             },
    {AF_INET,    SOCK_DGRAM,  IPPROTO_UDP   },
    {AF_INET,    SOCK_DGRAM,  IPPROTO_ICMP  }, /* ping */
    {AF_INET6,   SOCK_STREAM, 0             },
    {AF_INET6,   SOCK_STREAM, IPPROTO_TCP   },
    {AF_INET6,   SOCK_DGRAM,  0             },
    {AF_INET6,   SOCK_DGRAM,  IPPROTO_UDP   },
    {AF_INET6,   SOCK_DGRAM,  IPPROTO_ICMPV6},
    {AF_NETLINK, SOCK_RAW,    NETLINK_ROUTE }, /* getifaddrs */
    {AF_NETLINK, SOCK_DGRAM,  NETLINK_ROUTE },
};
enum {
    SOCKET_TYPE_MASK = 0xf, /* the other bits are SOCK_CLOEXEC and SOCK_NONBLOCK */
    SOCKET_PART_MAX = 0xff, /* of a family or a protocol */
};

/* The number of a call; -ENOSYS if this architecture lacks it, -EINVAL for an unknown name. */
static int resolve(struct str name, struct err *e)
{
    char cname[64];
    int nr, r;

    r = str_copy(cname, sizeof(cname), name);
    if (r < 0)
        return err_set(e, EINVAL, "system call name is too long: '%.*s'", STR_ARG(name));
    nr = seccomp_syscall_resolve_name(cname);
    for (size_t i = 0; nr == __NR_SCMP_ERROR && i < ARRAY_LEN(young_calls); i++)
        if (str_eq(name, str_of(young_calls[i].name)))
            nr = young_calls[i].number;
    if (nr == __NR_SCMP_ERROR)
        return err_set(e, EINVAL, "no such system call: '%s'", cname);
    return nr < 0 ? -ENOSYS : nr;
}

/* --- the verdict of each number --- */

struct table {
    uint8_t verdicts[NEWEST_NUMBER + 1];
    uint8_t rules[NEWEST_NUMBER + 1]; /* index of the call's first rule plus one, or 0 */
};

static int table_set(struct table *t, struct str name, enum verdict verdict, struct err *e)
{
    int nr = resolve(name, e);

    if (nr < 0)
        return nr == -ENOSYS ? 0 : nr;
    if (nr > NEWEST_NUMBER)
        return err_set(e, EINVAL, "system call '%.*s' is younger than the table", STR_ARG(name));
    t->verdicts[nr] = (uint8_t)verdict;
    return 0;
}

static int table_set_groups(struct table *t, const struct group *groups, size_t count,
                            enum verdict verdict, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        struct str rest = str_of(groups[i].calls), name;

        while (str_cut(&rest, ' ', &name)) {
            int r = table_set(t, name, verdict, e);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

static bool rule_goes_on(size_t i)
{
    return i > 0 && strcmp(rules[i].call, rules[i - 1].call) == 0;
}

static int table_fill(struct table *t, struct err *e)
{
    int r = table_set_groups(t, groups_allowed, ARRAY_LEN(groups_allowed), ALLOWED, e);

    if (r >= 0)
        r = table_set_groups(t, groups_absent, ARRAY_LEN(groups_absent), ABSENT, e);
    for (size_t i = 0; i < nesting_call_count && r >= 0; i++)
        t->verdicts[nesting_calls[i]] = ALLOWED;
    for (size_t i = 0; i < ARRAY_LEN(rules) && r >= 0; i++) {
        int nr = rule_goes_on(i) ? -ENOSYS : resolve(str_of(rules[i].call), e);

        if (nr >= 0)
            t->rules[nr] = (uint8_t)(i + 1);
        else if (nr != -ENOSYS)
            r = nr;
    }
    return r;
}

/* --- the program --- */

/* Targets of jumps: a verdict, or the conditions of a call by their first rule. */
enum { LABEL_COUNT = VERDICT_COUNT + ARRAY_LEN(rules), NEXT = LABEL_COUNT };
static_assert(LABEL_COUNT < UINT8_MAX, "labels fit into a byte");

struct assembly {
    struct sock_filter code[PROGRAM_MAX];
    struct {
        uint8_t yes, no; /* labels; NEXT keeps the offset */
    } jumps[PROGRAM_MAX];
    size_t places[LABEL_COUNT];
    size_t count;
};

static void put_jump(struct assembly *a, unsigned op, uint32_t value, unsigned yes, unsigned no)
{
    assert(a->count < PROGRAM_MAX); /* the length does not depend on input */
    a->code[a->count] = (struct sock_filter)BPF_JUMP(BPF_JMP | op | BPF_K, value, 0, 0);
    a->jumps[a->count].yes = (uint8_t)yes;
    a->jumps[a->count++].no = (uint8_t)no;
}

static void put(struct assembly *a, unsigned op, uint32_t value)
{
    put_jump(a, 0, 0, NEXT, NEXT);
    a->code[a->count - 1] = (struct sock_filter)BPF_STMT((uint16_t)op, value);
}

#define OFFSET(field) ((uint32_t)offsetof(struct seccomp_data, field))
static void put_load(struct assembly *a, uint32_t offset)
{
    put(a, BPF_LD | BPF_W | BPF_ABS,
        offset); /* for an argument the low half: both are little-endian */
}

struct run {
    uint32_t first;
    uint8_t label;
};

static uint8_t label_of(const struct table *t, uint32_t nr)
{
    return t->rules[nr] ? (uint8_t)(VERDICT_COUNT + t->rules[nr] - 1) : t->verdicts[nr];
}

/* For two runs or more; the depth is the logarithm of their number. */
static void put_search(struct assembly *a, const struct run *runs, size_t count)
{
    size_t half = count / 2, at = a->count;

    put_jump(a, BPF_JGE, runs[half].first, count - half == 1 ? runs[half].label : NEXT,
             half == 1 ? runs[0].label : NEXT);
    if (half > 1)
        put_search(a, runs, half);
    if (count - half > 1) {
        a->code[at].jt = (uint8_t)(a->count - at - 1);
        put_search(a, runs + half, count - half);
    }
}

static void put_table(struct assembly *a, const struct table *t)
{
    struct run runs[NEWEST_NUMBER + 1];
    size_t count = 0;

    for (uint32_t nr = 0; nr <= NEWEST_NUMBER; nr++)
        if (nr == 0 || label_of(t, nr) != label_of(t, nr - 1))
            runs[count++] = (struct run){nr, label_of(t, nr)};
    put_load(a, OFFSET(arch));
    put_jump(a, BPF_JEQ, NATIVE_AUDIT_ARCH, NEXT, ABSENT);
    put_load(a, OFFSET(nr));
    put_jump(a, BPF_JGT, NEWEST_NUMBER, ABSENT, NEXT); /* x32 numbers are larger, too */
    put_search(a, runs, count);
}

/* Combines family, type and protocol into one number, and compares it with each allowed one. */
static void put_sockets(struct assembly *a)
{
    put_load(a, OFFSET(args[0]));
    put_jump(a, BPF_JGT, SOCKET_PART_MAX, REFUSED, NEXT);
    put(a, BPF_ALU | BPF_LSH | BPF_K, 16);
    put(a, BPF_MISC | BPF_TAX, 0);
    put_load(a, OFFSET(args[1]));
    put(a, BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPE_MASK);
    put(a, BPF_ALU | BPF_LSH | BPF_K, 8);
    put(a, BPF_ALU | BPF_OR | BPF_X, 0);
    put(a, BPF_MISC | BPF_TAX, 0);
    put_load(a, OFFSET(args[2]));
    put_jump(a, BPF_JGT, SOCKET_PART_MAX, REFUSED, NEXT);
    put(a, BPF_ALU | BPF_OR | BPF_X, 0);
    for (size_t i = 0; i < ARRAY_LEN(sockets); i++)
        put_jump(a, BPF_JEQ, sockets[i].family << 16 | sockets[i].type << 8 | sockets[i].protocol,
                 ALLOWED, NEXT);
    put(a, BPF_ALU | BPF_RSH | BPF_K, 16);
    put_jump(a, BPF_JEQ, AF_NETLINK, UNSUPPORTED, REFUSED);
}

/* The conditions of a call: the first that holds decides, else `otherwise` does. */
static void put_rules(struct assembly *a, size_t first, enum verdict otherwise)
{
    a->places[VERDICT_COUNT + first] = a->count;
    for (size_t i = first; i < ARRAY_LEN(rules) && (i == first || rule_goes_on(i)); i++) {
        const struct rule *rule = &rules[i];

        if (i == first || rule->arg != rule[-1].arg || rule->mask != rule[-1].mask) {
            put_load(a, OFFSET(args[0]) + rule->arg * (uint32_t)sizeof(uint64_t));
            if (rule->mask != ALL)
                put(a, BPF_ALU | BPF_AND | BPF_K, rule->mask);
        }
        put_jump(a, BPF_JEQ, rule->value, rule->verdict, NEXT);
    }
    if (strcmp(rules[first].call, "socket") == 0)
        put_sockets(a);
    else
        a->jumps[a->count - 1].no = otherwise;
}

/* Offsets are the number of instructions to skip, in a byte. */
static int link_jumps(struct assembly *a, struct err *e)
{
    for (size_t i = 0; i < a->count; i++) {
        size_t yes = a->jumps[i].yes == NEXT ? 0 : a->places[a->jumps[i].yes] - i - 1;
        size_t no = a->jumps[i].no == NEXT ? 0 : a->places[a->jumps[i].no] - i - 1;

        if (yes > UINT8_MAX || no > UINT8_MAX)
            return err_set(e, E2BIG, "the system call filter has become too long for its jumps");
        a->code[i].jt |= (uint8_t)yes;
        a->code[i].jf |= (uint8_t)no;
    }
    return 0;
}

int seccomp_compile(struct seccomp_program *ret, struct err *e)
{
    struct table t = {0};
    struct assembly a = {0};
    int r;

    if (!NATIVE_AUDIT_ARCH)
        return err_set(e, ENOTSUP, "no system call table for this architecture");
    r = table_fill(&t, e);
    if (r < 0)
        return r;
    put_table(&a, &t);
    for (size_t nr = 0; nr <= NEWEST_NUMBER; nr++)
        if (t.rules[nr])
            put_rules(&a, t.rules[nr] - 1U, t.verdicts[nr]);
    for (size_t i = 0; i < VERDICT_COUNT; i++) {
        a.places[i] = a.count;
        put(&a, BPF_RET | BPF_K, answers[i]);
    }
    r = link_jumps(&a, e);
    if (r < 0)
        return r;
    ret->code = mem_alloc(a.count * sizeof(*ret->code));
    memcpy(ret->code, a.code, a.count * sizeof(*ret->code));
    ret->count = (unsigned short)a.count;
    return 0;
}

void seccomp_program_done(struct seccomp_program *p)
{
    if (!p)
        return;
    free(p->code);
    *p = (struct seccomp_program){0};
}

int seccomp_install(const struct seccomp_program *p)
{
    struct sock_fprog prog = {.len = p->count, .filter = p->code};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return -errno;
    return 0;
}
