/* mount_api.h - the kernel's mount system calls as thin functions: 0 or a descriptor, else -errno.
 *
 * Defined here because not every libc has them and <sys/mount.h> conflicts with <linux/mount.h>. No
 * allocation: safe between clone and exec. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442 /* not in musl before 1.2.3 */
#endif
#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#ifndef MS_NOSUID
#define MS_NOSUID 2
#define MS_NODEV  4
#endif
#ifndef UMOUNT_NOFOLLOW
#define UMOUNT_NOFOLLOW 8
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

static inline int mnt_result(long r)
{
    return r < 0 ? -errno : (int)r;
}

/* A new, unattached superblock under construction; close-on-exec. */
static inline int mnt_fs_open(const char *type)
{
    return mnt_result(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}

static inline int mnt_fs_set(int fs, const char *key, const char *value)
{
    return mnt_result(syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0));
}

static inline int mnt_fs_flag(int fs, const char *key)
{
    return mnt_result(syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, key, NULL, 0));
}

static inline int mnt_fs_create(int fs)
{
    return mnt_result(syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
}

/* Opens the superblock mounted at dirfd/path for changes: set, then reconfigure. */
static inline int mnt_fs_pick(int dirfd, const char *path)
{
    return mnt_result(syscall(SYS_fspick, dirfd, path, FSPICK_CLOEXEC | FSPICK_SYMLINK_NOFOLLOW));
}

static inline int mnt_fs_reconfigure(int fs)
{
    return mnt_result(syscall(SYS_fsconfig, fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0));
}

/* The older mount(2), for options that exceed the 255 bytes of mnt_fs_set. `flags` are MS_*. */
static inline int mnt_mount(const char *type, const char *target, unsigned long flags,
                            const char *options)
{
    return mnt_result(syscall(SYS_mount, type, target, type, flags, options));
}

/* Makes a detached mount of the superblock, with MOUNT_ATTR_* flags. */
static inline int mnt_fs_mount(int fs, unsigned attributes)
{
    return mnt_result(syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes));
}

/* A detached copy of the mount under dirfd/path (path "" is dirfd itself). */
static inline int mnt_clone(int dirfd, const char *path, unsigned at_flags)
{
    return mnt_result(
        syscall(SYS_open_tree, dirfd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | at_flags));
}

static inline int mnt_set(int fd, struct mount_attr *attr, unsigned at_flags)
{
    return mnt_result(syscall(SYS_mount_setattr, fd, "", at_flags, attr, sizeof(*attr)));
}

/* Attaches a detached mount to the directory or file that `target` is open on, or moves an attached
 * mount there with its submounts. */
static inline int mnt_attach(int mount, int target)
{
    return mnt_result(syscall(SYS_move_mount, mount, "", target, "",
                              MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}
