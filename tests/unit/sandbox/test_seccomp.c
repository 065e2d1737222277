#include "sandbox/seccomp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/nesting.h"
#include "test.h"

/* Each test runs in a child of its own, so the filter ends with it. */
static void confine_init(void)
{
    struct seccomp_program p;
    struct err e = {0};

    if (seccomp_compile(&p, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(seccomp_install(&p), 0);
    seccomp_program_done(&p);
}

/* As a process of the workload. */
static void confine(void)
{
    confine_init();
    CHECK_EQ(nesting_forbid(), 0);
}

TEST(seccomp, compiles_to_a_program_the_kernel_takes)
{
    struct seccomp_program p;

    CHECK_EQ(seccomp_compile(&p, NULL), 0);
    CHECK(p.count > 100);
    CHECK(p.count <= 200); /* its length is what every start of a sandbox waits for */
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(seccomp_install(&p), 0);
    CHECK_EQ(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 2);
    seccomp_program_done(&p);
    seccomp_program_done(&p); /* and a second time */
    seccomp_program_done(NULL);
}

/* All arguments are such that the kernel itself would say something else, or succeed harmlessly. */
static const struct refusal {
    const char *what;
    int code;
    long number, args[4];
} refusals[] = {
    {"bpf",                  EPERM,  SYS_bpf,                 {0}                                 },
    {"perf_event_open",      EPERM,  SYS_perf_event_open,     {0, 0, -1, -1}                      },
    {"keyctl",               EPERM,  SYS_keyctl,              {0}                                 },
    {"add_key",              EPERM,  SYS_add_key,             {0}                                 },
    {"request_key",          EPERM,  SYS_request_key,         {0}                                 },
    {"userfaultfd",          EPERM,  SYS_userfaultfd,         {0}                                 },
    {"io_uring_setup",       ENOSYS, SYS_io_uring_setup,      {1}                                 },
    {"io_uring_enter",       ENOSYS, SYS_io_uring_enter,      {-1}                                },
    {"io_uring_register",    ENOSYS, SYS_io_uring_register,   {-1}                                },
    {"io_setup",             ENOSYS, SYS_io_setup,            {1}                                 },
    {"kexec_load",           EPERM,  SYS_kexec_load,          {0, 0, 0, -1}                       },
    {"kexec_file_load",      EPERM,  SYS_kexec_file_load,     {-1, -1}                            },
    {"init_module",          EPERM,  SYS_init_module,         {0}                                 },
    {"finit_module",         EPERM,  SYS_finit_module,        {-1}                                },
    {"delete_module",        EPERM,  SYS_delete_module,       {0}                                 },
    {"mount",                EPERM,  SYS_mount,               {0}                                 },
    {"umount2",              EPERM,  SYS_umount2,             {0}                                 },
    {"pivot_root",           EPERM,  SYS_pivot_root,          {0}                                 },
    {"chroot",               EPERM,  SYS_chroot,              {0}                                 },
    {"fsopen",               EPERM,  SYS_fsopen,              {0}                                 },
    {"fsconfig",             EPERM,  SYS_fsconfig,            {-1}                                },
    {"fsmount",              EPERM,  SYS_fsmount,             {-1}                                },
    {"fspick",               EPERM,  SYS_fspick,              {-1}                                },
    {"move_mount",           EPERM,  SYS_move_mount,          {-1}                                },
    {"open_tree",            EPERM,  SYS_open_tree,           {-1}                                },
    {"mount_setattr",        EPERM,  SYS_mount_setattr,       {-1}                                },
    {"open_by_handle_at",    EPERM,  SYS_open_by_handle_at,   {-1}                                },
    {"setns",                EPERM,  SYS_setns,               {-1}                                },
    {"clone3",               ENOSYS, SYS_clone3,              {0}                                 },
    {"unshare(user)",        EPERM,  SYS_unshare,             {CLONE_NEWUSER}                     },
    {"unshare(mnt)",         EPERM,  SYS_unshare,             {CLONE_NEWNS}                       },
    {"unshare(pid)",         EPERM,  SYS_unshare,             {CLONE_NEWPID}                      },
    {"unshare(net)",         EPERM,  SYS_unshare,             {CLONE_NEWNET}                      },
    {"unshare(uts)",         EPERM,  SYS_unshare,             {CLONE_NEWUTS}                      },
    {"unshare(ipc)",         EPERM,  SYS_unshare,             {CLONE_NEWIPC}                      },
    {"unshare(cgroup)",      EPERM,  SYS_unshare,             {CLONE_NEWCGROUP}                   },
    {"unshare(time)",        EPERM,  SYS_unshare,             {0x80}                              },
    {"clone(user)",          EPERM,  SYS_clone,               {CLONE_NEWUSER | SIGCHLD}           },
    {"clone(net)",           EPERM,  SYS_clone,               {CLONE_NEWNET | SIGCHLD}            },
    {"personality(exec)",    EPERM,  SYS_personality,         {READ_IMPLIES_EXEC}                 },
    {"personality(svr4)",    EPERM,  SYS_personality,         {PER_SVR4}                          },
    {"personality(32-bit)",  EPERM,  SYS_personality,         {PER_LINUX32}                       },
    {"quotactl",             EPERM,  SYS_quotactl,            {-1}                                },
    {"acct",                 EPERM,  SYS_acct,                {-1}                                },
    {"swapon",               EPERM,  SYS_swapon,              {0}                                 },
    {"swapoff",              EPERM,  SYS_swapoff,             {0}                                 },
    {"reboot",               EPERM,  SYS_reboot,              {0}                                 },
    {"settimeofday",         EPERM,  SYS_settimeofday,        {0}                                 },
    {"clock_settime",        EPERM,  SYS_clock_settime,       {-1}                                },
    {"adjtimex",             EPERM,  SYS_adjtimex,            {0}                                 },
    {"syslog",               EPERM,  SYS_syslog,              {10}                                },
    {"vhangup",              EPERM,  SYS_vhangup,             {0}                                 },
    {"sethostname",          EPERM,  SYS_sethostname,         {0, -1}                             },
    {"fanotify_init",        EPERM,  SYS_fanotify_init,       {-1}                                },
    {"move_pages",           EPERM,  SYS_move_pages,          {0}                                 },
    {"memfd_secret",         ENOSYS, SYS_memfd_secret,        {0}                                 },
    {"what is not invented", ENOSYS, 1000,                    {0}                                 },
#ifdef __x86_64__
    {"iopl",                 EPERM,  SYS_iopl,                {0}                                 },
    {"ioperm",               EPERM,  SYS_ioperm,              {0}                                 },
    {"modify_ldt",           EPERM,  SYS_modify_ldt,          {0}                                 },
    {"x32 getpid",           ENOSYS, 0x40000000 | SYS_getpid, {0}                                 },
    {"mknod(char)",          EPERM,  SYS_mknod,               {(long)"/x", S_IFCHR | 0600}        },
#endif
    {"mknodat(char)",        EPERM,  SYS_mknodat,             {-1, (long)"x", S_IFCHR | 0600}     },
    {"mknodat(block)",       EPERM,  SYS_mknodat,             {-1, (long)"x", S_IFBLK | 0600}     },
    {"raw IPv4",             EPERM,  SYS_socket,              {AF_INET, SOCK_RAW, IPPROTO_ICMP}   },
    {"raw IPv6",             EPERM,  SYS_socket,              {AF_INET6, SOCK_RAW, IPPROTO_ICMPV6}},
    {"packet",               EPERM,  SYS_socket,              {AF_PACKET, SOCK_DGRAM}             },
    {"alg",                  EPERM,  SYS_socket,              {AF_ALG, SOCK_SEQPACKET}            },
    {"vsock",                EPERM,  SYS_socket,              {AF_VSOCK, SOCK_STREAM}             },
    {"bluetooth",            EPERM,  SYS_socket,              {AF_BLUETOOTH, SOCK_RAW}            },
    {"xdp",                  EPERM,  SYS_socket,              {AF_XDP, SOCK_RAW}                  },
    {"sctp",                 EPERM,  SYS_socket,              {AF_INET, SOCK_STREAM, IPPROTO_SCTP}},
    {"mptcp",                EPERM,  SYS_socket,              {AF_INET, SOCK_STREAM, 262}         },
    {"tipc pair",            EPERM,  SYS_socketpair,          {AF_TIPC, SOCK_STREAM}              },
    {"TIOCSTI",              EPERM,  SYS_ioctl,               {-1, TIOCSTI}                       },
    {"TIOCSTI, disguised",   EPERM,  SYS_ioctl,               {-1, (long)(TIOCSTI | (1ULL << 32))}},
    {"TIOCLINUX",            EPERM,  SYS_ioctl,               {-1, TIOCLINUX}                     },
    {"TIOCSETD",             EPERM,  SYS_ioctl,               {-1, TIOCSETD}                      },
};

/* What only PID 1 may ask the kernel for; which then has an opinion of its own. */
static const struct {
    const char *what;
    int code;
    long number, args[4];
} nesting[] = {
    {"setns",         EBADF,  SYS_setns,         {-1}                                              },
    {"open_tree",     EBADF,  SYS_open_tree,     {-1, (long)"x"}                                   },
    {"fsconfig",      EINVAL, SYS_fsconfig,      {-1, 99}                                          },
    {"mount_setattr", EINVAL, SYS_mount_setattr, {-1, (long)"", 0x40000000}                        },
    {"clone(mnt)",    EINVAL, SYS_clone,         {CLONE_NEWNS | CLONE_FS}                          },
    {"clone(ipc)",    EINVAL, SYS_clone,         {CLONE_NEWIPC | CLONE_SYSVSEM}                    },
    {"clone(pid)",    EINVAL, SYS_clone,         {CLONE_NEWPID | CLONE_PARENT_SETTID | CLONE_PIDFD}},
};

TEST(seccomp, lets_init_nest_and_not_the_workload)
{
    for (int workload = 0; workload < 2; workload++) {
        if (workload)
            CHECK_EQ(nesting_forbid(), 0);
        else
            confine_init();
        for (size_t i = 0; i < ARRAY_LEN(nesting); i++) {
            int code = workload ? EPERM : nesting[i].code;
            long r = syscall(nesting[i].number, nesting[i].args[0], nesting[i].args[1],
                             nesting[i].args[2], nesting[i].args[3]);

            if (r != -1 || errno != code)
                test_fail(__FILE__, __LINE__, "%s: %ld, errno %d, expected %d", nesting[i].what, r,
                          r < 0 ? errno : 0, code);
        }
        errno = 0;
        CHECK_EQ(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), -1);
        CHECK_EQ(errno, EPERM);
        CHECK_EQ(syscall(SYS_unshare, CLONE_NEWNS), -1);
        CHECK_EQ(errno, EPERM);
        CHECK_EQ(syscall(SYS_clone3, NULL, 0), -1);
        CHECK_EQ(errno, workload ? ENOSYS : EINVAL);
    }
}

TEST(seccomp, refuses_each_forbidden_call)
{
    confine();
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        const struct refusal *row = &refusals[i];
        long r = syscall(row->number, row->args[0], row->args[1], row->args[2], row->args[3]);

        if (r != -1 || errno != row->code)
            test_fail(__FILE__, __LINE__, "%s answers %ld, %s", row->what, r, strerror(errno));
    }
}

/* As a kernel without audit: programs that write to the audit log then go on without it. */
TEST(seccomp, knows_no_netlink_but_that_of_routes)
{
    static const int protocols[] = {NETLINK_AUDIT, NETLINK_NETFILTER, NETLINK_KOBJECT_UEVENT};

    confine();
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        CHECK_EQ(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocols[i]), -1);
        CHECK_EQ(errno, EPROTONOSUPPORT);
    }
}

#ifdef __x86_64__
TEST(seccomp, refuses_32_bit_calls)
{
    long r;

    confine();
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(20L /* getpid */)
                     : "memory", "r8", "r9", "r10", "r11");
    CHECK(r == -ENOSYS || r == (uint32_t)-ENOSYS);
}
#endif

TEST(seccomp, stays_when_a_child_is_started_and_replaced)
{
    int status;

    confine();
    if (fork() == 0) {
        (void)execl("/bin/sh", "sh", "-c", "grep -q '^Seccomp:.2' /proc/self/status", NULL);
        _exit(127);
    }
    CHECK(wait(&status) > 0);
    CHECK_EQ(status, 0);
}

static void *thread_main(void *arg)
{
    return arg;
}

TEST(seccomp, lets_threads_and_waiting_work)
{
    struct epoll_event ev = {.events = EPOLLIN};
    pthread_t t;
    void *ret;
    int ep, fd;

    confine();
    CHECK_EQ(pthread_create(&t, NULL, thread_main, &ep), 0);
    CHECK_EQ(pthread_join(t, &ret), 0);
    CHECK(ret == &ep);
    CHECK((ep = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    CHECK((fd = eventfd(1, EFD_CLOEXEC)) >= 0);
    CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
    CHECK_EQ(epoll_wait(ep, &ev, 1, 1000), 1);
    CHECK(inotify_init1(IN_CLOEXEC) >= 0 || errno == EMFILE); /* others of our user have them all */
    CHECK(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC) >= 0);
    CHECK_EQ(unshare(CLONE_FS | CLONE_FILES), 0);
}

TEST(seccomp, lets_files_work)
{
    struct statx stx;
    int dir, fd;
    char path[] = "/tmp/test-seccomp-XXXXXX";

    CHECK(mkdtemp(path));
    CHECK((dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) >= 0);
    confine();
    CHECK_EQ(mkfifoat(dir, "fifo", 0600), 0);
    CHECK_EQ(mknodat(dir, "sock", S_IFSOCK | 0600, 0), 0);
    CHECK_EQ(mknodat(dir, "file", S_IFREG | 0600, 0), 0);
    CHECK_EQ(statx(dir, "file", 0, STATX_ALL, &stx), 0);
    CHECK_EQ(syscall(SYS_faccessat2, dir, "file", R_OK, AT_EACCESS), 0);
    CHECK((fd = openat(dir, "file", O_RDWR | O_CLOEXEC)) >= 0);
    CHECK_EQ(syscall(452 /* fchmodat2 */, dir, "file", 0644, 0) == 0 || errno == ENOSYS, 1);
    CHECK_EQ(unlinkat(dir, "fifo", 0), 0);
    CHECK_EQ(unlinkat(dir, "sock", 0), 0);
    CHECK_EQ(unlinkat(dir, "file", 0), 0);
    CHECK_EQ(rmdir(path), 0);
    CHECK((fd = memfd_create("m", MFD_CLOEXEC)) >= 0);
    CHECK_EQ(ftruncate(fd, 4096), 0);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    CHECK_EQ(syscall(SYS_close_range, fd, fd, 0), 0);
}

TEST(seccomp, lets_the_usual_sockets_work)
{
    static const int kinds[][3] = {
        {AF_UNIX,    SOCK_STREAM,                 0            },
        {AF_UNIX,    SOCK_SEQPACKET,              0            },
        {AF_INET,    SOCK_STREAM | SOCK_NONBLOCK, 0            },
        {AF_INET,    SOCK_STREAM,                 IPPROTO_TCP  },
        {AF_INET,    SOCK_DGRAM,                  IPPROTO_UDP  },
        {AF_NETLINK, SOCK_RAW,                    NETLINK_ROUTE},
    };
    int pair[2];

    confine();
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        CHECK(socket(kinds[i][0], kinds[i][1] | SOCK_CLOEXEC, kinds[i][2]) >= 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    /* A machine without these says so itself; the filter would say EPERM. */
    CHECK(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 || errno == EAFNOSUPPORT);
    CHECK(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP) >= 0 || errno == EACCES);
}

TEST(seccomp, lets_debuggers_work)
{
    int status;

    confine();
    CHECK(personality(0xffffffff) >= 0);
    CHECK(personality(ADDR_NO_RANDOMIZE) >= 0);
    pid_t child = fork();
    if (child == 0) {
        (void)ptrace(PTRACE_TRACEME, 0, 0, 0);
        (void)raise(SIGSTOP);
        _exit(7);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_PEEKUSER, child, 0, 0) != -1 || errno == 0);
    CHECK_EQ(ptrace(PTRACE_CONT, child, 0, 0), 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(WEXITSTATUS(status), 7);
}

/* Young calls the kernel may lack or answer in its own way: anything but EPERM. */
TEST(seccomp, lets_young_calls_through)
{
    static const int numbers[] = {
        SYS_rseq,        SYS_pidfd_open,       SYS_openat2,      SYS_landlock_create_ruleset,
        SYS_futex_waitv, SYS_membarrier,       SYS_epoll_pwait2, 454 /* futex_wake */,
        462 /* mseal */, 464 /* getxattrat */,
    };

    confine();
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        errno = 0;
        (void)syscall(numbers[i], 0, 0, 0, 0, 0, 0);
        if (errno == EPERM)
            test_fail(__FILE__, __LINE__, "call %d is refused", numbers[i]);
    }
    CHECK(syscall(SYS_pidfd_open, getpid(), 0) >= 0);
    CHECK(syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0 ||
          errno == EOPNOTSUPP || errno == ENOSYS);
}

static const char python_script[] =
    "python3 -c 'import threading, subprocess, socket, tempfile, multiprocessing as m\n"
    "t = threading.Thread(target=print); t.start(); t.join()\n"
    "subprocess.run([\"true\"], check=True); tempfile.TemporaryFile()\n"
    "socket.socket().bind((\"127.0.0.1\", 0)); m.Lock(); m.Queue()'";
static const char node_script[] =
    "node -e 'const w = require(\"worker_threads\"), c = require(\"child_process\");"
    "c.execSync(\"true\"); require(\"os\").networkInterfaces();"
    "require(\"fs\").readdir(\"/\", () => new w.Worker(\"0\", {eval: true}))'";
static const char gcc_script[] =
    "d=$(mktemp -d) && echo 'int main(void) { return 0; }' >$d/a.c && gcc -o $d/a $d/a.c && $d/a "
    "&& rm -r $d";
static const char git_script[] =
    "d=$(mktemp -d) && git init -q $d && git -C $d -c user.name=a -c user.email=a commit -qm x "
    "--allow-empty && rm -r $d";
static const char go_script[] =
    "d=$(mktemp -d) && printf 'package main\\nimport \"net\"\\nfunc main() { l, e := "
    "net.Listen(\"tcp\", \"127.0.0.1:0\"); if e != nil { panic(e) }; l.Close() }' >$d/a.go && "
    "GOTOOLCHAIN=local go run $d/a.go && rm -r $d";

/* Real programs, where this machine has them. */
static const struct program {
    const char *name, *script;
} programs[] = {
    {"bash",    "bash -c 'for i in 1 2 3; do echo $i | cat >/dev/null; done'"},
    {"python3", python_script                                                },
    {"node",    node_script                                                  },
    {"gcc",     gcc_script                                                   },
    {"git",     git_script                                                   },
    {"go",      go_script                                                    },
    {"java",    "java -version 2>/dev/null"                                  },
    {"dpkg",    "dpkg --audit"                                               },
    {"apt-get", "apt-get -s install coreutils"                               },
    {"npm",     "npm --version"                                              },
    {"pip",     "pip --version"                                              },
    {"perl",    "perl -e 'fork or exit; wait'"                               },
    {"gdb",     "gdb -batch -ex run --args true"                             },
    {"strace",  "strace -f -o /dev/null sh -c true"                          },
};

static bool is_installed(const char *name)
{
    char path[128];
    static const char *const dirs[] = {"/usr/bin", "/bin", "/usr/local/bin", "/usr/local/go/bin"};

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

TEST(seccomp, lets_real_programs_work)
{
    int status;

    confine();
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        if (!is_installed(programs[i].name))
            continue;
        pid_t child = fork();
        if (child == 0) {
            int null = open("/dev/null", O_RDWR | O_CLOEXEC);

            (void)dup2(null, 0);
            (void)dup2(null, 1);
            (void)execl("/bin/sh", "sh", "-ec", programs[i].script, NULL);
            _exit(127);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        if (status != 0)
            test_fail(__FILE__, __LINE__, "%s ends with status %#x", programs[i].name, status);
    }
}
