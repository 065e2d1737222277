/* seccomp.c - the table of system calls, and its way through libseccomp into BPF.
 *
 * The program is ours in front and libseccomp's behind. A few hand-written instructions come first,
 * for what libseccomp cannot say: "a number younger than this table" and "all values but these in
 * the low 32 bits of an argument". The kernel looks at those 32 bits only, so comparing all 64, as
 * libseccomp's NE does, lets a caller pass a forbidden ioctl with a high bit set. For the same
 * reason every condition below masks its argument. Jumps in BPF are relative: programs
 * concatenate.
 *
 * What is refused needs no row. Of note, and on purpose: bpf, perf_event_open, keyctl and friends,
 * userfaultfd, kexec, modules, mount and umount, chroot and pivot_root, open_by_handle_at,
 * fanotify, quotactl, acct, swapon, reboot, clocks, iopl, modify_ldt, syslog, vhangup, move_pages.
 *
 * This is the filter of PID 1. It has a few calls more than the workload, to make sandboxes inside;
 * those stand in base/nesting.h, and each child of PID 1 gives them up before it becomes anything.
 */
#include "sandbox/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/nesting.h"
#include "base/str.h"

#if defined(__x86_64__)
#define NATIVE_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_AUDIT_ARCH AUDIT_ARCH_AARCH64
#else
#define NATIVE_AUDIT_ARCH 0 /* seccomp_compile says no */
#endif

/* Calls this table has an opinion on end here (file_setattr, Linux 6.17). */
enum { NEWEST_NUMBER = 469 };

struct group {
    const char *why, *calls; /* names between single spaces; absent on an architecture is fine */
};

static const struct group groups_allowed[] = {
    {"opening and closing; ioctl: see prologue",
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
    {"who and how much",
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
    {"libc falls back to clone, whose flags a filter can read", "clone3" },
    {"a second way into the kernel that no filter sees",
     "io_uring_setup io_uring_enter io_uring_register"                   },
    {"fs.aio-max-nr is one pool for all of the host",
     "io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy"},
    {"nobody needs them yet",
     "memfd_secret cachestat statmount listmount lsm_get_self_attr lsm_set_self_attr "
     "lsm_list_modules open_tree_attr file_getattr file_setattr"         },
};

/* Calls younger than the libseccomp of stable distributions. From 424 on, numbers are the same on
 * all architectures. */
static const struct {
    const char *name;
    int number;
} young_calls[] = {
    {"cachestat",         451},
    {"fchmodat2",         452},
    {"map_shadow_stack",  453},
    {"futex_wake",        454},
    {"futex_wait",        455},
    {"futex_requeue",     456},
    {"statmount",         457},
    {"listmount",         458},
    {"lsm_get_self_attr", 459},
    {"lsm_set_self_attr", 460},
    {"lsm_list_modules",  461},
    {"mseal",             462},
    {"setxattrat",        463},
    {"getxattrat",        464},
    {"listxattrat",       465},
    {"removexattrat",     466},
    {"open_tree_attr",    467},
    {"file_getattr",      468},
    {"file_setattr",      469},
};

#define LOW32 UINT64_C(0xffffffff)
#define CLONE_NEW_FLAGS                                                                            \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
#define CLONE_NEW_FLAGS_FORBIDDEN (CLONE_NEW_FLAGS & ~NESTING_CLONE_FLAGS)
#define CLONE_TIME_FLAG           0x80 /* CLONE_NEWTIME; in clone these bits are the exit signal */

/* Allowed when one argument, masked, has this value. */
static const struct rule {
    const char *call;
    unsigned arg;
    uint64_t mask, value;
} rules[] = {
    {"clone",       0, CLONE_NEW_FLAGS_FORBIDDEN,         0                }, /* see nesting.h */
    {"unshare",     0, CLONE_NEW_FLAGS | CLONE_TIME_FLAG, 0                }, /* no namespaces */

    {"socket",      0, LOW32,                             AF_UNIX          }, /* others: below */
    {"socketpair",  0, LOW32,                             AF_UNIX          },

    {"personality", 0, LOW32,                             0xffffffff       }, /* asks */
    {"personality", 0, LOW32,                             PER_LINUX        },
    {"personality", 0, LOW32,                             ADDR_NO_RANDOMIZE}, /* gdb, sanitizers */

    {"mknod",       1, S_IFMT,                            0                }, /* no devices */
    {"mknod",       1, S_IFMT,                            S_IFREG          },
    {"mknod",       1, S_IFMT,                            S_IFIFO          },
    {"mknod",       1, S_IFMT,                            S_IFSOCK         },
    {"mknodat",     2, S_IFMT,                            0                },
    {"mknodat",     2, S_IFMT,                            S_IFREG          },
    {"mknodat",     2, S_IFMT,                            S_IFIFO          },
    {"mknodat",     2, S_IFMT,                            S_IFSOCK         },
};

/* The other sockets. Nothing raw, and nothing that widens the attack surface or calls for a module:
 * packet, vsock, alg, SCTP, DCCP, L2TP, SMC, MPTCP (Go falls back), further netlink families. */
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
enum { SOCKET_TYPE_MASK = 0xf }; /* the rest is SOCK_CLOEXEC and SOCK_NONBLOCK */

/* Offsets are instructions to skip. The last instruction falls through into libseccomp's program,
 * which answers other architectures. */
#define LOAD(field)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQ(v, t, f) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), (t), (f))
#define IF_GT(v, t, f) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (v), (t), (f))
#define ANSWER(code)   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code))
static const struct sock_filter prologue[] = {
    LOAD(arch),
    IF_EQ(NATIVE_AUDIT_ARCH, 0, 9),
    LOAD(nr),
    IF_GT(NEWEST_NUMBER, 5, 0), /* x32 numbers are larger, too */
    IF_EQ(SYS_ioctl, 0, 6),
    LOAD(args[1]),          /* the low half: both architectures are little-endian */
    IF_EQ(TIOCSTI, 3, 0),   /* types into the terminal of whoever started us */
    IF_EQ(TIOCLINUX, 2, 0), /* pastes into a console */
    IF_EQ(TIOCSETD, 1, 2),  /* would load any line discipline there is */
    ANSWER(ENOSYS),
    ANSWER(EPERM),
};

/* The number of a call; -ENOSYS where this architecture lacks it, -EINVAL for a misspelt name. */
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

static int add_rule(scmp_filter_ctx ctx, uint32_t action, struct str name, unsigned count,
                    const struct scmp_arg_cmp *args, struct err *e)
{
    int nr, r;

    nr = resolve(name, e);
    if (nr < 0)
        return nr == -ENOSYS ? 0 : nr;
    r = seccomp_rule_add_array(ctx, action, nr, count, args);
    if (r < 0)
        return err_sys(e, -r, "add system call '%.*s' to the filter", STR_ARG(name));
    return 0;
}

static int add_groups(scmp_filter_ctx ctx, uint32_t action, const struct group *groups,
                      size_t count, struct err *e)
{
    int r;

    for (size_t i = 0; i < count; i++) {
        struct str rest = str_of(groups[i].calls), name;

        while (str_cut(&rest, ' ', &name)) {
            r = add_rule(ctx, action, name, 0, NULL, e);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int add_conditional(scmp_filter_ctx ctx, struct err *e)
{
    int r;

    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        const struct rule *rule = &rules[i];
        struct scmp_arg_cmp cmp = {rule->arg, SCMP_CMP_MASKED_EQ, rule->mask, rule->value};

        r = add_rule(ctx, SCMP_ACT_ALLOW, str_of(rule->call), 1, &cmp, e);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(sockets); i++) {
        struct scmp_arg_cmp cmp[] = {
            {0, SCMP_CMP_MASKED_EQ, LOW32,            sockets[i].family  },
            {1, SCMP_CMP_MASKED_EQ, SOCKET_TYPE_MASK, sockets[i].type    },
            {2, SCMP_CMP_MASKED_EQ, LOW32,            sockets[i].protocol},
        };

        r = add_rule(ctx, SCMP_ACT_ALLOW, STR("socket"), ARRAY_LEN(cmp), cmp, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_nesting(scmp_filter_ctx ctx, struct err *e)
{
    for (size_t i = 0; i < nesting_call_count; i++) {
        int r = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, nesting_calls[i], 0, NULL);

        if (r < 0)
            return err_sys(e, -r, "add system call %d to the filter", nesting_calls[i]);
    }
    return 0;
}

static int add_all(scmp_filter_ctx ctx, struct err *e)
{
    int r;

    r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (r < 0)
        return err_sys(e, -r, "refuse foreign architectures");
    r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree, not a ladder */
    if (r < 0)
        return err_sys(e, -r, "sort the filter (libseccomp 2.5 or later?)");
    r = add_groups(ctx, SCMP_ACT_ALLOW, groups_allowed, ARRAY_LEN(groups_allowed), e);
    if (r < 0)
        return r;
    r = add_groups(ctx, SCMP_ACT_ERRNO(ENOSYS), groups_absent, ARRAY_LEN(groups_absent), e);
    if (r < 0)
        return r;
    r = add_nesting(ctx, e);
    return r < 0 ? r : add_conditional(ctx, e);
}

/* Puts the prologue before what libseccomp writes into the memfd. */
static int export_program(scmp_filter_ctx ctx, struct seccomp_program *ret, struct err *e)
{
    auto_free struct sock_filter *code = NULL;
    auto_fd fd = -EBADF;
    off_t bytes;
    size_t n;
    int r;

    fd = memfd_create("seccomp", MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "make a memfd for the filter");
    r = seccomp_export_bpf(ctx, fd);
    if (r < 0)
        return err_sys(e, -r, "compile the filter");
    bytes = lseek(fd, 0, SEEK_END);
    if (bytes < 0)
        return err_sys(e, errno, "measure the filter");
    if ((size_t)bytes > SECCOMP_PROGRAM_MAX * sizeof(*code) - sizeof(prologue))
        return err_set(e, E2BIG, "the filter is longer than the kernel takes");
    code = mem_alloc(sizeof(prologue) + (size_t)bytes);
    memcpy(code, prologue, sizeof(prologue));
    r = io_pread_full(fd, code + ARRAY_LEN(prologue), (size_t)bytes, 0, &n);
    if (r < 0)
        return err_sys(e, -r, "read the filter back");
    if (n != (size_t)bytes)
        return err_set(e, EIO, "the filter became shorter while it was read");
    ret->count = (unsigned short)(ARRAY_LEN(prologue) + n / sizeof(*code));
    ret->code = take_ptr(&code);
    return 0;
}

int seccomp_compile(struct seccomp_program *ret, struct err *e)
{
    scmp_filter_ctx ctx;
    int r;

    if (!NATIVE_AUDIT_ARCH)
        return err_set(e, ENOTSUP, "no system call table for this architecture");
    ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!ctx)
        return err_set(e, ENOMEM, "start a system call filter");
    r = add_all(ctx, e);
    if (r >= 0)
        r = export_program(ctx, ret, e);
    seccomp_release(ctx);
    return r;
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
