#include "sandbox/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mount_api.h"
#include "base/time.h"
#include "sandbox/host.h"

#define HELPERS_NAME "helpers"

enum {
    HELPERS_MAX = PLAN_BINDS_MAX,
    FUSE_MAJOR = 10,
    FUSE_MINOR = 229,
    OPTION_MAX = 32,
};

/* --- requests --- */

const char *objects_program_path(enum objects_program program)
{
    static const char *const paths[OBJECTS_PROGRAM_COUNT][2] = {
        [OBJECTS_S3FS] = {"/usr/bin/s3fs",  "/usr/local/bin/s3fs" },
        [OBJECTS_OSSFS] = {"/usr/bin/ossfs", "/usr/local/bin/ossfs"},
    };

    for (size_t i = 0; i < ARRAY_LEN(paths[0]); i++)
        if (access(paths[program][i], X_OK) == 0)
            return paths[program][i];
    return NULL;
}

int objects_spec_check(const struct objects_spec *spec, struct err *e)
{
    size_t strings = 0;

    if (spec->program >= OBJECTS_PROGRAM_COUNT)
        return err_set(e, EINVAL, "no such program for object storage");
    if (spec->text_bytes > sizeof(spec->text) || spec->arg_count > OBJECTS_ARGS_MAX)
        return err_set(e, EINVAL, "too many arguments for object storage");
    for (size_t i = 0; i < spec->text_bytes; i++)
        strings += spec->text[i] == '\0';
    if (strings != spec->arg_count ||
        (spec->text_bytes && spec->text[spec->text_bytes - 1] != '\0') ||
        memchr(spec->key, '\0', sizeof(spec->key)) == NULL)
        return err_set(e, EINVAL, "the arguments for object storage are damaged");
    return 0;
}

/* --- the mount --- */

/* In a process of its own, which ends after it. /dev/fuse must be opened in the user namespace of
 * the mount, where the host's device node may be closed to us: so a node is made first. */
static int make_in_child(const struct host *host, int userns, bool read_only, int *ret_fuse,
                         struct err *e)
{
    char path[sizeof(host->state_path) + sizeof("/mnt/fuse")], number[OPTION_MAX];
    auto_fd fs = -EBADF;
    int r, fuse;

    (void)snprintf(path, sizeof(path), "%s/mnt", host->state_path);
    if (unshare(CLONE_NEWNS) < 0 ||
        syscall(SYS_mount, NULL, "/", NULL, 0x44000UL /* MS_REC | MS_PRIVATE */, NULL) < 0)
        return err_sys(e, errno, "make a mount namespace");
    r = mnt_mount("tmpfs", path, MS_NOSUID, "mode=0755,size=64k");
    if (r < 0)
        return err_sys(e, -r, "mount a place for /dev/fuse");
    (void)snprintf(path, sizeof(path), "%s/mnt/fuse", host->state_path);
    if (mknod(path, S_IFCHR | 0666, makedev(FUSE_MAJOR, FUSE_MINOR)) < 0 || chmod(path, 0666) < 0)
        return err_sys(e, errno, "make /dev/fuse");
    if (setns(userns, CLONE_NEWUSER) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0 || unshare(CLONE_NEWNS) < 0)
        return err_sys(e, errno, "enter the user namespace");
    fuse = open(path, O_RDWR | O_CLOEXEC);
    if (fuse < 0)
        return err_sys(e, errno, "open /dev/fuse");
    (void)snprintf(number, sizeof(number), "%d", fuse);
    fs = r = mnt_fs_open("fuse");
    if (r >= 0)
        r = mnt_fs_set(fs, "source", "objects");
    if (r >= 0)
        r = mnt_fs_set(fs, "fd", number);
    if (r >= 0)
        r = mnt_fs_set(fs, "rootmode", "40000");
    if (r >= 0)
        r = mnt_fs_set(fs, "user_id", "0");
    if (r >= 0)
        r = mnt_fs_set(fs, "group_id", "0");
    if (r >= 0)
        r = mnt_fs_flag(fs, "allow_other");
    if (r >= 0)
        r = mnt_fs_flag(fs, "default_permissions");
    if (r >= 0)
        r = mnt_fs_create(fs);
    if (r >= 0)
        r = mnt_fs_mount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                 (read_only ? MOUNT_ATTR_RDONLY : 0U));
    *ret_fuse = fuse;
    return r < 0 ? err_sys(e, -r, "mount FUSE") : r;
}

static NORETURN void mount_main(const struct host *host, int userns, bool read_only, int sock)
{
    struct err e = {0};
    int fds[2];

    fds[1] = make_in_child(host, userns, read_only, &fds[0], &e);
    _exit(fd_send(sock, &e, sizeof(e), fds, fds[1] < 0 ? 0 : 2) < 0);
}

/* Receives one message of `bytes`, within a deadline. */
static int hear(int sock, void *ret, size_t bytes, int *fds, size_t *ret_count, size_t wanted,
                struct err *e)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int got[FD_SEND_MAX];
    size_t n = 0, count = 0;
    int r;

    do
        r = poll(&p, 1, OBJECTS_STEP_MS_MAX);
    while (r < 0 && errno == EINTR);
    r = r <= 0 ? -ETIMEDOUT : fd_recv(sock, ret, bytes, &n, got, &count);
    if (r == 0 && (n != bytes || (count && count != wanted)))
        r = n == 0 ? -EPIPE : -EPROTO;
    if (r < 0) {
        while (count > 0)
            fd_close(got[--count]);
        return err_sys(e, -r, "hear of the program for object storage");
    }
    memcpy(fds, got, count * sizeof(got[0]));
    *ret_count = count;
    return 0;
}

/* Returns a detached mount, and its /dev/fuse. */
static int mount_make(const struct spawn_slot *slot, bool read_only, int *ret_fuse, struct err *e)
{
    int socks[2], fds[2];
    struct err said = {0};
    size_t count = 0;
    pid_t pid;
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(e, errno, "make sockets");
    pid = fork();
    if (pid == 0) {
        fd_close(socks[0]);
        mount_main(slot->host, slot->userns, read_only, socks[1]);
    }
    fd_close(socks[1]);
    r = pid < 0 ? err_sys(e, errno, "make a process")
                : hear(socks[0], &said, sizeof(said), fds, &count, 2, e);
    fd_close(socks[0]);
    if (r < 0)
        return r;
    if (count != 2) {
        said.msg[sizeof(said.msg) - 1] = '\0';
        if (e)
            *e = said;
        return said.code > 0 ? -said.code : -EIO;
    }
    *ret_fuse = fds[0];
    return fds[1];
}

/* --- handing over --- */

static int note_helper(const struct spawn_slot *slot, const struct slot_owner *helper,
                       struct err *e)
{
    auto_fd dir = slot_open(slot->host, slot->slot, e), fd = -EBADF;

    if (dir < 0)
        return dir;
    fd = fd_open_at(dir, HELPERS_NAME, O_WRONLY | O_CREAT | O_APPEND, 0600, PATH_STRICT, e);
    if (fd < 0)
        return fd;
    return write(fd, helper, sizeof(*helper)) != (ssize_t)sizeof(*helper)
               ? err_sys(e, errno, "note the program for object storage")
               : 0;
}

/* Only a socket of ours: a caller could make none with these credentials. */
static int check_sock(int sock, struct err *e)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    int type = 0;
    socklen_t type_size = sizeof(type);

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != 0 ||
        getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &type_size) < 0 || type != SOCK_SEQPACKET)
        return err_set(e, EINVAL, "expected the socket of a program for object storage");
    return 0;
}

int objects_mount(const struct spawn_slot *slot, int sock, bool read_only, struct err *e)
{
    struct objects_message message = {.said = OBJECTS_MOUNT};
    auto_fd fuse = -EBADF, mount = -EBADF;
    int ignored[FD_SEND_MAX], r = check_sock(sock, e);
    size_t count = 0;

    if (r < 0)
        return r;
    mount = r = mount_make(slot, read_only, &fuse, e);
    if (r < 0)
        return r;
    r = fd_send(sock, &message, sizeof(message), &fuse, 1);
    if (r < 0)
        return err_set(e, EPIPE, "the program for object storage has ended");
    r = hear(sock, &message, sizeof(message), ignored, &count, 0, e);
    if (r == 0 && message.said != OBJECTS_HELPER)
        r = err_set(e, EPROTO, "the program for object storage has ended");
    if (r == 0)
        r = note_helper(slot, &message.helper, e);
    message.said = OBJECTS_GO;
    if (r == 0 && fd_send(sock, &message, sizeof(message), NULL, 0) < 0)
        r = err_set(e, EPIPE, "the program for object storage has ended");
    return r < 0 ? r : take_fd(&mount);
}

void objects_kill(int slot_dir)
{
    auto_fd fd = fd_open_at(slot_dir, HELPERS_NAME, O_RDONLY, 0, PATH_STRICT, NULL);
    struct slot_owner helpers[HELPERS_MAX] = {0};
    size_t n = 0;

    if (fd < 0 || io_pread_full(fd, helpers, sizeof(helpers), 0, &n) < 0)
        return;
    for (size_t i = 0; i < n / sizeof(helpers[0]); i++) {
        auto_proc proc = PROC_NONE;

        if (proc_open(helpers[i].pid, &proc) == 0 && slot_owner_alive(&helpers[i]))
            (void)!proc_signal(proc.pidfd, SIGKILL);
    }
}

int objects_pass(int sock, int fuse, struct err *e)
{
    char byte = 1;
    int r = fd_send(sock, &byte, sizeof(byte), &fuse, 1);

    return r < 0 ? err_sys(e, -r, "pass /dev/fuse on") : 0;
}

/* --- fusermount --- */

bool objects_is_fusermount(const char *argv0)
{
    const char *slash = argv0 ? strrchr(argv0, '/') : NULL;
    const char *name = slash ? slash + 1 : argv0;

    return name && (strcmp(name, "fusermount") == 0 || strcmp(name, "fusermount3") == 0);
}

/* libfuse passes a socket, on which it wants /dev/fuse with the mount made. Ours is descriptor
 * OBJECTS_FD, inherited by the program and its children. */
int objects_fusermount_main(void)
{
    const char *text = getenv("_FUSE_COMMFD");
    uint64_t number = 0;
    int fds[FD_SEND_MAX];
    size_t n = 0, count = 0;
    char byte = 1;
    struct iovec piece = {&byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};

    if (!text || str_to_u64(str_of(text), &number) < 0 || number > INT32_MAX)
        return 0; /* asked to unmount: the mount is not ours */
    if (fd_send(OBJECTS_FD, &byte, sizeof(byte), NULL, 0) < 0 ||
        fd_recv(OBJECTS_FD, &byte, sizeof(byte), &n, fds, &count) < 0 || n != 1 || count != 1)
        return 1;
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.head), &fds[0], sizeof(int));
    return sendmsg((int)number, &message, MSG_NOSIGNAL) < 0;
}
