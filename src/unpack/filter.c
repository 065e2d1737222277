#include "unpack/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/defs.h"

#if defined(__x86_64__)
#define NATIVE_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_AUDIT_ARCH AUDIT_ARCH_AARCH64
#else
#define NATIVE_AUDIT_ARCH 0 /* matches nothing: every call ends the process */
#endif

#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define ALLOW      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define CALL(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), ALLOW
/* Only without PROT_EXEC. */
#define CALL_WITHOUT_EXEC(name)                                                                    \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 4), LOAD(args[2]),                          \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1), KILL, ALLOW

static const struct sock_filter program[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_AUDIT_ARCH, 1, 0),
    KILL,
    LOAD(nr),
    /* content */
    CALL(pwrite64),
    CALL(read),
    CALL(futex),
    /* files */
    CALL(openat),
    CALL(openat2),
    CALL(close),
    CALL(fcntl),
    CALL(fstat),
    CALL(newfstatat),
#ifdef SYS_statx
    CALL(statx),
#endif
    CALL(ftruncate),
    CALL(getdents64),
    CALL(lseek),
    /* making and removing */
    CALL(mkdirat),
    CALL(mknodat),
    CALL(symlinkat),
    CALL(linkat),
    CALL(unlinkat),
    CALL(renameat2),
    CALL(fchown),
    CALL(fchownat),
    CALL(fchmod),
    CALL(fchmodat),
    CALL(utimensat),
    CALL(fsetxattr),
    /* memory and the end */
    CALL(brk),
    CALL(munmap),
    CALL(mremap),
    CALL(madvise),
    CALL(sendmsg),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(clock_gettime),
    CALL(sched_yield),
    CALL(exit),
    CALL(exit_group),
    CALL_WITHOUT_EXEC(mmap),
    CALL_WITHOUT_EXEC(mprotect),
    KILL,
};

int filter_install(void)
{
    const struct sock_fprog prog = {ARRAY_LEN(program), (struct sock_filter *)program};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) == 0
               ? 0
               : -errno;
}
