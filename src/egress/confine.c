#include "egress/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

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

/* --- files --- */

/* As of Landlock 6, whatever the headers know; older kernels take a part of it. */
struct ruleset {
    uint64_t fs, net, scoped;
};

enum {
    ABI_REFER = 2,
    ABI_TRUNCATE = 3,
    ABI_IOCTL = 5,
    ABI_SCOPED = 6,
};
#define FS_REFER    (1ULL << 13)
#define FS_TRUNCATE (1ULL << 14)
#define FS_IOCTL    (1ULL << 15)
#define FS_FIRST    ((1ULL << 13) - 1) /* of the first version: execute to make symbolic links */
#define SCOPE_ALL   3ULL               /* abstract unix sockets, signals */
#define FILES_WRITE                                                                                \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE |  \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE | FS_TRUNCATE)
#define FILES_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* Authorities, which OpenSSL looks up when it needs them, modules of libraries, and what metrics
 * read. All of it is public. */
static const char *const readable[] = {
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/share/crypto-policies",
    "/etc/crypto-policies",
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/self",
};

static uint64_t known_fs(int abi)
{
    return FS_FIRST | (abi >= ABI_REFER ? FS_REFER : 0) | (abi >= ABI_TRUNCATE ? FS_TRUNCATE : 0) |
           (abi >= ABI_IOCTL ? FS_IOCTL : 0);
}

static int allow(int rules, int fd, uint64_t access)
{
    struct landlock_path_beneath_attr path = {.allowed_access = access, .parent_fd = fd};

    return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &path, 0) < 0 ? -errno
                                                                                           : 0;
}

/* What is not there needs no rule. */
static int allow_reading(int rules, const char *path)
{
    auto_fd fd = path ? open(path, O_PATH | O_CLOEXEC) : -EBADF;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    return allow(rules, fd, S_ISDIR(st.st_mode) ? FILES_READ : LANDLOCK_ACCESS_FS_READ_FILE);
}

int egress_confine_files(const struct confine_files *files, struct err *e)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct ruleset all = {.fs = known_fs(abi), .scoped = SCOPE_ALL};
    size_t size = abi >= ABI_SCOPED ? sizeof(all) : sizeof(all.fs);
    auto_fd rules = -EBADF;
    int r;

    if (abi < 1)
        return errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM
                   ? 1
                   : err_sys(e, errno, "Landlock");
    rules = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
    if (rules < 0)
        return err_sys(e, errno, "rules of Landlock");
    r = allow(rules, files->sandboxes, FILES_WRITE & known_fs(abi));
    if (r == 0)
        r = allow_reading(rules, files->trust);
    if (r == 0)
        r = allow_reading(rules, files->trust_dir);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(readable); i++)
        r = allow_reading(rules, readable[i]);
    if (r == 0 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                   syscall(SYS_landlock_restrict_self, rules, 0) < 0))
        r = -errno;
    return r < 0 ? err_sys(e, -r, "confine by Landlock") : 0;
}
