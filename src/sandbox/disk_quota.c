/* disk_quota.c - project quotas of ext4, xfs and other file systems that have them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tree.h"
#include "sandbox/disk_internal.h"

enum {
    QUOTA_UNIT = 1024, /* bytes, in struct if_dqblk */
    TRY_PROJECT = DISK_PROJECT_FIRST - 1,
    TRY_BYTES = 64 << 10,
    TRY_INODES = 16,
};

int disk_quota_join(int dir, const char *name, uint32_t project, struct err *e)
{
    auto_fd fd = fd_open_at(dir, name, O_RDONLY, 0, PATH_STRICT, e);
    struct fsxattr attr;
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
        return err_sys(e, errno, "read the project of %s", name);
    attr.fsx_projid = project;
    if (S_ISDIR(st.st_mode))
        attr.fsx_xflags |= FS_XFLAG_PROJINHERIT; /* invalid for files */
    if (ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0)
        return err_sys(e, errno, "set the project of %s", name);
    return 0;
}

int disk_quota_set(int dir, uint32_t project, uint64_t bytes, uint64_t inodes, struct err *e)
{
    struct if_dqblk quota = {
        .dqb_bhardlimit = bytes / QUOTA_UNIT,
        .dqb_ihardlimit = inodes,
        .dqb_valid = QIF_LIMITS,
    };

    if (syscall(SYS_quotactl_fd, dir, QCMD((unsigned)Q_SETQUOTA, PRJQUOTA), project, &quota) < 0)
        return err_sys(e, errno, "set the quota of project %u", project);
    return 0;
}

/* --- testing --- */

int disk_quota_above(bool above)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    uint32_t bit = CAP_TO_MASK(CAP_SYS_RESOURCE);

    if (syscall(SYS_capget, &head, data) < 0)
        return -errno;
    data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &= ~bit;
    if (above)
        data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective |=
            data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].permitted & bit;
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* True when the limit stops a write of twice its size. */
static bool write_is_stopped(int dir)
{
    auto_fd file = openat(dir, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char block[TRY_BYTES / 4] = {0};

    for (int i = 0; file >= 0 && i < 8; i++)
        if (write(file, block, sizeof(block)) < 0)
            return errno == EDQUOT || errno == ENOSPC;
    return false;
}

bool disk_quota_works(int dir)
{
    char name[32];
    auto_fd try = -EBADF;
    bool works = false;

    (void)snprintf(name, sizeof(name), "quota.%d", (int)getpid());
    if (disk_quota_set(dir, TRY_PROJECT, TRY_BYTES, TRY_INODES, NULL) < 0)
        return false;
    if (tree_remove(dir, name, NULL) == 0 && mkdirat(dir, name, 0700) == 0)
        try = fd_open_at(dir, name, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, NULL);
    if (try >= 0 && disk_quota_join(try, ".", TRY_PROJECT, NULL) == 0 &&
        disk_quota_above(false) == 0) {
        works = write_is_stopped(try);
        works = disk_quota_above(true) == 0 && works;
    }
    (void)tree_remove(dir, name, NULL);
    (void)disk_quota_set(dir, TRY_PROJECT, 0, 0, NULL);
    return works;
}
