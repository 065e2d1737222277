#include "base/caps.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define BIT(cap) (UINT64_C(1) << (cap))

static void need_root(void)
{
    if (geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_SETPCAP, 0, 0, 0) != 1)
        test_skip("not root: no capabilities to limit");
}

/* A line of /proc/self/status such as "CapEff:". */
static uint64_t status_set(const char *name)
{
    uint64_t value = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");

    CHECK(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtoull(line + strlen(name), NULL, 16);
    (void)fclose(f);
    return value;
}

TEST(caps, become_exactly_what_is_kept)
{
    need_root();
    CHECK_EQ(caps_limit(caps_sandbox), 0);
    CHECK_EQ(status_set("CapPrm:"), caps_sandbox);
    CHECK_EQ(status_set("CapEff:"), caps_sandbox);
    CHECK_EQ(status_set("CapBnd:"), caps_sandbox);
    CHECK_EQ(status_set("CapInh:"), 0);
    CHECK_EQ(status_set("CapAmb:"), 0);
}

TEST(caps, do_not_come_back_with_exec)
{
    need_root();
    CHECK_EQ(caps_limit(BIT(CAP_KILL)), 0);
    if (fork() == 0) {
        (void)execl("/bin/sh", "sh", "-c", "grep -q 'CapEff:.0000000000000020' /proc/self/status",
                    NULL);
        _exit(127);
    }
    int status;
    CHECK(wait(&status) > 0);
    CHECK_EQ(status, 0);
}

TEST(caps, can_be_limited_again_with_cap_setpcap)
{
    need_root();
    CHECK_EQ(caps_limit(caps_init), 0);
    CHECK_EQ(caps_limit(caps_sandbox), 0);
    CHECK_EQ(caps_limit(caps_sandbox), 0);                       /* nothing left to take */
    CHECK_EQ(caps_limit(caps_sandbox & ~BIT(CAP_KILL)), -EPERM); /* needs SETPCAP */
    CHECK_EQ(caps_limit(caps_init), -EPERM);                     /* never more */
    CHECK_EQ(status_set("CapEff:"), caps_sandbox);
}

TEST(caps, let_go_of_what_reaches_outside)
{
    static const int gone[] = {
        CAP_SYS_ADMIN,    CAP_SYS_PTRACE, CAP_SYS_MODULE,      CAP_SYS_RAWIO, CAP_SYS_CHROOT,
        CAP_MKNOD,        CAP_NET_ADMIN,  CAP_NET_RAW,         CAP_BPF,       CAP_PERFMON,
        CAP_SYS_RESOURCE, CAP_SYS_TIME,   CAP_DAC_READ_SEARCH, CAP_SYSLOG,    CAP_SETPCAP,
    };

    for (size_t i = 0; i < ARRAY_LEN(gone); i++)
        CHECK(!(caps_sandbox & BIT(gone[i])));
    CHECK_EQ(caps_init & ~caps_sandbox,
             BIT(CAP_SETPCAP) | BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_CHROOT) | BIT(CAP_NET_ADMIN));
}

TEST(caps, still_let_root_be_root_over_files)
{
    char path[] = "/tmp/test-caps-XXXXXX";
    struct stat st;
    int fd;

    need_root();
    fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(fchown(fd, 1234, 1234), 0);
    CHECK_EQ(fchmod(fd, 0), 0);
    CHECK_EQ(caps_limit(caps_sandbox), 0);
    int again = open(path, O_RDWR | O_CLOEXEC);
    int owned = chown(path, 4321, 4321);
    int moded = chmod(path, 02755);
    CHECK_EQ(stat(path, &st), 0);
    (void)unlink(path);
    CHECK(again >= 0);
    CHECK_EQ(owned, 0);
    CHECK_EQ(moded, 0);
    CHECK_EQ(st.st_uid, 4321);
    CHECK_EQ(st.st_mode & 07777, 02755);
    CHECK_EQ(chroot("/"), -1);
    CHECK_EQ(errno, EPERM);
}

/* Why PID 1 keeps more capabilities than its children. */
TEST(caps, keep_the_workload_from_tracing_init)
{
    int pipefd[2], status;
    char secret[] = "x", stolen[2];
    struct iovec local = {stolen, 1}, remote = {secret, 1};
    pid_t init = getpid();

    need_root();
    CHECK_EQ(pipe2(pipefd, O_CLOEXEC), 0);
    CHECK_EQ(caps_limit(caps_init), 0);
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0,
                0); /* where there is Yama: not its doing */
    pid_t workload = fork();
    if (workload == 0) {
        if (process_vm_readv(init, &local, 1, &remote, 1, 0) != 1)
            _exit(2); /* the control: with equal capabilities it works */
        if (caps_limit(caps_sandbox) < 0)
            _exit(3);
        if (process_vm_readv(init, &local, 1, &remote, 1, 0) != -1 || errno != EPERM)
            _exit(4);
        if (ptrace(PTRACE_ATTACH, init, 0, 0) != -1 || errno != EPERM)
            _exit(5);
        _exit(0);
    }
    CHECK_EQ(waitpid(workload, &status, 0), workload);
    CHECK_EQ(WEXITSTATUS(status), 0);
    CHECK(WIFEXITED(status));
}
