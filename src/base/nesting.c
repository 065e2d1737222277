#include "base/nesting.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mount_api.h"

const int nesting_calls[] = {
    SYS_setns,      /* enters a nested sandbox to run something there */
    SYS_open_tree,  /* clones part of the tree, to mount it elsewhere */
    SYS_move_mount, /* attaches that mount */
    SYS_fsopen,     /* tmpfs, proc, devpts, mqueue, overlay */
    SYS_fsconfig,   SYS_fsmount, SYS_mount_setattr, /* read-only, private */
    SYS_clone3, /* creates a child in a cgroup; userns.h of src/sandbox forbids what clone may not
                   make */
};
const size_t nesting_call_count = ARRAY_LEN(nesting_calls);

/* From 424 on, numbers are the same on all architectures; the filter relies on their order. */
static_assert(SYS_open_tree == 428 && SYS_move_mount == 429 && SYS_fsopen == 430 &&
                  SYS_fsconfig == 431 && SYS_fsmount == 432 && SYS_clone3 == 435 &&
                  SYS_mount_setattr == 442,
              "the calls above, in the order that the program compares them in");

#define LOAD(field)        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQ(v, yes, no)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), (yes), (no))
#define IF_GE(v, yes, no)  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (v), (yes), (no))
#define IF_ANY(v, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (v), (yes), (no))
#define ANSWER(action)     BPF_STMT(BPF_RET | BPF_K, (action))

/* Kept short because it is installed for every command: the kernel evaluates a new filter once for
 * each system call number, to fill its cache. It need not check the architecture: the filter of PID
 * 1, which stays in force, allows only one. The flags of clone are in the low half of its first
 * argument. */
static const struct sock_filter program[] = {
    LOAD(nr),
    IF_GE(SYS_open_tree, 4, 0),
    IF_EQ(SYS_setns, 6, 0),
    IF_EQ(SYS_clone, 0, 6),
    LOAD(args[0]),
    IF_ANY(NESTING_CLONE_FLAGS, 3, 4),
    IF_GE(SYS_fsmount + 1, 0, 2),
    IF_EQ(SYS_clone3, 3, 0),
    IF_EQ(SYS_mount_setattr, 0, 1),
    ANSWER(SECCOMP_RET_ERRNO | EPERM),
    ANSWER(SECCOMP_RET_ALLOW),
    ANSWER(SECCOMP_RET_ERRNO | ENOSYS), /* libc then uses clone; a filter can read its flags */
};

int nesting_forbid(void)
{
    struct sock_fprog prog = {.len = ARRAY_LEN(program), .filter = (struct sock_filter *)program};

    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}
