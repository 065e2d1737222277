#include "execd/core/clone3_compat.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

#define APPLIED "_EXECD_CLONE3_COMPAT_APPLIED"

#if defined(__x86_64__)
enum { OUR_ARCH = (int)AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { OUR_ARCH = (int)AUDIT_ARCH_AARCH64 };
#else
#error "which architecture do system calls of this machine name?"
#endif

enum { NR_CLONE3 = 435 }; /* on every architecture; older headers lack it */

static int install_filter(struct err *e)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)OUR_ARCH, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR_CLONE3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {ARRAY_LEN(code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        return err_sys(e, errno, "install a filter for clone3");
    return 0;
}

static bool is_one_of(struct str word, const char *const *words)
{
    for (; *words; words++)
        if (str_eq_nocase(word, str_of(*words)))
            return true;
    return false;
}

int clone3_compat_apply(const char *const *argv, struct err *e)
{
    static const char *const yes[] = {"1", "true", "yes", "on", NULL};
    static const char *const no[] = {"", "0", "false", "off", "no", NULL};
    struct str wanted = str_of(getenv("EXECD_CLONE3_COMPAT"));
    bool again = str_eq_nocase(wanted, STR("reexec"));
    int r;

    if (wanted.n == 0 || is_one_of(wanted, no) || getenv(APPLIED))
        return 0;
    if (!again && !is_one_of(wanted, yes))
        return err_set(e, EINVAL, "EXECD_CLONE3_COMPAT '%s': expected 1, 0 or reexec", wanted.p);
    r = install_filter(e);
    if (r < 0 || !again)
        return r;
    if (setenv(APPLIED, "1", 1) < 0 || execv("/proc/self/exe", (char *const *)argv) < 0)
        return err_sys(e, errno, "execute this program again");
    return 0;
}
