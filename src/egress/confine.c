#include "egress/confine.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/socket.h>

#include "base/defs.h"

static const int refused[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(process_madvise),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(kcmp),
    SCMP_SYS(io_uring_setup), /* it makes and connects sockets without these calls */
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(open_by_handle_at),
};

int egress_confine(struct err *e)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r = filter ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(refused); i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
    if (r == 0)
        r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (r == 0)
        r = seccomp_load(filter);
    if (filter)
        seccomp_release(filter);
    return r < 0 ? err_sys(e, -r, "filter of system calls") : 0;
}
