#include "execd/isolated/isolated_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/mount_api.h"
#include "base/sha.h"

#if defined(__x86_64__)
#define NATIVE_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_AUDIT_ARCH AUDIT_ARCH_AARCH64
#else
#define NATIVE_AUDIT_ARCH 0
#endif

#define X32_BIT 0x40000000 /* the x32 ABI: other numbers for the same calls */
#define NAMESPACES                                                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)

#define LOAD(field)        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQ(v, yes, no)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), (yes), (no))
#define IF_GE(v, yes, no)  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (v), (yes), (no))
#define IF_ANY(v, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (v), (yes), (no))
#define ALLOW              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE(code)       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code))
#define CLOSED(call)       IF_EQ(SYS_##call, 0, 1), REFUSE(EPERM)

static const struct sock_filter program[] = {
    LOAD(arch),
    IF_EQ(NATIVE_AUDIT_ARCH, 1, 0),
    REFUSE(ENOSYS),
    LOAD(nr),
    IF_GE(X32_BIT, 0, 1),
    REFUSE(ENOSYS),

    /* namespaces and mounts */
    IF_EQ(SYS_clone, 0, 4),
    LOAD(args[0]),
    IF_ANY(NAMESPACES, 0, 1),
    REFUSE(EPERM),
    ALLOW,
    IF_EQ(SYS_clone3, 0, 1), /* filters cannot see its flags; libraries fall back to clone */
    REFUSE(ENOSYS),
    CLOSED(unshare),
    CLOSED(setns),
    CLOSED(mount),
    CLOSED(umount2),
    CLOSED(pivot_root),
    CLOSED(chroot),
    IF_GE(SYS_open_tree, 0, 2), /* up to fspick: the newer mount calls */
    IF_GE(SYS_fspick + 1, 1, 0),
    REFUSE(EPERM),
    CLOSED(mount_setattr),

    /* other processes */
    CLOSED(ptrace),
    CLOSED(process_vm_readv),
    CLOSED(process_vm_writev),
    CLOSED(pidfd_getfd),
    CLOSED(kcmp),

    /* attack surface of the kernel */
    IF_EQ(SYS_io_uring_setup, 0, 1),
    REFUSE(ENOSYS),
    CLOSED(bpf),
    CLOSED(perf_event_open),
    CLOSED(userfaultfd),
    CLOSED(keyctl),
    CLOSED(add_key),
    CLOSED(request_key),
    CLOSED(open_by_handle_at),
    CLOSED(name_to_handle_at),
    CLOSED(fanotify_init),

    /* the whole machine */
    CLOSED(init_module),
    CLOSED(finit_module),
    CLOSED(delete_module),
    CLOSED(kexec_load),
    CLOSED(reboot),
    CLOSED(swapon),
    CLOSED(swapoff),
    CLOSED(acct),
    CLOSED(quotactl),
    CLOSED(settimeofday),
    CLOSED(clock_settime),
    CLOSED(adjtimex),
    CLOSED(clock_adjtime),
    CLOSED(sethostname),
    CLOSED(setdomainname),
    CLOSED(syslog),
    CLOSED(vhangup),
#ifdef __x86_64__
    CLOSED(iopl),
    CLOSED(ioperm),
    CLOSED(modify_ldt),
#endif
    ALLOW,
};

int isolated_filter_install(void)
{
    struct sock_fprog prog = {.len = ARRAY_LEN(program), .filter = (struct sock_filter *)program};

    if (!NATIVE_AUDIT_ARCH)
        return -ENOTSUP;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

void isolated_filter_digest(char out[ISOLATED_FILTER_DIGEST_MAX])
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(str_make((const char *)program, sizeof(program)), digest);
    (void)hex_encode(str_make((const char *)digest, sizeof(digest)), out);
}
